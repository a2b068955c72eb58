"""A gateway that stood still during a call does not tell how long the call took: it would be held against the agent."""

import asyncio
import json
import time
from typing import Any

from homeostat.adapters.upstreams.simulated import Pace, SimulatedUpstream
from homeostat.core.ids import DEFAULT_PROJECT
from homeostat.core.records.event import Event, subject
from homeostat.testing.gateways import booth


async def test_a_call_that_was_kept_here_has_no_length() -> None:
    told: list[Any] = []

    async def hear(event: Event) -> None:
        told.append(json.loads(event.payload))

    async with booth(upstream=SimulatedUpstream(pace=Pace(0.1, 0.0))) as desk:
        await desk.bus.subscribe(subject(DEFAULT_PROJECT, "evt", "agent", "*", "vitals"), hear)
        await desk.chat("Nothing happens")
        await desk.gateway.clerk.flush()
        call = asyncio.create_task(desk.chat("The disk hesitates"))
        await asyncio.sleep(0.05)
        time.sleep(0.4)  # noqa: ASYNC251 - this is the standstill
        await call
        await desk.gateway.clerk.flush()
        kept, plain = await desk.log()
    assert plain.latency_ms < kept.latency_ms, "the log has it as it was"
    assert told[0]["latency_ms"] in (plain.latency_ms, None), "a busy machine may stand still by itself"
    assert (told[1]["latency_ms"], told[1]["first_token_ms"]) == (None, None)
    assert [one["error"] for one in told] == [False, False], "all else is told"
