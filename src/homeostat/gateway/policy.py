"""Policies as small wrappers around a call, composed into one chain per agent."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import msgspec
from msgspec import Raw

from homeostat.core.clock import Millis
from homeostat.core.codec import to_json
from homeostat.core.errors import InvalidRequest
from homeostat.core.ids import AgentId
from homeostat.core.limits import BUDGET_RETRIES, NAME_CHARS_MAX, OUTPUT_TOKENS_LEAST
from homeostat.core.ports.upstream import Headers
from homeostat.core.records.call import Call
from homeostat.core.records.event import Channel, Event
from homeostat.core.records.policy import QUARANTINED, TERMS, Action, Policy, PolicyId
from homeostat.core.records.rate import UNLIMITED, Load, RateDrawn
from homeostat.gateway.dialects.shapes import Ask
from homeostat.gateway.metering import Bound
from homeostat.gateway.patterns import NameFilter
from homeostat.gateway.rates import Allowance, Taken
from homeostat.gateway.refusals import Refusal

DRAINING = "Agent is draining: open requests may end, new ones are refused"
FOREVER = Millis(1 << 62)
OFFERS = (("tools", "tool_choice"), ("functions", "function_call"))
"""Where a request offers tools, and where it says which of them is to be called."""

_raws = msgspec.json.Decoder(list[Raw] | None)
_members = msgspec.json.Decoder(dict[str, Raw])

Look = Callable[[Ask], Refusal | None]


class RateLimit:
    """Counts a call, and what it may use at most, before it is sent."""

    __slots__ = ("_plain", "_requests", "allowance", "most", "policy")

    def __init__(self, policy: Policy, allowance: Allowance) -> None:
        self.policy = policy
        self.allowance = allowance
        self.most = limit_of(policy)
        self._requests = 0 if policy.requests_per_minute is None else 1
        self._plain = Load(self._requests, 0) if self.most.tokens == UNLIMITED else None

    def load(self, tokens: int) -> Load:
        """Only what is limited is counted."""
        return self._plain or Load(self._requests, tokens)

    def take(self, tokens: int, now: float) -> Taken | None:
        return self.allowance.take(self._plain or self.load(tokens), self.most, now)

    async def draw(self, tokens: int) -> Taken | RateDrawn:
        return await self.allowance.draw(self.load(tokens), self.most)

    def refuse(self, drawn: RateDrawn) -> Refusal:
        policy = self.policy
        requests = self._requests > drawn.left.requests
        limit = f"{policy.requests_per_minute} requests" if requests else f"{policy.tokens_per_minute} tokens"
        message = (
            f"Rate limit reached: {limit} per minute, set by {policy.origin} ({policy.reason or 'no reason given'})"
        )
        return Refusal(429, "rate_limited", message, None, drawn.retry_seconds, policy.policy_id)


def limit_of(policy: Policy) -> Load:
    requests, tokens = policy.requests_per_minute, policy.tokens_per_minute
    return Load(UNLIMITED if requests is None else requests, UNLIMITED if tokens is None else tokens)


@dataclass(frozen=True, slots=True)
class ModelFilter:
    """Refuses models that are not allowed."""

    policy: Policy
    names: NameFilter

    def look(self, ask: Ask) -> Refusal | None:
        if self.names.allows(ask.model):
            return None
        return Refusal(403, "model_denied", f"Model {ask.model!r} is not allowed", policy_id=self.policy.policy_id)


@dataclass(frozen=True, slots=True)
class TokenCap:
    """Lowers what a request asks for, or refuses it."""

    policy: Policy
    most: int

    def look(self, ask: Ask) -> Refusal | None:
        if not ask.generates or (ask.output_cap is not None and 0 <= ask.output_cap <= self.most):
            return None
        if self.policy.refuse and ask.output_cap is not None:
            message = f"At most {self.most} tokens per request are allowed"
            return Refusal(403, "token_cap", message, policy_id=self.policy.policy_id)
        ask.cap_output(self.most)
        return None


@dataclass(frozen=True, slots=True)
class ToolFilter:
    """Takes tools out of requests, or refuses requests that offer them; answers are sieved apart."""

    policy: Policy
    names: NameFilter

    def look(self, ask: Ask) -> Refusal | None:
        denied = [name for name in ask.tools if not self.names.allows(name)]
        if not denied:
            return None
        if self.policy.refuse:
            message = f"Tools are not allowed: {', '.join(denied[:8])}"
            return Refusal(403, "tool_denied", message, policy_id=self.policy.policy_id)
        members = _members.decode(ask.body)
        changes: dict[str, object] = {}
        names, left = iter(ask.tools), list[str]()
        for field, choice in OFFERS:
            tools = _raws.decode(members.get(field) or b"null") or ()
            offered = list(zip(tools, names))  # noqa: B905 - the names of the others come behind
            kept = [(tool, name) for tool, name in offered if self.names.allows(name)]
            left += [name for _, name in kept]
            said = bytes(members.get(choice, b""))
            if not kept and offered:
                changes |= {field: None, choice: None}
            elif len(kept) < len(offered):
                changes[field] = [tool for tool, _ in kept]
                if any(f'"{name}"'.encode() in said for name in denied):
                    changes[choice] = None
        ask.tools = tuple(left)
        ask.edit(changes if left else {**changes, "parallel_tool_calls": None})
        return None


@dataclass(frozen=True, slots=True)
class Chain:
    """Everything in force for one agent, ready to be applied."""

    gate: Refusal | None = None
    asks: tuple[Look, ...] = ()
    rates: tuple[RateLimit, ...] = ()
    tool_filters: tuple[ToolFilter, ...] = ()
    counts_tokens: bool = False
    headers: tuple[tuple[bytes, bytes], ...] = ()
    alerts: tuple[Policy, ...] = ()
    valid_until_ms: Millis = FOREVER

    def ask(self, ask: Ask) -> Refusal | None:
        """Let each wrapper look at a request and trim it; the first no counts."""
        ask.say_once()
        for look in self.asks:
            if (refusal := look(ask)) is not None:
                return refusal
        return None

    def take(self, bound: Bound | None, now: float) -> list[Taken] | None:
        """Count a call against every rate limit out of what is at hand, or against none where that is not enough."""
        tokens = bound.amount.tokens if bound is not None else 0
        taken: list[Taken] = []
        for rate in self.rates:
            one = rate.take(tokens, now)
            if one is None:
                _give_back(taken)
                return None
            taken.append(one)
        return taken

    async def draw(self, bound: Bound | None) -> tuple[list[Taken], int] | Refusal:
        """As `take`, asking the store; also says to how many tokens an answer must keep to fit what is left."""
        out = bound.tokens_out if bound is not None else 0
        taken: list[Taken] = []
        tries = BUDGET_RETRIES
        try:
            while len(taken) < len(self.rates):
                rate = self.rates[len(taken)]
                drawn = await rate.draw(bound.of(out).tokens if bound is not None else 0)
                if isinstance(drawn, Taken):
                    taken.append(drawn)
                    continue
                out, tries = _fitting(bound, drawn, out), tries - 1
                if bound is None or out < OUTPUT_TOKENS_LEAST or not tries:
                    _give_back(taken)
                    return rate.refuse(drawn)
                for one in taken:
                    one.settle(bound.of(out).tokens)
        except BaseException:
            _give_back(taken)
            raise
        return taken, out

    def allows_tool(self, name: str) -> bool:
        return all(wrapper.names.allows(name) for wrapper in self.tool_filters)


EMPTY = Chain()

AllowanceOf = Callable[[PolicyId], Allowance]


def _give_back(taken: Iterable[Taken]) -> None:
    for one in taken:
        one.give_back()


def _fitting(bound: Bound | None, drawn: RateDrawn, out: int) -> int:
    """How long an answer may be in the room that was found; negative where the agent itself said how long."""
    if bound is None or bound.explicit or drawn.left.requests < 1:
        return -1
    return min(out - 1, (drawn.left.tokens - bound.tokens_in) // bound.answers)


def compose(policies: Iterable[Policy], now: Millis, allowance_of: AllowanceOf) -> Chain:
    """One chain out of the policies that hold for an agent. Several of a kind all hold."""
    order = list(Action)
    live = sorted((p for p in policies if not p.expired(now)), key=lambda p: (order.index(p.action), p.policy_id))
    if not live:
        return EMPTY
    gate: Refusal | None = None
    asks: list[Look] = []
    rates: list[RateLimit] = []
    tools: list[ToolFilter] = []
    headers: Headers = []
    alerts: list[Policy] = []
    for policy in live:
        names = NameFilter(allow=policy.allow, deny=policy.deny)
        match policy.action:
            case Action.BLOCK:
                gate = gate or Refusal(503, "agent_quarantined", QUARANTINED, policy_id=policy.policy_id)
            case Action.DRAIN:
                gate = gate or Refusal(503, "agent_draining", DRAINING, policy_id=policy.policy_id)
            case Action.MODEL_FILTER:
                asks.append(ModelFilter(policy, names).look)
            case Action.TOOL_FILTER:
                tools.append(ToolFilter(policy, names))
                asks.append(tools[-1].look)
            case Action.TOKEN_CAP:
                asks.append(TokenCap(policy, policy.max_tokens or 0).look)
            case Action.RATE_LIMIT:
                rates.append(RateLimit(policy, allowance_of(policy.policy_id)))
            case Action.CLEAR_CONTEXT:
                headers = [(b"x-clear-context", b"true")]
            case Action.ALERT:
                alerts.append(policy)
    return Chain(
        gate=gate,
        asks=tuple(asks),
        rates=tuple(rates),
        counts_tokens=any(rate.policy.tokens_per_minute is not None for rate in rates),
        tool_filters=tuple(tools),
        headers=tuple(headers),
        alerts=tuple(alerts),
        valid_until_ms=min((p.expires_at_ms for p in live if p.expires_at_ms is not None), default=FOREVER),
    )


def check(policy: Policy) -> Policy:
    """Refuse a policy that does not say what it means."""
    given = {
        name
        for name in ("requests_per_minute", "tokens_per_minute", "max_tokens", "allow", "deny", "refuse")
        if getattr(policy, name) not in (None, (), False)
    }
    if strange := given - TERMS[policy.action]:
        raise InvalidRequest(problem=f"{', '.join(sorted(strange))} means nothing to a {policy.action} policy")
    if policy.action is Action.RATE_LIMIT and not given:
        raise InvalidRequest(problem="a rate_limit needs requests_per_minute, tokens_per_minute or both")
    if policy.action is Action.TOKEN_CAP and policy.max_tokens is None:
        raise InvalidRequest(problem="a token_cap needs max_tokens")
    if policy.action in {Action.MODEL_FILTER, Action.TOOL_FILTER} and not (policy.allow or policy.deny):
        raise InvalidRequest(problem=f"a {policy.action} needs allow, deny or both")
    for name in ("requests_per_minute", "tokens_per_minute", "max_tokens"):
        value = getattr(policy, name)
        if value is not None and not 0 < value <= 1 << 40:
            raise InvalidRequest(problem=f"{name} must be a positive number")
    if not 0 < len(policy.policy_id) <= NAME_CHARS_MAX:
        raise InvalidRequest(problem=f"a policy's id has 1 to {NAME_CHARS_MAX} characters")
    return policy


def alert(policy: Policy, call: Call) -> Event:
    """What somebody who wanted to know is told."""
    said = {
        "policy_id": policy.policy_id,
        "reason": policy.reason,
        "call_id": call.call_id,
        "tokens": call.usage.tokens,
        "cost_micros": call.cost_micros,
    }
    event_id = f"{policy.policy_id}:{call.call_id}"
    return Event(event_id, call.project, Channel.EVT, "agent", call.agent_id, "alert", to_json(said))


def holds_for(policy: Policy, agent_id: AgentId) -> bool:
    return policy.agent_id is None or policy.agent_id == agent_id
