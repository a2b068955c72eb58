"""What is let in and what is not: nothing an agent says of itself breaks a tick or alarms anybody."""

import gc
import math
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from homeostat.core.clock import Millis
from homeostat.core.codec import to_json
from homeostat.core.ids import DEFAULT_PROJECT, AgentId
from homeostat.core.machines.phase import Phase
from homeostat.core.records.event import Channel, Event
from homeostat.core.records.vitals import Hearsay, Vitals
from homeostat.immune.intake import AGE_MS_MAX, FUTURE_MS_MAX, WAITING_PER_AGENT_MAX, Intake
from homeostat.testing.clinic import clinic
from homeostat.testing.clock import ManualClock

NOW = ManualClock().now_ms()
SOUND = Vitals(
    sample_id="s", project=DEFAULT_PROJECT, agent_id=AgentId("ann"), at_ms=NOW, source="report", latency_ms=900.0
)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0, 1e13])
@pytest.mark.parametrize(
    "name", ["latency_ms", "first_token_ms", "tokens_in", "tokens_out", "cost_usd", "steps", "retries"]
)
def test_numbers_that_cannot_be_true_are_refused(name: str, value: float) -> None:
    intake = Intake(clock=ManualClock())
    assert intake.take(replace(SOUND, **{name: value})) == "implausible"
    assert intake.drain() == {}
    assert intake.refused == {"implausible": 1}


def test_hearsay_that_cannot_be_true_is_refused() -> None:
    intake = Intake(clock=ManualClock())
    assert intake.take(replace(SOUND, hearsay=Hearsay(orders=math.nan))) == "implausible"
    assert intake.take(replace(SOUND, hearsay=Hearsay(orders=1e9))) == "implausible"
    assert intake.take(replace(SOUND, hearsay=Hearsay(orders=4.0))) is None


def test_samples_out_of_time_are_refused_and_repeated_ones_dropped() -> None:
    intake = Intake(clock=ManualClock())
    assert intake.take(replace(SOUND, at_ms=Millis(NOW + FUTURE_MS_MAX + 1))) == "future"
    assert intake.take(replace(SOUND, at_ms=Millis(NOW - AGE_MS_MAX - 1))) == "ancient"
    assert intake.take(SOUND) is None
    assert intake.take(SOUND) == "repeated"
    assert intake.take(replace(SOUND, agent_id=AgentId("bob"))) is None, (
        "another agent's sample of that name is another"
    )


def test_a_flood_of_one_agent_is_refused_and_keeps_nobody_else_out() -> None:
    intake = Intake(clock=ManualClock())
    for number in range(WAITING_PER_AGENT_MAX + 10):
        intake.take(replace(SOUND, sample_id=str(number)))
    assert intake.refused == {"flood": 10}
    assert intake.take(replace(SOUND, agent_id=AgentId("bob"))) is None
    waiting = intake.drain()
    assert {key[1]: len(samples) for key, samples in waiting.items()} == {"ann": WAITING_PER_AGENT_MAX, "bob": 1}


def test_a_sample_that_a_flood_kept_out_may_come_again_and_one_that_was_let_in_may_not() -> None:
    intake = Intake(clock=ManualClock())
    samples = [replace(SOUND, sample_id=str(number)) for number in range(WAITING_PER_AGENT_MAX + 1)]
    assert [intake.take(sample) for sample in samples][-2:] == [None, "flood"]
    intake.drain()
    assert intake.take(samples[-1]) is None
    assert {intake.take(sample) for sample in samples} == {"repeated"}


def test_what_is_remembered_of_a_flood_is_bounded_by_what_was_let_in() -> None:
    intake = Intake(clock=ManualClock())
    for number in range(20):
        intake.take(replace(SOUND, sample_id=f"warm{number}"))
    intake.drain()
    gc.collect()
    before = sys.getallocatedblocks()
    for number in range(20_000):
        intake.take(replace(SOUND, sample_id=str(number)))
    intake.drain()
    gc.collect()
    assert sys.getallocatedblocks() - before < 1_000, "what was refused was kept"


def test_the_oldest_samples_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("homeostat.immune.intake.SAMPLES_REMEMBERED_MAX", 2)
    intake = Intake(clock=ManualClock())
    for name in ("a", "b", "c"):
        assert intake.take(replace(SOUND, sample_id=name)) is None
    assert intake.take(replace(SOUND, sample_id="c")) == "repeated"
    assert intake.take(replace(SOUND, sample_id="a")) is None


async def test_what_the_bus_brings_is_believed_no_more_than_what_agents_say() -> None:
    async with clinic() as one:
        await one.enrol("ann")
        immune, bus = one.system.immune, one.system.bus

        def said(payload: str, target: str = "ann") -> Event:
            return Event(payload[:9], DEFAULT_PROJECT, Channel.EVT, "agent", target, "vitals", payload)  # pyright: ignore[reportArgumentType]

        now = replace(SOUND, at_ms=one.clock.now_ms())
        await bus.publish((said("{"), said("[]"), said('{"sample_id": 3}')))
        await bus.publish((said(to_json(now), "bob"), said(to_json(replace(now, agent_id=AgentId("eve"))))))
        stranger = replace(now, agent_id=AgentId("stranger"))
        await bus.publish((said(to_json(stranger), "stranger"),))
        assert await immune.tick() == 0
        assert immune.intake.refused == {"malformed": 3, "foreign": 3}
        assert one.key("stranger") not in immune.ward.watches
        assert await immune.report(stranger) == "foreign"


@settings(max_examples=30)
@given(
    st.lists(
        st.builds(dict, value=st.floats() | st.integers(-(10**20), 10**20), at=st.integers(-(10**15), 10**15)),
        max_size=12,
    )
)
async def test_no_reports_whatever_break_a_tick_or_alarm_anybody(reports: list[dict[str, float]]) -> None:
    async with clinic() as one:
        await one.enrol("ann")
        immune, ann = one.system.immune, one.key("ann")
        for number in range(40):
            sample = replace(SOUND, sample_id=f"usual{number}", at_ms=one.clock.now_ms(), latency_ms=900.0 + number % 7)
            assert await immune.report(sample) is None
            await immune.tick()
        assert immune.phase_of(ann) is Phase.HEALTHY
        for number, said in enumerate(reports):
            value = said["value"]
            if math.isfinite(value) and 0 <= value <= 1e12:
                value = -value - 1.0
            wild = replace(SOUND, sample_id=f"wild{number}", at_ms=Millis(int(said["at"])), latency_ms=value)
            assert await immune.report(wild) is not None
        await immune.tick()
        assert immune.phase_of(ann) is Phase.HEALTHY
