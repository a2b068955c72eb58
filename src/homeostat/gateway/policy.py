"""Policies as small wrappers around a call, composed into one chain per agent."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec
from msgspec import Raw

from homeostat.core.clock import Millis
from homeostat.core.codec import to_json
from homeostat.core.errors import InvalidRequest
from homeostat.core.ids import AgentId
from homeostat.core.limits import NAME_CHARS_MAX, OUTPUT_TOKENS_LEAST
from homeostat.core.ports.upstream import Headers
from homeostat.core.records.call import Call
from homeostat.core.records.event import Channel, Event
from homeostat.core.records.policy import QUARANTINED, TERMS, Action, Policy, PolicyId
from homeostat.gateway.dialects.shapes import Ask
from homeostat.gateway.metering import Bound
from homeostat.gateway.patterns import NameFilter
from homeostat.gateway.rates import RateWindow, Shares
from homeostat.gateway.refusals import Refusal

DRAINING = "Agent is draining: open requests may end, new ones are refused"
FOREVER = Millis(1 << 62)
UNLIMITED = 1 << 62

_raws = msgspec.json.Decoder(list[Raw])
_members = msgspec.json.Decoder(dict[str, Raw])

AskWrapper = Callable[[Ask], Refusal | None]


@dataclass(slots=True)
class Windows:
    """The two windows of one rate limit on one agent; they outlive every change of other policies."""

    requests: RateWindow = field(default_factory=RateWindow)
    tokens: RateWindow = field(default_factory=RateWindow)


@dataclass(slots=True)
class Taken:
    """What a call took from a rate limit, to be corrected when it is over."""

    windows: Windows
    second: int
    tokens: int

    def settle(self, tokens: int) -> None:
        self.windows.tokens.correct(self.second, tokens - self.tokens)
        self.tokens = tokens

    def give_back(self) -> None:
        """The call is not made after all."""
        self.settle(0)
        self.windows.requests.correct(self.second, -1)


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Counts a call, and what it may use at most, before it is sent."""

    policy: Policy
    windows: Windows
    shares: Shares

    def _tokens_max(self, now: float) -> int:
        """This gateway's part, which a first call may pass as long as it keeps to the whole: it may be a large one."""
        limit = self.policy.tokens_per_minute
        if limit is None:
            return UNLIMITED
        return limit if self.windows.tokens.room(limit, now) == limit else self.shares.of(limit)

    def room(self, now: float) -> int | None:
        """Tokens that are left in this minute."""
        if self.policy.tokens_per_minute is None:
            return None
        return self.windows.tokens.room(self._tokens_max(now), now)

    def take(self, tokens: int, now: float) -> Taken | Refusal:
        windows, policy = self.windows, self.policy
        tokens_max = self._tokens_max(now)
        if windows.tokens.room(tokens_max, now) < tokens:
            seconds = windows.tokens.seconds_until(tokens, tokens_max, now)
            return self._refuse(f"{policy.tokens_per_minute} tokens per minute", seconds)
        limit = policy.requests_per_minute
        requests_max = UNLIMITED if limit is None else self.shares.of(limit)
        second = windows.requests.take(1, requests_max, now)
        if second is None:
            seconds = windows.requests.seconds_until(1, requests_max, now)
            return self._refuse(f"{limit} requests per minute", seconds)
        counted = windows.tokens.take(tokens, tokens_max, now)
        assert counted == second, "there was room a moment ago, and nobody else ran in between"
        return Taken(windows, second, tokens)

    def _refuse(self, limit: str, seconds: int) -> Refusal:
        message = (
            f"Rate limit reached: {limit}, set by {self.policy.origin} ({self.policy.reason or 'no reason given'})"
        )
        return Refusal(429, "rate_limited", message, None, seconds, self.policy.policy_id)


@dataclass(frozen=True, slots=True)
class ModelFilter:
    """Refuses models that are not allowed."""

    policy: Policy
    names: NameFilter

    def __call__(self, ask: Ask) -> Refusal | None:
        if not ask.model or self.names.allows(ask.model):
            return None
        return Refusal(403, "model_denied", f"Model {ask.model!r} is not allowed", policy_id=self.policy.policy_id)


