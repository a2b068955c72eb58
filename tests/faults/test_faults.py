"""Processes and servers are killed and stopped under load; what was acknowledged is kept, and every turn ends once."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest

from homeostat.adapters.doorbells.nats import NatsBus
from homeostat.core.ids import Chance, Scope, TurnId, process_seed
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.event import Channel, Event, subject
from homeostat.testing.chaos import journals
from homeostat.testing.history import Acknowledged, Effect, check
from homeostat.testing.parties import PROJECT, kernel_on
from homeostat.testing.servers import NatsServer, PostgresServer

LEASE_SECONDS = 1.0
LOAD_SECONDS = float(os.environ.get("HOMEOSTAT_TEST_FAULT_SECONDS", "4"))
PATIENCE_SECONDS = 30.0
REST_SECONDS = 45.0


# --- stores that can be hurt ---------------------------------------------------------------------------------------


class Store(Protocol):
    """A store under test."""

    url: str
    mortal: bool

    def kill(self) -> None: ...

    def start(self) -> None: ...

    def inspect(self) -> None:
        """See that the store itself is whole, once everybody has left it."""
        ...

    def close(self) -> None: ...


class SqliteFile:
    """One file that several processes share; it dies with each of them."""

    mortal = False

    def __init__(self, folder: Path) -> None:
        self._path = folder / "turns.db"
        self.url = f"sqlite://{self._path}"

    def kill(self) -> None:
        raise NotImplementedError

    def start(self) -> None: ...

    def inspect(self) -> None:
        connection = sqlite3.connect(self._path)
        try:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        finally:
            connection.close()

    def close(self) -> None: ...


class Postgres:
    """A server of the test's own."""

    mortal = True

    def __init__(self, _folder: Path) -> None:
        self._server = PostgresServer().start()
        self.url = self._server.url

    def kill(self) -> None:
        self._server.kill()

    def start(self) -> None:
        self._server.start()

    def inspect(self) -> None: ...

    def close(self) -> None:
        self._server.close()


STORES: list[type[SqliteFile] | type[Postgres]] = [SqliteFile, Postgres]


# --- processes ---------------------------------------------------------------------------------------------------


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
            await asyncio.to_thread(self._process.wait, 15)
        except subprocess.TimeoutExpired:
            self.kill()
        self._reap()

    def _reap(self) -> None:
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()


def acknowledged(folder: Path) -> Acknowledged:
    return journals.acknowledged(journals.entries(folder, "told-*.jsonl"))


def effects(folder: Path) -> list[Effect]:
    return journals.effects(journals.entries(folder, "effects.jsonl"))


def heard_events(folder: Path) -> list[Event]:
    return journals.heard(journals.entries(folder, "heard.jsonl"))


# --- the scene -----------------------------------------------------------------------------------------------------


