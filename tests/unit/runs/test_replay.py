"""A recorded run does the same again; where its code does not, the first entry that differs is named in words."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import ClassVar, cast

import pytest
from msgspec.structs import replace

from homeostat.adapters.upstreams.simulated import Reply, SimulatedUpstream
from homeostat.adapters.upstreams.simulated.upstream import INSTANT
from homeostat.agent import models
from homeostat.agent.errors import ModelRefused, RecoverableError
from homeostat.agent.functions import FunctionAgent
from homeostat.agent.managed import ManagedAgent
from homeostat.agent.react import Profile, ReActAgent
from homeostat.agent.turn import Turn
from homeostat.core.clock import Millis
from homeostat.core.codec import NULL, Json, from_json, to_json
from homeostat.core.gateway_errors import UpstreamFailed
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, RunId, chance
from homeostat.core.ports.turns import WorkerSession
from homeostat.core.ports.upstream import Headers, UpstreamRequest
from homeostat.core.records import provenance
from homeostat.core.records.provenance import START, Chain, Entry, EntryKind
from homeostat.core.records.recording import GOES_ON, RECORDING, TaskTold
from homeostat.core.records.turn import Grant
from homeostat.core.records.view import Outcome
from homeostat.runs import recording
from homeostat.runs.bundle import Bundle, lines_of
from homeostat.runs.recording import notes_of
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


def paying(*, parallel: bool = False, drop: bool = False) -> Callable[[Turn], Awaitable[object]]:
    """Takes a step before and after it asks, under names that calls have, and writes cards beside one like theirs."""

    async def code(turn: Turn) -> object:
        if parallel:
            await asyncio.gather(turn.step("both", _slow, 0.0), turn.step("call_1", _slow, 0.0))
        else:
            await turn.step("call_1", _slow, 0.0)
        found = {} if drop else await turn.call("search", pay=100)
        for number in range(2):
            await turn.step("card ", _slow, 0.0)
            await turn.write("note", number)
        await turn.step("call_2", _slow, 0.0)
        return bool(found) or drop

    return code


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("parallel", [False, True])
async def test_a_step_may_have_the_name_of_a_call(*, parallel: bool, early: bool) -> None:
    async with studio() as bench:
        run_id = RunId("run_" + "5" * 24)
        async with bench.working(paying=paying(parallel=parallel)):
            turn_id = await bench.send("paying", {}, run_id=run_id)
            await bench.end(turn_id)
        told = {turn_id: TaskTold(name="task0", number=0)}
        noted = {turn_id: ("something",)} if early else {}
        ledger = MemoryLedger(bench.store)
        notes = (await notes_of(ledger, bench.store, DEFAULT_PROJECT, told, noted))[turn_id]
    chain = Chain(DEFAULT_PROJECT, run_id)
    chain.add(EntryKind.RUN_CREATED, {"goal": "made up"}, at_ms=Millis(1))
    if early:  # what is written while a turn runs stands by a clock that is not fine enough
        cards = [note for note in notes if note.kind is EntryKind.CARD]
        notes = [*cards, *(note for note in notes[-2::-1] if note not in cards), notes[-1]]
    for note in notes:
        chain.add(note.kind, note.payload, at_ms=note.at_ms, plain=True)
    same = await replay(bundle_of(chain.entries), lambda _: lambda: FunctionAgent(paying(parallel=parallel)))
    assert (same.verdict, same.turns) == ("identical", 1), same
    dropped = paying(parallel=parallel, drop=True)
    other = await replay(bundle_of(chain.entries), lambda _: lambda: FunctionAgent(dropped))
    assert other.divergence is not None
    assert "a call of `search`" in other.divergence.message


async def test_recordings_of_before_call_steps_by_their_names_alone() -> None:
    async with studio() as bench:
        run_id = RunId("run_" + "5" * 24)
        async with bench.working(paying=paying(drop=True)):
            turn_id = await bench.send("paying", {}, run_id=run_id)
            await bench.end(turn_id)
        steps = bench.store.steps[turn_id]
        steps[RECORDING] = replace(steps[RECORDING], outcome=Json(steps[RECORDING].outcome.replace("#step ", "")))
        entries = await written(MemoryLedger(bench.store), bench.store, run_id, {turn_id: 0})
    names = [from_json(entry.payload)["name"] for entry in entries if entry.kind == EntryKind.STEP]
    assert names == ["call_1", "card ", "card #2", "call_2"]
    report = await replay(bundle_of(entries), lambda _: lambda: FunctionAgent(paying(drop=True)))
    assert (report.verdict, report.turns) == ("identical", 1), report


async def test_an_act_that_is_dropped_at_the_end_is_found_where_it_was() -> None:
    acts = tuple(Act("step", f"act{number}", number) for number in range(3))
    (entries,) = await recorded([acts])
    report = await replay(bundle_of(entries), finding(acts[:2]))
    assert report.divergence is not None
    assert (report.divergence.seq, report.turns) == (4, 1)
    assert "task 0 (task0) ended without step `act2`" in report.divergence.message


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


class Refusal:
    """An answer without words."""

    complete = True

    def __init__(self, status: int) -> None:
        self.status = status
        self.headers: Headers = []

    async def read(self) -> bytes:
        return b""

    def close(self) -> None: ...


class AbsentGateway:
    """A gateway that turns everybody away, or that is not there."""

    def __init__(self, status: int | None) -> None:
        self._status = status
        self.asked = 0

    async def send(self, request: UpstreamRequest) -> Refusal:
        del request
        self.asked += 1
        if self._status is None:
            raise UpstreamFailed(upstream="gateway", problem="All connection attempts failed")
        return Refusal(self._status)

    async def close(self) -> None: ...


@pytest.mark.parametrize(
    ("status", "words", "tried"),
    [
        *((401, "answered 401", 1), (402, "answered 402", 1)),
        *((503, "503 no reason was given", 4), (None, "All connection attempts failed", 4)),
    ],
)
async def test_a_gateway_that_does_not_let_ask_is_no_divergence(
    monkeypatch: pytest.MonkeyPatch, status: int | None, words: str, tried: int
) -> None:
    """The code did what it did: that nobody would answer it here says nothing of it."""
    monkeypatch.setattr(models, "DEFERRAL_SECONDS", 0.0)
    acts = (Act("model", "think", 1), Act("tool", "look", 2), Act("model", "again", 3))
    (entries,) = await recorded([acts])
    gateway = AbsentGateway(status)
    report = await replay(bundle_of(entries), finding(acts), mode=Mode.RE_MODEL, upstream=gateway)
    assert (report.verdict, report.divergence, report.turns) == ("incomplete", None, 0)
    (told,) = report.skipped
    assert told.startswith("task 0 (task0): no model answered 'agent0'. The ")
    assert words in told
    assert report.unanswered == ["agent0"]
    assert gateway.asked == tried


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


@pytest.mark.parametrize("mode", Mode)
async def test_a_turn_that_fails_as_it_failed_is_identical_in_every_mode(mode: Mode) -> None:
    async def asking(turn: Turn) -> object:
        answer = await turn.llm("a number", model="sim-small", name="think")
        raise ValueError(f"not a word: {answer.text}")

    async with Workbench() as bench:
        bench.script = lambda _: Reply("17")
        run_id = RunId("run_" + "4" * 24)
        async with bench.working(asking=asking):
            turn_id = await bench.send("asking", None, run_id=run_id)
            await bench.end(turn_id)
        entries = await written(MemoryLedger(bench.store), bench.store, run_id, {turn_id: 0})
    for word, verdict in (("17", "identical"), ("18", "diverged" if mode is Mode.RE_MODEL else "identical")):
        upstream = SimulatedUpstream(pace=INSTANT, script=lambda _, word=word: Reply(word))
        again = await replay(bundle_of(entries), lambda _: lambda: FunctionAgent(asking), mode=mode, upstream=upstream)
        assert (again.verdict, again.turns) == (verdict, 1), again.divergence
        assert again.divergence is None or "failed otherwise (message)" in again.divergence.message


@pytest.mark.parametrize("mode", Mode)
async def test_what_a_stopped_turn_would_have_delivered_is_compared_in_no_mode(mode: Mode) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def lasting(turn: Turn) -> object:
        await turn.step("first", _slow, 0.0)
        begun.set()
        await may_end.wait()
        return "late"

    async with Workbench() as bench:
        run_id = RunId("run_" + "4" * 24)
        async with bench.working(lasting=lasting):
            turn_id = await bench.send("lasting", None, run_id=run_id)
            await asyncio.wait_for(begun.wait(), 30)
            await bench.kernel.stop(DEFAULT_PROJECT, turn_id, reason="enough", actor="test")
            await bench.end(turn_id)
        entries = await written(MemoryLedger(bench.store), bench.store, run_id, {turn_id: 0})
    may_end.set()
    again = await replay(bundle_of(entries), lambda _: lambda: FunctionAgent(lasting), mode=mode)
    assert (again.verdict, again.turns) == ("identical", 1), again.divergence


# --- ends ------------------------------------------------------------------------------------------------------

End = Callable[[Workbench, WorkerSession, Grant], Awaitable[object]]


async def ended_by(end: End) -> list[Entry]:
    """A run whose only turn was ended without a word of its code, as by a worker in another language."""
    async with Workbench() as bench:
        run_id = RunId("run_" + "7" * 24)
        turn_id = await bench.send("foreign", {"n": 1}, run_id=run_id)
        session = await bench.source.open([(DEFAULT_PROJECT, AgentId("foreign"))], lambda _: None)
        (grant,) = await session.claim(1, 10.0)
        await end(bench, session, grant)
        await bench.end(turn_id)
        await session.close()
        return await written(MemoryLedger(bench.store), bench.store, run_id, {turn_id: 0})


async def _succeed(_: Workbench, session: WorkerSession, grant: Grant) -> None:
    await session.deliver(grant, status=Outcome.SUCCESS, result=to_json({"n": 2}))


async def _fail(_: Workbench, session: WorkerSession, grant: Grant) -> None:
    error = {"code": "broken", "message": "no more disk"}
    await session.deliver(grant, status=Outcome.FAILED, result=NULL, error=to_json(error))


async def _stop(bench: Workbench, session: WorkerSession, grant: Grant) -> None:
    del session
    await bench.kernel.stop(DEFAULT_PROJECT, grant.turn.turn_id, reason="enough", actor="test")


@pytest.mark.parametrize("end", [_succeed, _fail])
async def test_a_turn_whose_code_is_not_recorded_is_run_by_what_is_named_or_skipped(end: End) -> None:
    async def echo(turn: Turn) -> object:
        return turn.input

    entries = await ended_by(end)
    report = await replay(bundle_of(entries), cast_from({}, lambda _: True))
    assert (report.verdict, report.turns) == ("incomplete", 0)
    (skipped,) = report.skipped
    assert "--agent foreign=MODULE:NAME" in skipped
    other = await replay(bundle_of(entries), lambda _: lambda: FunctionAgent(echo))
    assert (other.verdict, other.turns) == ("diverged", 1)


async def test_a_turn_whose_code_is_not_recorded_is_identical_where_what_is_named_does_the_same() -> None:
    async def counting(turn: Turn) -> object:
        return {"n": turn.input["n"] + 1}

    report = await replay(bundle_of(await ended_by(_succeed)), lambda _: lambda: FunctionAgent(counting))
    assert (report.verdict, report.turns) == ("identical", 1)


async def test_a_turn_that_was_stopped_before_anybody_worked_on_it_needs_no_code() -> None:
    report = await replay(bundle_of(await ended_by(_stop)), cast_from({}, lambda _: True))
    assert (report.verdict, report.turns) == ("identical", 0)


async def test_a_turn_whose_workers_were_lost_is_replayed_as_far_as_it_came() -> None:
    async def going_on(turn: Turn) -> object:
        return [await turn.step(name, nothing) for name in ("first", "second")]

    async def nothing() -> None: ...

    async def lose(_: Workbench, session: WorkerSession, grant: Grant) -> None:
        await session.step(grant, "first", to_json({"ok": None}))
        error = {"code": "attempts_exhausted", "message": "5 attempts were lost"}
        await session.deliver(grant, status=Outcome.FAILED, result=NULL, error=to_json(error))

    report = await replay(bundle_of(await ended_by(lose)), lambda _: lambda: FunctionAgent(going_on))
    assert (report.verdict, report.turns) == ("identical", 1)


class Full(RuntimeError):
    """A kind of one's own."""


