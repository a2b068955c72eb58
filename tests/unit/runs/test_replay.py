"""A recorded run does the same again; where its code does not, the first entry that differs is named in words."""

import asyncio
from typing import ClassVar

from homeostat.adapters.upstreams.simulated import Reply, SimulatedUpstream
from homeostat.adapters.upstreams.simulated.upstream import INSTANT
from homeostat.agent.functions import FunctionAgent
from homeostat.agent.react import Profile, ReActAgent
from homeostat.agent.turn import Turn
from homeostat.core.codec import from_json
from homeostat.core.ids import DEFAULT_PROJECT, RunId, chance
from homeostat.core.records.provenance import START, Entry, EntryKind
from homeostat.runs.bundle import Bundle, lines_of
from homeostat.runs.replaying.casting import cast_from
from homeostat.runs.replaying.changes import Changes, replay_changed
from homeostat.runs.replaying.journal import Mode
from homeostat.runs.replaying.replay import replay
from homeostat.testing.recorded_runs import (
    Act,
    MemoryLedger,
    acts_of,
    altered,
    bundle_of,
    finding,
    record,
    studio,
    written,
)
from homeostat.testing.workbench import Workbench

RUNS = 200


async def recorded(programs: list[tuple[Act, ...]]) -> list[list[Entry]]:
    async with studio() as bench:
        return await record(bench, programs)


def programs(what: str, count: int = RUNS) -> list[tuple[Act, ...]]:
    return [acts_of(rng, rng.randrange(1, 9)) for rng in (chance(what, number) for number in range(count))]


async def test_two_hundred_random_runs_are_identical_again() -> None:
    made = programs("identical")
    for acts, entries in zip(made, await recorded(made), strict=True):
        report = await replay(bundle_of(entries), finding(acts))
        assert report.identical, (acts, report)
        assert report.turns >= 1
        assert report.entries == len(entries)


async def test_two_hundred_changes_of_code_are_found_where_they_are() -> None:
    made = programs("altered")
    found = 0
    for number, (acts, entries) in enumerate(zip(made, await recorded(made), strict=True)):
        changed, place = altered(chance("alter", number), acts)
        report = await replay(bundle_of(entries), finding(changed))
        assert report.divergence is not None, (acts, changed)
        expected = entry_of(entries, acts, place, changed[place])
        assert report.divergence.seq == expected, (number, acts, place, changed[place], report.divergence)
        assert "task 0 (task0)" in report.divergence.message
        found += 1
    assert found == RUNS


LEAVES = {"step": 1, "model": 1, "tool": 1, "agent": 1, "card": 1, "time": 1, "both": 2, "failing": 1}
"""How many entries an act leaves; chance and memory leave none."""


def entry_of(entries: list[Entry], acts: tuple[Act, ...], place: int, new: Act) -> int:
    """The entry in which a change of an act has to show: its own, or where it leaves none, the one that comes next."""
    first = 2 + sum(LEAVES.get(act.kind, 0) for act in acts[:place])  # the first entry is the run's
    end = next(entry.seq for entry in entries if entry.kind == EntryKind.TURN_ENDED)
    if new.kind == acts[place].kind and new.kind in {"chance", "time", "memory"}:
        return end  # what it came to shows in what was delivered
    return min(first, end)


async def test_two_hundred_changes_of_recordings_are_found_where_they_are() -> None:
    made = programs("recordings")
    for number, (acts, entries) in enumerate(zip(made, await recorded(made), strict=True)):
        rng = chance("edit", number)
        place = rng.randrange(len(entries) - 1)  # behind the last there is nobody to tell, unless a head was signed
        lines = lines_of(entries, START.hash)
        lines[place] = lines[place].replace(b'"payload":{', b'"payload":{"a":1,', 1)
        header = bundle_of(entries).header
        report = await replay(Bundle(header, iter([lines])), finding(acts))
        assert report.verdict == "tampered"
        assert report.divergence is not None
        assert report.divergence.seq == place + 1, report.divergence


