"""Rate limits where calls are made: room is drawn from the store in small portions, ahead of the calls that use it.

A portion is counted in the store from the moment it is drawn, so that no two gateways use the same room, and is used
within a second or given back.
"""

import asyncio
from typing import Protocol

from msgspec import Struct

from homeostat.core.clock import Clock
from homeostat.core.limits import RATE_FLOAT_CALLS, RATE_PORTION_SECONDS, RATE_REFUSAL_SECONDS
from homeostat.core.records.rate import NO_LOAD, Load, RateDraw, RateDrawn, RateKey, RateReturn


class RateLedger(Protocol):
    """Takes draws to the store and brings back what became of them."""

    def draw_rate(self, draw: RateDraw) -> "asyncio.Future[RateDrawn]": ...

    def wake(self) -> None: ...


class Portion:
    """Room that was drawn under one second and may be used until it expires."""

    __slots__ = ("expires", "given_back", "requests", "second", "size", "tokens")

    def __init__(self, second: int, expires: float, load: Load) -> None:
        self.second = second
        self.expires = expires
        self.requests, self.tokens = self.size = load
        self.given_back = False


class Taken(Struct, eq=False):
    """What a call took of a limit, to be corrected when it is over."""

    _allowance: "Allowance"
    _portion: Portion
    load: Load

    def settle(self, tokens: int) -> None:
        """The call uses so many tokens after all; a limit that counts none is not concerned."""
        requests, taken = self.load
        if taken and tokens != taken:
            self._allowance.give_back(self._portion, Load(0, taken - tokens))
            self.load = Load(requests, tokens)

    def give_back(self) -> None:
        """The call is not made after all."""
        self._allowance.give_back(self._portion, self.load)
        self.load = NO_LOAD