def raising(error: Exception) -> Callable[[Turn], Awaitable[object]]:
    async def failing(turn: Turn) -> object:
        del turn
        raise error

    return failing


async def failed_with(code: Callable[[Turn], Awaitable[object]]) -> list[Entry]:
    async with Workbench() as bench:
        run_id = RunId("run_" + "8" * 24)
        async with bench.working(failing=code):
            turn_id = await bench.send("failing", {}, run_id=run_id)
            assert (await bench.end(turn_id)).error is not None
        return await written(MemoryLedger(bench.store), bench.store, run_id, {turn_id: 0})


@pytest.mark.parametrize(
    "now",
    [
        ValueError("the disk"),
        ValueError("on /srv: the disk is full"),
        Full("the disk is full"),
        RecoverableError("the disk is full"),
        ValueError("Step 'write' failed with builtins.ValueError: the disk is full."),
    ],
)
async def test_code_that_fails_otherwise_is_found(now: Exception) -> None:
    entries = await failed_with(raising(ValueError("the disk is full")))
    same = await replay(bundle_of(entries), lambda _: lambda: FunctionAgent(raising(ValueError("the disk is full"))))
    assert same.verdict == "identical"
    other = await replay(bundle_of(entries), lambda _: lambda: FunctionAgent(raising(now)))
    assert other.divergence is not None
    assert "failed otherwise" in other.divergence.message


