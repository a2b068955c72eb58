"""A gateway is as large after a thousand calls as after a hundred: what a call leaves behind is in the store."""

import gc
import sys

import msgspec
import pytest

from homeostat.app.vitals_log import VitalsLog
from homeostat.core.clock import SystemClock
from homeostat.core.limits import VITALS_KEPT_MAX
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.policy import Action
from homeostat.core.records.vitals import Vitals
from homeostat.immune.intake import Intake
from homeostat.testing.gateways import Booth, booth

_vitals = msgspec.json.Decoder(Vitals)


async def _serve(desk: Booth, intake: Intake, calls: int) -> int:
    """Make calls, let everybody who listens do what they do, and count what is left."""
    for number in range(calls):
        assert (await desk.chat(f"question {number}", stream=number % 4 == 0)).status == 200
        if number % 50 == 0:
            intake.drain()
    await desk.gateway.clerk.flush()
    intake.drain()
    gc.collect()
    return sys.getallocatedblocks()


async def test_what_is_held_does_not_grow_with_the_calls_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("homeostat.immune.intake.SAMPLES_REMEMBERED_MAX", VITALS_KEPT_MAX)
    intake = Intake(clock=SystemClock())

    async def watch(event: Event) -> None:
        intake.take(_vitals.decode(event.payload))

    async with booth() as desk:
        await VitalsLog(clock=SystemClock()).listen(desk.bus)
        await desk.bus.subscribe(subject("*", Channel.EVT, "agent", "*", "vitals"), watch)
        await desk.grant(tokens_max=1 << 40, micros_max=1 << 40)
        await desk.put(Action.RATE_LIMIT, requests_per_minute=1 << 30, tokens_per_minute=1 << 40)
        await desk.put(Action.TOKEN_CAP, max_tokens=4_000)
        before = await _serve(desk, intake, VITALS_KEPT_MAX + 70)  # what keeps the last few is full by then
        calls = 2_000  # many: what is made once on the way counts too
        grown = await _serve(desk, intake, calls) - before
    assert sum(intake.refused.values()) + sum(intake.accepted.values()) == VITALS_KEPT_MAX + 70 + calls
    assert grown < 2 * calls, f"{grown / calls:.1f} objects stay behind with each call"
