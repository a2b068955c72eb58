"""How agents are held: what is wanted of each strategy, what was found when it was looked at, and who is in custody."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.records.immune import NEVER, Stance
from homeostat.core.records.turn import AgentKey


class Strategy(StrEnum):
    """A way to hold an agent, in the order in which they close."""

    GATEWAY = "gateway"
    KERNEL = "kernel"
    PROCESS = "process"
    CONTAINER = "container"
    KUBERNETES = "kubernetes"
    NOOP = "noop"


class Mandate(NamedTuple):
    """An agent, and the version of its health at which something was decided about it; void once that has moved on.

    Several processes see to the same agent. One that is late would undo what another was told since.
    """

    key: AgentKey
    version: int


class Effect(StrEnum):
    """What reading back says of a wish. Only the first one is a claim that it worked."""

    ENFORCED = "enforced"
    UNVERIFIED = "unverified"  # the effect could not be read
    FAILED = "failed"  # the effect was read, and it is another one


class Verb(StrEnum):
    """What was asked for."""

    QUARANTINE = "quarantine"
    KILL = "kill"
    RELEASE = "release"


class Mode(StrEnum):
    """Which strategies hold an agent: all that reach it, or the first one whose effect is verified."""

    ALL = "all"
    FIRST = "first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The stance an agent was found in; None where it could not be seen."""

    stance: Stance | None
    note: str = ""
    lost: str = ""  # what ran before and does not now: a release that leaves it so has not released


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """A window in which a wish may not have held: from the last time it was seen to, until it did again."""

    from_ms: Millis
    until_ms: Millis | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """What one strategy is to do about one agent. It is stored before anything is done."""

    project: ProjectId
    agent_id: AgentId
    strategy: Strategy
    wanted: Stance
    verb: Verb
    reason: str
    actor: str
    asked_at_ms: Millis
    effect: Effect = Effect.UNVERIFIED
    note: str = ""
    checked_at_ms: Millis = NEVER
    held_at_ms: Millis = NEVER  # the last time its effect was seen
    before: str = ""  # what there was, and is to be again
    gaps: tuple[Gap, ...] = ()
    gaps_count: int = 0
    doubted: bool = False  # nobody could tell whether this way reaches the agent, and nobody has seen since
    host: str = ""  # the machine that sees to it, where only one can

    @property
    def key(self) -> AgentKey:
        return (self.project, self.agent_id)

    @property
    def settled(self) -> bool:
        """Whether nothing is left to look after: it is open, and was seen to be."""
        return self.wanted is Stance.OPEN and self.effect is Effect.ENFORCED


@dataclass(frozen=True, slots=True, kw_only=True)
class Custody:
    """The process an agent is, by what no later process can share: number, start time and boot."""

    project: ProjectId
    agent_id: AgentId
    pid: int
    started: int
    boot_id: str
    uid: int
    supervises: bool  # it starts the agent and is not one itself: its descendants are held, and it is not
    since_ms: Millis
    cgroup: str = ""

    @property
    def key(self) -> AgentKey:
        return (self.project, self.agent_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """Where an agent takes orders, on whose word, and whether that may be an address only this network has."""

    project: ProjectId
    agent_id: AgentId
    url: str
    by: str
    at_ms: Millis
    private: bool = False

    @property
    def key(self) -> AgentKey:
        return (self.project, self.agent_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What an agent got from the gateway since an instant."""

    refused: int
    answered: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What was asked, and what every strategy was found to do about it."""

    project: ProjectId
    agent_id: AgentId
    verb: Verb
    reason: str
    actor: str
    asked_at_ms: Millis
    read_at_ms: Millis
    effect: Effect
    holds: tuple[Hold, ...]
    spent: Spent
    apart: tuple[tuple[Strategy, str], ...] = ()  # ways that do not apply to this agent, and why
