"""One campaign: load, faults, the end of faults, rest, and a look at the whole history."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from homeostat.adapters.doorbells.nats import NatsBus
from homeostat.app.settings import Settings
from homeostat.app.verification import verify_all
from homeostat.core.clock import Clock, SystemClock
from homeostat.core.ids import Chance, TurnId
from homeostat.core.records.event import Channel, Event, subject
from homeostat.testing.chaos import journals
from homeostat.testing.chaos.citizens import Citizens
from homeostat.testing.chaos.echoes import echoes
from homeostat.testing.chaos.faults import Faults, goals_for, inflict, timetable
from homeostat.testing.chaos.installation import LEASE_SECONDS, Installation, Size, installation
from homeostat.testing.chaos.operators import Operators
from homeostat.testing.chaos.patients import Patients
from homeostat.testing.chaos.people import People
from homeostat.testing.chaos.scene import rest
from homeostat.testing.history import Acknowledged, check
from homeostat.testing.parties import PROJECT, kernel_on

STREAMS: Final = 8
LOAD_PATIENCE: Final = 4.0  # times as long as the faults: a slow machine is slower, not wrong
REST_SECONDS: Final = 120.0
HEARD_SECONDS: Final = 20.0
SERVED: Final = ("turns over HTTP", "calls answered 200", "approvals answered")
SERVED_SECONDS: Final = 60.0
TURNS_READ_A_SECOND: Final = 100
END_SECONDS: Final = 480.0  # beyond the load's patience; what has not ended by then hangs
RACES: Final[Mapping[str, float]] = {
    "turns taken over by other workers": 4.0,
    "steps stored": 100.0,
    "tools answered": 10.0,
    "results repeated": 2.0,
    "results out of order": 1.0,
    "results that came too late": 0.5,
    "turns over HTTP": 15.0,
    "calls answered 200": 6.0,
    "calls answered 402": 0.5,
    "calls without an answer": 0.5,
    "questions without an answer": 0.5,
    "calls of an isolated agent refused": 0.6,
    "turns held back from an isolated agent": 0.6,
    "approvals answered by two at once": 0.6,
    "approvals executed": 0.6,
}
"""What has to happen, and how often in a minute, or the run has shown nothing."""

RACES_ON_A_BUS: Final[Mapping[str, float]] = {
    "remedies answered by two at once": 0.3,
    "remedies executed": 0.3,
    "events repeated late": 20.0,
    "stalled workers who woke to turns of others": 2.0,
}
"""The same where there is a bus, as it takes what agents say of themselves to the process that decides, and tells
other workers of a turn before the one that stood still goes on."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What a campaign is to do: for how long, how often each fault, how many turns."""

    engine: str
    seed: int
    seconds: float
    goals: Mapping[str, int] | None = None
    turns: int = 0
    size: Size = field(default_factory=Size)


@dataclass(slots=True)
class Verdict:
    """What a campaign did, and what it found."""

    ask: Ask
    seconds: float = 0.0
    rest_seconds: float | None = None
    counts: Counter[str] = field(default_factory=Counter[str])
    faults: dict[str, int] = field(default_factory=dict[str, int])
    violations: list[str] = field(default_factory=list[str])
    unseen: list[str] = field(default_factory=list[str])

    @property
    def ok(self) -> bool:
        return not self.violations and not self.unseen and self.rest_seconds is not None


@dataclass(slots=True)
class Cast:
    """Everybody in a campaign who is not hurt."""

    people: People
    citizens: Citizens
    operators: Operators
    patients: Patients
    heard: list[Event]


async def campaign(ask: Ask, folder: Path) -> Verdict:
    """Hurt an installation, let it come to rest, and see what it kept.

    One that hurts too much to answer anybody would be waited for without end: it is given up, and that is a verdict.
    """
    verdict = Verdict(ask)
    seconds = ask.seconds * LOAD_PATIENCE + ask.turns / TURNS_READ_A_SECOND + END_SECONDS
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            await _play(ask, folder, verdict)
    except TimeoutError:
        if not limit.expired():
            raise
        verdict.violations.append(f"finally_it_comes_to_an_end: given up after {seconds:.0f} s")
    return verdict


async def _play(ask: Ask, folder: Path, verdict: Verdict) -> None:
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        hurt = await stack.enter_async_context(installation(ask.engine, folder, seed=ask.seed, size=ask.size))
        await hurt.open()
        people = await stack.enter_async_context(People(hurt.urls, hurt.gateway_urls, Chance(ask.seed + 1)))
        verdict.violations = people.violations
        citizens, operators = Citizens(people, folder, ask.size.agents), Operators(people, ask.size.agents)
        cast = Cast(people, citizens, operators, Patients(people), [])
        await cast.patients.desk.open()
        stack.callback(cast.patients.desk.close)
        people.store_in_trouble = lambda: hurt.store_in_trouble
        if not ask.size.absent:
            await _listen(hurt, cast, stack)
        await citizens.settle_in()
        await hurt.begin(hurt.everybody("client"))
        tending = asyncio.create_task(citizens.tend())
        stack.callback(tending.cancel)
        faults = Faults(hurt)
        goals = goals_for([*faults.known], ask.seconds) if ask.goals is None else ask.goals
        possible = {name: count for name, count in goals.items() if name in faults.known}
        began = clock.monotonic()
        async with asyncio.TaskGroup() as group:
            group.create_task(citizens.live(STREAMS))
            group.create_task(operators.live())
            group.create_task(cast.patients.live())
            await inflict(faults, timetable(Chance(ask.seed + 2), ask.seconds, possible))
            await _load(hurt, ask.turns, began + ask.seconds * LOAD_PATIENCE + 60, clock)
            await _until_served(people, clock.monotonic() + SERVED_SECONDS, clock)
            verdict.seconds = clock.monotonic() - began
            verdict.violations += [*hurt.troubles, *(f"somebody fell: {words}" for words in hurt.fallen)]
            people.over.set()
        await _look(hurt, cast, verdict, clock)
        verdict.faults = {name: hurt.counts[name] for name in sorted(faults.known)}
        verdict.unseen += _missing(goals, hurt.counts) + _missing({"turns accepted": ask.turns}, verdict.counts)
        await hurt.leave()
        hurt.store.inspect()