async def test_a_dropped_act_is_found_where_it_was() -> None:
    acts = tuple(Act("step", f"act{number}", number) for number in range(4))
    (entries,) = await recorded([acts])
    report = await replay(bundle_of(entries), finding((*acts[:1], *acts[2:])))
    assert report.divergence is not None
    assert report.divergence.seq == 3
    assert "took step `act2`, where the recording has step `act1`" in report.divergence.message


async def test_code_that_does_things_at_once_has_no_order_to_keep() -> None:
    async def both(turn: Turn) -> list[object]:
        return await asyncio.gather(*(turn.step(name, _slow, seconds) for name, seconds in (("a", 0.02), ("b", 0.0))))

    async def back(turn: Turn) -> list[object]:
        return list(reversed(await asyncio.gather(turn.step("b", _slow, 0.0), turn.step("a", _slow, 0.02))))

    async with studio() as bench:
        async with bench.working(pair=both):
            run_id = RunId("run_" + "1" * 24)
            turn_id = await bench.send("pair", None, run_id=run_id)
            await bench.end(turn_id)
        entries = await written(MemoryLedger(bench.store), bench.store, run_id, {turn_id: 0})
    for code in (both, back):
        report = await replay(bundle_of(entries), lambda _, code=code: lambda: FunctionAgent(code))
        assert report.identical, report


