"""A swap from a version that is no longer current changes nothing and says so."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from homeostat.adapters.stores.sqlite import SqliteEngine, SqliteTurns
from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.records.head import Gate, Head
from homeostat.core.records.turn import AgentKey
from homeostat.core.records.writes import Writes

ANN: AgentKey = (ProjectId("p"), AgentId("ann"))
BOB: AgentKey = (ProjectId("p"), AgentId("bob"))


@pytest.mark.parametrize("moves", [1, 2], ids=["to the version the loser wanted", "beyond it"])
async def test_a_lost_race_is_reported_wherever_the_head_went(tmp_path: Path, moves: int) -> None:
    engine = SqliteEngine(tmp_path / "turns.db")
    await engine.open()
    try:
        store = SqliteTurns(engine)
        ann, bob = Head.new(*ANN, Millis(1)), Head.new(*BOB, Millis(1))
        assert (await store.save(Writes(new_heads={ANN: ann, BOB: bob}))).ok
        for version in range(moves):
            winner = replace(ann, version=version + 1, gate=Gate.CLOSED)
            assert (await store.save(Writes(heads={ANN: (version, winner)}))).ok
        loser = Writes(heads={ANN: (0, replace(ann, version=1)), BOB: (0, replace(bob, version=1))})
        saved = await store.save(loser)
        assert not saved.ok
        assert saved.stale == {ANN}
        heads = await store.load([ANN, BOB])
        assert (heads[ANN].head.version, heads[ANN].head.gate) == (moves, Gate.CLOSED)
        assert heads[BOB].head.version == 0
    finally:
        await engine.close()
