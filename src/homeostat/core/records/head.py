"""An agent's head: its one active turn, the state of its gate, and how much waits."""

from enum import StrEnum

from msgspec import Struct

from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, ProjectId, TurnId, WorkerId
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.turn import AgentKey, OpenTurn


class Gate(StrEnum):
    """Whether an agent may be given work. Messages are accepted in every position."""

    OPEN = "open"
    DRAINING = "draining"
    CLOSED = "closed"


class Head(Struct, frozen=True, gc=False):
    """The row every change to an agent's turns compares and swaps."""

    project: ProjectId
    agent_id: AgentId
    version: int
    status: HeadStatus
    epoch: int
    turn_id: TurnId | None
    worker_id: WorkerId | None
    starts: int
    losses: int
    cards: int
    gate: Gate
    gate_reason: str | None
    queued: int
    tail_seq: int
    last_turn_id: TurnId | None
    waiting: int
    deadline_ms: Millis | None
    since_ms: Millis

    @property
    def key(self) -> AgentKey:
        return (self.project, self.agent_id)

    @staticmethod
    def new(project: ProjectId, agent_id: AgentId, now: Millis) -> "Head":
        return Head(
            project=project,
            agent_id=agent_id,
            version=0,
            status=HeadStatus.IDLE,
            epoch=0,
            turn_id=None,
            worker_id=None,
            starts=0,
            losses=0,
            cards=0,
            gate=Gate.OPEN,
            gate_reason=None,
            queued=0,
            tail_seq=0,
            last_turn_id=None,
            waiting=0,
            deadline_ms=None,
            since_ms=now,
        )


class Mailbox(Struct, frozen=True, gc=False):
    """All that a rule needs to decide about one agent: head, active turn, and the front of the queue.

    It is true exactly as long as the stored head has the same version.
    """

    head: Head
    active: OpenTurn | None = None
    queue: tuple[OpenTurn, ...] = ()

    @property
    def queue_complete(self) -> bool:
        """Whether the front held here is the whole line."""
        return len(self.queue) == self.head.queued
