"""A whole installation to be hurt: store, bus, status keeper, provider, and every kind of process, over bad links."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from homeostat.core.clock import Clock, SystemClock
from homeostat.core.ids import Chance
from homeostat.testing.chaos import world
from homeostat.testing.chaos.processes import Process, Role, command, party
from homeostat.testing.chaos.proxy import Link, link_to
from homeostat.testing.chaos.scene import STORES, Store
from homeostat.testing.chaos.upstream import provider
from homeostat.testing.chaos.zygote import Zygote
from homeostat.testing.parties import PROJECT
from homeostat.testing.servers import NatsServer, RedisServer, Server, free_port

LEASE_SECONDS: Final = 1.0
STARTS_MAX: Final = 20
ISOLATED: Final = ("isolated-1", "isolated-2", "isolated-3")
"""Whom operators isolate and release, over and over."""
CONTROL_PLANE: Final = ("server", "gateway", "immune")


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything there is. Those who are `absent` are configured, and nobody listens there.

    Without `worlds` no clock jumps and no disk is full; to have them takes a C compiler.
    """

    workers: int = 4
    servers: int = 2
    gateways: int = 2
    agents: int = 80
    streams: int = 64
    absent: bool = False
    worlds: bool = True


@dataclass(frozen=True, slots=True)
class Stall:
    """A process that stood still: which, and until when, by the clock that all on this machine share."""

    pid: int
    until: float


@dataclass
class Installation:
    """Who is there. Faults take them from `free` while they hurt them."""

    engine: str
    size: Size
    store: Store
    bus: Server
    status: Server
    folder: Path
    chance: Chance
    zygote: Zygote
    links: dict[str, Link] = field(default_factory=dict[str, Link])
    upstream_url: str = ""
    processes: dict[str, list[Process]] = field(default_factory=dict[str, list[Process]])
    busy: set[Process] = field(default_factory=set[Process])
    counts: Counter[str] = field(default_factory=Counter[str])
    clock: Clock = field(default_factory=SystemClock)
    stalls: list[Stall] = field(default_factory=list[Stall])
    """Of workers, who hold something that others take over."""
    store_trouble_until: float = float("-inf")
    troubles: list[str] = field(default_factory=list[str])
    """What went wrong that nobody meant to."""

    def everybody(self, *titles: str) -> list[Process]:
        return [one for title in titles or self.processes for one in self.processes.get(title, ())]

    @property
    def urls(self) -> list[str]:
        """Where people turn to."""
        return [one.url for one in self.processes["server"]]

    @property
    def gateway_urls(self) -> list[str]:
        """Where agents send their model calls."""
        return [one.url for one in self.everybody("gateway", "server")]

    async def open(self) -> None:
        """Start everybody; the first server alone, as it makes the schema."""
        for title, count in (
            ("server", self.size.servers),
            ("gateway", self.size.gateways),
            ("immune", 1),
            ("client", 1),
            ("worker", self.size.workers),
        ):
            for number in range(count):
                one = Process(self.zygote, self._role(title), self.folder, number)
                self.processes.setdefault(title, []).append(one)
        first, *others = self.everybody("server", "gateway", "immune", "worker")
        await self.begin([first])
        await self.begin(others)

    async def begin(self, processes: Sequence[Process]) -> None:
        """Start some, and wait for them; one that gives up at once, as its store is away, is started again."""
        for one in processes:
            one.start()
        await asyncio.gather(*(self._attend(one) for one in processes))

    async def _attend(self, one: Process) -> None:
        failed = 0
        while failed < STARTS_MAX:
            try:
                await one.ready()
            except (AssertionError, TimeoutError):
                if one.role.title not in CONTROL_PLANE and not self.store_in_trouble:
                    raise
                self.counts["starts that failed"] += 1
                failed += not self.store_in_trouble  # on a slow machine a database takes long to come back
                one.kill()
                await asyncio.sleep(0.5)
                one.start()
            else:
                return
        raise AssertionError(f"{one.role.title} does not start: {one.last_words}")

    @property
    def store_in_trouble(self) -> bool:
        """Whether somebody is doing something to the store, or has just stopped."""
        return self.clock.monotonic() < self.store_trouble_until

    @property
    def fallen(self) -> list[str]:
        """Who ended by itself, which nobody should, and its last words."""
        return [
            f"{one.role.title}: {one.last_words}"
            for one in self.everybody()
            if one.lives and not one.alive and one not in self.busy
        ]

    def _role(self, title: str) -> Role:
        if title in ("worker", "client"):
            direct = ("--store", self.store.url, "--bus", self.bus.url, "--folder", str(self.folder))
            size = ("--agents", str(self.size.agents), "--streams", str(self.size.streams))
            also = ("--also", *ISOLATED) if title == "worker" else ()
            return party(title, *direct, *size, *also, "--lease", str(LEASE_SECONDS), "--seed", "{life}")
        store = self.links["store"].url if "store" in self.links else self.store.url
        there = ("--store-url", store, "--bus-url", self.links["bus"].url)
        settings = {
            "HOMEOSTAT_PROJECT": PROJECT,
            "HOMEOSTAT_LEASE_SECONDS": str(LEASE_SECONDS),
            "HOMEOSTAT_DATA_DIR": str(self.folder / "data"),
            "HOMEOSTAT_UPSTREAMS": f"openai={self.links['upstream'].url}",
            "HOMEOSTAT_UPSTREAM_SECONDS": "5",
        }
        more: tuple[str, ...] = () if title == "gateway" else ("--status-url", self.links["status"].url)
        port = () if title == "immune" else ("--port", str(free_port()))
        return command(title, *there, *more, *port, settings=settings)

    async def leave(self) -> None:
        """Everybody ends in order."""
        await asyncio.gather(*(one.leave() for one in self.everybody()))


@asynccontextmanager
async def installation(engine: str, folder: Path, *, seed: int, size: Size) -> AsyncGenerator[Installation]:
    """An installation that is not open yet; whoever is still there at the end is killed."""
    async with AsyncExitStack() as stack:
        library = world.build(folder) if size.worlds else None
        zygote = await asyncio.to_thread(Zygote, library)
        stack.callback(zygote.close)
        store = await asyncio.to_thread(lambda: STORES[engine](folder))
        stack.callback(store.close)
        bus, status = NatsServer(), RedisServer()
        for server in (bus, status):
            stack.callback(server.close)
            if not size.absent:
                await asyncio.to_thread(server.start)
        made = Installation(engine, size, store, bus, status, folder, Chance(seed), zygote)
        made.upstream_url = await stack.enter_async_context(provider())
        ends = {"bus": bus.url, "status": status.url, "upstream": made.upstream_url}
        if store.mortal:
            ends["store"] = store.url
        for name, url in ends.items():
            made.links[name] = await stack.enter_async_context(link_to(url))
        stack.callback(_kill, made)
        yield made


def _kill(made: Installation) -> None:
    for one in made.everybody():
        one.kill()
