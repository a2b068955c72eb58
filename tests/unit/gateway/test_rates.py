"""Room is drawn ahead, used within a second or given back, and never used twice."""

import asyncio

from homeostat.core.clock import Millis
from homeostat.core.ids import DEFAULT_PROJECT, AgentId
from homeostat.core.limits import RATE_PORTION_SECONDS
from homeostat.core.pacing import Window, pace
from homeostat.core.records.policy import PolicyId
from homeostat.core.records.rate import NO_LOAD, UNLIMITED, Load, RateDraw, RateDrawn, RateKey
from homeostat.gateway.rates import Allowance, Rates, Taken
from homeostat.testing.clock import ManualClock

KEY: RateKey = (DEFAULT_PROJECT, PolicyId("p"), AgentId("ann"))
ONE = Load(1, 0)
MANY = Load(640, UNLIMITED)


class Counter:
    """The store's side of a limit, which answers when it is told to."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.window = Window()
        self.draws: list[tuple[RateDraw, asyncio.Future[RateDrawn]]] = []
        self.rates = Rates(ledger=self, clock=clock)

    def draw_rate(self, draw: RateDraw) -> "asyncio.Future[RateDrawn]":
        future: asyncio.Future[RateDrawn] = asyncio.get_running_loop().create_future()
        self.draws.append((draw, future))
        return future

    def wake(self) -> None:
        pass

    async def post(self) -> int:
        """One posting; says how many draws it carried."""
        draws, self.draws = self.draws, []
        now = Millis(self.clock.now_ms())
        answers = pace([draw for draw, _ in draws], self.rates.returns(), {KEY: self.window}, now)
        for (_, future), answer in zip(draws, answers, strict=True):
            future.set_result(answer)
        for _ in range(3):
            await asyncio.sleep(0)
        return len(draws)

    async def ask(self, allowance: Allowance, load: Load = ONE, most: Load = MANY) -> Taken | RateDrawn:
        asking = asyncio.create_task(allowance.draw(load, most))
        await asyncio.sleep(0)
        if not asking.done():
            await self.post()
        return await asking


async def test_calls_are_served_out_of_what_was_drawn_ahead() -> None:
    counter = Counter(ManualClock())
    allowance = counter.rates.of(KEY)
    assert isinstance(await counter.ask(allowance), Taken)
    served = 0
    while allowance.take(ONE, MANY, counter.clock.monotonic()) is not None:
        served += 1
    assert served == 8 - 1, "a first draw has room for a few calls more"
    assert await counter.post() == 1, "whoever sees the end coming asks for more before anybody waits"
    assert counter.rates.of(KEY) is allowance
    assert allowance.take(ONE, MANY, counter.clock.monotonic()) is not None


async def test_what_is_used_up_is_not_looked_at_for_every_call() -> None:
    counter = Counter(ManualClock())
    allowance = counter.rates.of(KEY)
    await counter.ask(allowance)
    for _ in range(3):
        while allowance.take(ONE, MANY, counter.clock.monotonic()) is not None:
            pass
        await counter.post()
    assert allowance.take(ONE, MANY, counter.clock.monotonic()) is not None
    assert [portion.requests > 0 for portion in allowance.portions] == [True, False, False, False]


async def test_what_is_not_used_within_a_moment_goes_back() -> None:
    counter = Counter(ManualClock())
    allowance = counter.rates.of(KEY)
    await counter.ask(allowance)
    assert counter.window.used.requests == 8
    counter.clock.advance(RATE_PORTION_SECONDS)
    assert allowance.take(ONE, MANY, counter.clock.monotonic()) is None, "what is old counts no more where it was drawn"
    await counter.post()
    assert counter.window.used == ONE
    assert not counter.rates.at_hand


async def test_a_call_that_used_less_gives_the_rest_back_wherever_that_is() -> None:
    counter = Counter(ManualClock())
    allowance = counter.rates.of(KEY)
    most = Load(UNLIMITED, 1_000)
    taken = await counter.ask(allowance, Load(0, 600), most)
    assert isinstance(taken, Taken)
    taken.settle(100)
    again = await counter.ask(allowance, Load(0, 880), most)
    assert isinstance(again, Taken), "what is at hand and what is left add up"
    assert counter.window.used.tokens == 980 + (1_000 - 980) // 32
    counter.clock.advance(RATE_PORTION_SECONDS)
    await counter.post()
    again.settle(80)
    await counter.post()
    assert counter.window.used.tokens == 180
    again.give_back()
    await counter.post()
    assert counter.window.used.tokens == 100


async def test_more_than_was_thought_counts_as_well() -> None:
    counter = Counter(ManualClock())
    most = Load(UNLIMITED, 1_000)
    taken = await counter.ask(counter.rates.of(KEY), Load(0, 600), most)
    assert isinstance(taken, Taken)
    taken.settle(700)
    counter.clock.advance(RATE_PORTION_SECONDS)
    await counter.post()
    assert counter.window.used.tokens == 700


async def test_one_who_hammers_does_not_hammer_at_the_store() -> None:
    counter = Counter(ManualClock())
    allowance = counter.rates.of(KEY)
    most = Load(1, UNLIMITED)
    taken = await counter.ask(allowance, ONE, most)
    assert isinstance(taken, Taken)
    refused = await counter.ask(allowance, ONE, most)
    assert isinstance(refused, RateDrawn)
    assert (refused.granted, refused.left.requests) == (None, 0)
    assert await allowance.draw(ONE, most) is refused
    assert not counter.draws
    taken.give_back()
    assert isinstance(await counter.ask(allowance, ONE, most), Taken), "until there is reason to ask again"


async def test_nothing_is_drawn_ahead_where_little_is_left() -> None:
    counter = Counter(ManualClock())
    mine, theirs = counter.rates.of(KEY), Allowance(KEY, counter.rates)
    most = Load(2, UNLIMITED)
    assert isinstance(await counter.ask(mine, ONE, most), Taken)
    await counter.post()
    assert counter.window.used == ONE
    assert isinstance(await counter.ask(theirs, ONE, most), Taken)


async def test_whoever_goes_away_while_waiting_leaves_the_room_to_others() -> None:
    counter = Counter(ManualClock())
    allowance = counter.rates.of(KEY)
    asking = asyncio.create_task(allowance.draw(ONE, MANY))
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await counter.post()
    assert allowance.take(ONE, MANY, counter.clock.monotonic()) is not None
    counter.clock.advance(RATE_PORTION_SECONDS)
    await counter.post()
    assert counter.window.used == ONE


async def test_a_store_that_fails_is_heard_by_those_who_wait_and_by_nobody_else() -> None:
    counter = Counter(ManualClock())
    allowance = counter.rates.of(KEY)
    await counter.ask(allowance)
    for _ in range(5):
        allowance.take(ONE, MANY, counter.clock.monotonic())
    (draw, future), counter.draws = counter.draws[0], []
    assert draw.need == NO_LOAD
    future.set_exception(RuntimeError("gone"))
    await asyncio.sleep(0)
    assert allowance.take(ONE, MANY, counter.clock.monotonic()) is not None
    assert len(counter.draws) == 1, "and it is asked again"