async def _slow(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


async def test_models_are_asked_anew_and_tools_are_not() -> None:
    acts = (Act("model", "think", 1), Act("tool", "look", 2), Act("model", "again", 3))
    (entries,) = await recorded([acts])
    upstream = SimulatedUpstream(pace=INSTANT, script=lambda _: Reply("something else"))
    report = await replay(bundle_of(entries), finding(acts), mode=Mode.RE_MODEL, upstream=upstream)
    assert report.live_calls == 2
    assert report.divergence is not None
    assert "something else" in report.divergence.now
    assert report.divergence.message.startswith("task 0 (task0) delivered (came[1])")


async def test_code_that_fails_now_says_why_and_not_what_is_missing() -> None:
    async def telling(turn: Turn) -> dict[str, str]:
        return {"text": (await turn.llm("a word", model="sim-small", name="think")).text}

    async def breaking(turn: Turn) -> dict[str, str]:
        await telling(turn)
        raise ValueError("the disk is full")

    async with studio() as bench:
        async with bench.working(telling=telling):
            run_id = RunId("run_" + "6" * 24)
            turn_id = await bench.send("telling", {}, run_id=run_id)
            await bench.end(turn_id)
        entries = await written(MemoryLedger(bench.store), bench.store, run_id, {turn_id: 0})
    for mode in (Mode.EXACT, Mode.RE_MODEL, Mode.WHAT_IF):
        upstream = SimulatedUpstream(pace=INSTANT)
        again = await replay(
            bundle_of(entries), lambda _: lambda: FunctionAgent(breaking), mode=mode, upstream=upstream
        )
        assert again.divergence is not None
        assert "the disk is full" in again.divergence.message
        assert "the disk is full" in again.divergence.now
        assert again.divergence.recorded.startswith('{"text":')


async def test_what_if_asks_only_what_was_not_asked_before() -> None:
    acts = (Act("model", "think", 1), Act("tool", "look", 2), Act("model", "again", 3))
    (entries,) = await recorded([acts])
    upstream = SimulatedUpstream(pace=INSTANT, script=lambda _: Reply("something else"))
    same = await replay(bundle_of(entries), finding(acts), mode=Mode.WHAT_IF, upstream=upstream)
    assert (same.verdict, same.live_calls) == ("identical", 0)
    changed = (*acts[:2], Act("model", "again", 4))
    other = await replay(bundle_of(entries), finding(changed), mode=Mode.WHAT_IF, upstream=upstream)
    assert other.live_calls == 1
    assert other.divergence is not None
    assert "came[3]" in other.divergence.message


class Weatherman(ReActAgent):
    """Has a profile of its own."""

    profile: ClassVar[Profile | None] = Profile(model="sim-small", system_prompt="Tell the weather.")


async def test_a_change_that_reaches_nobody_is_called_so() -> None:
    acts = (Act("model", "think", 1),)
    (entries,) = await recorded([acts])
    upstream = SimulatedUpstream(pace=INSTANT)
    for changes in (Changes(prompt="Be brief."), Changes(model="sim-large")):
        report = await replay_changed(bundle_of(entries), finding(acts), changes, mode=Mode.WHAT_IF, upstream=upstream)
        assert (report.verdict, report.unreached, report.live_calls) == ("unreached", ["agent0"], 0)
        assert not report.identical
    rules = Changes(deny_models=("gpt-*",))
    report = await replay_changed(bundle_of(entries), finding(acts), rules, mode=Mode.WHAT_IF, upstream=upstream)
    assert (report.verdict, report.unreached) == ("identical", [])


async def test_an_agent_with_a_profile_takes_another_prompt_and_is_still_the_code_that_ran() -> None:
    async with studio() as bench:
        run_id = RunId("run_" + "3" * 24)
        async with bench.working(weatherman=Weatherman):
            turn_id = await bench.send("weatherman", "Paris?", run_id=run_id)
            await bench.end(turn_id)
        entries = await written(MemoryLedger(bench.store), bench.store, run_id, {turn_id: 0})
    upstream = SimulatedUpstream(pace=INSTANT, script=lambda _: Reply("rain"))
    for prompt, live in (("Tell the weather.", 0), ("Rhyme.", 1)):
        report = await replay_changed(
            bundle_of(entries), lambda _: Weatherman, Changes(prompt=prompt), mode=Mode.WHAT_IF, upstream=upstream
        )
        assert (report.live_calls, report.changed_code, report.unreached) == (live, [], [])
        assert (report.verdict == "identical") is (live == 0), report


async def test_a_turn_that_was_stopped_is_replayed_as_far_as_it_came() -> None:
    async def waiting(turn: Turn) -> object:
        await turn.step("first", _slow, 0.0)
        return await turn.call("never", n=1)

    async with Workbench() as bench:
        run_id = RunId("run_" + "2" * 24)
        async with bench.working(waiting=waiting):
            turn_id = await bench.send("waiting", None, run_id=run_id)
            await asyncio.wait_for(bench.tool_calls.get(), 30)
            await bench.kernel.stop(DEFAULT_PROJECT, turn_id, reason="enough", actor="test")
            await bench.end(turn_id)
        entries = await written(MemoryLedger(bench.store), bench.store, run_id, {turn_id: 0})
    report = await replay(bundle_of(entries), lambda _: lambda: FunctionAgent(waiting))
    assert (report.verdict, report.turns) == ("identical", 1)
    (ended,) = [from_json(entry.payload) for entry in entries if entry.kind == EntryKind.TURN_ENDED]
    assert ended["code"]["target"].endswith("waiting"), "what was stopped is named by its first step"
    (step,) = [from_json(entry.payload) for entry in entries if entry.kind == EntryKind.STEP]
    assert "code" not in step["asked"]
    assert not report.changed_code


async def test_code_that_nobody_named_is_asked_for() -> None:
    async def asking(turn: Turn) -> object:
        return await turn.call("never", n=1)

    async with Workbench() as bench:
        run_id = RunId("run_" + "3" * 24)
        async with bench.working(asking=asking):
            turn_id = await bench.send("asking", None, run_id=run_id)
            await asyncio.wait_for(bench.tool_calls.get(), 30)
            await bench.kernel.stop(DEFAULT_PROJECT, turn_id, reason="enough", actor="test")
            await bench.end(turn_id)
        entries = await written(MemoryLedger(bench.store), bench.store, run_id, {turn_id: 0})
    report = await replay(bundle_of(entries), cast_from({}, lambda _: True))
    (skipped,) = report.skipped
    assert "--agent asking=MODULE:NAME" in skipped