def _missing(wanted: Mapping[str, float], counts: Mapping[str, int]) -> list[str]:
    return [
        f"{name}: {counts.get(name, 0)} of {often:g}" for name, often in wanted.items() if counts.get(name, 0) < often
    ]


async def _load(hurt: Installation, turns: int, deadline: float, clock: Clock) -> None:
    """Until the client was told of so many turns, or it takes too long."""
    (client,) = hurt.everybody("client")
    accepted = 0
    with (hurt.folder / f"told-{client.pid}.jsonl").open("rb") as told:
        while accepted < turns and clock.monotonic() < deadline:
            accepted += sum(line.startswith(b'{"turn"') for line in told)
            await asyncio.sleep(1.0)


async def _until_served(people: People, deadline: float, clock: Clock) -> None:
    """On a slow machine a short campaign can be over before anybody was served: what is slow is not broken."""
    while clock.monotonic() < deadline:
        if all(people.counts[name] for name in SERVED):
            return
        await asyncio.sleep(0.1)


async def _listen(hurt: Installation, cast: Cast, stack: AsyncExitStack) -> None:
    async def hear(event: Event) -> None:
        cast.heard.append(event)

    bus = await NatsBus.connect(hurt.bus.url)
    stack.push_async_callback(bus.close)
    await bus.subscribe(subject(PROJECT, Channel.EVT, "agent", "*", "task"), hear)
    await stack.enter_async_context(echoes(hurt.bus.url, Chance(hurt.chance.getrandbits(32)), hurt.counts))


async def _look(hurt: Installation, cast: Cast, verdict: Verdict, clock: Clock) -> None:
    """The faults are over: let it come to rest, then read everything."""
    for client in hurt.everybody("client"):
        await client.leave()
    began = clock.monotonic()
    absent = hurt.size.absent
    async with kernel_on(hurt.store.url, hurt.bus.url, LEASE_SECONDS) as kernel:
        rested = await rest(kernel.store, REST_SECONDS, announced=not absent)
        rested = await cast.operators.rest(REST_SECONDS) and rested
        rested = await cast.patients.rest(REST_SECONDS) and rested
        if rested:
            verdict.rest_seconds = clock.monotonic() - began
        else:
            verdict.violations.append(f"finally_all_comes_to_rest: not within {REST_SECONDS:.0f} s")
        await cast.citizens.audit()
        await cast.operators.audit()
        await cast.patients.audit()
        told = _told(hurt.folder, verdict)
        ran = journals.effects(journals.entries(hurt.folder, "effects-*.jsonl"))
        await _until_heard(cast, set(told.ends))
        found = await check(
            kernel.store,
            [PROJECT],
            heard=None if absent else cast.heard,
            acknowledged=told,
            effects=ran,
            announced=not absent,
        )
    verified = await verify_all(Settings(store_url=hurt.store.url, data_dir=hurt.folder / "data"))
    spells = [spell for one in cast.citizens.isolated for spell in one.spells]
    epochs: dict[TurnId, set[int]] = {}
    for effect in ran:
        epochs.setdefault(effect.turn_id, set()).add(effect.epoch)
    verdict.counts = hurt.counts + cast.people.counts + journals.seen(journals.entries(hurt.folder, "told-*.jsonl"))
    verdict.counts |= {
        "turns accepted": len(told.turns),
        "ends seen": len(told.ends),
        "steps stored": len(told.steps),
        "tools answered": len(told.results),
        "turns held back from an isolated agent": journals.held_back(
            journals.entries(hurt.folder, "told-*.jsonl"), spells
        ),
        "turns taken over by other workers": sum(len(seen) > 1 for seen in epochs.values()),
        "stalled workers who woke to turns of others": journals.woke_to_nothing(
            journals.entries(hurt.folder, "told-*.jsonl"), hurt.stalls
        ),
    }
    verdict.violations += [str(violation) for violation in found]
    verdict.violations += [f"verify --all: {violation}" for violation in verified.violations]
    verdict.violations += journals.served_isolated(journals.entries(hurt.folder, "told-*.jsonl"), spells)
    minutes = verdict.seconds / 60
    races = RACES if absent else {**RACES, **RACES_ON_A_BUS}
    verdict.unseen += _missing({name: max(1, int(often * minutes)) for name, often in races.items()}, verdict.counts)


def _told(folder: Path, verdict: Verdict) -> Acknowledged:
    try:
        return journals.acknowledged(journals.entries(folder, "told-*.jsonl"))
    except AssertionError as problem:
        verdict.violations.append(f"always_what_was_acknowledged_is_kept: {problem}")
        return Acknowledged()


async def _until_heard(cast: Cast, ends: set[TurnId]) -> None:
    """The recording of events lags behind the outbox by a moment."""
    for _ in range(int(HEARD_SECONDS / 0.1)):
        ends -= {TurnId(event.event_id) for event in cast.heard}
        if not ends or not cast.heard:
            return
        await asyncio.sleep(0.1)
