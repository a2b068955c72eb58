"""What turns left behind is told the same, be it read back or still at hand."""

from collections.abc import Collection

from homeostat.core.canonical import Ordered, canonical_of, canonical_plain
from homeostat.core.codec import to_json
from homeostat.core.ids import DEFAULT_PROJECT, ProjectId, RunId, TurnId
from homeostat.core.records.provenance import Written
from homeostat.core.records.recording import TaskTold, Worked
from homeostat.runs.draft import TaskEnded
from homeostat.runs.recording import TurnTold, notes_of
from homeostat.testing.recorded_runs import ACTS, Act, MemoryLedger, agent_of, studio


class Counting(MemoryLedger):
    """A ledger that remembers of which turns all had to be read."""

    read: tuple[TurnId, ...] = ()

    async def worked(self, project: ProjectId, turns: Collection[TurnId]) -> list[Worked]:
        self.read += tuple(turns)
        return await super().worked(project, turns)


async def test_what_is_at_hand_is_told_as_if_it_had_been_read() -> None:
    async with studio() as bench:
        agents = {kind: agent_of([Act(kind, "act", 3)]) for kind in ACTS}
        turns: dict[TurnId, str] = {}
        async with bench.working({**agents, "other": agent_of([])}, concurrency=16):
            for number, kind in enumerate(ACTS):
                turns[await bench.send(kind, {"n": number}, run_id=RunId(f"run_{number:024x}"))] = kind
            for turn_id in turns:
                await bench.end(turn_id, 60.0)
        tasks = {turn_id: TaskTold(name=kind, number=1, attempt=1) for turn_id, kind in turns.items()}
        kept: dict[TurnId, Worked | None] = {}

        def left(turn_id: TurnId) -> Worked | None:
            kept[turn_id] = bench.kernel.deliverables.take_left(turn_id)
            return kept[turn_id]

        ledger = Counting(bench.store)
        noted = dict.fromkeys(list(turns)[::2], ("something",))
        told = await notes_of(ledger, bench.store, DEFAULT_PROJECT, tasks, noted, left=left)
        assert {turns[turn_id] for turn_id, worked in kept.items() if worked is None} >= {"tool", "card", "agent"}
        quick = {kind for turn_id, kind in turns.items() if turn_id not in ledger.read}
        assert {"chance", "memory"} <= quick
        assert not quick & {"step", "model", "tool", "agent", "card"}
        assert told == await notes_of(ledger, bench.store, DEFAULT_PROJECT, tasks, noted)
        for note in (note for notes in told.values() for note in notes):
            assert canonical_plain(note.payload) == canonical_of(to_json(note.payload))
        assert bench.kernel.deliverables.take_left(next(iter(turns))) is None


def test_records_that_are_not_sorted_are_declared_in_the_order_of_their_names() -> None:
    found = Ordered.__subclasses__()
    for record in found:
        found += record.__subclasses__()
        assert list(record.__struct_encode_fields__) == sorted(record.__struct_encode_fields__), record
    assert {TurnTold, TaskTold, TaskEnded, Written} <= set(found)
