"""A connection to NATS whose socket was closed a moment ago: uvloop tells that in a way of its own."""

from typing import Any

import pytest

from homeostat.adapters.doorbells.nats import NatsBus
from homeostat.adapters.doorbells.nats.link import Link
from homeostat.core.codec import Json
from homeostat.core.errors import BusUnavailable
from homeostat.core.ids import ProjectId
from homeostat.core.records.event import Channel, Event, subject

PROJECT = ProjectId("p")
APPROVALS = subject(PROJECT, Channel.EVT, "agent", "*", "approval")


async def closed(*_: object, **__: object) -> None:
    raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")


@pytest.fixture
async def link(monkeypatch: pytest.MonkeyPatch) -> Link:
    link = Link([], stream_configs={})
    for name in ("subscribe", "publish"):
        monkeypatch.setattr(link.client, name, closed)
    return link


async def test_who_listens_then_is_heard_later(link: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hear(event: Event) -> None:
        raise AssertionError(f"nobody said {event}")

    bus = NatsBus([])
    monkeypatch.setattr(bus, "_link", link)
    subscription = await bus.subscribe(APPROVALS, hear)
    await subscription.cancel()
    await subscription.close()


async def test_who_speaks_then_is_told_that_the_bus_is_away(link: Any) -> None:
    event = Event("e", PROJECT, Channel.EVT, "agent", "a", "approval", Json("{}"))
    with pytest.raises(BusUnavailable, match="the handler is closed"):
        await link.send((event,))
