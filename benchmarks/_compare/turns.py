"""Durable turns: enqueue, execute, keep the outcome, read it; each peer from its own package in its own environment."""

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from benchmarks._compare.kept import Figures
from benchmarks._compare.peers_at import PEERS_AT, Peer, install, python_of
from benchmarks._floors import PostgresFloor, SqliteFloor
from homeostat.testing.servers import PostgresServer

SCRIPTS = Path(__file__).parent / "peers"
LOADS = {1: 600, 10: 6_000, 50: 30_000}  # a second or more of ours, by number of clients
PEERS_SHARE = 30
ROUNDS = 3
TIMEOUT_SECONDS = 300

TURN_PEERS = (
    Peer("homeostat", (), engines=("sqlite", "postgres"), kinds=("plain", "tool")),
    Peer("dbos", ("dbos",), engines=("sqlite", "postgres"), kinds=("plain", "tool")),
    Peer(
        "langgraph",
        ("langgraph", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres", "psycopg[binary,pool]"),
        engines=("sqlite", "postgres"),
        kinds=("plain", "tool"),
    ),
    Peer("procrastinate", ("procrastinate", "psycopg[binary,pool]"), engines=("postgres",), kinds=("plain",)),
    Peer("pgqueuer", ("pgqueuer[asyncpg]",), engines=("postgres",), kinds=("plain",)),
)


@dataclass(frozen=True, slots=True)
class Ground:
    """Where the engines are; every measurement gets an empty place on one of them."""

    server: PostgresServer
    folder: Path
    numbers: Iterator[int] = field(default_factory=count)

    @contextmanager
    def place(self, engine: str) -> Generator[str]:
        name = f"place_{next(self.numbers)}"
        if engine == "sqlite":
            yield f"sqlite:///{self.folder / name}.db"
            return
        asyncio.run(_administer(self.server.url, f"CREATE DATABASE {name}"))
        yield urlunsplit(urlsplit(self.server.url)._replace(path=f"/{name}"))
        asyncio.run(_administer(self.server.url, f"DROP DATABASE {name} WITH (FORCE)"))


def measure(engine: str, kind: str, clients: int, *, quick: bool) -> Figures:
    """Every peer on one engine at one load, and the bare engine in the same rounds."""
    turns = LOADS[clients] // 4 if quick else LOADS[clients]
    wanted = [peer for peer in TURN_PEERS if engine in peer.engines and kind in peer.kinds]
    for peer in wanted:
        install(PEERS_AT, peer)
    said: dict[str, list[dict[str, Any]]] = {peer.name: [] for peer in wanted}
    floors: list[float] = []
    with PostgresServer() as server, tempfile.TemporaryDirectory() as folder:
        ground = Ground(server, Path(folder))
        for _ in range(ROUNDS):
            with ground.place(engine) as url:
                floors.append(asyncio.run(_floor(url, clients, turns // 4)))
            for peer in wanted:
                # The slow ones are given less to do, which takes them as long or longer; a rate is a rate.
                share = turns if peer.name == "homeostat" else max(20 + clients * 8, turns // PEERS_SHARE)
                with ground.place(engine) as url:
                    said[peer.name].append(_run(peer, url, kind, clients=clients, turns=share))
    peers: Figures = {}
    for name, rounds in said.items():
        rate = statistics.median(one["rate"] for one in rounds)
        cpu_ms = statistics.median(one["cpu_ms"] for one in rounds)
        print(f"    {name:<14}{rate:9.0f}/s  {cpu_ms:7.2f} ms CPU", flush=True)
        peers[name] = {"rate": rate, "cpu_ms": cpu_ms}
    return {"floor": statistics.median(floors), "peers": peers}


def _run(peer: Peer, url: str, kind: str, *, clients: int, turns: int) -> dict[str, Any]:
    script = SCRIPTS / f"{peer.name}_turns.py"
    interpreter = sys.executable if peer.name == "homeostat" else str(python_of(PEERS_AT, peer))
    done = subprocess.run(
        [interpreter, str(script), url, str(clients), str(turns), kind],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    if not done.stdout.strip():
        raise RuntimeError(f"{peer.name} on {urlsplit(url).scheme}: {done.stderr[-800:]}")
    return json.loads(done.stdout.splitlines()[-1])


async def _administer(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def _floor(url: str, clients: int, turns: int) -> float:
    if url.startswith("sqlite"):
        file = SqliteFloor(Path(url.removeprefix("sqlite://")))
        try:
            return await file.rate(turns)
        finally:
            file.close()
    bare = PostgresFloor(url, clients)
    await bare.open()
    try:
        return await bare.rate(turns)
    finally:
        await bare.close()
