"""Remedies in force over HTTP: which an agent works under, and an end to them before their time."""

from typing import Final

from homeostat.core.clock import Millis, rfc3339
from homeostat.core.codec import to_json
from homeostat.core.errors import AgentUnknown, Forbidden, Unauthenticated
from homeostat.core.ports.memory import TREATED
from homeostat.core.records.immune import RemedyAction
from homeostat.core.records.policy import Action, PolicyId
from homeostat.core.records.turn import AgentKey
from homeostat.core.remedy_rules import remedy_id
from homeostat.core.wire import treatments as w
from homeostat.server import identity, names
from homeostat.server.call import Call
from homeostat.server.endpoints import Routes
from homeostat.server.remedy_notes import LASTS_MS, Note, notes_of
from homeostat.server.render import instant

routes = Routes("immune system")

RULES: Final = {
    Action.CLEAR_CONTEXT: RemedyAction.RESET_MEMORY,
    Action.RATE_LIMIT: RemedyAction.REDUCE_AUTONOMY,
    Action.TOKEN_CAP: RemedyAction.REDUCE_AUTONOMY,
    Action.TOOL_FILTER: RemedyAction.REVOKE_TOOLS,
}
"""The rules of the gateway that remedies consist of."""


@routes.plain("GET", "/v1/agents/{agent_id}/treatments", gives=w.RemediesShape, errors=(AgentUnknown,))
async def read_treatments(call: Call) -> w.RemediesShape:
    """The remedies an agent works under, and until when. They end by themselves, or when somebody lifts them."""
    key = await _known(call)
    found = [*await _noted(call, key), *await _rules(call, key)]
    return w.RemediesShape(agent_id=key[1], treatments=sorted(found, key=lambda one: one.since))


@routes.taking(
    "POST",
    "/v1/agents/{agent_id}/treatments/lift",
    w.LiftBody,
    gives=w.LiftedShape,
    errors=(AgentUnknown, Forbidden, Unauthenticated),
    examples={
        "its tools again": {"action": "revoke_tools", "reason": "the page was cleaned up", "actor": "ann"},
        "all of them": {"reason": "a new release", "actor": "ann"},
    },
)
async def lift_treatments(call: Call, body: w.LiftBody) -> w.LiftedShape:
    """End remedies before their time. Rules of the gateway end at once; whoever hosts the agent makes it anew, without
    what was lifted, before its next turn. It is watched as ever.
    """
    await identity.require_operator(call, verb="lift", what="treatments")
    key = await _known(call)
    rules = [one for one in await _rules(call, key) if body.action in (None, one.action)]
    for one in rules:
        assert one.policy_id is not None
        await call.system.gateway.drop_policy(key[0], PolicyId(one.policy_id))
    noted = [one for one in await _noted(call, key) if body.action in (None, one.action)]
    if noted:
        await _forget(call, key, body.action)
    return w.LiftedShape(agent_id=key[1], lifted=sorted([*noted, *rules], key=lambda one: one.since))


async def _known(call: Call) -> AgentKey:
    key = names.agent_key(call)
    await call.system.fleet.require(key[1], key[0])
    return key


async def _kept(call: Call, key: AgentKey) -> list[Note]:
    return notes_of(await call.system.memory.recall(key))


async def _noted(call: Call, key: AgentKey) -> list[w.RemedyShape]:
    now = call.system.clock.now_ms()
    return [
        w.RemedyShape(
            action=note.action,
            kept_by="agent",
            since=rfc3339(Millis(note.at_ms)),
            until=rfc3339(Millis(note.at_ms + LASTS_MS)),
        )
        for note in await _kept(call, key)
        if note.holds(now)
    ]


async def _forget(call: Call, key: AgentKey, action: RemedyAction | None) -> None:
    left = [note for note in await _kept(call, key) if action is not None and note.action != action]
    await call.system.memory.keep(key, {TREATED: to_json(left) if left else None}, call.system.clock.now_ms())


async def _rules(call: Call, key: AgentKey) -> list[w.RemedyShape]:
    book = call.system.gateway.book
    await book.refresh()
    return [
        w.RemedyShape(
            action=RULES[policy.action],
            kept_by="gateway",
            since=rfc3339(policy.created_at_ms),
            until=instant(policy.expires_at_ms),
            policy_id=policy.policy_id,
        )
        for policy in book.of_agent(key)
        if policy.action in RULES and policy.policy_id == remedy_id(key, policy.action)
    ]
