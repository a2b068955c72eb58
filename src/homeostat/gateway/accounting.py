"""What a call that is over has used and cost, and how sure that is."""

from typing import Final

from msgspec import Struct

from homeostat.core.records.call import Metered, Priced, ToolUse, Usage
from homeostat.gateway.budgets import Reservation
from homeostat.gateway.dialects.shapes import Ask, Dialect
from homeostat.gateway.metering import Bound, Tariff, estimate
from homeostat.gateway.relay import Relay


class Statement(Struct, frozen=True, gc=False):
    """A call's numbers. Without a cost only its tokens are known."""

    usage: Usage
    metered: Metered
    cost_micros: int | None
    priced: Priced
    tools: tuple[ToolUse, ...] = ()


REPORTED: Final = Metered.REPORTED
NOTHING: Final = Statement(Usage(), Metered.NONE, 0, Priced.FREE)
UNREAD: Final = Statement(Usage(), Metered.NONE, None, Priced.UNKNOWN)


def state_answer(ask: Ask, dialect: Dialect, answer: bytes, tariff: Tariff) -> Statement:
    """The numbers of an answer that came whole."""
    reading = dialect.answer(answer)
    usage = reading.usage
    if usage is None or not usage.plausible():
        usage = estimate(ask, len(answer) // 4, None)
        return Statement(usage, Metered.ESTIMATED, tariff.cost(usage), tariff.priced, reading.tools)
    return Statement(usage, REPORTED, tariff.cost(usage), tariff.priced, reading.tools)


def state_relayed(
    ask: Ask, dialect: Dialect, relay: Relay | None, tariff: Tariff, reserved_at: Statement | None
) -> Statement:
    """The numbers of an answer that came bit by bit, or broke off, or never came."""
    if relay is not None and (answer := relay.answer) is not None:
        return state_answer(ask, dialect, answer, tariff)
    reader = relay.reader if relay is not None else None
    if reader is not None and reader.usage is not None and reader.usage.plausible():
        return Statement(reader.usage, REPORTED, tariff.cost(reader.usage), tariff.priced, reader.tools)
    seen, begun = 0, None
    if reader is not None and (reader.spoke or reader.begun is not None):
        seen, begun = reader.seen_tokens, reader.begun
        begun = begun if begun is not None and begun.plausible() else None
    elif relay is not None and relay.complete:
        seen = relay.answer_bytes // 4
    elif reserved_at is not None:
        return reserved_at
    usage = estimate(ask, seen, begun)
    tools = reader.tools if reader is not None else ()
    return Statement(usage, Metered.ESTIMATED, tariff.cost(usage), tariff.priced, tools)


def reserved(bound: Bound, reservation: Reservation, tariff: Tariff) -> Statement:
    """Nothing is known: what had been set aside is what it costs."""
    usage = Usage(bound.tokens_in, reservation.amount.tokens - bound.tokens_in)
    cost = None if tariff.price is None else reservation.amount.micros
    return Statement(usage, Metered.RESERVED, cost, tariff.priced)
