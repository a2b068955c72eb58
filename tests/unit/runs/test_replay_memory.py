"""A replay remembers what the recorded turn remembered, whatever became of that turn."""

import asyncio
import contextlib
from typing import Any

import pytest

from homeostat.agent.managed import ManagedAgent
from homeostat.agent.turn import Turn
from homeostat.core.codec import from_json
from homeostat.core.errors import Unavailable
from homeostat.core.ids import DEFAULT_PROJECT, RunId
from homeostat.core.limits import PAYLOAD_BYTES_MAX
from homeostat.core.records.provenance import Entry, EntryKind
from homeostat.runs.replaying.replay import replay
from homeostat.testing.recorded_runs import MemoryLedger, bundle_of, studio, written
from homeostat.testing.workbench import Workbench

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
    class Two(ManagedAgent):
        memory_keys = frozenset({"left", "right"})

        async def process(self, turn: Turn) -> int:
            del turn
            seen: list[str] = [await self.memory.load(key, "") for key in ("left", "right")]
            for key in ("left", "right"):
                self.memory.update(key, word)
            return sum(map(len, seen))

    entries = await recorded(Two, "first", "second")
    _, second = [from_json(entry.payload) for entry in entries if entry.kind == EntryKind.TURN_ENDED]
    assert ("memory" in second, set(second["left_out"])) == (False, {"memory"})
    report = await replay(bundle_of(entries), lambda _: Two)
    assert (report.verdict, report.turns) == ("incomplete", 1), report
    assert report.skipped == ["task 1 (task1): its memory did not fit into the ledger"]


@pytest.mark.parametrize("durably", [False, True])
async def test_what_a_step_wrote_is_found_by_a_replay_that_does_not_take_it(*, durably: bool) -> None:
    class Saving(ManagedAgent):
        memory_keys = frozenset({"count", "own"})

        async def process(self, turn: Turn) -> object:
            await turn.step("save", self.save)
            self.memory.update("own", 7)
            return [await self.memory.load(key) for key in ("count", "own")]

        async def save(self) -> None:
            pending = self.memory.update("count", 5)
            if durably:
                await pending

    entries = await recorded(Saving, "only")
    assert memories_of(entries) == [{"count": "5"}]
    report = await replay(bundle_of(entries), lambda _: Saving)
    assert (report.verdict, report.turns) == ("identical", 1), report


# --- turns that are stopped ------------------------------------------------------------------------------------


async def stopped(agent: type[ManagedAgent], *, waits: int = 1) -> tuple[list[Entry], list[Any]]:
    """A run of two turns, the second of which is stopped while it waits for a tool; and what its steps tell."""
    async with Workbench() as bench:
        async with bench.working(agent=agent):
            first = await bench.send("agent", 1, run_id=RUN)
            await bench.answer("whatever")
            assert (await bench.end(first)).error is None
            second = await bench.send("agent", 2, run_id=RUN)
            for _ in range(waits - 1):
                await bench.answer("whatever")
            await asyncio.wait_for(bench.tool_calls.get(), 30)
            await bench.kernel.stop(DEFAULT_PROJECT, second, reason="enough", actor="test")
            await bench.end(second)
        told = [from_json(step.outcome).get("asked") for step in bench.store.steps.get(second, {}).values()]
        return await written(MemoryLedger(bench.store), bench.store, RUN, {first: 0, second: 1}), told


async def twice(value: Any) -> Any:
    return 2 * value


class Stepping(ManagedAgent):
    """Puts what it remembers into steps, before and after it waits."""

    memory_keys = frozenset({"count", "name"})
    more = 0

    async def process(self, turn: Turn) -> object:
        count: int = await self.memory.load("count", 0)
        seen = [await turn.step(name, twice, count + (self.more if count else 0)) for name in ("one", "two")]
        if count:
            seen.append(await turn.call("search", count=count))
        name: str = await self.memory.load("name", "nobody")
        seen.append(await turn.step("three", twice, name))
        seen.append(await turn.call("search", name=name))
        self.memory.update("count", count + 1)
        self.memory.update("name", "ann")
        return seen


