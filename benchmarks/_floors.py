"""The floors: a bare turn in three bare commits, on the engine itself and nothing else."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import asyncpg

from benchmarks._measure import wall

_TABLE = """
CREATE TABLE {name} (id {key}, agent text NOT NULL, payload text NOT NULL, status text NOT NULL, result text);
CREATE INDEX {name}_queued ON {name} (agent, id) WHERE status = 'queued';
"""


class PostgresFloor:
    """Insert, claim with SKIP LOCKED, complete: one connection per client, each statement its own commit."""

    def __init__(self, url: str, clients: int) -> None:
        self._url = url
        self._clients = clients
        self._connections: list[Any] = []

    async def open(self) -> None:
        self._connections = [await asyncpg.connect(self._url) for _ in range(self._clients)]
        first = self._connections[0]
        await first.execute("DROP TABLE IF EXISTS floor")
        await first.execute(_TABLE.format(name="floor", key="bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY"))

    async def close(self) -> None:
        for connection in self._connections:
            await connection.close()

    async def rate(self, turns: int) -> float:
        each = max(1, turns // self._clients)
        began = wall()
        await asyncio.gather(*(self._client(c, f"agent-{n}", each) for n, c in enumerate(self._connections)))
        return each * self._clients / (wall() - began)

    @staticmethod
    async def _client(connection: Any, agent: str, turns: int) -> None:
        for _ in range(turns):
            await connection.execute(
                "INSERT INTO floor (agent, payload, status) VALUES ($1, $2, 'queued')", agent, '{"text":"hello"}'
            )
            claimed = await connection.fetchval(
                "UPDATE floor SET status = 'running' WHERE id = (SELECT id FROM floor WHERE agent = $1 AND"
                " status = 'queued' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id",
                agent,
            )
            await connection.execute(
                "UPDATE floor SET status = 'done', result = $2 WHERE id = $1", claimed, '{"ok":true}'
            )

    async def commit_seconds(self) -> float:
        """How long one bare commit takes."""
        began = wall()
        await self._connections[0].execute(
            "INSERT INTO floor (agent, payload, status) VALUES ('latency', '{\"text\":\"hello\"}', 'done')"
        )
        return wall() - began


class SqliteFloor:
    """The same on SQLite with synchronous=FULL: one connection, no threads, no event loop between."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.executescript(_TABLE.format(name="floor", key="INTEGER PRIMARY KEY"))

    def close(self) -> None:
        self._connection.close()

    async def rate(self, turns: int) -> float:
        run = self._connection.execute
        began = wall()
        for number in range(turns):
            agent = f"agent-{number % 50}"
            run("INSERT INTO floor (agent, payload, status) VALUES (?, ?, 'queued')", (agent, '{"text":"hello"}'))
            claimed = run(
                "UPDATE floor SET status = 'running' WHERE id = (SELECT id FROM floor WHERE agent = ? AND"
                " status = 'queued' ORDER BY id LIMIT 1) RETURNING id",
                (agent,),
            ).fetchone()[0]
            run("UPDATE floor SET status = 'done', result = ? WHERE id = ?", ('{"ok":true}', claimed))
        return turns / (wall() - began)

    async def commit_seconds(self) -> float:
        began = wall()
        self._connection.execute(
            "INSERT INTO floor (agent, payload, status) VALUES ('latency', '{\"text\":\"hello\"}', 'done')"
        )
        return wall() - began
