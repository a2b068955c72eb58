"""Heartbeats from an agent's side: they follow the server's wishes, outlive its restarts, and hold nothing up."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from homeostat import Client, ManagedAgent, Worker
from homeostat.app.assemble import System, assemble
from homeostat.app.settings import Settings
from homeostat.client import heartbeat
from homeostat.client.keys import KeyRing
from homeostat.client.pulse import Pulse
from homeostat.client.turns import HttpTurns
from homeostat.core.errors import AgentExists, AgentGone
from homeostat.core.ids import AgentId
from homeostat.core.records.fleet import IntervalScope, ReportedStatus
from homeostat.fleet.broadcast import Interest
from homeostat.server.serving import bind, serving
from homeostat.testing.clock import ManualClock
from homeostat.testing.servers import free_port

Json = dict[str, Any]


@asynccontextmanager
async def server(place: Path | None, port: int) -> AsyncGenerator[System]:
    """A server on a port; without a place it forgets everything when it ends."""
    settings = Settings(ephemeral=True) if place is None else Settings(data_dir=place)
    async with assemble(settings) as system:
        await system.fleet.set_interval(IntervalScope.DEFAULT, "", 0.1)
        async with serving(system, bind("127.0.0.1", port)):
            yield system


@asynccontextmanager
async def client_of(port: int) -> AsyncGenerator[Client]:
    async with Client(f"http://127.0.0.1:{port}") as client:
        yield client


class Feed:
    """What a server tells of heartbeats, one after the other."""

    def __init__(self, system: System) -> None:
        self._reader = system.fleet.subscribe(Interest())
        self._updates: deque[Json] = deque()

    @classmethod
    async def of(cls, system: System) -> "Feed":
        """A feed from now on."""
        feed = cls(system)
        assert json.loads((await feed._reader.next()).text)["type"] == "snapshot"
        return feed

    async def until(self, event: str, **facts: object) -> Json:
        """The next update of this kind that says so."""
        async with asyncio.timeout(20):
            while True:
                while self._updates:
                    update = self._updates.popleft()
                    if update["event"] == event and facts.items() <= update.items():
                        return update
                message = json.loads((await self._reader.next()).text)
                self._updates += message.get("updates", ())


async def test_an_agent_registers_beats_and_leaves() -> None:
    port = free_port()
    async with server(None, port) as system, client_of(port) as client:
        feed = await Feed.of(system)
        work: asyncio.Queue[int] = asyncio.Queue()
        work.put_nowait(7)
        async with client.heartbeat("inference", tags=["gpu"], queue=work, version="2.\n1") as heart:
            joined = (await feed.until("registered"))["agent"]
            assert (joined["agent_type"], joined["tags"], joined["agent_id"]) == ("inference", ["gpu"], heart.agent_id)
            assert joined["pid"] is not None
            assert joined["hostname"]
            assert joined["version"] == "2.1"
            idle = await feed.until("heartbeat")
            assert (idle["status"], idle["queue_depth"], idle["items_processed"]) == ("idle", 1, 0)
            assert idle["memory_mb"] > 1
            with heart.working("Processed observation obs-456"):
                running = await feed.until("heartbeat", status="running")
                assert running["last_action"] == "Processed observation obs-456"
            with pytest.raises(ZeroDivisionError), heart.working():
                _ = 1 / 0
            failed = await feed.until("heartbeat", status="error")
            assert (failed["items_processed"], failed["error_count"]) == (2, 1)
            assert failed["processing_time_avg_ms"] > 0
            assert heart.beats > 0
        await feed.until("deregistered", agent_id=heart.agent_id)


async def test_the_interval_is_the_servers() -> None:
    port = free_port()
    async with server(None, port) as system, client_of(port) as client:
        feed = await Feed.of(system)
        async with client.heartbeat("inference", tags=["gpu"]) as heart:
            await feed.until("heartbeat")
            assert heart.interval_seconds == 0.1
            await system.fleet.set_interval(IntervalScope.TAG, "gpu", 0.2)
            await feed.until("heartbeat", push_interval_seconds=0.2)
            await feed.until("heartbeat")  # this one knows
            assert heart.interval_seconds == 0.2


async def test_heartbeats_come_a_little_early_and_never_late() -> None:
    async with Client("http://127.0.0.1:1") as client:
        pauses = [client.heartbeat("inference")._beater.pause() for _ in range(100)]
    assert all(27 <= seconds <= 30 for seconds in pauses)
    assert len(set(pauses)) > 90


async def test_a_restart_is_survived(tmp_path: Path) -> None:
    port = free_port()
    async with client_of(port) as client:
        async with server(tmp_path, port) as system:
            heart = client.heartbeat("inference", agent_id="ann")
            await heart.__aenter__()
            await (await Feed.of(system)).until("heartbeat", agent_id="ann")
            key = heart.api_key
        async with server(tmp_path, port) as system:
            await (await Feed.of(system)).until("heartbeat", agent_id="ann")
            assert (heart.api_key, heart.ended) == (key, None)
            await heart.__aexit__()


async def test_a_server_that_forgot_everything_hears_of_the_agent_again() -> None:
    port = free_port()
    async with client_of(port) as client:
        async with server(None, port) as system:
            heart = client.heartbeat("inference", agent_id="ann", tags=["gpu"])
            await heart.__aenter__()
            await (await Feed.of(system)).until("heartbeat", agent_id="ann")
            key = heart.api_key
        async with server(None, port) as system:
            await (await Feed.of(system)).until("heartbeat", agent_id="ann")
            row = await system.fleet.agent(AgentId("ann"))
            assert (row.agent_type, row.tags) == ("inference", ("gpu",))
            assert heart.api_key != key
            await heart.__aexit__()


async def test_no_server_holds_nothing_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "ENTRY_SECONDS", 0.0)
    port = free_port()
    async with client_of(port) as client, client.heartbeat("inference") as heart:
        assert heart.agent_id is None
        with heart.working("on its own"):
            pass
        async with server(None, port) as system:
            told = await (await Feed.of(system)).until("heartbeat")
            assert (told["items_processed"], told["agent_id"]) == (1, heart.agent_id)


async def test_one_who_was_sent_away_does_not_come_back() -> None:
    port = free_port()
    async with server(None, port) as system, client_of(port) as client:
        feed = await Feed.of(system)
        async with client.heartbeat("inference", agent_id="ann") as heart:
            await feed.until("heartbeat")
            await system.fleet.deregister(AgentId("ann"))
            assert heart._task is not None
            async with asyncio.timeout(20):
                await heart._task
            assert isinstance(heart.ended, AgentGone)
            assert system.fleet.registry.get(AgentId("ann")) is None


async def test_a_mistake_of_the_author_is_raised_at_once() -> None:
    port = free_port()
    async with server(None, port), client_of(port) as client:
        first = await client.register("inference", agent_id="ann")
        with pytest.raises(AgentExists):
            async with client.heartbeat("inference", agent_id="ann"):
                pass
        async with client.heartbeat("inference", agent_id="ann", api_key=first.api_key, deregister=False) as heart:
            assert heart.api_key == first.api_key
        row = await client.read_json("/v1/agents/ann")
        assert row["reported_status"] == "stopping"  # its last word; it stays listed


async def test_a_worker_beats_for_those_it_hosts(tmp_path: Path) -> None:
    port = free_port()
    release = asyncio.Event()

    class Patient(ManagedAgent):
        async def process(self, turn: Any, /) -> str:
            del turn
            await release.wait()
            return "done"

    class Broken(ManagedAgent):
        async def process(self, turn: Any, /) -> str:
            raise ValueError(str(turn.input))

    async with server(None, port) as system, client_of(port) as client:
        feed = await Feed.of(system)
        worker = Worker(source=HttpTurns(client, KeyRing(tmp_path / "keys.json", url=client.url)))
        worker.host("ann", Patient)
        worker.host("bob", Broken)
        running = asyncio.create_task(worker.run())
        await feed.until("heartbeat", agent_id="ann", status="idle")
        sent = [await client.enqueue("ann", number) for number in range(3)]
        busy = await feed.until("heartbeat", agent_id="ann", status="running", queue_depth=2)
        assert busy["last_action"] == f"began turn {sent[0].turn_id}"
        release.set()
        done = await feed.until("heartbeat", agent_id="ann", status="idle", items_processed=3)
        assert (done["error_count"], done["queue_depth"]) == (0, 0)
        assert done["processing_time_avg_ms"] > 0
        await client.enqueue("bob", 1)
        assert (await feed.until("heartbeat", agent_id="bob", status="error"))["error_count"] == 1
        worker.stop()
        await feed.until("heartbeat", agent_id="ann", status="stopping")
        await running


def test_a_pulse_counts_and_times() -> None:
    clock = ManualClock()
    pulse = Pulse(clock=clock, queue=[1, 2, 3])
    assert pulse.status is ReportedStatus.IDLE
    with pulse.working("one"):
        clock.advance(0.2)
        assert pulse.status is ReportedStatus.RUNNING
    with pulse.working("two"):
        clock.advance(0.4)
    pulse.processed(failed=True)
    said = pulse.read(AgentId("a"), "cli", ("t",), interval_seconds=5.0)
    assert (said.status, said.items_processed, said.error_count) == (ReportedStatus.ERROR, 3, 1)
    assert said.processing_time_avg_ms == pytest.approx(300)
    assert said.uptime_seconds == pytest.approx(0.6)
    assert (said.queue_depth, said.last_action) == (3, "two")
    assert Pulse(clock=clock, queue=lambda: 9).queue_depth == 9
