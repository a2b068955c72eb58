"""A worker elsewhere survives what happens to the server, and the server survives what happens to the worker."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from homeostat import Client
from homeostat.client.turns import HttpSession, HttpTurns
from homeostat.core.codec import to_json
from homeostat.core.errors import StaleEpoch, Unavailable
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.limits import LEASE_BEATS
from homeostat.core.records.card import CardDraft
from homeostat.core.records.turn import Grant, TurnStatus
from homeostat.core.records.view import Outcome
from homeostat.core.records.work import Fence
from homeostat.testing.homeostat import HomeostatServer

KEY = (ProjectId("default"), AgentId("ann"))
DONE = to_json("done")


@pytest.fixture
def server() -> Iterator[HomeostatServer]:
    with HomeostatServer() as server:
        yield server


@pytest.fixture
async def client(server: HomeostatServer) -> AsyncIterator[Client]:
    async with Client(server.url, retry_seconds=30) as client:
        yield client


async def opened(client: Client, revoked: list[Fence] | None = None) -> HttpSession:
    source = HttpTurns(client)
    await source.register([KEY])
    return await source.open([KEY], [].append if revoked is None else revoked.append)


async def one(session: HttpSession) -> Grant:
    (grant,) = await session.claim(1, 20)
    return grant


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_a_turn_goes_on_after_the_server_was_restarted(server: HomeostatServer, client: Client, how: str) -> None:
    revoked: list[Fence] = []
    session = await opened(client, revoked)
    accepted = await client.enqueue("ann", "hello")
    grant = await one(session)
    await session.step(grant, "before", DONE)
    await asyncio.to_thread(getattr(server, how))
    await asyncio.to_thread(server.start)
    await session.step(grant, "after", DONE)
    await session.renew()
    assert session.worker_id == grant.worker_id
    await session.write(grant, (CardDraft("note", to_json("still here")),))
    await session.deliver(grant, status=Outcome.SUCCESS, result=DONE)
    view = await client.turn(accepted.turn_id)
    assert (view.status, view.losses, view.epoch) == (TurnStatus.SUCCESS, 0, grant.epoch)
    assert revoked == []
    await client.enqueue("ann", "and the next one")
    assert (await one(session)).turn.payload == '"and the next one"'


async def test_what_a_returning_worker_does_not_know_of_goes_to_others(server: HomeostatServer, client: Client) -> None:
    session = await opened(client)
    accepted = await client.enqueue("ann", "hello")
    grant = await one(session)
    session._holdings.drop(grant)  # as if the answer to the claim had been lost with the server
    await asyncio.to_thread(server.restart)
    again = await one(session)
    assert (again.turn.turn_id, again.epoch) == (accepted.turn_id, grant.epoch + 1)
    assert (await client.turn(accepted.turn_id)).losses == 0


async def test_a_turn_that_ended_while_the_worker_was_away_is_revoked(server: HomeostatServer, client: Client) -> None:
    revoked: list[Fence] = []
    session = await opened(client, revoked)
    accepted = await client.enqueue("ann", "hello")
    grant = await one(session)
    await asyncio.to_thread(server.restart)
    await client.stop(accepted.turn_id)
    await session.renew()
    assert [(fence.turn_id, fence.epoch) for fence in revoked] == [(accepted.turn_id, grant.epoch)]
    with pytest.raises(StaleEpoch):
        await session.step(grant, "too late", DONE)


async def test_a_claim_that_was_answered_into_the_void_is_answered_again(client: Client) -> None:
    session = await opened(client)
    accepted = await client.enqueue("ann", "hello")
    body = {"limit": 1, "wait": 10.0, "holding": []}
    lost = await client.transport.send("POST", f"/v1/workers/{session.worker_id}/claim", body=body)
    assert accepted.turn_id.encode() in lost.content
    grant = await one(session)
    assert grant.turn.turn_id == accepted.turn_id
    assert await session.claim(1, 0.05) == []
    await session.deliver(grant, status=Outcome.SUCCESS, result=DONE)


async def test_without_a_server_for_a_whole_lease_everything_is_let_go() -> None:
    revoked: list[Fence] = []
    with HomeostatServer("--lease-seconds", "1") as server:
        async with Client(server.url, retry_seconds=0.2) as client:
            session = await opened(client, revoked)
            await client.enqueue("ann", "hello")
            grant = await one(session)
            server.kill()
            while not revoked:
                with pytest.raises(Unavailable):
                    await session.renew()
            assert revoked[0].turn_id == grant.turn.turn_id


async def test_a_worker_that_dies_gives_its_turn_back() -> None:
    with HomeostatServer("--lease-seconds", "1") as server:
        async with Client(server.url) as client:
            dying = await opened(client)
            accepted = await client.enqueue("ann", "hello")
            grant = await one(dying)
            heir = await opened(client)
            again = await one(heir)
            assert (again.turn.turn_id, again.epoch) == (accepted.turn_id, grant.epoch + 1)
            assert (await client.turn(accepted.turn_id)).losses == 1


async def test_what_another_server_took_away_is_heard_of_within_a_lease_though_nothing_tells_it(
    postgres_url: str,
) -> None:
    revoked: list[Fence] = []
    options = ("--store-url", postgres_url, "--lease-seconds", "3")
    with HomeostatServer(*options) as here, HomeostatServer(*options) as there:
        async with Client(here.url) as client, Client(there.url) as operator:
            session = await opened(client, revoked)
            for order in ("stop", "requeue"):
                accepted = await client.enqueue("ann", "hello")
                grant = await one(session)
                await session.renew()
                assert revoked == []
                path = f"/v1/turns/{accepted.turn_id}/{order}"
                await operator.transport.send("POST", path, body={"reason": "enough"})
                async with asyncio.timeout(session.lease_seconds):
                    while not revoked:
                        await session.renew(session.lease_seconds / LEASE_BEATS)
                fence = revoked.pop()
                assert (fence.turn_id, fence.epoch) == (accepted.turn_id, grant.epoch)


async def test_a_worker_that_leaves_gives_its_turn_back_at_once_and_unharmed(client: Client) -> None:
    leaving, heir = await opened(client), await opened(client)
    accepted = await client.enqueue("ann", "hello")
    grant = await one(leaving)
    waiting = asyncio.create_task(one(heir))
    await leaving.close()
    async with asyncio.timeout(heir.lease_seconds / 4):
        again = await waiting
    assert (again.turn.turn_id, again.epoch) == (accepted.turn_id, grant.epoch + 1)
    assert (await client.turn(accepted.turn_id)).losses == 0
