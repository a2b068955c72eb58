"""The servers of the test kit are real: they answer, survive a kill with their data, and leave nothing behind."""

import os
import subprocess
import sys
import time
from pathlib import Path

import asyncpg
import nats
import psutil
import pytest
from redis.asyncio import Redis

from homeostat.testing.servers import NatsServer, PostgresServer, RedisServer, Server, ServerFailed


async def test_postgres_answers_with_durability_on(postgres_url: str) -> None:
    connection = await asyncpg.connect(postgres_url)
    try:
        assert await connection.fetchval("SHOW server_version_num") >= "170000"
        assert await connection.fetchval("SHOW fsync") == "on"
        assert await connection.fetchval("SHOW synchronous_commit") == "on"
        assert await connection.fetch("SELECT 1 FROM pg_tables WHERE schemaname = 'public'") == []
        await connection.execute("CREATE TABLE left_behind (id int)")
    finally:
        await connection.close()


# The same body again: whatever the first test left is gone.
test_postgres_is_fresh_for_each_test = test_postgres_answers_with_durability_on


async def test_redis_answers(redis_url: str) -> None:
    async with Redis.from_url(redis_url) as connection:
        assert await connection.dbsize() == 0
        await connection.set("key", "value", px=60_000)
        assert await connection.get("key") == b"value"


async def test_nats_answers_and_stores(nats_url: str) -> None:
    connection = await nats.connect(nats_url)
    try:
        stream = connection.jetstream()
        await stream.add_stream(name="smoke", subjects=["smoke.>"])
        await stream.publish("smoke.alarm", b"ring")
        subscription = await stream.subscribe("smoke.>", ordered_consumer=True)
        assert (await subscription.next_msg(timeout=5)).data == b"ring"
        await stream.delete_stream("smoke")
    finally:
        await connection.close()


class Fertile(Server):
    """Makes children for ever."""

    title = "fertile"
    ready_words = "ready"

    def command(self) -> list[str]:
        forking = "import os, time\nprint('ready', flush=True)\nwhile os.fork(): time.sleep(0.001)\ntime.sleep(60)"
        return [sys.executable, "-c", forking]


def test_no_child_that_is_made_meanwhile_outlives_a_kill() -> None:
    server = Fertile()
    try:
        for _ in range(5):
            server.start()
            time.sleep(0.1)
            session = server.pid
            server.kill()
            left = [one for one in psutil.process_iter() if _session_of(one) == session]
            _, alive = psutil.wait_procs(left, timeout=1)
            assert not [one for one in alive if _lives(one)]
    finally:
        server.close()


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # it went between two looks
        return False


def _session_of(process: psutil.Process) -> int:
    try:
        return os.getsid(process.pid)
    except ProcessLookupError:
        return 0


async def test_postgres_killed_under_a_connection_keeps_what_it_acknowledged() -> None:
    with PostgresServer() as server:
        connection = await asyncpg.connect(server.socket_url)
        await connection.execute("CREATE TABLE promise AS SELECT 42 AS kept")
        port = server.port
        server.kill()
        connection.terminate()

        server.start()  # PostgreSQL refuses while a process of the former server still holds its memory
        assert server.port == port
        connection = await asyncpg.connect(server.url)
        assert await connection.fetchval("SELECT kept FROM promise") == 42
        await connection.close()
    assert not server.directory.exists()


@pytest.mark.parametrize("kind", [PostgresServer, RedisServer, NatsServer])
def test_a_server_stops_in_order_and_restarts_on_its_port(kind: type[Server]) -> None:
    with kind() as server:
        url, first = server.url, server.pid
        server.restart()
        assert server.url == url
        assert server.pid != first
    assert not _alive(first)


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_server_that_cannot_start_says_why_and_leaves_nothing() -> None:
    server = PostgresServer({"no_such_setting": "1"})
    with pytest.raises(ServerFailed, match="no_such_setting"), server:
        pytest.fail("it started")
    assert not server.directory.exists()


STARTER = """
import sys
from homeostat.testing.children import child
from homeostat.testing.servers import PostgresServer, RedisServer
servers = [PostgresServer().start(), RedisServer().start()]
with child(["sleep", "600"]) as process:
    print(*(f"{server.pid} {server.directory}" for server in servers), process.pid, sep="\\n", flush=True)
    sys.stdin.read()
"""


def test_no_server_outlives_a_starter_that_was_killed() -> None:
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert starter.stdout is not None
    started = [starter.stdout.readline().split() for _ in range(2)]
    servers = [psutil.Process(int(pid)) for pid, _ in started]
    child = psutil.Process(int(starter.stdout.readline()))
    undertakers = [
        process
        for process in psutil.process_iter(["cmdline"])
        if "undertaker" in (process.info["cmdline"] or []) and process.info["cmdline"][-1] in {d for _, d in started}
    ]
    assert len(undertakers) == len(servers)

    starter.kill()
    starter.communicate()
    _, alive = psutil.wait_procs([*servers, *undertakers, child], timeout=20)
    assert alive == []
    assert not any(Path(directory).exists() for _, directory in started)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to step down")
def test_postgres_does_not_run_as_root() -> None:
    with PostgresServer() as server:
        assert psutil.Process(server.pid).uids().effective != 0