async def test_a_turn_that_was_stopped_remembers_what_its_steps_were_made_of() -> None:
    entries, told = await stopped(Stepping, waits=2)
    assert [asked.get("memory") for asked in told] == [{"count": "1"}, None, {"name": '"ann"'}], "each value once"
    assert memories_of(entries)[1] == {"count": "1", "name": '"ann"'}
    assert not any('"memory' in entry.payload for entry in entries if entry.kind == EntryKind.STEP)
    report = await replay(bundle_of(entries), lambda _: Stepping)
    assert (report.verdict, report.turns) == ("identical", 2), report


async def test_a_turn_that_was_stopped_and_does_something_else_now_is_found() -> None:
    class Changed(Stepping):
        more = 1

    entries, _ = await stopped(Stepping, waits=2)
    report = await replay(bundle_of(entries), lambda _: Changed)
    assert report.divergence is not None
    assert (
        "task 1 (task1) took step `one` with other arguments (args[0]): recorded 1, now 2" in report.divergence.message
    )


class Calling(ManagedAgent):
    """Asks for something else than it did the first time."""

    memory_keys = frozenset({"count"})

    async def process(self, turn: Turn) -> object:
        await turn.step("one", twice, 1)
        count: int = await self.memory.load("count", 0)
        self.memory.update("count", count + 1)
        return await turn.call("search", count=count)


class Looking(ManagedAgent):
    """Cannot do without what it remembers."""

    memory_keys = frozenset({"names"})

    async def process(self, turn: Turn) -> object:
        names: dict[str, str] = await self.memory.load("names", {})
        self.memory.update("names", {"2": "ann"})
        found = await turn.call("search", name=names["2"] if turn.input == 2 else "nobody")
        return await turn.call("search", name=found) if turn.input == 2 else found


class Hoarding(ManagedAgent):
    """Remembers more than a step can tell."""

    memory_keys = frozenset({"text"})

    async def process(self, turn: Turn) -> object:
        text: str = await self.memory.load("text", "")
        await turn.step("one", twice, text)
        self.memory.update("text", "x" * 70_000)
        return await turn.call("search", count=len(text))


@pytest.mark.parametrize(
    ("agent", "waits", "words"),
    [
        (Calling, 1, "it was stopped before it told what its memory had under 'count'"),
        (Looking, 2, "it was stopped before it told what its memory had under 'names'"),
        (Hoarding, 1, "its memory did not fit into the ledger"),
    ],
)
async def test_a_turn_that_was_stopped_before_its_memory_was_told_is_not_called_diverged(
    agent: type[ManagedAgent], waits: int, words: str
) -> None:
    entries, _ = await stopped(agent, waits=waits)
    report = await replay(bundle_of(entries), lambda _: agent)
    assert (report.verdict, report.turns) == ("incomplete", 1), report
    assert report.skipped == [f"task 1 (task1): {words}"]


async def test_a_step_has_room_for_its_outcome_before_it_has_any_for_memory() -> None:
    class Full(ManagedAgent):
        memory_keys = frozenset({"text"})

        async def process(self, turn: Turn) -> object:
            text: str = await self.memory.load("text", "")
            found: str = await turn.step("one", full)
            self.memory.update("text", "x" * 60_000)
            return await turn.call("search", count=len(text) + len(found))

    async def full() -> str:
        return "y" * (PAYLOAD_BYTES_MAX - 1_000)

    entries, told = await stopped(Full)
    assert told[0]["memory_omitted"] == 1
    report = await replay(bundle_of(entries), lambda _: Full)
    assert (report.verdict, report.turns) == ("incomplete", 1), report


async def test_what_was_told_with_a_step_that_was_not_kept_is_told_again() -> None:
    tried: list[str] = []

    async def unsure() -> str:
        tried.append("once")
        if len(tried) == 1:
            raise Unavailable
        return "done"

    class Trying(ManagedAgent):
        memory_keys = frozenset({"count"})

        async def process(self, turn: Turn) -> object:
            count: int = await self.memory.load("count", 0)
            with contextlib.suppress(Unavailable):
                await turn.step("one", unsure)
            await turn.step("two", twice, count)
            return await turn.call("search", count=count)

    async with Workbench() as bench:
        async with bench.working(agent=Trying):
            turn_id = await bench.send("agent", None, run_id=RUN)
            await bench.answer("whatever")
            assert (await bench.end(turn_id)).error is None
        told = {name: from_json(step.outcome).get("asked") for name, step in bench.store.steps[turn_id].items()}
    assert told["two"]["memory"] == {"count": None}
