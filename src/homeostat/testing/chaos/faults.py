"""What is done to an installation, each under the name it is counted by, and when: a timetable made from the seed."""

import asyncio
import signal
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

import httpx2

from homeostat.core.clock import Clock, SystemClock
from homeostat.core.ids import Chance
from homeostat.testing.chaos.installation import LEASE_SECONDS, Installation, Stall
from homeostat.testing.chaos.processes import Process
from homeostat.testing.chaos.proxy import Link
from homeostat.testing.servers import Server, ServerFailed

Fault = Callable[[], Awaitable[None]]

HOUR: Final = 3600.0
TROUBLE_CHARS_MAX: Final = 2_000
FELT_SECONDS: Final = 30.0
TRIES_MAX: Final = 3
DECIDER_SECONDS: Final = 180.0
DECIDER_POLL_SECONDS: Final = 0.2
DECIDER_TICKS_SECONDS: Final = 2.5
RENEWED_MS: Final = 2_500
"""Twice, and not by what was under way when it was stopped."""
LEADING: Final = "homeostat_immune_leading 1.0"
AFTERMATH_SECONDS: Final = 2.0
"""How long connections take to be made again when a store is back."""
JUMPS: Final[Mapping[str, float]] = {
    "clock + 1 hour": HOUR,
    "clock - 1 hour": -HOUR,
    "clock + 1 day": 24 * HOUR,
    "clock - 1 day": -24 * HOUR,
}
STORE_JUMPS: Final[Mapping[str, float]] = {f"store's {name}": seconds for name, seconds in JUMPS.items()}
WORLDLY: Final = (*JUMPS, *STORE_JUMPS, "disk full")
"""What only those meet who live in worlds of their own."""
TROUBLES: Final = ("delayed", "cut", "reset", "black-holed")
PER_MINUTE: Final[Mapping[str, float]] = {
    "worker killed": 40,
    "worker stopped": 12,
    "store killed": 5,
    "bus killed": 3,
    "status killed": 3,
    "disk full": 2,
}
"""How often each is done by default; all others once a minute."""


class Unfelt(Exception):
    """Something was done, and nobody has felt anything of it."""


