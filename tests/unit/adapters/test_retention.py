"""A turn is kept for the retention time after it ended, however long it took."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from homeostat.adapters.stores.sqlite import SqliteEngine, SqliteTurns
from homeostat.core.clock import Millis
from homeostat.core.codec import NULL
from homeostat.core.ids import (
    AgentId,
    Chance,
    Ids,
    ProjectId,
    TraceId,
    digest_of,
    scope_floor,
    scope_of,
    turn_of,
)
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.card import DELIVERABLE, Card
from homeostat.core.records.turn import MessageType, Turn
from homeostat.core.records.writes import Writes
from homeostat.testing.clock import EPOCH_MS, ManualClock
from homeostat.testing.memory import MemoryTurns

PROJECT, ANN = ProjectId("p"), AgentId("ann")


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TurnStore]:
    if request.param == "memory":
        yield MemoryTurns()
        return
    engine = SqliteEngine(tmp_path / "turns.db")
    await engine.open()
    yield SqliteTurns(engine)
    await engine.close()


async def test_a_turn_that_took_long_is_kept_as_long_as_any_other(store: TurnStore) -> None:
    turn_id = turn_of(Ids(clock=ManualClock(), entropy=Chance(1)).scope())
    asked = Turn(
        turn_id=turn_id,
        project=PROJECT,
        agent_id=ANN,
        seq=1,
        type=MessageType.TURN,
        payload=NULL,
        correlation_id=None,
        source=None,
        parent_turn_id=None,
        parent_step_id=None,
        reply_call_id=None,
        trace_id=TraceId("t"),
        depth=0,
        run_id=None,
        context_box_id=None,
        output_box_id=None,
        result_fields=None,
        previous_turn_id=None,
        created_at_ms=EPOCH_MS,
    )
    ended_at = Millis(EPOCH_MS + 1_000_000)
    card = Card(PROJECT, scope_of(turn_id), 0, DELIVERABLE, NULL, digest_of(NULL), ANN, ended_at)
    await store.save(Writes(turns={turn_id: asked}, cards=[card]))

    assert await store.expire(scope_floor(ended_at), 10) == 0
    assert await store.card(PROJECT, card.card_id) == card
    assert await store.expire(scope_floor(ended_at + 1), 10) == 1
    assert await store.card(PROJECT, card.card_id) is None