@dataclass
class Scene:
    """A store, a bus, workers and a client, and somebody who hurts them."""

    store: Store
    nats: NatsServer
    folder: Path
    chance: Chance
    workers: list[Party] = field(default_factory=list[Party])
    clients: list[Party] = field(default_factory=list[Party])
    done: Counter[str] = field(default_factory=Counter[str])
    sleepers: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])
    started: int = 0

    def start(self, role: str) -> Party:
        self.started += 1
        party = Party(role, self.store.url, self.nats.url, self.folder, self.started)
        (self.workers if role == "worker" else self.clients).append(party)
        return party

    async def hurt_for(self, seconds: float) -> None:
        """One fault after the other, for some time and until enough has happened to prove something."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        faults = [self.stop_worker, self.kill_worker, self.lose_bus]
        if self.store.mortal:
            faults.append(self.lose_store)
        planned: list[Callable[[], Awaitable[None]]] = []
        while loop.time() < began + seconds or (self.missing and loop.time() < began + seconds + PATIENCE_SECONDS):
            planned = planned or self.chance.sample(faults, len(faults))
            await planned.pop()()
            await asyncio.sleep(self.chance.uniform(0.05, 0.6))
        await asyncio.gather(*self.sleepers)

    @property
    def missing(self) -> list[str]:
        """What has to happen yet: a run in which nothing happened proves nothing."""
        told = acknowledged(self.folder)
        epochs: dict[TurnId, set[int]] = {}
        for effect in effects(self.folder):
            epochs.setdefault(effect.turn_id, set()).add(effect.epoch)
        happened = {
            "worker killed": self.done["worker killed"] > 0,
            "worker stopped": self.done["worker stopped"] > 0,
            "bus killed": self.done["bus killed"] > 0,
            "store killed": self.done["store killed"] > 0 or not self.store.mortal,
            "turns accepted": len(told.turns) >= 20,
            "ends seen": len(told.ends) >= 10,
            "steps stored": bool(told.steps),
            "tools answered": bool(told.results),
            "turns taken over by other workers": any(len(seen) > 1 for seen in epochs.values()),
        }
        return [what for what, there in happened.items() if not there]

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
        self.sleepers.append(asyncio.create_task(self._wake(victim, LEASE_SECONDS * self.chance.uniform(1.2, 1.8))))

    async def _wake(self, victim: Party, seconds: float) -> None:
        await asyncio.sleep(seconds)
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

    async def leave(self) -> None:
        await asyncio.gather(*(party.leave() for party in (*self.clients, *self.workers)))
        self.clients.clear()
        self.workers.clear()


@asynccontextmanager
async def scene(kind: type[SqliteFile] | type[Postgres], folder: Path, seed: int) -> AsyncGenerator[Scene]:
    store = kind(folder)
    try:
        with NatsServer() as nats:
            stage = Scene(store, nats, folder, Chance(seed))
            try:
                yield stage
            finally:
                for party in (*stage.clients, *stage.workers):
                    party.kill()
    finally:
        store.close()


async def rest(store: TurnStore) -> bool:
    """Wait until every head is idle, every line empty and everything announced; False if that does not come."""
    for _ in range(int(REST_SECONDS / 0.2)):
        heads = [view.head for view in await store.heads(PROJECT, after=None, limit=500)]
        busy = [head for head in heads if head.status is not HeadStatus.IDLE or head.queued]
        if not busy and not await store.outbox(Scope("f" * 24), 1):
            return True
        await asyncio.sleep(0.2)
    return False


# --- tests -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", STORES, ids=lambda kind: kind.__name__)
@pytest.mark.timeout(180 + 3 * LOAD_SECONDS)
async def test_nothing_acknowledged_is_lost_and_every_turn_ends_once(
    kind: type[SqliteFile] | type[Postgres], tmp_path: Path
) -> None:
    seed = int(os.environ.get("HOMEOSTAT_TEST_FAULT_SEED", process_seed()))
    heard: list[Event] = []

    async def hear(event: Event) -> None:
        heard.append(event)

    async with scene(kind, tmp_path, seed) as stage:
        listening = await NatsBus.connect(stage.nats.url)
        try:
            await listening.subscribe(subject(PROJECT, Channel.EVT, "agent", "*", "task"), hear)
            stage.start("client")
            for _ in range(3):
                stage.start("worker")
            await asyncio.gather(*(party.ready() for party in (*stage.clients, *stage.workers)))
            await stage.hurt_for(LOAD_SECONDS)
            parties = (*stage.clients, *stage.workers)
            assert [party.last_words for party in parties if not party.alive] == [], f"seed {seed}"
            await stage.clients[0].leave()

            async with kernel_on(stage.store.url, stage.nats.url, LEASE_SECONDS) as kernel:
                store = kernel.store
                rested = await rest(store)
                told, ran = acknowledged(tmp_path), effects(tmp_path)
                await until_heard(heard, store)
                violations = await check(store, [PROJECT], heard=heard, acknowledged=told, effects=ran)
            await stage.leave()
            story = f"seed {seed}: {dict(stage.done)}, {len(told.turns)} turns accepted, {len(told.ends)} ends seen"
            assert violations == [], story
            assert rested, story
            stage.store.inspect()
            assert stage.missing == [], story
            sys.stderr.write(story + "\n")
        finally:
            await listening.close()


async def until_heard(heard: list[Event], store: TurnStore) -> None:
    """The recording lags behind the outbox by a moment."""
    for _ in range(50):
        unheard = await check(store, [PROJECT], heard=heard)
        if not any(violation.promise == "finally_every_end_is_announced" for violation in unheard):
            return
        await asyncio.sleep(0.1)


@pytest.mark.timeout(180 + 3 * LOAD_SECONDS)
async def test_a_single_process_killed_again_and_again_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    """SQLite in one process: acknowledged means on disk."""
    seed = int(os.environ.get("HOMEOSTAT_TEST_FAULT_SEED", process_seed()))
    chance = Chance(seed)
    store = SqliteFile(tmp_path)
    accepted = 0
    for life in range(max(3, int(LOAD_SECONDS))):
        party = Party("both", store.url, None, tmp_path, seed + life)
        try:
            await party.ready()
            await asyncio.sleep(chance.uniform(0.2, 1.0))
        finally:
            party.kill()
        store.inspect()
        told = acknowledged(tmp_path)
        assert len(told.turns) >= accepted
        accepted = len(told.turns)
        async with kernel_on(store.url, None, LEASE_SECONDS) as kernel:
            violations = await check(
                kernel.store,
                [PROJECT],
                heard=heard_events(tmp_path),
                acknowledged=told,
                effects=effects(tmp_path),
                at_rest=False,
            )
        assert violations == [], f"seed {seed}, life {life}"

    last = Party("worker", store.url, None, tmp_path, seed)
    try:
        await last.ready()
        async with kernel_on(store.url, None, LEASE_SECONDS) as kernel:
            assert await rest(kernel.store), f"seed {seed}"
            told = acknowledged(tmp_path)
            assert accepted >= 20, f"seed {seed}"
            violations = await check(kernel.store, [PROJECT], acknowledged=told, effects=effects(tmp_path))
            assert violations == [], f"seed {seed}"
    finally:
        await last.leave()
