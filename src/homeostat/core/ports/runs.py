"""What runs ask of the world: a store that moves them, agents to carry tasks out, and somebody who makes plans."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Protocol

from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.ids import AgentId, ProjectId, RunId, TurnId
from homeostat.core.machines.run import RunStatus
from homeostat.core.machines.task import TaskStatus
from homeostat.core.records.run import RedButton, Run, RunChange, RunConfig, Target, Task, TaskSpec

PlanFunction = Callable[[RunConfig], Awaitable[Sequence[TaskSpec]]]
"""Makes a plan in the server's process."""


class RunStore(Protocol):
    """Keeps runs and their tasks. Every method may raise `StoreUnavailable`."""

    async def create(self, change: RunChange, *, request_key: str | None) -> Run | RedButton:
        """Write a new run with its first entries and its tasks, unless a red button holds it: then that is returned.

        A run made before under the same request key is returned instead of a second one.
        """
        ...

    async def save(self, change: RunChange) -> bool:
        """Swap a run from the version before, with its tasks, its entries and its gate; False if it had moved.

        A driver whose epoch is over changes nothing either.
        """
        ...

    async def run(self, project: ProjectId, run_id: RunId) -> Run | None: ...

    async def runs(
        self, project: ProjectId, *, status: RunStatus | None, before: RunId | None, limit: int
    ) -> list[Run]:
        """A project's runs, newest first."""
        ...

    async def tasks(
        self, run_id: RunId, *, after: int = -1, status: TaskStatus | None = None, limit: int
    ) -> list[Task]:
        """A run's tasks in their order, without their results."""
        ...

    async def task(self, run_id: RunId, name: str) -> Task | None:
        """One task with its result."""
        ...

    async def results(self, run_id: RunId, numbers: Collection[int]) -> dict[int, Json]:
        """What tasks delivered."""
        ...

    async def open_turns(
        self, project: ProjectId, run_id: RunId, *, after: TurnId | None = None, limit: int
    ) -> list[tuple[AgentId, TurnId]]:
        """Turns of a run that have not ended, those included that its agents asked of others, by their ids."""
        ...

    async def open_below(
        self, project: ProjectId, turn_id: TurnId, *, after: TurnId | None = None, limit: int
    ) -> list[tuple[AgentId, TurnId]]:
        """Turns that have not ended of those that one asked of others, and those of others in turn, by their ids."""
        ...

    async def working(
        self, project: ProjectId, turns: Collection[tuple[AgentId, TurnId]], *, after: Millis
    ) -> dict[TurnId, Millis]:
        """Since when turns are under way; those that wait in line, or for a first worker, are left out.

        A turn that left its worker to wait for calls began no later than the first call that it made `after` a time.
        """
        ...

    async def in_line(self, project: ProjectId, turns: Collection[tuple[AgentId, TurnId]]) -> set[TurnId]:
        """Which of some turns have not ended and are not worked on: they wait in line or for a worker."""
        ...

    async def marked(self, run_id: RunId) -> list[tuple[AgentId, TurnId]]:
        """The turns of those tasks of a run that are marked as running."""
        ...

    async def in_hand(self, runs: Mapping[RunId, int]) -> dict[RunId, list[tuple[AgentId, TurnId]]]:
        """What is marked of several runs, of each as much as it counts. Old tasks are gone through only for what is not
        among those that began last; a run that has nothing marked may be missing.
        """
        ...

    async def barred(self, project: ProjectId, agents: Collection[AgentId], *, gates: bool) -> set[AgentId]:
        """Which of some agents are given no turns: they left; with `gates` those, too, whose gates are shut."""
        ...

    async def repeated_turns(self, run_id: RunId) -> dict[str, list[TurnId]]:
        """The turns that were made for one attempt of one task, by what they are called, where there are several."""
        ...

    async def lost_ledgers(self) -> list[tuple[ProjectId, RunId]]:
        """Ledgers of runs that are not there, of which there should be none."""
        ...

    # --- who drives ----------------------------------------------------------------------------------------

    async def beat(self, driver: str, until: Millis) -> None:
        """A driver is alive until then."""
        ...

    async def leave(self, driver: str) -> None:
        """A driver ends; its runs are anybody's."""
        ...

    async def drivers(self) -> tuple[dict[str, Millis], bool]:
        """Every driver with what its last beat said, and whether there is a live run that none of them has."""
        ...

    async def bury(self, driver: str, until: Millis) -> None:
        """Forget a driver that has not beaten since: its runs are anybody's."""
        ...

    async def claim(self, driver: str, *, limit: int) -> list[Run]:
        """Take live runs that no driver has, each under its next epoch."""
        ...

    async def driven(self, driver: str) -> dict[RunId, tuple[ProjectId, int]]:
        """The live runs of a driver, with their projects and versions."""
        ...

    async def held(self) -> list[RunId]:
        """The paused runs whose turns were taken from them by force."""
        ...

    async def alive(self, project: ProjectId | None, *, after: RunId | None, limit: int) -> list[Run]:
        """Runs that have not ended, oldest first, of one project or of all."""
        ...

    # --- ledgers that are old ---------------------------------------------------------------------------------

    async def kept(self, after: RunId, before: RunId, limit: int) -> list[Run]:
        """Runs that ended, were made between two others, and have their ledgers in the store; oldest first."""
        ...

    async def sweep(self, run_id: RunId, limit: int) -> int:
        """Take the first entries of a ledger away, about that many; returns how many there were."""
        ...

    # --- the red button ------------------------------------------------------------------------------------

    async def press(self, button: RedButton) -> RedButton:
        """Let no run begin from here on; returns the button that is in force, which may be an earlier one."""
        ...

    async def lift(self, project: str) -> RedButton | None:
        """Let runs begin again; returns the button that held them."""
        ...

    async def buttons(self) -> list[RedButton]: ...

    async def ended(self, run_id: RunId) -> RunStatus | None:
        """The status of a run that may start nothing any more; None for any other, and where there is none."""
        ...


class Agents(Protocol):
    """Knows who could carry a task out."""

    async def find(self, project: ProjectId, target: Target) -> list[AgentId]:
        """The agents that fit a target, in the order of their ids."""
        ...
