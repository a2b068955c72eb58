"""What a call may use at most before it is sent, and what it has used when it is over."""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from homeostat.core.limits import (
    ANSWERS_MAX,
    OPAQUE_PART_TOKENS,
    OUTPUT_TOKENS_DEFAULT,
    TOKENS_MAX,
    UNSEEN_PROMPT_TOKENS,
)
from homeostat.core.ports.gateway import PriceList
from homeostat.core.records.budget import Amount, amount_of
from homeostat.core.records.call import Priced, Usage
from homeostat.core.records.price import Price
from homeostat.gateway.dialects.shapes import Ask


class UnknownModel(StrEnum):
    """What becomes of a call to a model whose price nobody knows."""

    REFUSE = "refuse"
    CAP = "cap"
    TOKENS = "tokens"


LISTED: Final = Priced.LISTED


class Tariff(Struct, frozen=True, gc=False):
    """A price, and how it was found; without one only tokens are counted."""

    price: Price | None
    priced: Priced

    def cost(self, usage: Usage) -> int | None:
        """Micro-dollars of a usage; None where they cannot be known."""
        price = self.price
        if price is None:
            return None
        tokens_in, cached, written = usage.tokens_in, usage.tokens_cached, usage.tokens_written
        rate = price.rate(tokens_in) if price.tiers else price.base
        fresh = tokens_in
        if cached or written:
            fresh = max(tokens_in - cached - written, 0)
        return rate.cost(fresh, cached, written, usage.tokens_out)


def tariff(prices: PriceList, provider: str, model: str, unknown: UnknownModel) -> Tariff:
    price = prices.find(provider, model)
    if price is not None:
        return Tariff(price, LISTED)
    if unknown is UnknownModel.CAP:
        return Tariff(prices.dearest, Priced.CAPPED)
    return Tariff(None, Priced.UNKNOWN)


class Bound(Struct, frozen=True, gc=False):
    """The most a call can use. A token has at least one byte, so a text has at most as many tokens as bytes."""

    tokens_in: int
    tokens_out: int
    answers: int
    explicit: bool
    price: Price | None

    @property
    def amount(self) -> Amount:
        return self.of(self.tokens_out)

    def of(self, tokens_out: int) -> Amount:
        tokens_in, price, out = self.tokens_in, self.price, tokens_out * self.answers
        if price is None:
            return Amount(tokens_in + out, 0)
        rate = price.rate(tokens_in) if price.tiers else price.base
        # What is written to a cache costs more than what is read.
        dearest = rate.cache_write if rate.cache_write > rate.input else rate.input  # noqa: FURB136 - a tenth of its time
        return amount_of(tokens_in + out, -(-(tokens_in * dearest + out * rate.output) // 1_000_000))

    def fitting(self, left: Amount) -> int:
        """How many tokens each answer may have so that the call fits into what is left; negative if none."""
        out = (left.tokens - self.tokens_in) // self.answers
        if self.price is not None:
            rate = self.price.rate(self.tokens_in)
            spare = left.micros * 1_000_000 - self.tokens_in * max(rate.input, rate.cache_write)
            if spare < 0:
                return -1  # what is only read has its price too
            if rate.output:
                out = min(out, spare // (rate.output * self.answers))
        return min(out, self.tokens_out)


def bound(ask: Ask, price: Price | None) -> Bound:
    """Read the most a request can use out of it."""
    tokens_in, cap, answers = len(ask.body), ask.output_cap, ask.answers
    if parts := ask.opaque_parts():
        tokens_in += parts * OPAQUE_PART_TOKENS
    if ask.refers_elsewhere():
        tokens_in += (price.context_window if price is not None else None) or UNSEEN_PROMPT_TOKENS
    tokens_out = 0 if not ask.generates else OUTPUT_TOKENS_DEFAULT if cap is None else cap
    if not 1 <= answers <= ANSWERS_MAX:
        answers = min(max(answers, 1), ANSWERS_MAX)
    if not 0 <= tokens_out <= TOKENS_MAX:
        if tokens_out < 0:  # many take it for as much as there is room for
            tokens_out, cap = OUTPUT_TOKENS_DEFAULT if ask.generates else 0, None
        tokens_out = min(tokens_out, TOKENS_MAX)
    return Bound(tokens_in, tokens_out, answers, cap is not None or not ask.generates, price)


def estimate(ask: Ask, seen_tokens: int, begun: Usage | None) -> Usage:
    """What a call has probably used: the prompt by its length, the answer by what went by, and no more than it may."""
    if not ask.generates:
        seen_tokens = 0
    elif ask.output_cap is not None and ask.output_cap >= 0:
        seen_tokens = min(seen_tokens, ask.output_cap * min(max(ask.answers, 1), ANSWERS_MAX))
    if begun is None:
        return Usage(-(-len(ask.body) // 4), seen_tokens)
    return Usage(begun.tokens_in, max(seen_tokens, begun.tokens_out), begun.tokens_cached, begun.tokens_written)
