"""Agents and turns as simply as they can be told: what the kernel promises, without how it keeps it."""

from collections import Counter
from dataclasses import dataclass, field

from homeostat.core.ids import TurnId, WorkerId
from homeostat.core.limits import ATTEMPTS_MAX
from homeostat.core.machines.turn import HEAD, HeadStatus, TurnEvent
from homeostat.core.records.head import Gate
from homeostat.core.records.turn import AfterExecution, TurnStatus, WaitStatus
from homeostat.core.records.view import Outcome

Moves = Counter[tuple[HeadStatus, TurnEvent]]
"""Which rows of the table were taken, and how often."""


@dataclass(slots=True)
class ModelWait:
    """A tool call that somebody waits for, or did."""

    deadline_ms: int
    after: AfterExecution
    status: WaitStatus = WaitStatus.PENDING


@dataclass(slots=True)
class ModelTurn:
    """One message and what became of it."""

    turn_id: TurnId
    agent: str
    losses: int = 0
    waits: dict[str, ModelWait] = field(default_factory=dict[str, ModelWait])
    steps: dict[str, str] = field(default_factory=dict[str, str])
    ended: Outcome | None = None

    @property
    def pending(self) -> bool:
        return any(wait.status is WaitStatus.PENDING for wait in self.waits.values())

    @property
    def terminated(self) -> bool:
        answered = (WaitStatus.SUCCESS, WaitStatus.ERROR, WaitStatus.TIMEOUT)
        return any(w.after is AfterExecution.TERMINATE and w.status in answered for w in self.waits.values())


@dataclass(slots=True)
class ModelAgent:
    """One agent. Every move of its head goes through the table."""

    name: str
    moves: Moves
    status: HeadStatus = HeadStatus.IDLE
    gate: Gate = Gate.OPEN
    epoch: int = 0
    worker: WorkerId | None = None
    active: ModelTurn | None = None
    queue: list[ModelTurn] = field(default_factory=list[ModelTurn])

    def can(self, event: TurnEvent) -> bool:
        return HEAD.allows(self.status, event)

    def _move(self, event: TurnEvent) -> None:
        self.moves[self.status, event] += 1
        self.status = HEAD.next(self.status, event)

    def dispatch(self) -> None:
        if self.status is HeadStatus.IDLE and self.gate is Gate.OPEN and self.queue:
            self.active = self.queue.pop(0)
            self.epoch += 1
            self._move(TurnEvent.LEASE)

    def enqueue(self, turn: ModelTurn) -> None:
        self.queue.append(turn)
        self.dispatch()

    @property
    def claimable(self) -> bool:
        return self.status is HeadStatus.DISPATCHED and self.gate is not Gate.CLOSED

    def claim(self, worker: WorkerId) -> None:
        self._move(TurnEvent.CLAIM)
        self.worker = worker

    def suspend(self) -> None:
        self._move(TurnEvent.SUSPEND)
        self.worker = None

    def again(self, event: TurnEvent) -> None:
        """Resume, release or recover: anybody may enter, under a new epoch."""
        self._move(event)
        self.worker = None
        self.epoch += 1

    def end(self, event: TurnEvent, outcome: Outcome) -> None:
        assert self.active is not None
        _close(self.active, outcome)
        self._move(event)
        self.active = self.worker = None
        self.dispatch()

    def stop_queued(self, turn: ModelTurn) -> None:
        self.queue.remove(turn)
        _close(turn, Outcome.STOP)

    def preempt(self) -> None:
        assert self.active is not None
        self._move(TurnEvent.PREEMPT)
        self.epoch += 1
        self.queue.insert(0, self.active)
        self.active = self.worker = None
        self.dispatch()

    def lose(self) -> None:
        assert self.active is not None
        self.active.losses += 1
        if self.active.losses >= ATTEMPTS_MAX:
            self.end(TurnEvent.REAP, Outcome.FAILED)
        else:
            self.again(TurnEvent.RECOVER)

    def answered(self, turn: ModelTurn) -> None:
        """One more result is in."""
        if turn is self.active and self.status is HeadStatus.SUSPENDED and not turn.pending:
            if turn.terminated:
                self.end(TurnEvent.DELIVER, Outcome.SUCCESS)
            else:
                self.again(TurnEvent.RESUME)

    def status_of(self, turn: ModelTurn) -> TurnStatus:
        if turn.ended is not None:
            return TurnStatus(turn.ended.value)
        return TurnStatus(self.status.value) if turn is self.active else TurnStatus.QUEUED


def _close(turn: ModelTurn, outcome: Outcome) -> None:
    turn.ended = outcome
    for wait in turn.waits.values():
        if wait.status is WaitStatus.PENDING:
            wait.status = WaitStatus.CANCELLED
