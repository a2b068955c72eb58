"""Every lifecycle of the system as one literal table each."""

from homeostat.core.machines.agent import AGENT, AgentEvent, AgentState
from homeostat.core.machines.liveness import LIVENESS, Liveness, LivenessEvent
from homeostat.core.machines.phase import PHASE, Phase, PhaseEvent
from homeostat.core.machines.run import RUN, RunEvent, RunStatus
from homeostat.core.machines.table import Machine, Row
from homeostat.core.machines.task import TASK, TaskEvent, TaskStatus
from homeostat.core.machines.turn import HEAD, ITEM, ITEM_OF_HEAD, HeadStatus, ItemStatus, TurnEvent

ALL = (AGENT, HEAD, ITEM, RUN, TASK, PHASE, LIVENESS)

__all__ = [
    "AGENT",
    "ALL",
    "HEAD",
    "ITEM",
    "ITEM_OF_HEAD",
    "LIVENESS",
    "PHASE",
    "RUN",
    "TASK",
    "AgentEvent",
    "AgentState",
    "HeadStatus",
    "ItemStatus",
    "Liveness",
    "LivenessEvent",
    "Machine",
    "Phase",
    "PhaseEvent",
    "Row",
    "RunEvent",
    "RunStatus",
    "TaskEvent",
    "TaskStatus",
    "TurnEvent",
]
