"""Which prompts an agent was called with, over HTTP: when they changed, as far as the call log remembers."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import xxhash

from homeostat.core.clock import Millis, rfc3339
from homeostat.core.errors import AgentUnknown
from homeostat.core.limits import PAGE_MAX, PROMPT_CALLS_MAX, PROMPTS_MAX
from homeostat.core.records.call import Call as ModelCall
from homeostat.core.records.call import CallFilter
from homeostat.core.wire import gateway as w
from homeostat.server import names
from homeostat.server.call import Call
from homeostat.server.endpoints import Routes

routes = Routes("prompts")

NO_PROMPT = xxhash.xxh3_64_hexdigest(b"")
MODELS_TOLD_MAX = 10


@dataclass(slots=True)
class _Seen:
    first_ms: Millis
    last_ms: Millis
    calls: int = 0
    models: dict[str, None] = field(default_factory=dict[str, None])


@routes.plain("GET", "/v1/agents/{agent_id}/prompts", gives=w.PromptsPage, errors=(AgentUnknown,))
async def read_prompts(call: Call) -> w.PromptsPage:
    """The prompts of an agent's last calls by their hashes, the one it used last first. The prompts are not kept."""
    project, agent_id = names.agent_key(call)
    await call.system.fleet.require(agent_id, project)
    wanted = CallFilter(project=project, agent_id=agent_id)
    seen: dict[str, _Seen] = {}
    looked_at, whole = 0, False
    while looked_at < PROMPT_CALLS_MAX and not whole:
        page = await call.system.gateway.calls(wanted, PAGE_MAX)
        _note(seen, page)
        looked_at += len(page)
        whole = len(page) < PAGE_MAX
        wanted = wanted if whole else replace(wanted, before=page[-1].call_id)
    shown = sorted(seen.items(), key=lambda one: -one[1].last_ms)[:PROMPTS_MAX]
    return w.PromptsPage(
        agent_id=agent_id,
        calls_looked_at=looked_at,
        whole_log=whole,
        prompts=[_shape(prompt_hash, one) for prompt_hash, one in shown],
    )


def _note(seen: dict[str, _Seen], calls: Iterable[ModelCall]) -> None:
    for one in calls:
        if not one.prompt_hash:  # it was refused before anybody read it
            continue
        known = seen.setdefault(one.prompt_hash, _Seen(one.started_at_ms, one.started_at_ms))
        known.first_ms = min(known.first_ms, one.started_at_ms)
        known.last_ms = max(known.last_ms, one.started_at_ms)
        known.calls += 1
        if one.model and len(known.models) < MODELS_TOLD_MAX:
            known.models[one.model] = None


def _shape(prompt_hash: str, seen: _Seen) -> w.PromptShape:
    return w.PromptShape(
        prompt_hash=prompt_hash,
        has_prompt=prompt_hash != NO_PROMPT,
        first_at=rfc3339(seen.first_ms),
        last_at=rfc3339(seen.last_ms),
        calls=seen.calls,
        models=list(seen.models),
    )
