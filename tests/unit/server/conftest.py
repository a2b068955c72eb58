"""A server in the test's own process, on a real port."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest

from homeostat import Client
from homeostat.app.assemble import System, assemble
from homeostat.app.settings import Settings
from homeostat.server.serving import bind, serving, url_of
from homeostat.testing.servers import free_port


@pytest.fixture
async def system(tmp_path: Path) -> AsyncIterator[System]:
    async with assemble(Settings(data_dir=tmp_path)) as system:
        yield system


@pytest.fixture
async def url(system: System) -> AsyncIterator[str]:
    listener = bind("127.0.0.1", free_port())
    async with serving(system, listener):
        yield url_of(listener)


@pytest.fixture
async def http(url: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=url, trust_env=False) as http:
        yield http


@pytest.fixture
async def client(url: str) -> AsyncIterator[Client]:
    async with Client(url, retry_seconds=0) as client:
        yield client
