"""Prices from the genai-prices library and from overrides, looked up once per model and then at hand."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Final

from genai_prices import data as kept
from genai_prices.types import ModelInfo, ModelPrice, Provider, TieredPrices

from homeostat.core.clock import Clock, SystemClock, utc
from homeostat.core.limits import PRICES_CACHED_MAX
from homeostat.core.records.price import Price, Rate

MICROS: Final = 1_000_000
REFRESH_SECONDS: Final = 3600.0  # prices change by the day, and some by the hour


class ListedPrices:
    """A flat table in front of the library, whose own look-up is a thousand times slower than a call may wait."""

    def __init__(self, *, overrides: Mapping[str, Price] | None = None, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._overrides = dict(overrides or {})
        self._providers = {provider.id: provider for provider in kept.providers}
        self._found: dict[tuple[str, str], Price | None] = {}
        self._fresh_until = self._clock.monotonic() + REFRESH_SECONDS
        self._dearest: Price | None = None

    def find(self, provider: str, model: str) -> Price | None:
        key = (provider, model)
        try:
            price = self._found[key]
        except KeyError:
            return self._look_up(key)
        if self._clock.monotonic() > self._fresh_until:
            self._found.clear()
            self._fresh_until = self._clock.monotonic() + REFRESH_SECONDS
        return price

    @property
    def dearest(self) -> Price:
        """The dearest rate of each kind among the models one would meet by these APIs."""
        if self._dearest is None:
            now = self._now()
            rates = [
                rate
                for name in ("openai", "anthropic")
                for model in self._providers[name].models
                if (price := _price(model, now)) is not None
                for rate in (price.base, *(tier for _, tier in price.tiers))
            ]
            self._dearest = Price(
                "(dearest)",
                Rate(
                    max(rate.input for rate in rates),
                    max(rate.output for rate in rates),
                    max(rate.cache_read for rate in rates),
                    max(rate.cache_write for rate in rates),
                ),
            )
        return self._dearest

    def _look_up(self, key: tuple[str, str]) -> Price | None:
        provider, model = key
        price = self._overrides.get(f"{provider}/{model}") or self._overrides.get(model)
        if price is None and model:
            info = self._match(provider, model)
            price = _price(info, self._now()) if info is not None else None
        if len(self._found) >= PRICES_CACHED_MAX:  # names come from agents: somebody may be making them up
            self._found.clear()
        self._found[key] = price
        return price

    def _match(self, provider: str, model: str) -> ModelInfo | None:
        listed = self._providers.get(provider)
        if listed is not None:
            return listed.find_model(model, all_providers=kept.providers)
        for candidate in self._candidates(model):
            if (info := candidate.find_model(model)) is not None:
                return info
        return None

    def _candidates(self, model: str) -> list[Provider]:
        """Who might be behind an upstream of an unknown name."""
        return [p for p in kept.providers if p.model_match is not None and p.model_match.is_match(model.lower())]

    def _now(self) -> datetime:
        return utc(self._clock.now_ms())


def _price(info: ModelInfo, now: datetime) -> Price | None:
    """One model's rates in whole numbers; a model that is not priced by its tokens has none."""
    prices = info.get_prices(now)
    fields = {
        name: getattr(prices, name) for name in ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")
    }
    if fields["input_mtok"] is None and fields["output_mtok"] is None:
        return None
    starts = sorted(
        {tier.start for value in fields.values() if isinstance(value, TieredPrices) for tier in value.tiers}
    )
    return Price(
        info.id, _rate(prices, 0), tuple((start, _rate(prices, start + 1)) for start in starts), info.context_window
    )


def _rate(prices: ModelPrice, tokens_in: int) -> Rate:
    fresh = _micros(prices.input_mtok, tokens_in) or 0
    output = _micros(prices.output_mtok, tokens_in)
    read = _micros(prices.cache_read_mtok, tokens_in)
    written = _micros(prices.cache_write_mtok, tokens_in)
    return Rate(
        input=fresh,
        output=0 if output is None else output,
        cache_read=fresh if read is None else read,
        cache_write=fresh if written is None else written,
    )


def _micros(price: Decimal | TieredPrices | None, tokens_in: int) -> int | None:
    if price is None:
        return None
    if isinstance(price, TieredPrices):
        rate = price.base
        for tier in price.tiers:
            if tokens_in > tier.start:
                rate = tier.price
    else:
        rate = price
    micros = rate * MICROS
    return int(micros) + (micros != int(micros))