class Faults:
    """Everything that can be done here. A victim is left alone by others until it is well again.

    What is counted is what somebody felt: a link that nothing went over while it was bad shows nothing.
    """

    def __init__(self, hurt: Installation) -> None:
        self._hurt = hurt
        self._chance = hurt.chance
        self._clock = SystemClock()
        self._well = asyncio.Condition()
        self._store_troubles = 0
        self._exclusive: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self.known: Final = self._known()

    def _known(self) -> dict[str, Fault]:
        hurt = self._hurt
        known: dict[str, Fault] = {}
        for title in ("worker", "server", "gateway", "immune"):
            known[f"{title} killed"] = lambda title=title: self._kill(title)
            known[f"{title} stopped"] = lambda title=title: self._stop(title)
        known["immune stopped"] = self._stop_decider
        if hurt.store.mortal:
            known["store killed"] = self._lose_store
        if not hurt.size.absent:
            known["bus killed"] = lambda: self._lose("bus", hurt.bus)
            known["status killed"] = lambda: self._lose("status", hurt.status)
        for name in hurt.links:
            if hurt.size.absent and name in ("bus", "status"):
                continue
            for trouble in TROUBLES:
                known[f"{name} link {trouble}"] = lambda name=name, trouble=trouble: self._spoil(name, trouble)
        if hurt.zygote.library is not None:
            for name, seconds in JUMPS.items():
                known[name] = lambda seconds=seconds: self._jump(seconds)
            known["disk full"] = self._fill_disk
            for name, seconds in STORE_JUMPS.items() if hurt.store.world is not None else ():
                known[name] = lambda seconds=seconds: self._jump_store(seconds)
        return known

    async def do(self, name: str) -> None:
        """Do one of them until somebody has felt it, and see it through. What does not come back is told at the end."""
        about_store = name.startswith("store ") or name == "disk full"
        try:
            if about_store:
                self._store_troubles += 1
                self._hurt.store_trouble_until = float("inf")
            for _ in range(TRIES_MAX):
                try:
                    await self.known[name]()
                except Unfelt:
                    self._hurt.counts[f"{name}, and nobody felt it"] += 1
                else:
                    self._hurt.counts[name] += 1
                    return
        except (AssertionError, TimeoutError, OSError, ServerFailed) as problem:
            self._hurt.troubles.append(f"{name}: {problem!r}"[:TROUBLE_CHARS_MAX])
        finally:
            if about_store:
                self._store_troubles -= 1
                if not self._store_troubles:  # one that ends in the middle of another ends nothing
                    self._hurt.store_trouble_until = self._clock.monotonic() + AFTERMATH_SECONDS

    # --- processes -----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _victim(self, *titles: str, wanted: Process | None = None) -> AsyncGenerator[Process]:
        hurt = self._hurt
        possible = [wanted] if wanted is not None else hurt.everybody(*titles)
        async with self._well:
            await self._well.wait_for(lambda: not hurt.busy.issuperset(possible))
            victim = self._chance.choice([one for one in possible if one not in hurt.busy])
            hurt.busy.add(victim)
        try:
            yield victim
        finally:
            async with self._well:
                hurt.busy.discard(victim)
                self._well.notify_all()

    async def _kill(self, title: str) -> None:
        async with self._victim(title) as victim:
            if not victim.alive:
                self._hurt.troubles.append(f"somebody fell: {title}: {victim.last_words}"[:TROUBLE_CHARS_MAX])
            victim.kill()
            if title != "worker":
                await asyncio.sleep(self._chance.uniform(0.0, 0.3))
            await self._hurt.begin([victim])

    async def _stop(self, title: str) -> None:
        """Longer than its lease: others take over what it held, and it wakes up believing that it is its own."""
        async with self._victim(title) as victim:
            victim.send(signal.SIGSTOP)
            await asyncio.sleep(LEASE_SECONDS * self._chance.uniform(1.2, 1.8))
            stood_still = victim.stopped
            until = self._clock.monotonic()
            victim.send(signal.SIGCONT)
            if not stood_still:
                raise Unfelt
            if title == "worker":
                self._hurt.stalls.append(Stall(victim.pid, until))

    async def _stop_decider(self) -> None:
        """Until somebody else decides about agents: its lease is longer than those of turns, runs and calls."""
        async with self._exclusive["decider"]:
            until = self._clock.monotonic() + DECIDER_SECONDS
            while self._clock.monotonic() < until:
                if (likely := await self._decider()) is None:
                    continue
                async with self._victim(wanted=likely) as victim:
                    before = await self._hurt.store.decider()
                    victim.send(signal.SIGSTOP)
                    try:
                        if before is not None and await self._decides_no_more(*before) and victim.stopped:
                            return
                    finally:
                        victim.send(signal.SIGCONT)
        raise Unfelt

    async def _decider(self) -> Process | None:
        """The server that says it decides; or, if all say no and somebody does, the immune system that stands alone."""
        before = await self._hurt.store.decider()
        servers = self._hurt.everybody("server")
        said = [await asyncio.to_thread(_says_it_decides, server) for server in servers]
        await asyncio.sleep(DECIDER_TICKS_SECONDS)
        after = await self._hurt.store.decider()
        if before is None or after is None or before[0] != after[0] or before[1] == after[1]:
            return None  # whose lease is not renewed has just died, or stands still
        likely = [server for server, says in zip(servers, said, strict=True) if says]
        likely = likely or (self._hurt.everybody("immune") if None not in said else [])
        return likely[0] if len(likely) == 1 and likely[0] not in self._hurt.busy else None

    async def _decides_no_more(self, name: str, lease_ms: int) -> bool:
        """Whether somebody else takes over; False as soon as its lease is renewed, as then it does not stand still."""
        until = self._clock.monotonic() + FELT_SECONDS
        while self._clock.monotonic() < until:
            await asyncio.sleep(DECIDER_POLL_SECONDS)
            now = await self._hurt.store.decider()
            if now is not None and (now[0] != name or now[1] > lease_ms + RENEWED_MS):
                return now[0] != name
        return False

    async def _jump(self, seconds: float) -> None:
        """Somebody's wall clock is wrong for a while, and then it is set right: that is a jump too."""
        async with self._victim("worker", "server", "gateway", "immune") as victim:
            assert victim.world is not None
            home = victim.world
            home.wall_seconds = seconds
            felt = await self._last(lambda: home.misled, 0.5, 2.5)
            if self._chance.random() < 0.3:  # some die before anybody has set it right
                victim.kill()
                victim.world.wall_seconds = 0.0
                await self._hurt.begin([victim])
                self._hurt.counts["killed with a wrong clock"] += 1
            victim.world.wall_seconds = 0.0
        if not felt:
            raise Unfelt

    async def _jump_store(self, seconds: float) -> None:
        """The database's own clock is wrong for a while."""
        world = self._hurt.store.world
        assert world is not None
        world.wall_seconds = seconds
        felt = await self._last(lambda: world.misled, 0.5, 2.5)
        world.wall_seconds = 0.0
        if not felt:
            raise Unfelt

    async def _fill_disk(self) -> None:
        """Nothing more is written to the database; a server gives up then, and is started again when there is room."""
        async with self._exclusive["store"]:
            store = self._hurt.store
            worlds = [one.world for one in self._hurt.everybody() if one.world is not None]
            worlds += [store.world] if store.world is not None else []
            for one in worlds:
                one.full = True
            felt = await self._last(lambda: sum(one.refused for one in worlds), 0.2, 1.2)
            for one in worlds:
                one.full = False
            await asyncio.to_thread(store.revive)
        if not felt:
            raise Unfelt

    # --- servers and links ---------------------------------------------------------------------------------------

    async def _lose(self, name: str, server: Server) -> None:
        async with self._exclusive[name]:
            await asyncio.to_thread(server.kill)
            await asyncio.sleep(self._chance.uniform(0.1, 0.5))
            await asyncio.to_thread(server.start)

    async def _lose_store(self) -> None:
        async with self._exclusive["store"]:
            await asyncio.to_thread(self._hurt.store.kill)
            await asyncio.sleep(self._chance.uniform(0.0, 0.3))
            await asyncio.to_thread(self._hurt.store.start)

    async def _spoil(self, name: str, trouble: str) -> None:
        link: Link = self._hurt.links[name]
        async with self._exclusive[f"{name} {trouble}"]:
            before = link.suffered[trouble]
            match trouble:
                case "delayed":
                    link.delay_seconds = self._chance.uniform(0.02, 0.3)
                    await self._last(lambda: link.suffered[trouble], 0.5, 2.0)
                    link.delay_seconds = 0.0
                case "black-holed":
                    link.swallow()
                    await self._last(lambda: link.suffered[trouble], 0.5, 2.5)
                    link.let_through()
                    if self._chance.random() < 0.5:
                        link.reset()
                case _:
                    await self._end_connections(link, trouble)
            if link.suffered[trouble] == before:
                raise Unfelt

    async def _end_connections(self, link: Link, trouble: str) -> None:
        until, before = self._clock.monotonic() + FELT_SECONDS, link.suffered[trouble]
        while link.suffered[trouble] == before and self._clock.monotonic() < until:
            if trouble == "cut":
                link.cut()
            else:
                link.reset()
            await asyncio.sleep(0.005)

    async def _last(self, met: Callable[[], int], least: float, most: float) -> bool:
        """Let a trouble last for a while, and on until somebody has met it; False if nobody did."""
        before = met()
        await asyncio.sleep(self._chance.uniform(least, most))
        until = self._clock.monotonic() + FELT_SECONDS
        while met() == before and self._clock.monotonic() < until:  # noqa: ASYNC110 — nobody tells who met it
            await asyncio.sleep(0.05)
        return met() != before


