"""Sums of what agents spent today: each call counted once, and only those that may still change read again."""

from homeostat.app.spending import DAY_MS, SETTLED_MS, STALE_MS, Spending
from homeostat.core.clock import Millis
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, ProjectId
from homeostat.core.records.call import Outlay
from homeostat.testing.clock import ManualClock

ANN = AgentId("ann")


class Log:
    """Calls by their time, each of one micro-dollar."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.read: list[tuple[int, int]] = []

    async def outlays(self, project: ProjectId, since: Millis, until: Millis) -> dict[AgentId, Outlay]:
        del project
        self.read.append((since, until))
        count = sum(since <= at < until for at in self.begun)
        return {ANN: Outlay(count, count)} if count else {}


async def test_every_call_of_the_day_counts_once_even_if_it_is_logged_late() -> None:
    clock, log = ManualClock(), Log()
    start = clock.now_ms()
    clock.advance((DAY_MS - start % DAY_MS) / 1000 + 7200)
    midnight = clock.now_ms() - 7_200_000
    spending = Spending(log.outlays, clock=clock)
    log.begun = [midnight - 1, midnight, midnight + 60_000, clock.now_ms() - 1]
    since, sums = await spending.today(DEFAULT_PROJECT)
    assert (since, sums) == (midnight, {ANN: Outlay(3, 3)})
    log.begun.append(clock.now_ms() - 5000)  # it began before the last look, and was logged after it
    clock.advance(STALE_MS / 1000)
    _, sums = await spending.today(DEFAULT_PROJECT)
    assert sums == {ANN: Outlay(4, 4)}
    assert min(since for since, _ in log.read[2:]) >= clock.now_ms() - SETTLED_MS - STALE_MS, (
        "the past is not read again"
    )
    looks = len(log.read)
    assert (await spending.today(DEFAULT_PROJECT))[1] == sums
    assert len(log.read) == looks, "readers share a look"


async def test_a_new_day_begins_with_nothing() -> None:
    clock, log = ManualClock(), Log()
    spending = Spending(log.outlays, clock=clock)
    log.begun = [clock.now_ms()]
    assert (await spending.today(DEFAULT_PROJECT))[1] == {ANN: Outlay(1, 1)}
    clock.advance(DAY_MS / 1000)
    assert (await spending.today(DEFAULT_PROJECT))[1] == {}