STEP_ERRORS = (
    ValueError("the disk is full"),
    KeyError("disk"),
    ValueError(),
    ValueError("x" * 3_000),
    Full("the disk is full"),
    ModelRefused(status=400, problem="too long"),
    ValueError("password=hunter2"),
)


@pytest.mark.parametrize("error", STEP_ERRORS, ids=lambda error: type(error).__name__)
async def test_what_a_step_raised_is_the_same_when_it_comes_from_what_was_stored(error: Exception) -> None:
    async def broken() -> object:
        raise error

    async def plain(turn: Turn) -> object:
        return await turn.step("write", broken)

    async def telling(turn: Turn) -> object:
        try:
            return await turn.step("write", broken)
        except Exception as problem:
            raise Full(f"gave up: {problem}") from problem

    async def again(turn: Turn) -> object:
        told: list[str] = []
        for name in ("write", "copy"):
            try:
                await turn.step(name, broken)
            except Exception as problem:  # noqa: BLE001 - all of them are told
                told.append(str(problem))
        raise Full(" and ".join(told))

    async def moved(turn: Turn) -> object:
        with contextlib.suppress(Exception):
            await turn.step("write", broken)
        raise ValueError("something else")

    for code in (plain, telling, again) if len(str(error)) < 2_000 else (plain,):
        entries = await failed_with(code)
        report = await replay(bundle_of(entries), lambda _, code=code: lambda: FunctionAgent(code))
        assert report.verdict == "identical", report
        report = await replay(bundle_of(entries), lambda _: lambda: FunctionAgent(moved))
        assert report.verdict == "diverged"