def _says_it_decides(server: Process) -> bool | None:
    """None if it says nothing: it has died, stands still, or is not up yet."""
    try:
        return LEADING in httpx2.get(f"{server.url}/metrics", timeout=1.0, trust_env=False).text
    except (httpx2.HTTPError, AssertionError):
        return None


def timetable(chance: Chance, seconds: float, goals: Mapping[str, int]) -> list[tuple[float, str]]:
    """When each fault is done, in seconds from the beginning: spread evenly, and the same for the same seed."""
    planned: list[tuple[float, str]] = []
    for name, count in goals.items():
        stride = seconds / max(1, count)
        planned += [(stride * (number + chance.random()), name) for number in range(count)]
    return sorted(planned)


def goals_for(known: Sequence[str], seconds: float) -> dict[str, int]:
    """What is done in a run of this length: each fault once at least."""
    return {name: max(1, round(PER_MINUTE.get(name, 1.0) * seconds / 60)) for name in known}


async def inflict(faults: Faults, planned: Sequence[tuple[float, str]], clock: Clock | None = None) -> None:
    """Keep to a timetable; what takes long does not hold up what comes next. All are well again at the end."""
    clock = clock or SystemClock()
    began = clock.monotonic()
    async with asyncio.TaskGroup() as group:
        for at, name in planned:
            await asyncio.sleep(max(0.0, began + at - clock.monotonic()))
            group.create_task(faults.do(name), name=name)
