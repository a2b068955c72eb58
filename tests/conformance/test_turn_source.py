"""Workers get the same turns in process and over HTTP."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from homeostat import Client
from homeostat.app.assemble import System, assemble
from homeostat.app.settings import Settings
from homeostat.client.turns import HttpTurns
from homeostat.core.errors import StoreUnavailable, Unavailable
from homeostat.core.ids import ProjectId
from homeostat.server.serving import bind, serving, url_of
from homeostat.testing.servers import free_port
from homeostat.testing.suites import turn_source as suite

LEASE_SECONDS = 1.0


@pytest.fixture
async def system(tmp_path: Path) -> AsyncIterator[System]:
    async with assemble(Settings(data_dir=tmp_path, lease_seconds=LEASE_SECONDS)) as system:
        yield system


@pytest.fixture
async def local(system: System) -> AsyncIterator[suite.World]:
    world = suite.World(system.turns, system.kernel, ProjectId("p"))
    yield world
    await world.close()


@pytest.fixture
async def remote(system: System) -> AsyncIterator[suite.World]:
    listener = bind("127.0.0.1", free_port())
    async with serving(system, listener), Client(url_of(listener)) as client:
        world = suite.World(HttpTurns(client), system.kernel, ProjectId("p"))
        yield world
        await world.close()


@pytest.mark.parametrize("check", suite.CHECKS, ids=lambda check: check.__name__)
async def test_in_process(check: suite.Check, local: suite.World) -> None:
    await check(local)


@pytest.mark.parametrize("check", suite.CHECKS, ids=lambda check: check.__name__)
async def test_over_http(check: suite.Check, remote: suite.World) -> None:
    await check(remote)


async def goes_back_unheard(world: suite.World, patch: pytest.MonkeyPatch) -> None:
    """What nobody heard was handed back goes back when a lease is over, though its worker beats for another turn."""
    session = await world.worker("ann", "bob")
    await world.send("bob")
    at_work = await suite.one(session)
    turn_id = await world.send("ann")
    grant = await suite.one(session)

    async def unheard(*_: object, **__: object) -> None:
        raise StoreUnavailable(problem="it is away")

    with patch.context() as away:
        away.setattr(world.kernel, "release", unheard)
        with pytest.raises(Unavailable):
            await session.release(grant)
    again = await suite.one(session)
    assert again.turn.turn_id == turn_id
    await suite.deliver(session, again)
    await suite.deliver(session, at_work)


async def test_unheard_in_process(local: suite.World, monkeypatch: pytest.MonkeyPatch) -> None:
    await goes_back_unheard(local, monkeypatch)


async def test_unheard_over_http(remote: suite.World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("homeostat.client.transport.BACKOFF_SECONDS_FIRST", 60.0)  # it asks once
    await goes_back_unheard(remote, monkeypatch)
