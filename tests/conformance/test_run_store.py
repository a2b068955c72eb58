"""One suite for every keeper of runs; a wrong one is found out."""

from collections.abc import Collection, Mapping

import pytest
from msgspec.structs import replace

from homeostat.adapters.stores.sqlite import SqliteLedger, SqliteRuns, SqliteTurns
from homeostat.app import stores
from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, ProjectId, RunId, TurnId
from homeostat.core.records.run import Run, RunChange, Start
from homeostat.core.records.writes import Saved, Writes
from homeostat.testing.suites import run_store as suite
from homeostat.testing.suites import run_turns
from tests.conformance.engines import Engine, found_out

CHECKS = (*suite.CHECKS, *run_turns.CHECKS)


@pytest.fixture
def keepers(engine: Engine) -> suite.Keepers:
    return suite.Keepers(
        stores.run_store(engine), stores.turn_store(engine), stores.ledger_store(engine), stores.registry_store(engine)
    )


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_keepers(keepers: suite.Keepers, check: suite.Check) -> None:
    await check(keepers)


class Unfenced(SqliteRuns):
    """Lets a driver write whose epoch is over."""

    async def save(self, change: RunChange) -> bool:
        return await super().save(replace(change, epoch=None))


class Gateless(SqliteRuns):
    """Leaves gates as they were."""

    async def save(self, change: RunChange) -> bool:
        return await super().save(replace(change, gate=None))


class Greedy(SqliteRuns):
    """Takes runs from drivers that live."""

    async def claim(self, driver: str, *, limit: int) -> list[Run]:
        for other in (await self.drivers())[0]:
            await self.leave(other)
        return await super().claim(driver, limit=limit)


class Hasty(SqliteRuns):
    """Buries drivers whatever they said since."""

    async def bury(self, driver: str, until: Millis) -> None:
        del until
        await self.leave(driver)


class Unasked(SqliteTurns):
    """Lets turns of any run be made and begun."""

    async def save(self, writes: Writes) -> Saved:
        return await super().save(replace(writes, runs={}))


class Deaf(SqliteTurns):
    """Lets turns of a run be given out that is held."""

    async def save(self, writes: Writes) -> Saved:
        runs = {run_id: Start.CHILD if most is Start.TURN else most for run_id, most in writes.runs.items()}
        return await super().save(replace(writes, runs=runs))


class Forgetful(SqliteRuns):
    """Knows what began last, and no older tasks that are still in hand."""

    async def in_hand(self, runs: Mapping[RunId, int]) -> dict[RunId, list[tuple[AgentId, TurnId]]]:
        return await super().in_hand(dict.fromkeys(runs, 0))


class Gullible(SqliteRuns):
    """Tells everybody of gates."""

    async def barred(self, project: ProjectId, agents: Collection[AgentId], *, gates: bool) -> set[AgentId]:
        del gates
        return await super().barred(project, agents, gates=True)


class Pageless(SqliteRuns):
    """Tells the first open turns of a run whatever was asked."""

    async def open_turns(
        self, project: ProjectId, run_id: RunId, *, after: TurnId | None = None, limit: int
    ) -> list[tuple[AgentId, TurnId]]:
        del after
        return await super().open_turns(project, run_id, limit=limit)


@pytest.mark.parametrize(
    ("wrong", "turns"),
    [
        (Pageless, SqliteTurns),
        (Forgetful, SqliteTurns),
        (Gullible, SqliteTurns),
        (Unfenced, SqliteTurns),
        (Gateless, SqliteTurns),
        (Greedy, SqliteTurns),
        (Hasty, SqliteTurns),
        (SqliteRuns, Unasked),
        (SqliteRuns, Deaf),
    ],
)
async def test_a_wrong_keeper_is_found_out(wrong: type[SqliteRuns], turns: type[SqliteTurns]) -> None:
    assert await found_out(
        CHECKS,
        lambda engine: suite.Keepers(wrong(engine), turns(engine), SqliteLedger(engine), stores.registry_store(engine)),
    )
