"""A Homeostat in memory for each test."""

from collections.abc import AsyncGenerator

import pytest

from homeostat.testing.workbench import Workbench


@pytest.fixture
async def bench() -> AsyncGenerator[Workbench]:
    async with Workbench() as bench:
        yield bench
