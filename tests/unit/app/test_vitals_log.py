"""The last hour of model calls: what was slow once does not stay so."""

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.app.vitals_log import Tally, VitalsLog
from homeostat.core.codec import to_json
from homeostat.core.ids import DEFAULT_PROJECT, AgentId
from homeostat.core.limits import TRAFFIC_MINUTES
from homeostat.core.records.event import Channel, Event
from homeostat.core.records.vitals import Vitals
from homeostat.testing.clock import ManualClock

ANN = AgentId("ann")
SLOW_MS, QUICK_MS = 40_000.0, 40.0


def sample(number: int, clock: ManualClock, latency_ms: float) -> Vitals:
    return Vitals(f"c{number}", DEFAULT_PROJECT, ANN, clock.now_ms(), "gateway", latency_ms, model="m")


async def hear(bus: LocalBus, clock: ManualClock, latency_ms: float, times: int) -> None:
    for number in range(times):
        said = to_json(sample(number, clock, latency_ms))
        await bus.publish((Event(f"v{number}", DEFAULT_PROJECT, Channel.EVT, "agent", ANN, "vitals", said),))


def total(log: VitalsLog) -> Tally:
    found = Tally()
    for minute in log.minutes(DEFAULT_PROJECT):
        found.add(minute.total)
    return found


def test_a_share_is_one_of_all_calls_and_not_of_the_slowest() -> None:
    clock, tally = ManualClock(), Tally()
    for number in range(6_000):
        tally.count(sample(number, clock, SLOW_MS if number < 250 else QUICK_MS))
    p95 = tally.latency_ms(0.95)
    assert p95 is not None
    assert QUICK_MS <= p95 < 2 * QUICK_MS
    p99 = tally.latency_ms(0.99)
    assert p99 is not None
    assert SLOW_MS <= p99 < 2 * SLOW_MS


async def test_what_was_slow_an_hour_ago_is_forgotten() -> None:
    clock, bus = ManualClock(), LocalBus()
    log = VitalsLog(clock=clock)
    await log.listen(bus)
    await hear(bus, clock, SLOW_MS, 300)
    assert (total(log).latency_ms(0.95) or 0.0) >= SLOW_MS
    clock.advance(60.0 * TRAFFIC_MINUTES)
    await hear(bus, clock, QUICK_MS, 10)
    assert total(log).calls == 10
    assert (total(log).latency_ms(0.95) or 0.0) < 2 * QUICK_MS
