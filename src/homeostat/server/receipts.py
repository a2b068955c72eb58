"""Receipts over HTTP: what was asked about an agent, and what every strategy was found to do about it."""

from homeostat.adapters.enforcers import proc
from homeostat.core.addresses import web_address
from homeostat.core.clock import rfc3339
from homeostat.core.enforcement_errors import ControlUnknown, ReceiptUnknown
from homeostat.core.errors import AgentUnknown, Forbidden, InvalidRequest, Unauthenticated
from homeostat.core.ids import AgentId
from homeostat.core.limits import NAME_CHARS_MAX
from homeostat.core.records.enforcement import Control, Hold, Receipt
from homeostat.core.records.turn import AgentKey
from homeostat.core.wire import immune as w
from homeostat.core.wire.control import ControlBody, ControlShape
from homeostat.core.wire.custody import CustodyShape
from homeostat.server import identity
from homeostat.server.answers import Answer
from homeostat.server.call import Call
from homeostat.server.endpoints import NOTHING, Routes
from homeostat.server.render import instant

routes = Routes("enforcement")


@routes.plain(
    "GET",
    "/v1/agents/{agent_id}/receipt",
    gives=w.ReceiptShape,
    errors=(AgentUnknown, ReceiptUnknown, Forbidden, Unauthenticated),
)
async def read_receipt(call: Call) -> w.ReceiptShape:
    """The receipt of the last quarantine, kill or release: what was asked, and what was found when it was read back."""
    key = _key(call)
    await call.system.immune.patient(key)
    return _receipt(await call.system.immune.enforcement.receipt(key))


@routes.plain("GET", "/v1/custody", gives=CustodyShape)
async def read_custody(call: Call) -> CustodyShape:
    """Where processes of the server's own machine are taken into custody."""
    desk = call.system.custody
    return CustodyShape(
        socket=None if desk is None else str(desk.path),
        boot_id="" if desk is None else proc.boot_id(),
        control_key="" if desk is None else desk.control_key,
    )


@routes.plain(
    "GET", "/v1/agents/{agent_id}/control", gives=ControlShape, errors=(AgentUnknown, ControlUnknown, Forbidden)
)
async def read_control(call: Call) -> ControlShape:
    """Where an agent takes orders, and on whose word."""
    found = await call.system.immune.enforcement.store.control(_key(call))
    if found is None:
        raise ControlUnknown(agent_id=call.parameters["agent_id"])
    return ControlShape(agent_id=found.agent_id, url=found.url, private=found.private, by=found.by)


@routes.taking(
    "PUT",
    "/v1/agents/{agent_id}/control",
    ControlBody,
    gives=ControlShape,
    errors=(AgentUnknown, InvalidRequest, Forbidden, Unauthenticated),
    examples={"an address": {"url": "https://agents.example.com:8443"}},
)
async def set_control(call: Call, body: ControlBody) -> ControlShape:
    """Allow orders to an agent at an address. One of a private network is refused unless `private` allows it."""
    await identity.require_operator(call, verb="say where orders go to", what="agents")
    parts = web_address(body.url)
    if parts.username is not None or parts.path.strip("/") or parts.query or parts.fragment:
        raise InvalidRequest(problem="an address is http(s)://HOST[:PORT] and nothing else")
    key, system = _key(call), call.system
    await system.immune.patient(key)
    control = Control(
        project=key[0],
        agent_id=key[1],
        url=body.url.rstrip("/"),
        by=body.actor,
        at_ms=system.clock.now_ms(),
        private=body.private,
    )
    await system.immune.enforcement.store.put_control(control)
    return ControlShape(agent_id=key[1], url=control.url, private=control.private, by=control.by)


@routes.plain(
    "DELETE",
    "/v1/agents/{agent_id}/control",
    status=204,
    errors=(AgentUnknown, ControlUnknown, Forbidden, Unauthenticated),
)
async def unset_control(call: Call) -> Answer:
    """Send an agent no more orders."""
    await identity.require_operator(call, verb="say where orders go to", what="agents")
    if not await call.system.immune.enforcement.store.drop_control(_key(call)):
        raise ControlUnknown(agent_id=call.parameters["agent_id"])
    return NOTHING


def _key(call: Call) -> AgentKey:
    agent_id = AgentId(call.parameters["agent_id"])
    if len(agent_id) > NAME_CHARS_MAX or not agent_id.isprintable():
        raise AgentUnknown(agent_id=agent_id[:NAME_CHARS_MAX], project=call.project)
    return (call.project, agent_id)


async def receipt_of(call: Call, key: AgentKey) -> w.ReceiptShape | None:
    """The last receipt of an agent that has one."""
    try:
        return _receipt(await call.system.immune.enforcement.receipt(key))
    except ReceiptUnknown:
        return None


def _receipt(receipt: Receipt) -> w.ReceiptShape:
    return w.ReceiptShape(
        agent_id=receipt.agent_id,
        verb=receipt.verb,
        reason=receipt.reason,
        actor=receipt.actor,
        asked_at=rfc3339(receipt.asked_at_ms),
        read_at=rfc3339(receipt.read_at_ms),
        effect=receipt.effect,
        strategies=[_hold(hold) for hold in receipt.holds],
        not_applicable=[w.ApartShape(strategy=strategy, why=why) for strategy, why in receipt.apart],
        requests_refused=receipt.spent.refused,
        requests_answered=receipt.spent.answered,
        tokens_spent=receipt.spent.tokens,
    )


def _hold(hold: Hold) -> w.HoldShape:
    return w.HoldShape(
        strategy=hold.strategy,
        wanted=hold.wanted,
        effect=hold.effect,
        note=hold.note,
        checked_at=instant(hold.checked_at_ms or None),
        gaps=[w.GapShape(since=rfc3339(gap.from_ms), until=instant(gap.until_ms), note=gap.note) for gap in hold.gaps],
        gaps_count=hold.gaps_count,
    )
