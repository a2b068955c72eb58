"""One campaign: load, faults, the end of faults, rest, and a look at the whole history."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from homeostat.adapters.doorbells.nats import NatsBus
from homeostat.core.clock import Clock, SystemClock
from homeostat.core.ids import Chance, TurnId
from homeostat.core.records.event import Channel, Event, subject
from homeostat.testing.chaos import journals
from homeostat.testing.chaos.citizens import Citizens
from homeostat.testing.chaos.scene import LEASE_SECONDS, STORES, Scene, rest, scene
from homeostat.testing.history import check
from homeostat.testing.homeostat import HomeostatServer
from homeostat.testing.parties import PROJECT, kernel_on
from homeostat.testing.servers import RedisServer

WORKERS: Final = 3
SERVERS: Final = 2
STREAMS: Final = 8
PAUSE_SECONDS_MAX: Final = 0.4
REST_SECONDS: Final = 120.0
MUST_HAPPEN: Final = (
    "turns taken over by other workers",
    "steps stored",
    "tools answered",
    "turns over HTTP",
    "calls answered 200",
    "calls without an answer",
    "questions without an answer",
    "calls of an isolated agent refused",
)


@dataclass(slots=True)
class Verdict:
    """What a campaign did, and what it found."""

    seed: int
    engine: str
    seconds: float = 0.0
    rest_seconds: float | None = None
    counts: Counter[str] = field(default_factory=Counter[str])
    violations: list[str] = field(default_factory=list[str])
    unseen: list[str] = field(default_factory=list[str])

    @property
    def ok(self) -> bool:
        return not self.violations and not self.unseen and self.rest_seconds is not None


async def campaign(
    engine: str, folder: Path, *, seed: int, seconds: float, goals: Mapping[str, int] | None = None
) -> Verdict:
    """Hurt an installation for some time, and longer where `goals` (fault → how often) ask for it."""
    clock = SystemClock()
    verdict = Verdict(seed, engine)
    heard: list[Event] = []

    async def hear(event: Event) -> None:
        heard.append(event)

    async with scene(STORES[engine], folder, seed) as stage:
        with RedisServer() as redis:
            listening = await NatsBus.connect(stage.nats.url)
            try:
                await listening.subscribe(subject(PROJECT, Channel.EVT, "agent", "*", "task"), hear)
                await _open(stage, redis.url)
                citizens = Citizens([server.url for server in stage.servers], folder, Chance(seed + 1))
                await citizens.settle_in()
                living = asyncio.create_task(citizens.live(STREAMS))
                began = clock.monotonic()
                await _hurt(stage, clock, until=began + seconds, goals=goals or {})
                verdict.seconds = clock.monotonic() - began
                verdict.violations += [f"somebody fell: {words[-500:]}" for words in stage.fallen]
                citizens.over.set()
                await living
                await _look(stage, citizens, heard, verdict, clock)
            finally:
                await listening.close()
    return verdict


async def _open(stage: Scene, status_url: str) -> None:
    options = ("--store-url", stage.store.url, "--bus-url", stage.nats.url, "--status-url", status_url)
    for _ in range(SERVERS):
        server = HomeostatServer(*options, "--lease-seconds", str(LEASE_SECONDS), project=PROJECT)
        stage.servers.append(await asyncio.to_thread(server.start))
    stage.start("client")
    for _ in range(WORKERS):
        stage.start("worker")
    await stage.ready()


async def _hurt(stage: Scene, clock: Clock, *, until: float, goals: Mapping[str, int]) -> None:
    planned: list[str] = []
    while True:
        open_goals = {name: count - stage.done[name] for name, count in goals.items() if stage.done[name] < count}
        if clock.monotonic() >= until and not open_goals:
            break
        if not planned:
            planned = list(stage.faults)
            planned += [name for name in open_goals for _ in range(min(8, open_goals[name] // 50))]
            stage.chance.shuffle(planned)
        await stage.faults[planned.pop()]()
        await asyncio.sleep(stage.chance.uniform(0.02, PAUSE_SECONDS_MAX))
    await stage.settle()


async def _look(stage: Scene, citizens: Citizens, heard: list[Event], verdict: Verdict, clock: Clock) -> None:
    """The faults are over: let it come to rest, then read everything."""
    await stage.clients[0].leave()
    stage.clients.clear()
    began = clock.monotonic()
    async with kernel_on(stage.store.url, stage.nats.url, LEASE_SECONDS) as kernel:
        if await rest(kernel.store, REST_SECONDS):
            verdict.rest_seconds = clock.monotonic() - began
        else:
            verdict.violations.append(f"finally_all_comes_to_rest: not within {REST_SECONDS:.0f} s")
        await citizens.audit()
        told = journals.acknowledged(journals.entries(stage.folder, "told-*.jsonl"))
        ran = journals.effects(journals.entries(stage.folder, "effects.jsonl"))
        await asyncio.sleep(2.0)  # the recording of events lags behind the outbox
        found = await check(kernel.store, [PROJECT], heard=heard, acknowledged=told, effects=ran)
    epochs: dict[TurnId, set[int]] = {}
    for effect in ran:
        epochs.setdefault(effect.turn_id, set()).add(effect.epoch)
    verdict.counts = stage.done + citizens.counts
    verdict.counts |= {
        "turns accepted": len(told.turns),
        "ends seen": len(told.ends),
        "steps stored": len(told.steps),
        "tools answered": len(told.results),
        "turns taken over by other workers": sum(len(seen) > 1 for seen in epochs.values()),
    }
    verdict.violations += [str(violation) for violation in found] + citizens.violations
    verdict.unseen = [name for name in (*stage.faults, *MUST_HAPPEN) if not verdict.counts[name]]
    await stage.leave()
    for server in stage.servers:
        await asyncio.to_thread(server.close)
    stage.servers.clear()
    stage.store.inspect()
