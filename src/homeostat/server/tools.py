"""Tools and memory over HTTP: what tool services and workers elsewhere keep here."""

import msgspec

from homeostat.core.clock import rfc3339
from homeostat.core.codec import Json, from_json, take_json
from homeostat.core.errors import AgentUnknown, InvalidRequest, MalformedPayload, TurnUnknown
from homeostat.core.ids import ToolCallId
from homeostat.core.limits import MEMORY_KEYS_MAX
from homeostat.core.ports.memory import ASIDE
from homeostat.core.records.tool import OpenCall, ToolSpec
from homeostat.core.records.turn import AgentKey
from homeostat.core.wire import tools as t
from homeostat.immune.errors import TreatmentKept
from homeostat.server import names
from homeostat.server.answers import Answer
from homeostat.server.call import Call
from homeostat.server.endpoints import NOTHING, Routes
from homeostat.server.remedy_notes import admitted

routes = Routes("tools")

SEARCH = {
    "name": "search",
    "description": "Find pages about a topic.",
    "parameters": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
}


@routes.taking(
    "POST",
    "/v1/tools",
    t.ToolsBody,
    status=204,
    errors=(InvalidRequest, MalformedPayload),
    examples={"one tool": {"tools": [SEARCH]}},
)
async def register_tools(call: Call, body: t.ToolsBody) -> Answer:
    """Make tools known, so that agents may be offered them. Registering again replaces what was known."""
    specs = [ToolSpec(tool.name, tool.description, _schema(tool)) for tool in body.tools]
    await call.system.tools.desk(call.project).register(specs)
    return NOTHING


def _schema(tool: t.ToolBody) -> Json:
    text = take_json(bytes(tool.parameters), what="parameters")
    if not isinstance(from_json(text), dict):
        raise MalformedPayload(field="parameters", problem=f"{tool.name}: a JSON Schema is an object")
    return text


@routes.plain("GET", "/v1/tools", gives=t.ToolsShape)
async def read_tools(call: Call) -> t.ToolsShape:
    """Every tool that is known."""
    known = await call.system.tools.desk(call.project).describe()
    items = tuple(
        t.ToolShape(name=one.name, description=one.description, parameters=msgspec.Raw(one.parameters.encode()))
        for one in known.values()
    )
    return t.ToolsShape(items=items)


@routes.taking("POST", "/v1/tools/calls", t.CallsBody, gives=t.CallsShape, errors=(TurnUnknown,))
async def take_calls(call: Call, body: t.CallsBody) -> t.CallsShape:
    """Calls for a tool service to make; the request is held open until there is one or the time is over.

    A call goes to one service at a time. One that is not named in `holding` for a minute is given to another.
    """
    desk = call.system.tools.desk(call.project)
    holding = [(names.turn_id(ref.turn_id), ToolCallId(ref.tool_call_id)) for ref in body.holding]
    found = await desk.calls(body.tools, limit=body.limit, seconds=0.0, holding=holding)
    if not found and body.wait > 0:
        waiting = desk.calls(body.tools, limit=body.limit, seconds=body.wait)
        found = await call.patience.wait(waiting, call.hung_up()) or []
    return t.CallsShape(calls=tuple(map(_call, found)))


def _call(call: OpenCall) -> t.CallShape:
    return t.CallShape(
        agent_id=call.agent_id,
        turn_id=call.turn_id,
        tool_call_id=call.call_id,
        tool=call.tool,
        tool_call_card_id=call.call_card_id,
        deadline=rfc3339(call.deadline_ms),
        deadline_ms=call.deadline_ms,
    )


# --- memory ----------------------------------------------------------------------------------------------------


@routes.plain("GET", "/v1/agents/{agent_id}/memory", gives=t.MemoryShape, errors=(AgentUnknown,))
async def read_memory(call: Call) -> t.MemoryShape:
    """Everything an agent remembers."""
    key = await _known(call)
    values = await call.system.memory.recall(key)
    return t.MemoryShape(agent_id=key[1], values={name: msgspec.Raw(value.encode()) for name, value in values.items()})


@routes.taking(
    "PATCH",
    "/v1/agents/{agent_id}/memory",
    t.MemoryBody,
    status=204,
    errors=(AgentUnknown, InvalidRequest, MalformedPayload, TreatmentKept),
    examples={"remember and forget": {"set": {"history": ["hello"]}, "forget": ["draft"]}},
)
async def change_memory(call: Call, body: t.MemoryBody) -> Answer:
    """Let an agent remember some things and forget others, together. Remedies that stand there stay there."""
    key = await _known(call)
    changes: dict[str, Json | None] = {
        name: take_json(bytes(value), what=f"memory {name!r}") for name, value in body.set.items()
    }
    changes |= dict.fromkeys(body.forget)
    kept = await call.system.memory.recall(key)
    left = {name for name in {*kept, *body.set} - set(body.forget) if not name.startswith(ASIDE)}
    if len(left) > MEMORY_KEYS_MAX:
        raise InvalidRequest(problem=f"an agent remembers {MEMORY_KEYS_MAX} keys at most")
    now = call.system.clock.now_ms()
    await call.system.memory.keep(key, admitted(key[1], kept, changes, now), now)
    return NOTHING


async def _known(call: Call) -> AgentKey:
    key = names.agent_key(call)
    if await call.system.kernel.store.head(*key) is None:
        raise AgentUnknown(agent_id=key[1], project=key[0])
    return key