async def test_a_turn_whose_memory_its_ledger_had_no_room_for_is_not_called_identical(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Remembering(ManagedAgent):
        memory_keys = frozenset({"note"})

        async def process(self, turn: Turn) -> int:
            del turn
            seen: str = await self.memory.load("note", "")
            self.memory.update("note", "x" * 50_000)
            return len(seen)

    async with studio() as bench:
        run_id = RunId("run_" + "7" * 24)
        async with bench.working(remembering=Remembering):
            turns = [await bench.send("remembering", None, run_id=run_id) for _ in range(2)]
            for turn_id in turns:
                await bench.end(turn_id)
        monkeypatch.setattr(recording, "ENTRY_BYTES_MAX", 40_000)
        monkeypatch.setattr(provenance, "ENTRY_BYTES_MAX", 40_000)
        tasks = {turn_id: number for number, turn_id in enumerate(turns)}
        entries = await written(MemoryLedger(bench.store), bench.store, run_id, tasks)
    first, second = [from_json(entry.payload) for entry in entries if entry.kind == EntryKind.TURN_ENDED]
    assert ("left_out" in first, set(second["left_out"])) == (False, {"memory"})
    report = await replay(bundle_of(entries), lambda _: Remembering)
    assert (report.verdict, report.turns) == ("incomplete", 1)
    assert report.skipped == ["task 1 (task1): its memory did not fit into the ledger"]


async def test_a_run_of_which_something_could_not_be_written_down_is_not_called_identical() -> None:
    async with studio() as bench:
        (entries,) = await record(bench, [()])
    chain = Chain(DEFAULT_PROJECT, entries[0].run_id, entries[-1].tip)
    chain.add(EntryKind.RUN_CHANGED, {"change": "untold", "turn_id": "turn_1", "why": "box_unknown"}, at_ms=Millis(3))
    chain.add(EntryKind.RUN_CHANGED, {"change": "approved", "task": '"change":"untold"'}, at_ms=Millis(3))
    report = await replay(bundle_of([*entries, *chain.entries]), finding(()))
    assert (report.verdict, report.turns) == ("incomplete", 1)
    assert report.skipped == ["turn_1: the ledger does not tell of it (box_unknown)"]


@pytest.mark.parametrize("told", [False, True])
async def test_a_turn_that_goes_on_when_others_have_ended_is_told_to_its_end_or_the_replay_is_incomplete(
    *, told: bool
) -> None:
    (entries,) = await recorded([(Act("step", "a", 1),)])
    (end,) = [entry for entry in entries if entry.kind == EntryKind.TURN_ENDED]
    turn_id = cast("dict[str, str]", from_json(end.payload))["turn_id"] if told else "turn_1"
    chain = Chain(DEFAULT_PROJECT, entries[0].run_id)
    said = {"change": GOES_ON, "turn_id": turn_id, "agent_id": "bob"}
    chain.add(EntryKind.RUN_CHANGED, said, at_ms=Millis(3))
    for entry in entries:
        chain.add(EntryKind(entry.kind), from_json(entry.payload), at_ms=entry.at_ms)
    report = await replay(bundle_of(chain.entries), finding((Act("step", "a", 1),)))
    assert report.verdict == ("identical" if told else "incomplete")
    assert report.skipped == ([] if told else ["turn_1: the ledger does not tell how it ended"])
