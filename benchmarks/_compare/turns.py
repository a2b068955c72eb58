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

from benchmarks._compare.peers_at import PEERS_AT, Peer, python_of
from benchmarks._floors import PostgresFloor, SqliteFloor
from homeostat.testing.servers import PostgresServer

SCRIPTS = Path(__file__).parent / "peers"
LOADS = {1: 200, 10: 1000, 50: 3000}
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
class Row:
    """One peer at one load: the median of some rounds, beside the floor of the same rounds."""

    peer: str
    engine: str
    kind: str
    clients: int
    rate: float
    cpu_ms: float
    floor: float


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


def measure(*, quick: bool) -> list[Row]:
    rows: list[Row] = []
    with PostgresServer() as server, tempfile.TemporaryDirectory() as folder:
        ground = Ground(server, Path(folder))
        for engine in ("sqlite", "postgres"):
            for clients, turns in LOADS.items():
                for kind in ("plain", "tool"):
                    rows += _load(ground, engine, kind, clients=clients, turns=turns // 4 if quick else turns)
    return rows


def _load(ground: Ground, engine: str, kind: str, *, clients: int, turns: int) -> Iterator[Row]:
    wanted = [peer for peer in TURN_PEERS if engine in peer.engines and kind in peer.kinds]
    said: dict[str, list[dict[str, Any]]] = {peer.name: [] for peer in wanted}
    floors: list[float] = []
    for _ in range(ROUNDS):
        with ground.place(engine) as url:
            floors.append(asyncio.run(_floor(url, clients, turns)))
        for peer in wanted:
            # The slow ones are given less to do; a rate is a rate.
            share = turns if peer.name == "homeostat" else max(clients * 4, turns // 5)
            with ground.place(engine) as url:
                said[peer.name].append(_run(peer, url, kind, clients=clients, turns=share))
    for peer in wanted:
        rate = statistics.median(one["rate"] for one in said[peer.name])
        cpu_ms = statistics.median(one["cpu_ms"] for one in said[peer.name])
        print(f"  {engine:<9}{kind:<6}c={clients:<4}{peer.name:<14}{rate:9.0f}/s  {cpu_ms:7.2f} ms CPU", flush=True)
        yield Row(peer.name, engine, kind, clients, rate, cpu_ms, statistics.median(floors))


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
