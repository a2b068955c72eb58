"""The parts of the fault campaign that could fail to hurt: links, clocks, full disks and timetables."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from homeostat.adapters.stores.postgres import PostgresEngine
from homeostat.core.errors import StoreUnavailable
from homeostat.core.ids import Chance
from homeostat.testing.chaos import disk, world
from homeostat.testing.chaos.faults import TRIES_MAX, TROUBLES, Faults, timetable
from homeostat.testing.chaos.installation import STARTS_MAX, Installation, Size
from homeostat.testing.chaos.people import Patience
from homeostat.testing.chaos.processes import Process, party
from homeostat.testing.chaos.proxy import Link, link_to
from homeostat.testing.chaos.scene import Postgres
from homeostat.testing.chaos.world import World
from homeostat.testing.chaos.zygote import Zygote
from homeostat.testing.clock import ManualClock
from homeostat.testing.servers import free_port

HOUR = 3600.0


@asynccontextmanager
async def echo() -> AsyncGenerator[str]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionResetError):
            while data := await reader.read(100):
                writer.write(data)
        writer.close()

    port = free_port()
    server = await asyncio.start_server(answer, "127.0.0.1", port)
    try:
        yield f"redis://user:secret@127.0.0.1:{port}/0"
    finally:
        server.close()


async def say(link: Link) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
    writer.write(b"hello")
    assert await reader.readexactly(5) == b"hello"
    return reader, writer


async def test_a_link_passes_everything_on_until_it_is_cut_reset_or_silent() -> None:
    async with echo() as url, link_to(url) as link:
        assert link.url.startswith("redis://user:secret@127.0.0.1:")
        reader, writer = await say(link)
        link.swallow()
        writer.write(b"lost")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await reader.read(1)
        link.let_through()
        assert await reader.readexactly(4) == b"lost"
        assert link.suffered == {"black-holed": 4}
        link.delay_seconds = 0.01
        writer.write(b"late")
        assert await reader.readexactly(4) == b"late"
        link.delay_seconds = 0.0
        link.cut()
        with suppress(ConnectionResetError):
            assert await reader.read(1) == b""
        writer.close()
        reader, writer = await say(link)
        link.reset()
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        writer.close()
        assert link.suffered == {"black-holed": 4, "delayed": 8, "cut": 2, "reset": 2}


async def test_a_trouble_that_nobody_met_is_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("homeostat.testing.chaos.faults.FELT_SECONDS", 0.1)
    anybody: Any = SimpleNamespace(mortal=False, library=None, world=None)
    hurt = Installation("sqlite", Size(), anybody, anybody, anybody, tmp_path, Chance(1), anybody)
    async with echo() as url, link_to(url) as link:
        hurt.links["bus"] = link
        faults = Faults(hurt)
        for trouble in TROUBLES:
            await faults.do(f"bus link {trouble}")
        assert hurt.counts == {f"bus link {trouble}, and nobody felt it": TRIES_MAX for trouble in TROUBLES}
        hurt.counts.clear()
        for trouble in TROUBLES:
            _, writer = await say(link)
            doing = asyncio.create_task(faults.do(f"bus link {trouble}"))
            await asyncio.sleep(0)
            writer.write(b"more")
            await doing
            writer.close()
        assert hurt.counts == {f"bus link {trouble}": 1 for trouble in TROUBLES}


async def test_a_stall_counts_only_if_the_process_stood_still(tmp_path: Path) -> None:
    child = await asyncio.create_subprocess_exec("sleep", "60")
    anybody: Any = SimpleNamespace(mortal=False, library=None, world=None)
    hurt = Installation("sqlite", Size(), anybody, anybody, anybody, tmp_path, Chance(1), anybody)
    victim = Process(anybody, party("worker"), tmp_path, 1)
    victim._pid = child.pid
    hurt.processes["worker"] = [victim]
    try:
        faults = Faults(hurt)
        await faults.do("worker stopped")
        assert (hurt.counts["worker stopped"], [stall.pid for stall in hurt.stalls]) == (1, [child.pid])
        deaf: Any = lambda _: None  # noqa: E731
        victim.send = deaf
        await faults.do("worker stopped")
        assert hurt.counts == {"worker stopped": 1, "worker stopped, and nobody felt it": TRIES_MAX}
        assert len(hurt.stalls) == 1
    finally:
        child.kill()
        await child.wait()


class Office:
    """Somebody decides about agents, and keeps a lease on that while awake; then another one, if there is any."""

    def __init__(self, holder: Process, *, others: bool) -> None:
        self.holder, self.others = holder, others
        self.mortal, self.lease_ms, self.asleep = False, 0, 0

    async def decider(self) -> tuple[str, int]:
        self.asleep = self.asleep + 1 if self.holder.stopped else 0
        self.lease_ms += 0 if self.asleep else 1_000
        return "other" if self.others and self.asleep > 5 else "holder", self.lease_ms


async def test_whoever_decides_stands_still_until_another_one_decides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in {"SECONDS": 0.5, "POLL_SECONDS": 0.01, "TICKS_SECONDS": 0.01}.items():
        monkeypatch.setattr(f"homeostat.testing.chaos.faults.DECIDER_{name}", seconds)
    monkeypatch.setattr("homeostat.testing.chaos.faults.FELT_SECONDS", 0.5)
    anybody: Any = SimpleNamespace(library=None)
    children = [await asyncio.create_subprocess_exec("sleep", "60") for _ in range(2)]
    server, immune = (Process(anybody, party(title), tmp_path, 1) for title in ("server", "immune"))
    server._pid, immune._pid = (child.pid for child in children)

    async def counted(said: Any, store: Any) -> str:
        monkeypatch.setattr("homeostat.testing.chaos.faults._says_it_decides", lambda _: said)
        hurt = Installation("sqlite", Size(), store, anybody, anybody, tmp_path, Chance(1), anybody)
        hurt.processes |= {"server": [server], "immune": [immune]}
        await Faults(hurt).do("immune stopped")
        await asyncio.sleep(0.01)
        assert not server.stopped
        assert not immune.stopped
        (name,) = hurt.counts
        return name

    try:
        for said, holder in ((False, immune), (True, server)):
            assert await counted(said, Office(holder, others=True)) == "immune stopped"
            assert await counted(said, Office(holder, others=False)) == "immune stopped, and nobody felt it"
        for said, holder in ((None, immune), (True, immune), (False, server)):  # nobody knows, or it is another one
            assert await counted(said, Office(holder, others=True)) == "immune stopped, and nobody felt it"
    finally:
        for child in children:
            child.kill()
            await child.wait()


def test_a_timetable_follows_from_its_seed_and_has_everything_in_it() -> None:
    goals = {"worker killed": 40, "store killed": 3}
    planned = timetable(Chance(5), 10.0, goals)
    assert planned == timetable(Chance(5), 10.0, goals)
    assert planned != timetable(Chance(6), 10.0, goals)
    assert Counter(name for _, name in planned) == goals
    assert planned == sorted(planned)
    assert all(0 <= at <= 10.0 for at, _ in planned)


@pytest.mark.skipif(disk.compiler() is None, reason="a world of its own needs a C compiler")
def test_a_process_lives_in_the_world_it_was_given(tmp_path: Path) -> None:
    home = World(tmp_path / "home")
    home.wall_seconds = 24 * HOUR
    home.full = True
    zygote = Zygote(world.build(tmp_path))
    try:
        ears, mouth = os.pipe()
        (tmp_path / "a.db").touch()
        entry = "homeostat.testing.chaos.world:tell"
        pid = zygote.fork(entry, [str(tmp_path / "a.db")], settings={}, stdout=mouth, stderr=2, home=home.path)
        os.close(mouth)
        zygote.bury(pid)
        with os.fdopen(ears) as said:
            ahead, written = said.read().split()
        assert float(ahead) > 23 * HOUR
        assert written == "ENOSPC"
        assert home.misled > 0
        assert home.refused > 0
    finally:
        zygote.close()


@pytest.mark.skipif(disk.compiler() is None, reason="a world of its own needs a C compiler")
async def test_a_database_lives_in_its_world_too_and_comes_back_from_a_full_disk(tmp_path: Path) -> None:
    database = await asyncio.to_thread(Postgres, tmp_path)
    try:
        assert database.world is not None
        engine = PostgresEngine(database.url, connections_max=1)
        await engine.connect()
        await engine.fetch("CREATE TABLE kept (number integer)")
        await engine.fetch("INSERT INTO kept VALUES (1)")
        before = (await engine.fetch("SELECT extract(epoch FROM now())"))[0][0]
        database.world.wall_seconds = HOUR
        after = (await engine.fetch("SELECT extract(epoch FROM now())"))[0][0]
        assert HOUR <= after - before < 2 * HOUR
        assert database.world.misled > 0
        database.world.wall_seconds = 0.0
        database.world.full = True
        with pytest.raises(StoreUnavailable):
            await engine.fetch("INSERT INTO kept VALUES (2)")
        assert database.world.refused > 0
        database.world.full = False
        await asyncio.to_thread(database.revive)
        await engine.fetch("INSERT INTO kept VALUES (3)")
        assert [row[0] for row in await engine.fetch("SELECT number FROM kept ORDER BY 1")] == [1, 3]
        await engine.close()
    finally:
        await asyncio.to_thread(database.close)


def test_patience_runs_out_only_while_there_is_a_store() -> None:
    clock, trouble = ManualClock(), True
    patience = Patience(60.0, clock, lambda: trouble)
    clock.advance(600)
    assert not patience.over
    trouble = False
    clock.advance(59)
    assert not patience.over
    clock.advance(2)
    assert patience.over


class Reluctant:
    """A server that gives up as often as it is told to."""

    role = SimpleNamespace(title="server")
    last_words = "the store is away"

    def __init__(self, often: int) -> None:
        self.left = often

    async def ready(self) -> None:
        self.left -= 1
        assert self.left < 0

    def kill(self) -> None: ...

    def start(self) -> None: ...


@pytest.mark.parametrize("away", [True, False], ids=["without a store", "with a store"])
async def test_who_gives_up_for_want_of_a_store_is_started_until_it_is_back(
    *, away: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def at_once(_: float) -> None: ...

    monkeypatch.setattr("homeostat.testing.chaos.installation.asyncio.sleep", at_once)
    anybody: Any = None
    hurt = Installation("sqlite", Size(), anybody, anybody, anybody, tmp_path, Chance(1), anybody)
    hurt.store_trouble_until = float("inf") if away else float("-inf")
    one: Any = Reluctant(STARTS_MAX + 5)
    if away:
        await hurt.begin([one])
        assert hurt.counts["starts that failed"] == STARTS_MAX + 5
    else:
        with pytest.raises(AssertionError, match="does not start"):
            await hurt.begin([one])
