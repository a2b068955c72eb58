"""A replay remembers what the recorded turn remembered, whatever became of that turn."""

import pytest

from homeostat.agent.managed import ManagedAgent
from homeostat.agent.turn import Turn
from homeostat.core.codec import from_json
from homeostat.core.ids import RunId
from homeostat.core.records.provenance import Entry, EntryKind
from homeostat.runs.replaying.replay import replay
from homeostat.testing.recorded_runs import MemoryLedger, bundle_of, studio, written

RUN = RunId("run_" + "9" * 24)


async def recorded(agent: type[ManagedAgent], *turns: str) -> list[Entry]:
    """A run of several turns of one agent, one after the other."""
    async with studio() as bench:
        async with bench.working(agent=agent):
            sent = {await bench.send("agent", word, run_id=RUN): number for number, word in enumerate(turns)}
            for turn_id in sent:
                assert (await bench.end(turn_id)).error is None
        return await written(MemoryLedger(bench.store), bench.store, RUN, sent)


def memories_of(entries: list[Entry]) -> list[dict[str, str]]:
    ended = [from_json(entry.payload) for entry in entries if entry.kind == EntryKind.TURN_ENDED]
    return [end.get("memory", {}) for end in ended]


async def test_what_a_turn_read_before_it_waited_is_in_its_recording() -> None:
    class Counting(ManagedAgent):
        """Counts durably, and only then asks."""

        memory_keys = frozenset({"count", "last"})

        async def process(self, turn: Turn) -> object:
            count: int = await self.memory.load("count", 0)
            await self.memory.update("count", count + 1)
            await self.memory.update("last", turn.input)
            found = await turn.call("search", count=count)
            return {"found": found, "keys": sorted(self.memory.keys()), "last": self.memory.get("last")}

    entries = await recorded(Counting, "first", "second", "third")
    assert [memory.get("count") for memory in memories_of(entries)] == ["null", "1", "2"]
    report = await replay(bundle_of(entries), lambda _: Counting)
    assert (report.verdict, report.turns) == ("identical", 3), report


@pytest.mark.parametrize("word", ["x" * 300_000, "€" * 250_000], ids=["long", "wide"])
async def test_a_turn_that_read_more_than_its_recording_has_room_for_is_not_called_diverged(word: str) -> None:
    class Hoarding(ManagedAgent):
        memory_keys = frozenset({"left", "right"})

        async def process(self, turn: Turn) -> int:
            del turn
            seen: list[str] = [await self.memory.load(key, "") for key in ("left", "right")]
            for key in ("left", "right"):
                self.memory.update(key, word)
            return sum(map(len, seen))

    entries = await recorded(Hoarding, "first", "second")
    _, second = [from_json(entry.payload) for entry in entries if entry.kind == EntryKind.TURN_ENDED]
    assert ("memory" in second, set(second["left_out"])) == (False, {"memory"})
    report = await replay(bundle_of(entries), lambda _: Hoarding)
    assert (report.verdict, report.turns) == ("incomplete", 1), report
    assert report.skipped == ["task 1 (task1): its memory did not fit into the ledger"]
