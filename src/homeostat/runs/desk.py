"""What everybody who works on runs has at hand."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from homeostat.core.clock import Clock
from homeostat.core.ids import Ids
from homeostat.core.ports.runs import Agents, PlanFunction, RunStore
from homeostat.core.records.run import Run
from homeostat.kernel.kernel import Kernel
from homeostat.runs.budget import Purse


@dataclass(slots=True, kw_only=True)
class Desk:
    """The collaborators of a run. `planners` are the planning functions of this process, by name."""

    store: RunStore
    kernel: Kernel
    agents: Agents
    purse: Purse
    clock: Clock
    ids: Ids
    moved: Callable[[Run], Awaitable[None]]
    planners: dict[str, PlanFunction] = field(default_factory=dict[str, PlanFunction])
