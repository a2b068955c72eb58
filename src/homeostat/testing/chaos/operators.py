"""Runs whose tasks wait for approval, and two operators who answer at once: one of them is heard, once."""

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx2

from homeostat.client.client import Client
from homeostat.core.clock import Clock, SystemClock
from homeostat.core.errors import HomeostatError, Unavailable
from homeostat.core.machines.run import RUN
from homeostat.core.records.provenance import EntryKind
from homeostat.testing.chaos.people import People
from homeostat.testing.parties import agents

RUNS_AT_ONCE: Final = 2
PATIENCE_SECONDS: Final = 90.0
RISKY: Final = "risky"


@dataclass(frozen=True, slots=True)
class Word:
    """What an operator was told about a task: that it was answered so, on their word."""

    run_id: str
    actor: str
    approved: bool


class Operators:
    """Begin runs, answer what they ask, and remember what they were told."""

    def __init__(self, people: People, hosted: int, clock: Clock | None = None) -> None:
        self._people = people
        self._chance = people.chance
        self._clock = clock or SystemClock()
        self._hosted = [key[1] for key in agents(hosted)]
        self._number = itertools.count(1)
        self.runs: dict[str, int] = {}
        self.words: list[Word] = []

    async def live(self) -> None:
        """Until told that it is over; what was begun then is brought to its end."""
        await asyncio.gather(*(self._begin() for _ in range(RUNS_AT_ONCE)))

    async def _begin(self) -> None:
        people = self._people
        while not people.over.is_set():
            number = next(self._number)
            tasks = [self._task(number, "first"), self._task(number, RISKY, "first", approval=True)]
            tasks.append(self._task(number, "last", RISKY))
            run = await people.insist(
                lambda client, tasks=tasks, number=number: client.runs.create(
                    "a campaign", tasks=tasks, idempotency_key=f"chaos-run-{number}"
                )
            )
            if run is None:
                return
            self.runs[run.run_id] = number
            people.counts["runs begun"] += 1
            await self._answer(run.run_id)

    def _task(self, number: int, name: str, *after: str, approval: bool = False) -> dict[str, Any]:
        told = {"id": f"run:{number}:{name}", "script": ["step a", "nap", "step b"]}
        agent = self._chance.choice(self._hosted)
        return {"name": name, "agent": agent, "input": told, "after": list(after), "approval": approval}

    async def _answer(self, run_id: str) -> None:
        """Wait for the question, and have two people answer it at the same time, each at another server."""
        people = self._people
        patience = people.patience(PATIENCE_SECONDS, self._clock)
        while True:
            if patience.over:
                people.violations.append(f"finally_a_run_asks: {run_id} did not come to its question")
                return
            run = await people.insist(lambda client: client.runs.get(run_id), always=True)
            assert run is not None
            if run.status in RUN.final or run.tasks.get("held"):
                break
            await asyncio.sleep(0.2)
        approving = [self._chance.random() < 0.8, self._chance.random() < 0.8]
        first, *others = self._chance.sample(people.clients, len(people.clients))
        second = others[0] if others else first
        said = await asyncio.gather(
            self._say(first, run_id, "ann", approve=approving[0]),
            self._say(second, run_id, "bob", approve=approving[1]),
        )
        if said.count("heard") == 2:
            people.violations.append(f"always_one_answer_stands: both were heard about {run_id}")
        if sorted(said) == ["heard", "late"]:
            people.counts["approvals answered by two at once"] += 1

    async def _say(self, client: Client, run_id: str, actor: str, *, approve: bool) -> str:
        """One word, said once: what became of it if there is no answer, nobody knows."""
        try:
            await client.runs.answer(run_id, RISKY, approve=approve, actor=actor, reason="a campaign")
        except (Unavailable, httpx2.HTTPError) as problem:
            self._people.unanswered("approvals", problem)
            return "unknown"
        except HomeostatError as problem:
            return self._people.second(actor, run_id, problem)
        self.words.append(Word(run_id, actor, approve))
        self._people.counts["approvals answered"] += 1
        return "heard"

    # --- afterwards ----------------------------------------------------------------------------------------------

    async def rest(self, seconds: float) -> bool:
        """Answer what is still asked, and wait until every run has ended."""
        people = self._people
        until = self._clock.monotonic() + seconds
        waiting = set(self.runs)
        while waiting and self._clock.monotonic() < until:
            for run_id in sorted(waiting):
                run = await people.insist(lambda client, run_id=run_id: client.runs.get(run_id), always=True)
                assert run is not None
                if run.status in RUN.final:
                    waiting.discard(run_id)
                elif run.tasks.get("held"):
                    await self._say(people.clients[0], run_id, "late", approve=True)
            await asyncio.sleep(0.1)
        for run_id in sorted(waiting):
            people.violations.append(f"finally_every_run_ends: {run_id} did not: {await self._standing(run_id)}")
        return not waiting

    async def _standing(self, run_id: str) -> str:
        """Where a run stands, task by task, and how those are who should work for it."""
        run = await self._read(f"/v1/runs/{run_id}")
        told: list[str] = []
        for task in (await self._read(f"/v1/runs/{run_id}/tasks"))["tasks"]:
            agent = task["agent_id"]
            phase = (await self._read(f"/v1/agents/{agent}"))["phase"] if agent else "nobody's"
            told.append(f"{task['name']} is {task['status']} ({agent}, {phase}, {task['turn_id']})")
        return f"{run['status']} ({run['moved']}): " + ", ".join(told)

    async def _read(self, path: str) -> Any:
        return await self._people.insist(lambda client: client.read_json(path), always=True)

    async def audit(self) -> None:
        """Read every ledger: whole, one answer to each question, the one that was acknowledged, carried out once."""
        for run_id in self.runs:
            await self._audit(run_id, [word for word in self.words if word.run_id == run_id])

    async def _audit(self, run_id: str, words: Sequence[Word]) -> None:
        people = self._people
        verdict = await people.insist(lambda client: client.read_json(f"/v1/runs/{run_id}/verify"), always=True)
        assert verdict is not None
        if not verdict["valid"]:
            people.violations.append(f"always_a_ledger_without_gaps: {run_id}: {verdict}")
        entries = await self._entries(run_id)
        answers = [
            one["payload"]
            for one in entries
            if one["kind"] == EntryKind.RUN_CHANGED and one["payload"].get("change") in ("approved", "rejected")
        ]
        carried_out = {
            one["payload"]["turn_id"] for one in entries if _ended_task(one) == RISKY and one["payload"]["turn_id"]
        }
        if len(answers) > 1:
            people.violations.append(f"always_one_answer_stands: {run_id}: {answers}")
        approved = bool(answers) and answers[0]["change"] == "approved"
        if len(carried_out) > approved:
            people.violations.append(f"always_an_approval_is_executed_once: {run_id}: {answers}, then {carried_out}")
        for word in words:  # each was acknowledged, so the last one does not make up for one that was lost
            if not answers or (answers[0]["actor"], approved) != (word.actor, word.approved):
                people.violations.append(f"always_what_was_acknowledged_is_kept: {word}, and the ledger says {answers}")
        people.counts["approvals executed"] += len(carried_out)
        people.counts["ledger entries"] += len(entries)

    async def _entries(self, run_id: str) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = []
        path = f"/v1/runs/{run_id}/ledger?limit=500"
        while True:
            after = f"&cursor={entries[-1]['seq']}" if entries else ""
            page = await self._people.insist(lambda client, after=after: client.read_json(path + after), always=True)
            assert page is not None
            entries += page["entries"]
            if not page.get("next_cursor"):
                return entries


def _ended_task(entry: dict[str, Any]) -> str | None:
    """The task whose end an entry tells of: that of a success stands with the end of its turn."""
    told = entry["payload"].get("task")
    if entry["kind"] == EntryKind.TURN_ENDED and told and "status" in told:
        return told["name"]
    return told if entry["kind"] == EntryKind.TASK_ENDED else None
