"""What processes tell each other besides the outbox: doorbells, revocations and how a head stands. All may be lost."""

from typing import cast

from homeostat.core.codec import Json, from_json, to_json
from homeostat.core.errors import MalformedPayload
from homeostat.core.ids import AgentId, TurnId, WorkerId
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.event import Channel, Event
from homeostat.core.records.head import Head
from homeostat.core.records.turn import AgentKey, OpenTurn, WaitStatus
from homeostat.kernel.commands import Fence

_ACTIVITY = {HeadStatus.RUNNING: "thinking", HeadStatus.SUSPENDED: "awaiting_tool_result"}


def wakeup(key: AgentKey, origin: str, at: str | None = None) -> Event:
    """The doorbell: it carries no meaning, only whom to look at, who rang, and at whose door if not at all of them."""
    body = f'{{"origin":"{origin}"}}' if at is None else f'{{"origin":"{origin}","at":"{at}"}}'
    return Event("", key[0], Channel.CMD, "agent", key[1], "wakeup", Json(body))


def served(key: AgentKey, origin: str) -> Event:
    """Word that a process has entered a turn of an agent, and might as well be rung at for the next one."""
    return Event("", key[0], Channel.CMD, "agent", key[1], "served", Json(f'{{"origin":"{origin}"}}'))


def is_from(event: Event, origin: str) -> bool:
    return f'"origin":"{origin}"' in event.payload


def is_for(event: Event, name: str) -> bool:
    """Whether a wake-up is rung at this process' door."""
    return '"at"' not in event.payload or f'"at":"{name}"' in event.payload


def origin_of(event: Event) -> str | None:
    try:
        body = from_json(event.payload)
    except MalformedPayload:
        return None
    origin = cast("dict[str, object]", body).get("origin") if isinstance(body, dict) else None
    return origin if isinstance(origin, str) else None


def state_signal(head: Head, active: OpenTurn | None) -> Event:
    """How a head stands, for those who watch."""
    waiting = [w.tool for w in active.waits if w.status is WaitStatus.PENDING] if active and active.waits else []
    body = to_json(
        {
            "agent_id": head.agent_id,
            "agent_turn_id": head.turn_id,
            "turn_epoch": head.epoch,
            "status": head.status.value,
            "gate": head.gate.value,
            "queued": head.queued,
            "metadata": {
                "activity": _ACTIVITY.get(head.status),
                "current_tool": waiting[0] if waiting else None,
                "waiting_tool_count": head.waiting,
            },
        }
    )
    event_id = f"{head.agent_id}:{head.version}"
    return Event(event_id, head.project, Channel.EVT, "agent", head.agent_id, "state", body)


def revocation(fence: Fence, origin: str) -> Event:
    """Word to other processes that a worker's turn is gone; its epoch is stale whether or not this arrives."""
    said = {"turn_id": fence.turn_id, "epoch": fence.epoch, "worker_id": fence.worker_id, "origin": origin}
    body = to_json(said)
    return Event(fence.turn_id, fence.key[0], Channel.CMD, "agent", fence.key[1], "revoke", body)


def read_revocation(event: Event) -> Fence | None:
    try:
        body = cast("dict[str, object]", from_json(event.payload))
        key = (event.project, AgentId(event.target))
        return Fence(key, TurnId(str(body["turn_id"])), int(str(body["epoch"])), WorkerId(str(body["worker_id"])))
    except (MalformedPayload, KeyError, ValueError, TypeError):
        return None
