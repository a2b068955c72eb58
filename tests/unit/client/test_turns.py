"""What a worker over HTTP makes of the answers it gets, and of those it does not get."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from homeostat import Client
from homeostat.client.keys import KeyRing
from homeostat.client.transport import Received
from homeostat.client.turns import HttpSession, HttpTurns
from homeostat.core.codec import NULL
from homeostat.core.errors import ServerUnreachable, Unavailable
from homeostat.core.ids import Ids, WorkerId
from homeostat.core.records.turn import Grant
from homeostat.core.records.view import Outcome
from homeostat.core.records.work import Fence, fence_of
from homeostat.core.wire import workers as w
from homeostat.server import render
from homeostat.testing.clock import ManualClock
from homeostat.testing.desk import Desk

WORKER = WorkerId("wrk_1")
LEASE_SECONDS = 9.0

Answering = Callable[[dict[str, Any]], Awaitable[msgspec.Struct]]


class Line:
    """The transport to a server that says what a test wants, by the last part of the path."""

    def __init__(self, lease_seconds: float) -> None:
        self.clock = ManualClock()
        self.ids = Ids(clock=self.clock)
        self.retry_seconds = 10.0
        self.answers: dict[str, Answering] = {}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._lease_seconds = lease_seconds

    async def send(self, _: str, path: str, *, body: Any = None, **options: Any) -> Received:
        what = path.rpartition("/")[2]
        self.asked.append((what, body | {"options": options}))
        if what in self.answers:
            return Received(msgspec.json.encode(await self.answers[what](body)))
        assert what == "workers"
        return Received(
            msgspec.json.encode(w.SessionShape(worker_id=WORKER, lease_seconds=self._lease_seconds, revoked=()))
        )


async def opened(line: Line) -> tuple[HttpSession, list[Fence]]:
    revoked: list[Fence] = []
    client = cast(Client, SimpleNamespace(transport=line, url="http://server"))
    return await HttpTurns(client, KeyRing(None, url="http://server")).open([], revoked.append), revoked


async def holding(line: Line, *grants: Grant) -> tuple[HttpSession, list[Fence]]:
    """A worker that was granted these."""
    session, revoked = await opened(line)

    async def given(_: object) -> w.Grants:
        return w.Grants(grants=tuple(map(render.grant, grants)))

    line.answers["claim"] = given
    assert len(await session.claim(len(grants), 0.0)) == len(grants)
    return session, revoked


def lost(*fences: Fence) -> Answering:
    async def answer(_: object) -> w.Revoked:
        return w.Revoked(revoked=render.held(fences))

    return answer


@pytest.fixture
def line() -> Line:
    return Line(LEASE_SECONDS)


@pytest.fixture
def grant() -> Grant:
    return replace(Desk("a").begin("a"), worker_id=WORKER)


async def test_a_beat_says_what_is_held_under_which_epoch(line: Line, grant: Grant) -> None:
    session, revoked = await holding(line, grant)
    line.answers["renew"] = lost()
    await session.renew()
    (named,) = line.asked[-1][1]["held"]
    assert (named["turn_id"], named["epoch"]) == (grant.turn.turn_id, grant.epoch)
    line.answers["renew"] = lost(replace(fence_of(grant), epoch=grant.epoch - 1))
    await session.renew()
    assert revoked == []
    line.answers["renew"] = lost(fence_of(grant))
    await session.renew()
    assert revoked == [fence_of(grant)]


async def test_a_turn_that_ends_by_what_its_worker_says_is_not_lost_though_a_beat_hears_so(
    line: Line, grant: Grant
) -> None:
    """The delivery is at one server, the beat at another."""
    session, revoked = await holding(line, grant)
    stored, answered = asyncio.Event(), asyncio.Event()

    async def deliver(_: object) -> w.DeliveredShape:
        stored.set()
        await answered.wait()
        return w.DeliveredShape(card_id="card_1", next=None)

    line.answers |= {"deliver": deliver, "renew": lost(fence_of(grant))}
    delivering = asyncio.create_task(session.deliver(grant, status=Outcome.SUCCESS, result=NULL))
    await stored.wait()
    await session.renew()
    assert revoked == []
    answered.set()
    await delivering
    await session.renew()
    assert revoked == []


async def test_a_beat_that_gets_no_answer_holds_nothing_for_longer_than_a_lease(grant: Grant) -> None:
    """The server hangs, and the turn is another's by then."""
    line = Line(0.2)
    session, revoked = await holding(line, grant)

    async def never(_: object) -> w.Revoked:
        await asyncio.Event().wait()
        raise AssertionError

    line.answers["renew"] = never
    with pytest.raises(ServerUnreachable):
        await session.renew(5.0)
    assert revoked == [fence_of(grant)]


async def test_a_lease_runs_from_when_the_beat_was_sent(line: Line, grant: Grant) -> None:
    session, revoked = await holding(line, grant)

    async def slowly(_: object) -> w.Revoked:
        line.clock.advance(LEASE_SECONDS / 3)
        return w.Revoked(revoked=())

    async def refuse(_: object) -> w.Revoked:
        raise ServerUnreachable(url="http://server", problem="refused")

    line.answers["renew"] = slowly
    await session.renew()
    line.answers["renew"], line.retry_seconds = refuse, 0.0
    for advance, held in ((LEASE_SECONDS / 3, True), (LEASE_SECONDS / 3, False)):
        line.clock.advance(advance)
        with pytest.raises(Unavailable):
            await session.renew()
        assert (revoked == []) is held


async def test_a_beat_is_tried_again_within_the_lease_and_then_not_held_open(line: Line, grant: Grant) -> None:
    session, revoked = await holding(line, grant)

    async def at_second_try(_: object) -> w.Revoked:
        if sum(what == "renew" for what, _ in line.asked) == 1:
            raise ServerUnreachable(url="http://server", problem="refused")
        return w.Revoked(revoked=())

    line.answers["renew"] = at_second_try
    await session.renew(3.0)
    first, second = (body for what, body in line.asked if what == "renew")
    assert (first["wait"], second["wait"]) == (3.0, 0.0)
    assert first["options"]["answer_seconds"] <= LEASE_SECONDS / 3
    assert revoked == []
