"""A store, a bus, processes at work on them, and somebody who hurts them."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from homeostat.adapters.stores.postgres import PostgresEngine
from homeostat.core.clock import SystemClock
from homeostat.core.errors import StoreUnavailable
from homeostat.core.ids import Chance, Scope
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.ports.store import TurnStore
from homeostat.testing.chaos import disk
from homeostat.testing.chaos.world import World, build
from homeostat.testing.parties import PROJECT
from homeostat.testing.servers import NatsServer, PostgresServer, Server, ServerFailed

LEASE_SECONDS = 1.0
REST_SECONDS = 60.0
LEAVE_SECONDS = 15.0
REVIVE_SECONDS = 120.0
DECIDER = "SELECT holder, expires_at_ms FROM immune_lease"

Fault = Callable[[], Awaitable[None]]


class Store(Protocol):
    """A store that can be hurt."""

    url: str
    mortal: bool
    world: World | None
    """Where its own clock and disk are, if it has any."""

    def kill(self) -> None: ...

    def start(self) -> None: ...

    def revive(self) -> None:
        """Start it again if it has ended by itself."""
        ...

    def inspect(self) -> None:
        """See that the store itself is whole, once everybody has left it."""
        ...

    async def decider(self) -> tuple[str, int] | None:
        """Who decides about agents, by a name that nobody else has, and until when; None if that cannot be read."""
        ...

    def close(self) -> None: ...


class SqliteFile:
    """One file that several processes share; it dies with each of them."""

    mortal = False
    world: World | None = None

    def __init__(self, folder: Path) -> None:
        self._path = folder / "turns.db"
        self.url = f"sqlite://{self._path}"

    def kill(self) -> None:
        raise AssertionError("a file cannot be killed")

    def start(self) -> None: ...

    def revive(self) -> None: ...

    def inspect(self) -> None:
        connection = sqlite3.connect(self._path)
        try:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        finally:
            connection.close()

    async def decider(self) -> tuple[str, int] | None:
        try:
            with closing(sqlite3.connect(self._path)) as connection:
                return connection.execute(DECIDER).fetchone()
        except sqlite3.OperationalError:
            return None

    def close(self) -> None: ...


class WorldlyPostgres(PostgresServer):
    """A server whose clock jumps and whose disk is full when the harness says so, where there is a C compiler."""

    def __init__(self) -> None:
        super().__init__()
        self.world: World | None = None
        if disk.compiler() is not None:
            self._library = build(self.directory)
            self.world = World(self.directory / "world")
            for path in (self._library, self.world.path):
                path.chmod(0o777)  # it runs as another user, and counts what it meets

    def command(self) -> list[str]:
        if self.world is None:
            return super().command()
        return ["env", f"LD_PRELOAD={self._library}", f"WORLD_PAGE={self.world.path}", *super().command()]


async def _write_to(url: str) -> None:
    engine = PostgresEngine(url, connections_max=1)
    await engine.connect()
    try:
        await engine.fetch("SELECT pg_logical_emit_message(true, 'homeostat', 'is there room')")
    finally:
        await engine.close()


async def _takes_writes(url: str) -> bool:
    """Whether it does; after a moment, where it does not."""
    try:
        await _write_to(url)
    except StoreUnavailable:
        await asyncio.sleep(0.1)
        return False
    return True


class Postgres:
    """A server of the scene's own."""

    mortal = True

    def __init__(self, _folder: Path) -> None:
        self._server = WorldlyPostgres()
        self.world = self._server.world
        self.url = self._server.start().url

    def kill(self) -> None:
        self._server.kill()

    def start(self) -> None:
        self._server.start()

    def revive(self) -> None:
        """A database that cannot write its log gives up, and does not always find the way back by itself."""
        clock = SystemClock()
        until = clock.monotonic() + REVIVE_SECONDS
        while clock.monotonic() < until:
            if not self._server.running:
                self._server.kill()
                self._server.start()
            if asyncio.run(_takes_writes(self.url)):
                return
        raise ServerFailed(f"the database did not come back:\n{self._server.log}")

    def inspect(self) -> None: ...

    async def decider(self) -> tuple[str, int] | None:
        engine = PostgresEngine(self.url, connections_max=1)
        try:
            await engine.connect()
            rows = await engine.fetch(DECIDER)
        except StoreUnavailable:
            return None
        finally:
            await engine.close()
        return (str(rows[0][0]), int(rows[0][1])) if rows else None

    def close(self) -> None:
        self._server.close()


STORES: Mapping[str, type[SqliteFile] | type[Postgres]] = {"sqlite": SqliteFile, "postgres": Postgres}


