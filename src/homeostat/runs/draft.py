"""One change to a run on its way into a transaction: where it goes, what happened to tasks, what the ledger says."""

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from homeostat.core.canonical import Ordered, canonical_of
from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.ids import AgentId, TurnId
from homeostat.core.machines.run import RUN, RunEvent, RunStatus
from homeostat.core.machines.task import TASK, TaskEvent, TaskStatus
from homeostat.core.records.provenance import Chain, EntryKind
from homeostat.core.records.run import GateState, Move, Run, RunChange, Task, gate_of
from homeostat.core.redaction import redact_text

DRIVER: Final = "homeostat"
"""In whose name a run moves by itself."""

WORDS: Final = {status: status.value for status in TaskStatus}
EVENTS: Final = {event: event.value for event in TaskEvent}


class TaskEnded(Ordered, frozen=True, gc=False):
    """What the ledger says of the end of an attempt."""

    agent_id: str | None
    attempt: int
    error: msgspec.Raw | None
    event: str
    number: int
    result: msgspec.Raw | None
    started_at_ms: int | None
    status: str
    task: str
    turn_id: str | None


class Draft:
    """Collects what one save writes. Everything in it becomes durable together, or nothing does."""

    def __init__(self, run: Run, now: Millis) -> None:
        self.run = run
        self.now = now
        self.gate: GateState | None = None
        self.tasks: dict[int, Task] = {}
        self.new_tasks: tuple[Task, ...] = ()
        self._cleared: list[int] = []
        self._chain = Chain(run.project, run.run_id, run.tip)
        self._counts = {word: run.counts.get(word, 0) for word in WORDS.values()}
        self._touched = False

    def __bool__(self) -> bool:
        return self._touched

    @property
    def counts(self) -> dict[str, int]:
        """How many tasks stand where, as this change leaves them."""
        return {word: count for word, count in self._counts.items() if count}

    def set(self, **changes: Any) -> None:
        self.run = replace(self.run, **changes)
        self._touched = True

    def move(self, event: RunEvent, *, actor: str, reason: str, details: object = None, **changes: Any) -> None:
        """Take the run along an edge of its table; raises `IllegalTransition` where there is none."""
        reason = redact_text(reason)  # everybody is told, and an error may name a secret
        before = self.run.status
        target = RUN.next(before, event)
        clock: dict[str, Any] = {}
        if before is RunStatus.APPLYING and target is not before:
            clock = {"applied_ms": self.run.elapsed_ms(self.now), "applying_since_ms": None}
        if target is RunStatus.APPLYING:
            clock = {"applying_since_ms": self.now, "paused": None, "forced": False}
        elif target in RUN.final:
            clock["paused"] = None  # nothing holds what has ended
        self.set(status=target, moved=Move(actor, reason, self.now), live=True, **{**clock, **changes})
        self.gate = gate_of(self.run)
        said: dict[str, object] = {
            "event": event.value,
            "from": before.value,
            "to": target.value,
            "actor": actor,
            "reason": reason,
        }
        if details is not None:
            said["details"] = details
        self.note(EntryKind.RUN_MOVED, said)

    def force(self) -> None:
        """Make a pause one by force."""
        self.set(forced=True, live=True)
        self.gate = gate_of(self.run)

    def note(
        self,
        kind: EntryKind,
        payload: object,
        *,
        at_ms: Millis | None = None,
        plain: bool = False,
        said: str | None = None,
    ) -> None:
        self._chain.add(kind, payload, at_ms=self.now if at_ms is None else at_ms, plain=plain, said=said)
        self._touched = True

    def plan(self, tasks: tuple[Task, ...]) -> None:
        self.new_tasks = tasks
        for task in tasks:
            self._counts[WORDS[task.status]] += 1
        self._touched = True

    def task(self, task: Task, event: TaskEvent, **changes: Any) -> Task:
        """Take a task along an edge of its table."""
        return self._put(task, replace(task, status=TASK.next(task.status, event), **changes))

    def start(self, task: Task, turn_id: TurnId, agent_id: AgentId) -> Task:
        """The next attempt at a task begins, as a turn of an agent."""
        started = Task(  # by its places: this is done once for every task
            task.number,
            task.spec,
            TASK.next(task.status, TaskEvent.START),
            task.attempt + 1,
            turn_id,
            agent_id,
            None,
            self.now,
            None,
            task.approved_by,
            task.error,
            task.result,
        )
        return self._put(task, started)

    def _put(self, before: Task, after: Task) -> Task:
        self._counts[WORDS[before.status]] -= 1
        self._counts[WORDS[after.status]] += 1
        if (before.error or before.noted) and not (after.error or after.noted or after.result):
            self._cleared.append(after.number)
        self.tasks[after.number] = after
        self._touched = True
        return after

    def amend(self, task: Task, **changes: Any) -> Task:
        """Change something about a task that stays where it is."""
        amended = self.tasks[task.number] = replace(task, **changes)
        self._touched = True
        return amended

    def end(self, task: Task, event: TaskEvent, *, result: Json | None, error: Json | None, keep: bool = True) -> Task:
        """End an attempt, or the task with it, and say so in the ledger.

        A result that nobody asks for is not to `keep`: it is the deliverable of the turn, which is kept already.
        """
        ended = self.end_told(task, event, result if keep else None, error)
        errors, results = (None if text is None else canonical_of(text) for text in (error, result))
        entry = TaskEnded(
            task.agent_id,
            task.attempt,
            None if errors is None else msgspec.Raw(errors),
            EVENTS[event],
            task.number,
            None if results is None else msgspec.Raw(results),
            task.started_at_ms,
            WORDS[ended.status],
            task.spec.name,
            task.turn_id,
        )
        said = "\n".join((task.spec.name, task.agent_id or "", errors or "", results or ""))  # the rest was made here
        self._chain.add(EntryKind.TASK_ENDED, entry, at_ms=self.now, plain=True, said=said)
        return ended

    def end_told(self, task: Task, event: TaskEvent, result: Json | None, error: Json | None = None) -> Task:
        """The same where the ledger has been told already."""
        ended = Task(
            task.number,
            task.spec,
            TASK.next(task.status, event),
            task.attempt,
            task.turn_id,
            task.agent_id,
            task.not_before_ms,
            task.started_at_ms,
            self.now,
            task.approved_by,
            error,
            result,
            task.noted,
        )
        return self._put(task, ended)

    def change(self, *, epoch: int | None = None) -> RunChange:
        run = replace(self.run, version=self.run.version + 1, tip=self._chain.tip, counts=self.counts)
        return RunChange(
            run=run,
            tasks=tuple(self.tasks.values()),
            new_tasks=self.new_tasks,
            cleared=tuple(self._cleared),
            lines=tuple(self._chain.lines),
            gate=self.gate,
            epoch=epoch,
        )

    def birth(self) -> RunChange:
        """The same for a run that is new."""
        change = self.change()
        return replace(change, run=replace(change.run, version=1))
