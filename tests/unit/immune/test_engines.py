"""An engine that is away is told of once, and so is its return."""

import asyncio

import pytest

from homeostat.core.enforcement_errors import EngineDenied, EngineUnreachable
from homeostat.core.errors import HomeostatError
from homeostat.immune import engines
from homeostat.immune.engines import EngineWatch
from homeostat.testing.clock import ManualClock


class Engine:
    """Away when it is told to be."""

    def __init__(self, title: str, *, local: bool = True) -> None:
        self.title = title
        self.local = local
        self.problem: HomeostatError | None = None
        self.hangs = False
        self.pings = 0

    async def ping(self) -> None:
        self.pings += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.problem is not None:
            raise self.problem


class Told:
    """Hears what is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, object]]] = []

    async def __call__(self, title: str, said: dict[str, object]) -> None:
        self.heard.append((title, said))

    def states(self) -> list[tuple[str, object]]:
        return [(title, said["state"]) for title, said in self.heard]


async def test_an_outage_is_told_once_and_so_is_its_end() -> None:
    clock, told = ManualClock(), Told()
    docker, cluster = Engine("docker"), Engine("cluster", local=False)
    watch = EngineWatch([docker, cluster], clock=clock, tell=told)
    await watch.look(local_only=False)
    assert told.heard == []
    docker.problem = EngineUnreachable(engine="docker", problem="no such file")
    for _ in range(3):
        clock.advance(2)
        await watch.look(local_only=False)
    assert told.states() == [("docker", "lost")]
    assert told.heard[0][1]["code"] == "engine_unreachable"
    docker.problem = None
    for _ in range(2):
        await watch.look(local_only=False)
    assert told.states() == [("docker", "lost"), ("docker", "back")]
    assert told.heard[1][1]["seconds"] == 4
    docker.problem = EngineDenied(engine="docker", verb="list", problem="forbidden")
    await watch.look(local_only=False)
    assert told.heard[-1][1]["code"] == "engine_denied"


async def test_whoever_does_not_decide_looks_at_its_own_machine_alone() -> None:
    docker, cluster = Engine("docker"), Engine("cluster", local=False)
    watch = EngineWatch([docker, cluster], clock=ManualClock(), tell=Told())
    await watch.look(local_only=True)
    assert (docker.pings, cluster.pings) == (1, 0)


async def test_an_engine_that_hangs_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "PING_SECONDS", 0.01)
    told, docker = Told(), Engine("docker")
    docker.hangs = True
    await EngineWatch([docker], clock=ManualClock(), tell=told).look(local_only=False)
    assert told.states() == [("docker", "lost")]
