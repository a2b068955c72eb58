"""Runs of made-up agents, recorded as real ones are: for tests and measurements of ledgers and replays.

An agent is a list of acts, so that its code can be changed act by act and compared with what was recorded of it.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from homeostat.agent.errors import CallFailed
from homeostat.agent.functions import FunctionAgent
from homeostat.agent.orchestrator import Factory
from homeostat.agent.turn import Turn
from homeostat.core.clock import Millis
from homeostat.core.ids import DEFAULT_PROJECT, Chance, ProjectId, RunId, TurnId, scope_of
from homeostat.core.records.provenance import START, Block, Chain, Entry, EntryKind
from homeostat.core.records.recording import RECORDING, TaskTold, Worked
from homeostat.core.records.turn import WaitStatus
from homeostat.runs.bundle import Bundle, Header, Page, lines_of
from homeostat.runs.recording import notes_of
from homeostat.runs.replaying.tape import TurnEnded
from homeostat.testing.memory import MemoryTurns
from homeostat.testing.workbench import Workbench

ACTS = ("step", "model", "tool", "agent", "card", "chance", "time", "memory", "both", "failing")


@dataclass(frozen=True, slots=True)
class Act:
    """One thing an agent does."""

    kind: str
    name: str
    value: int


def acts_of(rng: Chance, count: int, kinds: Sequence[str] = ACTS) -> tuple[Act, ...]:
    return tuple(Act(rng.choice(kinds), f"act{number}", rng.randrange(100)) for number in range(count))


def agent_of(acts: Sequence[Act]) -> Callable[[Turn], Any]:
    """A function that does these acts and delivers what came of them."""

    async def made_up(turn: Turn) -> Any:
        came: list[Any] = [turn.input]
        for act in acts:
            came.append(await _do(turn, act, came))
        return {"came": came}

    return made_up


async def _do(turn: Turn, act: Act, came: list[Any]) -> Any:
    match act.kind:
        case "step":
            return await turn.step(act.name, _twice, act.value, seen=len(came))
        case "model":
            answer = await turn.llm(f"{act.name} {act.value}", model="sim-small", name=act.name)
            return answer.text
        case "tool":
            return await turn.call("search", query=act.value, about=act.name)
        case "agent":
            return await turn.ask("other", {"n": act.value})
        case "card":
            await turn.write("note", {"n": act.value, "name": act.name})
            return None
        case "chance":
            return turn.random.randrange(1_000_000) + act.value
        case "time":
            return await turn.now() + act.value
        case "memory":
            return act.value
        case "both":
            pair = [turn.call("search", query=act.value), turn.call("fetch", url=f"{act.name}/{act.value}")]
            return await turn.gather(*pair)
        case _:
            try:
                await turn.call("broken", query=act.value)
            except CallFailed as problem:
                return str(problem)
            return "unbroken"


async def _twice(value: int, seen: int) -> dict[str, Any]:
    return {"twice": 2 * value, "seen": seen, "half": value / 2}


async def _other(turn: Turn) -> Any:
    return {"asked": turn.input, "drawn": await turn.step("draw", _twice, turn.input["n"], seen=0)}


class MemoryLedger:
    """What turns left behind, read from the tables of a store in memory."""

    def __init__(self, store: MemoryTurns) -> None:
        self._store = store

    async def entries(self, project: ProjectId, run_id: RunId, *, after: int, limit: int) -> list[Entry]:
        del project, run_id, after, limit
        return []

    async def blocks(self, project: ProjectId, run_id: RunId, *, after: int, limit: int) -> list[Block]:
        del project, run_id, after, limit
        return []

    async def busy(self, turns: Collection[TurnId]) -> set[TurnId]:
        asked = {child.parent_turn_id for child in self._store.turns.values()}
        return {turn for turn in turns if turn in asked or self._store.steps.get(turn, {}).keys() - {RECORDING}}

    async def worked(self, project: ProjectId, turns: Collection[TurnId]) -> list[Worked]:
        store, found = self._store, list(turns)
        for turn_id in found:
            found += [child.turn_id for child in store.turns.values() if child.parent_turn_id == turn_id]
        return [
            Worked(
                store.turns[turn_id],
                tuple(store.steps.get(turn_id, {}).values()),
                tuple(store.waits.get(turn_id, {}).values()),
                tuple(card for card in store.cards.get(scope_of(turn_id), {}).values() if card.reference is None),
            )
            for turn_id in found
            if store.turns[turn_id].project == project
        ]


@asynccontextmanager
async def studio() -> AsyncGenerator[Workbench]:
    """A workbench whose tools answer by themselves."""
    async with Workbench() as bench:
        answering = asyncio.create_task(_answer(bench))
        try:
            yield bench
        finally:
            answering.cancel()


async def _answer(bench: Workbench) -> None:

    while True:
        call = await bench.tool_calls.get()
        args = await bench.args_of(call)
        wrong = call.get("tool_name") == "broken"
        status = WaitStatus.ERROR if wrong else WaitStatus.SUCCESS
        await bench.report(call, {"found": [args, 1.0], "z": 1, "a": 2}, status=status)


async def record(bench: Workbench, programs: Sequence[Sequence[Act]], *, seed: int = 1) -> list[list[Entry]]:
    """Run each program as a run of one task, and return their ledgers."""
    agents: dict[str, Any] = {f"agent{number}": agent_of(acts) for number, acts in enumerate(programs)}
    async with bench.working({**agents, "other": _other}, concurrency=16):
        runs = [RunId(f"run_{number:024x}") for number in range(len(programs))]
        turns = [
            await bench.send(f"agent{n}", {"n": n}, run_id=run_id, correlation_id=f"{run_id}/0/1/{seed}")
            for n, run_id in enumerate(runs)
        ]
        for turn_id in turns:
            await bench.end(turn_id, 60.0)
    ledger = MemoryLedger(bench.store)
    return [
        await written(ledger, bench.store, run_id, {turn_id: 0}) for run_id, turn_id in zip(runs, turns, strict=True)
    ]


async def written(ledger: MemoryLedger, store: MemoryTurns, run_id: RunId, tasks: dict[TurnId, int]) -> list[Entry]:
    """The ledger of a run that did these turns as its tasks."""
    chain = Chain(DEFAULT_PROJECT, run_id)
    chain.add(EntryKind.RUN_CREATED, {"goal": "made up"}, at_ms=Millis(1))
    told = {turn_id: TaskTold(name=f"task{number}", number=number) for turn_id, number in tasks.items()}
    for turn_id, notes in (await notes_of(ledger, store, DEFAULT_PROJECT, told)).items():
        for note in notes:
            chain.add(note.kind, note.payload, at_ms=note.at_ms, plain=True)
        chain.add(EntryKind.TASK_ENDED, {"number": tasks[turn_id], "turn_id": turn_id}, at_ms=Millis(2))
    return chain.entries


def bundle_of(entries: Sequence[Entry], page: int = 500) -> Bundle:
    """A ledger as a bundle that nobody has signed."""
    lines = lines_of(entries, START.hash)
    pages: list[Page] = [lines[n : n + page] for n in range(0, len(lines), page)]
    return Bundle(Header(project=DEFAULT_PROJECT, run_id=entries[0].run_id, heads=()), iter(pages))


def finding(acts: Sequence[Act]) -> Callable[[TurnEnded], Factory]:
    """Finds the code of made-up agents."""

    def find(end: TurnEnded) -> Factory:
        function = _other if end.agent_id == "other" else agent_of(acts)
        return lambda: FunctionAgent(function)

    return find


def altered(rng: Chance, acts: Sequence[Act]) -> tuple[tuple[Act, ...], int]:
    """The same program with one act changed so that it shows, and which one."""
    place = rng.randrange(len(acts))
    act = acts[place]
    match rng.randrange(3):
        case 0:
            return (*acts[:place], replace(act, value=act.value + 1_000), *acts[place + 1 :]), place
        case 1 if act.kind in {"step", "model", "card"}:
            return (*acts[:place], replace(act, name="renamed"), *acts[place + 1 :]), place
        case _:
            other = "step" if act.kind != "step" else "tool"
            return (*acts[:place], replace(act, kind=other, name="swapped"), *acts[place + 1 :]), place
