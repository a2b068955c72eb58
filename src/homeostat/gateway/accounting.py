"""What a call that is over has used and cost, and how sure that is."""

from dataclasses import dataclass

from homeostat.core.records.budget import Amount
from homeostat.core.records.call import Metered, Priced, ToolUse, Usage
from homeostat.gateway.budgets import Reservation
from homeostat.gateway.dialects.shapes import Ask, Dialect
from homeostat.gateway.metering import Bound, Tariff, estimate
from homeostat.gateway.relay import Relay


@dataclass(frozen=True, slots=True)
class Statement:
    """A call's numbers. Without a cost only its tokens are known."""

    usage: Usage
    metered: Metered
    cost_micros: int | None
    priced: Priced
    tools: tuple[ToolUse, ...] = ()

    @property
    def amount(self) -> Amount:
        return Amount(self.usage.tokens, self.cost_micros or 0)


NOTHING = Statement(Usage(), Metered.NONE, 0, Priced.FREE)
UNREAD = Statement(Usage(), Metered.NONE, None, Priced.UNKNOWN)


def state(
    ask: Ask,
    dialect: Dialect,
    relay: Relay | None,
    tariff: Tariff,
    *,
    bound: Bound | None,
    reservation: Reservation | None,
) -> Statement:
    """The numbers of a call that reached its upstream and was not turned down there."""
    usage: Usage | None = None
    tools: tuple[ToolUse, ...] = ()
    reader = relay.reader if relay is not None else None
    if reader is not None:
        usage, tools = reader.usage, reader.tools
    elif relay is not None and (answer := relay.answer) is not None:
        reading = dialect.answer(answer)
        usage, tools = reading.usage, reading.tools
    if usage is not None:
        return Statement(usage, Metered.REPORTED, tariff.cost(usage), tariff.priced, tools)
    seen = _seen(relay)
    if seen is None and reservation is not None and bound is not None:
        return reserved(bound, reservation, tariff)
    usage = estimate(ask, seen or 0, reader.begun if reader is not None else None)
    return Statement(usage, Metered.ESTIMATED, tariff.cost(usage), tariff.priced, tools)


def reserved(bound: Bound, reservation: Reservation, tariff: Tariff) -> Statement:
    """Nothing is known: what had been set aside is what it costs."""
    usage = Usage(bound.tokens_in, reservation.amount.tokens - bound.tokens_in)
    cost = None if tariff.price is None else reservation.amount.micros
    return Statement(usage, Metered.RESERVED, cost, tariff.priced)


def _seen(relay: Relay | None) -> int | None:
    """Tokens that went by, or None where nothing did."""
    if relay is None:
        return None
    if relay.reader is not None:
        return relay.reader.seen_tokens if relay.reader.spoke or relay.reader.begun is not None else None
    return relay.answer_bytes // 4 if relay.complete else None