class Allowance:
    """This gateway's part of one rate limit on one agent."""

    __slots__ = ("_drawing", "_rates", "_refusal", "_takes", "key", "portions")

    def __init__(self, key: RateKey, rates: "Rates") -> None:
        self.key = key
        self.portions: list[Portion] = []
        self._rates = rates
        self._drawing = False
        self._takes = 0
        self._refusal: tuple[RateDraw, RateDrawn, float] | None = None

    def take(self, load: Load, most: Load, now: float) -> Taken | None:
        """Take room that is at hand; None where the store has to be asked. Little at hand is reason to ask ahead."""
        requests, tokens = load
        for place, portion in enumerate(self.portions):
            if portion.requests >= requests and portion.tokens >= tokens and portion.expires > now:
                if place:  # what is before it is used up: the next call need not look there first
                    self.portions = self.portions[place:] + self.portions[:place]
                portion.requests -= requests
                portion.tokens -= tokens
                self._takes += 1
                if not self._drawing and (
                    portion.requests * 2 < portion.size[0]
                    or portion.tokens * 2 < portion.size[1]
                    or portion.expires - now < RATE_PORTION_SECONDS / 2
                ):
                    self._draw_ahead(load, most, now)
                return Taken(self, portion, load)
        return None

    async def draw(self, load: Load, most: Load) -> Taken | RateDrawn:
        """Take what is at hand, or ask the store. A refusal is believed for a moment: some agents hammer."""
        clock = self._rates.clock
        while True:
            now = clock.monotonic()
            if (taken := self.take(load, most, now)) is not None:
                return taken
            if self._refusal is not None:
                refused, answer, until = self._refusal
                if now < until and most == refused.most and load.covers(refused.need):
                    return answer
            # What is at hand and too little may be enough together with what the store has.
            for back in self.expire(now + RATE_PORTION_SECONDS):
                self._rates.give_back(back)
            draw = RateDraw(self.key, load, load if self._drawing else self._wish(load), most)
            drawn = await self._ask(draw, now)
            if drawn.granted is not None:
                portion = self._keep(drawn.second, drawn.granted, now)
                portion.requests -= load.requests
                portion.tokens -= load.tokens
                self._takes += 1
                return Taken(self, portion, load)
            # Unless others have got something meanwhile that may be enough.
            if not any(portion.requests or portion.tokens for portion in self.portions):
                self._refusal = (draw, drawn, clock.monotonic() + RATE_REFUSAL_SECONDS)
                return drawn

    async def _ask(self, draw: RateDraw, now: float) -> RateDrawn:
        drawing = self._rates.ledger.draw_rate(draw)
        try:
            return await asyncio.shield(drawing)
        except asyncio.CancelledError:
            drawing.add_done_callback(lambda done: self._hear(done, now))
            raise

    def give_back(self, portion: Portion, load: Load) -> None:
        """Room that is not needed: at hand again, or back to the store where its second has passed."""
        self._refusal = None
        if portion.given_back or load.tokens < 0:
            self._rates.give_back(RateReturn(self.key, portion.second, load))
        else:
            portion.requests += load.requests
            portion.tokens += load.tokens

    def expire(self, now: float) -> list[RateReturn]:
        """What of the portions that are too old was not used."""
        old = [portion for portion in self.portions if portion.expires <= now]
        if not old:
            return []
        self.portions = [portion for portion in self.portions if portion.expires > now]
        for portion in old:
            portion.given_back = True
        unused = ((portion.second, Load(portion.requests, portion.tokens)) for portion in old)
        return [RateReturn(self.key, second, load) for second, load in unused if load != NO_LOAD]

    def _wish(self, load: Load) -> Load:
        """Room for the calls of the next moment, if they are as many as those of the last."""
        takes, self._takes = self._takes, 0
        return load.times(RATE_FLOAT_CALLS + 3 * takes)

    def _draw_ahead(self, load: Load, most: Load, now: float) -> None:
        """Nobody waits for this, so nothing is needed: where little is left it stays in the store for all to find."""
        self._drawing = True
        drawing = self._rates.ledger.draw_rate(RateDraw(self.key, NO_LOAD, self._wish(load), most))
        drawing.add_done_callback(lambda done: self._drawn_ahead(done, now))

    def _drawn_ahead(self, drawing: "asyncio.Future[RateDrawn]", asked_at: float) -> None:
        self._drawing = False
        self._hear(drawing, asked_at)

    def _hear(self, drawing: "asyncio.Future[RateDrawn]", asked_at: float) -> None:
        if not drawing.cancelled() and drawing.exception() is None:
            drawn = drawing.result()
            if drawn.granted not in (None, NO_LOAD):
                self._keep(drawn.second, drawn.granted, asked_at)

    def _keep(self, second: int, granted: Load, asked_at: float) -> Portion:
        """A portion's time runs from when it was asked for: the store counts it from then on or later."""
        portion = Portion(second, asked_at + RATE_PORTION_SECONDS, granted)
        self.portions.append(portion)
        self._rates.active[self.key] = self
        return portion


class Rates:
    """The allowances of this gateway. Only those with room at hand are remembered; the store knows the rest."""

    def __init__(self, *, ledger: RateLedger, clock: Clock) -> None:
        self.ledger = ledger
        self.clock = clock
        self.active: dict[RateKey, Allowance] = {}
        self._late: list[RateReturn] = []

    def of(self, key: RateKey) -> Allowance:
        return self.active.get(key) or Allowance(key, self)

    def give_back(self, back: RateReturn) -> None:
        self._late.append(back)
        self.ledger.wake()

    def returns(self, *, everything: bool = False) -> tuple[RateReturn, ...]:
        """What goes back to the store with the next posting."""
        now = self.clock.monotonic() + (RATE_PORTION_SECONDS * 2 if everything else 0)
        backs, self._late = self._late, []
        for key, allowance in list(self.active.items()):
            backs += allowance.expire(now)
            if not allowance.portions:
                del self.active[key]
        return tuple(backs)

    @property
    def pending(self) -> bool:
        """Whether anything has to go back that no posting carries yet."""
        return bool(self._late)

    @property
    def at_hand(self) -> bool:
        return bool(self.active)
