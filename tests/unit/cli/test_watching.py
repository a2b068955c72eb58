"""What a watch shows: who came, who changed, and who fits now though nothing was heard of them."""

import asyncio
from collections.abc import AsyncGenerator
from typing import cast

from homeostat.cli.watching import Row, Watcher
from homeostat.client.feed import Change, FleetFeed

ROW: Row = {
    "agent_type": "echo",
    "tags": [],
    "presence": "alive",
    "phase": None,
    "status": "idle",
    "push_interval_seconds": 10,
    "hostname": "",
    "pid": 1,
    "version": "",
}


class Silent:
    """A feed that brings everybody once, and then nothing more."""

    def __init__(self, *agent_ids: str) -> None:
        self.agents = {agent_id: ROW | {"agent_id": agent_id} for agent_id in agent_ids}

    async def __aiter__(self) -> AsyncGenerator[Change, None]:
        yield Change(tuple(self.agents), snapshot=True)
        await asyncio.get_running_loop().create_future()


async def test_who_fits_by_what_is_not_in_the_feed_is_shown_once_it_does() -> None:
    spent: set[str] = set()
    watcher = Watcher(cast(FleetFeed, Silent("gus", "hal")), lambda row: row["agent_id"] in spent, sift_seconds=0.01)
    told = watcher.news()
    coming = asyncio.ensure_future(anext(told))
    await asyncio.wait({coming}, timeout=0.05)
    assert not coming.done()
    spent.add("gus")
    assert [row["agent_id"] for row in (await coming).rows] == ["gus"]
    spent.add("hal")
    assert [row["agent_id"] for row in (await anext(told)).rows] == ["hal"]
    await told.aclose()


async def test_without_a_filter_only_what_the_feed_brings_is_looked_at() -> None:
    looked: list[str] = []
    watcher = Watcher(cast(FleetFeed, Silent("gus")), lambda row: looked.append(row["agent_id"]) is None)
    told = watcher.news()
    assert [row["agent_id"] for row in (await anext(told)).rows] == ["gus"]
    coming = asyncio.ensure_future(anext(told))
    await asyncio.wait({coming}, timeout=0.05)
    coming.cancel()
    await asyncio.wait({coming})
    assert looked == ["gus"]
