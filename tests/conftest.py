"""Fixtures every test may ask for: the event loop's kind and real servers."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
import redis
from hypothesis import settings

from homeostat.testing.servers import NatsServer, PostgresServer, RedisServer

settings.register_profile("homeostat", deadline=None, print_blob=True)
settings.load_profile("homeostat")

# A shell has what it runs in the background ignore Ctrl-C, and children inherit that. A handler is not handed on, so
# the commands that tests begin hear of it whoever began the tests.
signal.signal(signal.SIGINT, signal.default_int_handler)

SCREENSHOTS = Path(__file__).parents[1] / "build" / "screenshots"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    """Say at the very end how much was not tried here, and why: a green line alone would claim more than was shown."""
    yield
    reasons: Counter[str] = Counter()
    for report in terminalreporter.getreports("skipped"):
        if isinstance(report.longrepr, tuple):
            reasons[report.longrepr[2].removeprefix("Skipped: ")] += 1
    for reason, times in reasons.most_common():
        terminalreporter.write_line(f"not run here: {times} test{'s' * (times > 1)}: {reason}", yellow=True)
    if any("dashboard/test_pages.py" in report.nodeid for report in terminalreporter.getreports("passed")):
        terminalreporter.write_line(f"screenshots of the dashboard's pages: {SCREENSHOTS}")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres_server_url() -> Iterator[str]:
    """A PostgreSQL server for the whole session; tests ask for `postgres_url`, a database of their own."""
    if elsewhere := os.environ.get("HOMEOSTAT_TEST_POSTGRES_URL"):
        yield elsewhere
        return
    with PostgresServer() as server:
        yield server.url


@pytest.fixture(scope="session")
def database_numbers() -> Iterator[int]:
    return count(1)


@pytest.fixture
def postgres_url(postgres_server_url: str, database_numbers: Iterator[int]) -> Iterator[str]:
    """A fresh, empty database."""
    name = f"homeostat_test_{os.getpid()}_{next(database_numbers)}"
    _administer(postgres_server_url, f'CREATE DATABASE "{name}" TEMPLATE template0')
    yield urlunsplit(urlsplit(postgres_server_url)._replace(path=f"/{name}"))
    _administer(postgres_server_url, f'DROP DATABASE "{name}" WITH (FORCE)')


def _administer(url: str, statement: str) -> None:
    async def execute() -> None:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    asyncio.run(execute())


@pytest.fixture(scope="session")
def redis_server_url() -> Iterator[str]:
    """A Redis server for the whole session; tests ask for `redis_url`, which is empty."""
    if elsewhere := os.environ.get("HOMEOSTAT_TEST_REDIS_URL"):
        yield elsewhere
        return
    with RedisServer() as server:
        yield server.url


@pytest.fixture
def redis_url(redis_server_url: str) -> str:
    """A Redis database without keys."""
    with redis.Redis.from_url(redis_server_url) as connection:
        connection.flushdb()
    return redis_server_url


@pytest.fixture(scope="session")
def nats_url() -> Iterator[str]:
    """A NATS server with JetStream for the whole session; tests keep to subjects and streams of their own."""
    if elsewhere := os.environ.get("HOMEOSTAT_TEST_NATS_URL"):
        yield elsewhere
        return
    with NatsServer() as server:
        yield server.url