@dataclass(frozen=True, slots=True)
class TokenCap:
    """Lowers what a request asks for, or refuses it."""

    policy: Policy
    most: int

    def __call__(self, ask: Ask) -> Refusal | None:
        if not ask.generates or (ask.output_cap is not None and ask.output_cap <= self.most):
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

    def __call__(self, ask: Ask) -> Refusal | None:
        denied = [name for name in ask.tools if not self.names.allows(name)]
        if not denied:
            return None
        if self.policy.refuse:
            message = f"Tools are not allowed: {', '.join(denied[:8])}"
            return Refusal(403, "tool_denied", message, policy_id=self.policy.policy_id)
        members = _members.decode(ask.body)
        offered = zip(ask.tools, _raws.decode(members["tools"]), strict=True)
        kept = [(name, tool) for name, tool in offered if self.names.allows(name)]
        ask.tools = tuple(name for name, _ in kept)
        choice = bytes(members.get("tool_choice", Raw(b"")))
        forced = any(f'"{name}"'.encode() in choice for name in denied)
        if kept:
            ask.edit({"tools": [tool for _, tool in kept], **({"tool_choice": None} if forced else {})})
        else:
            ask.edit({"tools": None, "tool_choice": None, "parallel_tool_calls": None})
        return None


@dataclass(frozen=True, slots=True)
class Chain:
    """Everything in force for one agent, ready to be applied."""

    gate: Refusal | None = None
    asks: tuple[AskWrapper, ...] = ()
    rates: tuple[RateLimit, ...] = ()
    tool_filters: tuple[ToolFilter, ...] = ()
    counts_tokens: bool = False
    headers: tuple[tuple[bytes, bytes], ...] = ()
    alerts: tuple[Policy, ...] = ()
    valid_until_ms: Millis = FOREVER

    def ask(self, ask: Ask) -> Refusal | None:
        """Let each wrapper look at a request and trim it; the first no counts."""
        for wrapper in self.asks:
            if (refusal := wrapper(ask)) is not None:
                return refusal
        return None

    def take(self, bound: Bound | None, now: float) -> tuple[list[Taken], int | None] | Refusal:
        """Count a call against every rate limit, or against none; also says to how many tokens an answer must keep."""
        taken: list[Taken] = []
        out = bound.tokens_out if bound is not None else 0
        if bound is not None and not bound.explicit:
            for rate in self.rates:
                if (room := rate.room(now)) is not None:
                    out = min(out, (room - bound.tokens_in) // bound.answers)
            out = max(out, OUTPUT_TOKENS_LEAST)
        tokens = bound.tokens_in + out * bound.answers if bound is not None else 0
        for rate in self.rates:
            outcome = rate.take(tokens, now)
            if isinstance(outcome, Refusal):
                for other in taken:
                    other.give_back()
                return outcome
            taken.append(outcome)
        return taken, (out if bound is not None and out < bound.tokens_out else None)

    def allows_tool(self, name: str) -> bool:
        return all(wrapper.names.allows(name) for wrapper in self.tool_filters)


EMPTY = Chain()


WindowsOf = Callable[[PolicyId], Windows]


def compose(policies: Iterable[Policy], now: Millis, windows_of: WindowsOf, shares: Shares) -> Chain:
    """One chain out of the policies that hold for an agent. Several of a kind all hold."""
    order = list(Action)
    live = sorted((p for p in policies if not p.expired(now)), key=lambda p: (order.index(p.action), p.policy_id))
    if not live:
        return EMPTY
    gate: Refusal | None = None
    asks: list[AskWrapper] = []
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
                asks.append(ModelFilter(policy, names))
            case Action.TOOL_FILTER:
                tools.append(ToolFilter(policy, names))
                asks.append(tools[-1])
            case Action.TOKEN_CAP:
                asks.append(TokenCap(policy, policy.max_tokens or 0))
            case Action.RATE_LIMIT:
                rates.append(RateLimit(policy, windows_of(policy.policy_id), shares))
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
