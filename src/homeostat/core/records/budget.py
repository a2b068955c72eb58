"""What a run or an agent may spend, what it has spent, and what is set aside for calls under way."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple, NewType, cast

from msgspec import Struct

from homeostat.core.clock import Millis
from homeostat.core.ids import ProjectId, Scope
from homeostat.core.records.call import Call, CallId
from homeostat.core.records.rate import RateDraw, RateDrawn, RateReturn

GatewayId = NewType("GatewayId", str)

WARNING_PERCENT = 80
"""How much of a budget is spent when its owner is warned."""


class BudgetKind(StrEnum):
    """Whose budget it is."""

    RUN = "run"
    AGENT = "agent"


BudgetKey = tuple[ProjectId, BudgetKind, str]
"""What names a budget; batches are sorted by it."""


class Amount(NamedTuple):
    """Tokens and micro-dollars, always whole."""

    tokens: int
    micros: int

    def plus(self, other: "Amount") -> "Amount":
        return Amount(self.tokens + other.tokens, self.micros + other.micros)

    def minus(self, other: "Amount") -> "Amount":
        return Amount(self.tokens - other.tokens, self.micros - other.micros)

    def least(self, other: "Amount") -> "Amount":
        """The smaller of each."""
        return Amount(min(self.tokens, other.tokens), min(self.micros, other.micros))

    def times(self, number: int) -> "Amount":
        return Amount(self.tokens * number, self.micros * number)

    def covers(self, other: "Amount") -> bool:
        return self.tokens >= other.tokens and self.micros >= other.micros


def amount_of(tokens: int, micros: int) -> Amount:
    """As `Amount(tokens, micros)`, in half the time: some are made for every call."""
    return _tuple(Amount, (tokens, micros))


_tuple = cast("Callable[[type[Amount], tuple[int, int]], Amount]", tuple.__new__)
ZERO = Amount(0, 0)


class BudgetLimit(StrEnum):
    """The bound a call would pass."""

    TOKENS = "tokens"
    USD = "usd"
    SECONDS = "seconds"


Limits = tuple[BudgetLimit, ...]
"""Some of the bounds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """An account of the ledger. What is held is part of what gateways have drawn and not spent yet.

    Its clock counts from `started_at_ms`; one that was stopped stands where it stood at `stopped_at_ms`. Of the bounds
    that are `warned` somebody knows that they end, of the last since `warned_at_ms`.
    """

    project: ProjectId
    kind: BudgetKind
    holder: str
    tokens_max: int | None = None
    micros_max: int | None = None
    seconds_max: float | None = None
    started_at_ms: Millis
    stopped_at_ms: Millis | None = None
    spent: Amount = ZERO
    held: Amount = ZERO
    warned_at_ms: Millis | None = None
    warned: Limits = ()

    @property
    def key(self) -> BudgetKey:
        return (self.project, self.kind, self.holder)

    @property
    def ends_at_ms(self) -> Millis | None:
        """When its time will be up; nobody knows of a clock that stands."""
        if self.seconds_max is None or self.stopped_at_ms is not None:
            return None
        return Millis(self.started_at_ms + int(self.seconds_max * 1000))

    def elapsed_ms(self, now: Millis) -> int:
        return (now if self.stopped_at_ms is None else self.stopped_at_ms) - self.started_at_ms

    def time_is_up(self, now: Millis) -> bool:
        return self.seconds_max is not None and self.elapsed_ms(now) >= int(self.seconds_max * 1000)

    @property
    def left(self) -> Amount:
        """What is neither spent nor held; where there is no bound, without end."""
        return Amount(
            UNBOUNDED if self.tokens_max is None else self.tokens_max - self.spent.tokens - self.held.tokens,
            UNBOUNDED if self.micros_max is None else self.micros_max - self.spent.micros - self.held.micros,
        )

    @property
    def unspent(self) -> Amount:
        """What would be left if nothing were held."""
        return self.left.plus(self.held)

    def mask(self, amount: Amount) -> Amount:
        """Only what is bounded is held."""
        return Amount(
            0 if self.tokens_max is None else amount.tokens,
            0 if self.micros_max is None else amount.micros,
        )

    def refuses(self, need: Amount, now: Millis) -> BudgetLimit | None:
        """The bound that a need would pass, if any."""
        left = self.left
        if need.tokens > left.tokens:
            return BudgetLimit.TOKENS
        if need.micros > left.micros:
            return BudgetLimit.USD
        if self.time_is_up(now):
            return BudgetLimit.SECONDS
        return None

    def grants(self, need: Amount, wish: Amount, now: Millis) -> Amount | None:
        """What may be drawn: the wish, or as much of it as leaves others their share, and never less than the need."""
        if self.refuses(need, now) is not None:
            return None
        left = self.left
        return self.mask(
            Amount(
                need.tokens + min(wish.tokens - need.tokens, (left.tokens - need.tokens) // FLOAT_SHARE),
                need.micros + min(wish.micros - need.micros, (left.micros - need.micros) // FLOAT_SHARE),
            )
        )

    def most(self, limit: BudgetLimit) -> float | None:
        """A bound, by its name."""
        match limit:
            case BudgetLimit.TOKENS:
                return self.tokens_max
            case BudgetLimit.USD:
                return self.micros_max
            case BudgetLimit.SECONDS:
                return self.seconds_max

    def ending(self, now: Millis) -> Limits:
        """The bounds of which so much is spent that somebody should know."""
        tokens_max, micros_max, seconds_max = self.tokens_max, self.micros_max, self.seconds_max
        found: Limits = ()
        if tokens_max is not None and self.spent.tokens * 100 >= tokens_max * WARNING_PERCENT:
            found = (BudgetLimit.TOKENS,)
        if micros_max is not None and self.spent.micros * 100 >= micros_max * WARNING_PERCENT:
            found = (*found, BudgetLimit.USD)
        if seconds_max is not None and self.elapsed_ms(now) >= seconds_max * 10 * WARNING_PERCENT:
            found = (*found, BudgetLimit.SECONDS)
        return found

    def instead_of(self, known: "Budget | None", *, clock_anew: bool = False) -> "Budget":
        """The same, with what was said of bounds that are as they were; of a clock that begins anew nothing was."""
        if known is None:
            return self
        told = tuple(
            limit
            for limit in known.warned
            if self.most(limit) == known.most(limit) and not (clock_anew and limit is BudgetLimit.SECONDS)
        )
        return replace(self, warned=told, warned_at_ms=known.warned_at_ms if told else None)


UNBOUNDED = 1 << 62
FLOAT_SHARE = 32
"""A gateway draws at most this part of what is left beyond what it needs now, so that others find something."""


@dataclass(frozen=True, slots=True)
class Draw:
    """A gateway asks to set something aside: what it needs for a call, and what it would like to have at hand."""

    key: BudgetKey
    need: Amount
    wish: Amount


@dataclass(frozen=True, slots=True)
class Drawn:
    """What became of a draw. `budget` is the account afterwards; None where there is no such budget."""

    granted: Amount | None
    refused_by: BudgetLimit | None
    budget: Budget | None


class Spend(Struct, frozen=True):
    """What a gateway has spent of a budget, and how much of what it held it lets go with that."""

    key: BudgetKey
    spent: Amount
    released: Amount


@dataclass(frozen=True, slots=True)
class Flight:
    """A call that is open: should its gateway die, this is what it is settled at."""

    call: Call
    reserved: Amount
    keys: tuple[BudgetKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Posting:
    """Everything a gateway writes at once. Its number lets a repetition after an unknown outcome change nothing.

    `warnings` are bounds whose owners should know that they end, if they do not know yet.
    """

    gateway_id: GatewayId
    number: int
    now_ms: Millis
    expires_at_ms: Millis
    seen_version: int
    spends: tuple[Spend, ...] = ()
    draws: tuple[Draw, ...] = ()
    rate_draws: tuple[RateDraw, ...] = ()
    rate_returns: tuple[RateReturn, ...] = ()
    opened: tuple[Flight, ...] = ()
    closed: tuple[CallId, ...] = ()
    calls: tuple[Call, ...] = ()
    warnings: tuple[tuple[BudgetKey, BudgetLimit], ...] = ()


class Warned(NamedTuple):
    """An account, and those of its bounds whose end was not known before."""

    budget: Budget
    limits: Limits


@dataclass(frozen=True, slots=True)
class Posted:
    """What became of a posting. `alive` is false when the gateway was taken for dead: then nothing was written.

    A posting whose number had been written before is `repeated`: nothing was written, and what its draws became is
    told by what the gateway holds.
    """

    alive: bool
    drawn: tuple[Drawn, ...] = ()
    paced: tuple[RateDrawn, ...] = ()
    warned: tuple[Warned, ...] = ()
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class GatewayView:
    """A gateway that is alive, and the newest policies it has seen."""

    gateway_id: GatewayId
    expires_at_ms: Millis
    seen_version: int


def gateway_of(scope: Scope) -> GatewayId:
    return GatewayId("gw_" + scope)
