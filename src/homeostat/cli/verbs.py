"""The verbs of operators in one table: whom they act on, what they ask of the API, and what must be said with them."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb for one kind of thing."""

    name: str
    noun: str  # agents, runs, turns or approvals
    words: str
    stops: bool = False  # whoever stops something says why
    rehearsed: bool = True  # `?dry_run=true` tells whom it would reach
    waits: bool = False

    @property
    def path(self) -> str:
        return {
            "agents": "/v1/agents/{id}/",
            "runs": "/v1/runs/{id}/",
            "turns": "/v1/turns/{id}/",
            "approvals": "/v1/immune/approvals/{id}/",
        }[self.noun] + self.name


QUARANTINE: Final = Verb(
    "quarantine", "agents", "Isolate agents: messages wait, model calls are refused, nothing is lost.", stops=True
)
CORDON: Final = Verb(
    "cordon", "agents", "Give agents no new turns; what is under way goes on, messages wait.", stops=True
)
DRAIN: Final = Verb(
    "drain",
    "agents",
    "Give agents no new turns, and wait until what they have in hand has ended.",
    stops=True,
    waits=True,
)
UNCORDON: Final = Verb(
    "uncordon", "agents", "Give agents turns again. What the immune system holds stays held.", rehearsed=False
)
RELEASE: Final = Verb("release", "agents", "Let isolated agents out untreated; probation watches them.")
HEAL: Final = Verb("heal", "agents", "Treat isolated agents now, with a fresh start.")
KILL_AGENT: Final = Verb("kill", "agents", "End agents for good, wherever they run.", stops=True)
KILL_RUN: Final = Verb("kill", "runs", "End runs for good.", stops=True)
PAUSE: Final = Verb("pause", "runs", "Hold runs: tasks that run may end, no other begins.", stops=True)
RESUME: Final = Verb(
    "resume", "runs", "Go on with runs that are held, with another budget if you say so.", rehearsed=False
)
APPLY: Final = Verb("apply", "runs", "Carry out plans that wait for it.", rehearsed=False)
REQUEUE: Final = Verb(
    "requeue",
    "turns",
    "Take turns away from whoever works on them and put them back to the front of the line, under a new epoch.",
    stops=True,
)
APPROVE: Final = Verb(
    "approve", "approvals", "Say yes to treatments, or to tasks as RUN/TASK; `all` is every treatment that is open."
)
REJECT: Final = Verb(
    "reject",
    "approvals",
    "Say no: agents stay isolated; a task, as RUN/TASK, fails. `all` is every treatment that is open.",
    stops=True,
)