class Party:
    """One process. What it was told is in its own journal."""

    def __init__(self, role: str, store: str, bus: str | None, folder: Path, seed: int) -> None:
        self.role = role
        arguments = [role, "--store", store, "--folder", str(folder), "--seed", str(seed)]
        arguments += ["--lease", str(LEASE_SECONDS), *(["--bus", bus] if bus else [])]
        self._log = (folder / f"{role}-{seed}.log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "homeostat.testing.parties", *arguments], stdout=subprocess.PIPE, stderr=self._log
        )

    async def ready(self) -> None:
        assert self._process.stdout is not None
        line = await asyncio.to_thread(self._process.stdout.readline)
        assert line == b"ready\n", self.last_words

    @property
    def last_words(self) -> str:
        return Path(self._log.name).read_text()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self._process.kill()
        self._reap()

    async def leave(self) -> None:
        """End in order."""
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        try:
            await asyncio.to_thread(self._process.wait, LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._reap()

    def _reap(self) -> None:
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()


@dataclass
class Scene:
    """Who is there, and what was done to them so far."""

    store: Store
    nats: NatsServer
    folder: Path
    chance: Chance
    workers: list[Party] = field(default_factory=list[Party])
    clients: list[Party] = field(default_factory=list[Party])
    servers: list[Server] = field(default_factory=list[Server])
    done: Counter[str] = field(default_factory=Counter[str])
    sleepers: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    started: int = 0

    def start(self, role: str) -> Party:
        self.started += 1
        party = Party(role, self.store.url, self.nats.url, self.folder, self.started)
        (self.workers if role == "worker" else self.clients).append(party)
        return party

    async def ready(self) -> None:
        await asyncio.gather(*(party.ready() for party in (*self.clients, *self.workers)))

    @property
    def fallen(self) -> list[str]:
        """The last words of those who ended by themselves, which nobody should."""
        return [party.last_words for party in (*self.clients, *self.workers) if not party.alive]

    async def kill_worker(self) -> None:
        """Another one takes its place, as soon as it has started."""
        self.workers.pop(self.chance.randrange(len(self.workers))).kill()
        self.done["worker killed"] += 1
        self.start("worker")

    async def stop_worker(self) -> None:
        """Longer than its lease: others take its turns over, and it wakes up believing they are its own."""
        victim = self.chance.choice(self.workers)
        victim.send(signal.SIGSTOP)
        self.done["worker stopped"] += 1
        task = asyncio.create_task(self._wake(victim, LEASE_SECONDS * self.chance.uniform(1.2, 1.8)))
        self.sleepers.add(task)
        task.add_done_callback(self.sleepers.discard)

    async def _wake(self, victim: Party, seconds: float) -> None:
        await asyncio.sleep(seconds)
        if victim.alive:
            victim.send(signal.SIGCONT)

    async def lose_bus(self) -> None:
        """A worker dies before the bus is back, with ends on its mind that nobody heard of."""
        await asyncio.to_thread(self.nats.kill)
        await asyncio.sleep(self.chance.uniform(0.2, 0.5))
        await self.kill_worker()
        await asyncio.to_thread(self.nats.start)
        self.done["bus killed"] += 1

    async def lose_store(self) -> None:
        await asyncio.to_thread(self.store.kill)
        await asyncio.sleep(self.chance.uniform(0.0, 0.3))
        await asyncio.to_thread(self.store.start)
        self.done["store killed"] += 1

    async def kill_server(self) -> None:
        """One of the processes that answer callers; it comes back on its port."""
        victim = self.chance.choice(self.servers)
        await asyncio.to_thread(victim.kill)
        await asyncio.sleep(self.chance.uniform(0.0, 0.3))
        await asyncio.to_thread(victim.start)
        self.done["control plane killed"] += 1

    @property
    def faults(self) -> dict[str, Fault]:
        """Everything that can be done here, under the name it is counted by."""
        known: dict[str, Fault] = {
            "worker killed": self.kill_worker,
            "worker stopped": self.stop_worker,
            "bus killed": self.lose_bus,
        }
        if self.store.mortal:
            known["store killed"] = self.lose_store
        if self.servers:
            known["control plane killed"] = self.kill_server
        return known

    async def settle(self) -> None:
        """Let those who sleep wake up."""
        await asyncio.gather(*self.sleepers)

    async def leave(self) -> None:
        await asyncio.gather(*(party.leave() for party in (*self.clients, *self.workers)))
        self.clients.clear()
        self.workers.clear()


@asynccontextmanager
async def scene(kind: type[SqliteFile] | type[Postgres], folder: Path, seed: int) -> AsyncGenerator[Scene]:
    """An empty scene; whoever is still on it at the end is killed."""
    store = kind(folder)
    try:
        with NatsServer() as nats:
            stage = Scene(store, nats, folder, Chance(seed))
            try:
                yield stage
            finally:
                for party in (*stage.clients, *stage.workers):
                    party.kill()
                for server in stage.servers:
                    await asyncio.to_thread(server.close)
    finally:
        store.close()


async def rest(store: TurnStore, seconds: float = REST_SECONDS, *, announced: bool = True) -> bool:
    """Wait until every head is idle, every line empty and everything announced; False if that does not come."""
    for _ in range(int(seconds / 0.2)):
        heads = [view.head for view in await store.heads(PROJECT, after=None, limit=500)]
        busy = [head for head in heads if head.status is not HeadStatus.IDLE or head.queued]
        if not busy and not (announced and await store.outbox(Scope("f" * 24), 1)):
            return True
        await asyncio.sleep(0.2)
    return False
