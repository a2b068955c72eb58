"""One change to a run on its way into a transaction: where it goes, what happened to tasks, what the ledger says."""

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from homeostat.core.canonical import canonical_of
from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.machines.run import RUN, RunEvent, RunStatus
from homeostat.core.machines.task import TASK, TaskEvent, TaskStatus
from homeostat.core.records.provenance import Chain, EntryKind
from homeostat.core.records.run import GATES, GateState, Move, Run, RunChange, Task

WORDS: Final = {status: status.value for status in TaskStatus}


class Draft:
    """Collects what one save writes. Everything in it becomes durable together, or nothing does."""

    def __init__(self, run: Run, now: Millis) -> None:
        self.run = run
        self.now = now
        self.gate: GateState | None = None
        self.tasks: dict[int, Task] = {}
        self.new_tasks: tuple[Task, ...] = ()
        self._chain = Chain(run.project, run.run_id, run.tip)
        self._counts = dict(run.counts)
        self._touched = False

    def __bool__(self) -> bool:
        return self._touched

    def set(self, **changes: Any) -> None:
        self.run = replace(self.run, **changes)
        self._touched = True

    def move(self, event: RunEvent, *, actor: str, reason: str, details: object = None, **changes: Any) -> None:
        """Take the run along an edge of its table; raises `IllegalTransition` where there is none."""
        before = self.run.status
        target = RUN.next(before, event)
        clock: dict[str, Any] = {}
        if before is RunStatus.APPLYING and target is not before:
            clock = {"applied_ms": self.run.elapsed_ms(self.now), "applying_since_ms": None}
        if target is RunStatus.APPLYING:
            clock = {"applying_since_ms": self.now, "paused": None, "forced": False}
        self.set(status=target, moved=Move(actor, reason, self.now), live=True, **{**clock, **changes})
        self.gate = GATES[target]
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
            self._count(task, 1)
        self._touched = True

    def task(self, task: Task, event: TaskEvent, **changes: Any) -> Task:
        """Take a task along an edge of its table."""
        self._count(task, -1)
        moved = replace(task, status=TASK.next(task.status, event), **changes)
        self._count(moved, 1)
        self.tasks[task.number] = moved
        self._touched = True
        return moved

    def amend(self, task: Task, **changes: Any) -> Task:
        """Change something about a task that stays where it is."""
        amended = self.tasks[task.number] = replace(task, **changes)
        self._touched = True
        return amended

    def end(
        self, task: Task, event: TaskEvent, *, result: Json | None, error: Json | None, said: str | None = None
    ) -> Task:
        """End an attempt, or the task with it, and say so in the ledger; `said` as for an entry."""
        ended = self.task(task, event, ended_at_ms=self.now, error=error, result=result)
        self.note(
            EntryKind.TASK_ENDED,
            {
                "task": task.spec.name,
                "number": task.number,
                "attempt": task.attempt,
                "turn_id": task.turn_id,
                "agent_id": task.agent_id,
                "event": event.value,
                "status": ended.status.value,
                "started_at_ms": task.started_at_ms,
                "result": None if result is None else msgspec.Raw(canonical_of(result).encode()),
                "error": None if error is None else msgspec.Raw(canonical_of(error).encode()),
            },
            plain=True,
            said=said,
        )
        return ended

    def _count(self, task: Task, by: int) -> None:
        word = WORDS[task.status]
        if left := self._counts.get(word, 0) + by:
            self._counts[word] = left
        else:
            self._counts.pop(word, None)

    def change(self, *, epoch: int | None = None) -> RunChange:
        run = replace(self.run, version=self.run.version + 1, tip=self._chain.tip, counts=self._counts)
        return RunChange(
            run=run,
            tasks=tuple(self.tasks.values()),
            new_tasks=self.new_tasks,
            entries=tuple(self._chain.entries),
            gate=self.gate,
            epoch=epoch,
        )

    def birth(self) -> RunChange:
        """The same for a run that is new."""
        change = self.change()
        return replace(change, run=replace(change.run, version=1))
