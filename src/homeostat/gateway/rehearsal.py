"""A policy tried on the logged past: what it would have refused or trimmed, had it been in force."""

from dataclasses import dataclass, field

from homeostat.core.clock import Millis
from homeostat.core.limits import PAGE_MAX
from homeostat.core.pacing import Window
from homeostat.core.ports.gateway import GatewayStore
from homeostat.core.records.call import Call, CallFilter, CallId, Outcome
from homeostat.core.records.policy import Action, Policy
from homeostat.core.records.rate import Load, RateDraw
from homeostat.gateway.patterns import NameFilter
from homeostat.gateway.policy import check, limit_of

EXAMPLES_MAX = 20


@dataclass(slots=True)
class Rehearsal:
    """How many calls were looked at, and what would have become of them."""

    seen: int = 0
    refused: int = 0
    trimmed: int = 0
    since_ms: Millis | None = None
    agents: dict[str, int] = field(default_factory=dict[str, int])
    examples: list[CallId] = field(default_factory=list[CallId])

    def refuse(self, call: Call) -> None:
        self.refused += call.repeats
        self.agents[call.agent_id] = self.agents.get(call.agent_id, 0) + call.repeats
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append(call.call_id)


async def rehearse(store: GatewayStore, policy: Policy, *, since_ms: int, limit: int) -> Rehearsal:
    """Walk the calls a policy would have applied to, oldest first, at most `limit` of them."""
    check(policy)
    calls: list[Call] = []
    before: CallId | None = None
    while len(calls) < limit:
        wanted = CallFilter(project=policy.project, agent_id=policy.agent_id, since_ms=Millis(since_ms), before=before)
        page = await store.calls(wanted, min(PAGE_MAX, limit - len(calls)))
        calls += page
        if len(page) < PAGE_MAX:
            break
        before = page[-1].call_id
    result = Rehearsal(since_ms=calls[-1].started_at_ms if calls else None)
    judge = _Judge(policy)
    for call in reversed(calls):
        if call.outcome is Outcome.REFUSED:
            continue  # it was not made; what would have become of it nobody can say
        result.seen += 1
        judge(call, result)
    return result


class _Judge:
    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._names = NameFilter(allow=policy.allow, deny=policy.deny)
        self._windows: dict[str, Window] = {}

    def __call__(self, call: Call, result: Rehearsal) -> None:
        policy = self._policy
        match policy.action:
            case Action.BLOCK | Action.DRAIN:
                result.refuse(call)
            case Action.MODEL_FILTER:
                if call.model and not self._names.allows(call.model):
                    result.refuse(call)
            case Action.TOOL_FILTER:
                self._tools(call, result)
            case Action.TOKEN_CAP:
                if call.usage.tokens_out > (policy.max_tokens or 0):
                    result.trimmed += 1
            case Action.RATE_LIMIT:
                load = Load(1, call.usage.tokens)
                draw = RateDraw((policy.project, policy.policy_id, call.agent_id), load, load, limit_of(policy))
                window = self._windows.setdefault(call.agent_id, Window())
                if window.draw(draw, call.started_at_ms // 1000).granted is None:
                    result.refuse(call)
            case Action.CLEAR_CONTEXT | Action.ALERT:
                pass

    def _tools(self, call: Call, result: Rehearsal) -> None:
        offered = any(not self._names.allows(name) for name in call.tools_offered)
        called = any(not self._names.allows(use.name) for use in call.tool_calls)
        if offered and self._policy.refuse:
            result.refuse(call)
        elif offered or called:
            result.trimmed += 1
