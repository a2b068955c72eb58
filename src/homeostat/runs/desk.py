"""What everybody who works on runs has at hand."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from homeostat.core.clock import Clock, Millis
from homeostat.core.ids import Ids, ProjectId, RunId, TurnId
from homeostat.core.limits import PLANNER_SECONDS, PLANS_AT_HAND_MAX
from homeostat.core.ports.runs import Agents, PlanFunction, RunStore
from homeostat.core.records.provenance import EntryKind
from homeostat.core.records.recording import TaskTold
from homeostat.core.records.run import Run, Task
from homeostat.kernel.kernel import Kernel
from homeostat.runs.budget import Purse
from homeostat.runs.ledgers import Ledgers


class Note(Protocol):
    """One entry of a ledger to be: what a turn called, made or ended with."""

    @property
    def key(self) -> str: ...

    @property
    def kind(self) -> EntryKind: ...

    @property
    def payload(self) -> object: ...

    @property
    def at_ms(self) -> Millis: ...

    @property
    def said(self) -> str | None:
        """All of the payload that others wrote; None if nobody has told it apart."""
        ...


class Notes(Protocol):
    """What is to be written down of turns, each with words that say which task it was; of turns that have not ended,
    what is there so far. `noted` are the keys of notes that were taken of them before.
    """

    def __call__(
        self,
        project: ProjectId,
        tasks: Mapping[TurnId, TaskTold],
        noted: Mapping[TurnId, Collection[str]],
        *,
        ended: bool,
    ) -> Awaitable[Mapping[TurnId, Sequence[Note]]]: ...


@dataclass(slots=True, kw_only=True)
class Desk:
    """The collaborators of a run. `planners` are the planning functions of this process, by name; `begun` are the tasks
    of the last runs that were made here, for whoever drives them from their first version on.
    """

    store: RunStore
    kernel: Kernel
    agents: Agents
    purse: Purse
    clock: Clock
    ids: Ids
    moved: Callable[[Run], Awaitable[None]]
    notes: Notes | None = None
    ledgers: Ledgers | None = None
    planner_seconds: float = PLANNER_SECONDS
    planners: dict[str, PlanFunction] = field(default_factory=dict[str, PlanFunction])
    begun: dict[RunId, tuple[Task, ...]] = field(default_factory=dict[RunId, tuple[Task, ...]])

    def remember(self, run: Run, tasks: tuple[Task, ...]) -> None:
        """A run was made here: most often it is driven here at once, and need not read its plan again."""
        if len(self.begun) >= PLANS_AT_HAND_MAX:
            del self.begun[next(iter(self.begun))]
        self.begun[run.run_id] = tasks
