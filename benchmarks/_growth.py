"""Whether a turn's price depends on how much lies about: waiting messages, agents, finished turns."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from benchmarks._measure import Report, cpu_seconds, heading, percentile, wall
from benchmarks._turns import Bench, agents, message

Opened = Callable[[str], AbstractAsyncContextManager[tuple[Any, Bench]]]

CHUNK = 50_000  # rows at once: a store gives up on what takes too long
SIZES = (10**3, 10**4, 10**5, 10**6)


async def growth(report: Report, engine: str, opened: Opened, *, quick: bool) -> None:
    """Fill the tables set-wise, then measure the same closed loop on top."""
    heading(f"{engine}: price of a turn by what lies about")
    for size in SIZES[:2] if quick else SIZES:
        async with opened(f"growth_{size}") as (store_engine, subject):
            keys = agents(50)
            await subject.register(keys)
            await _fill(store_engine, engine, size)
            worker = await subject.kernel.open_worker(keys, lambda _: None)
            await _measure(report, f"{engine} {size:>9,} finished, queued, agents", subject, keys, worker)


async def _measure(report: Report, name: str, subject: Bench, keys: list[Any], worker: Any) -> None:
    task = asyncio.create_task(subject.no_op_worker(worker))
    await subject.closed_loop(keys, 500)
    cpu = cpu_seconds()
    rates = [await subject.closed_loop(keys, 1000) for _ in range(5)]
    taken: list[float] = []
    for _ in range(50):
        began = wall()
        await subject.kernel.ask(message(keys[0]), 60)
        taken.append(wall() - began)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    report.add(
        name,
        turns_per_second=percentile(rates, 0.5),
        cpu_ms_per_turn=(cpu_seconds() - cpu) / 5050 * 1000,
        p50_ms_alone=percentile(taken, 0.5) * 1000,
    )


async def _fill(store_engine: Any, engine: str, size: int) -> None:
    """Lay down as many finished turns, queued messages and idle agents as asked for, set-wise."""
    if engine == "sqlite":

        def work(connection: Any) -> None:
            connection.executescript(_SQLITE.replace(":size", str(size)))

        await store_engine.write(work)
    else:
        for first in range(1, size + 1, CHUNK):
            numbers = f"generate_series({first}, {min(first + CHUNK - 1, size)})"
            for statement in _POSTGRES.replace(":numbers", numbers).split(";"):
                await store_engine.fetch(statement)
        await store_engine.fetch("ANALYZE")


_TURN = "turn_id, project, agent_id, seq, type, payload, trace_id, depth, created_at_ms"
_HEAD = "project, agent_id, version, status, epoch, starts, losses, cards, gate, queued, tail_seq, waiting, since_ms"

_SQLITE = f"""
BEGIN;
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :size)
INSERT INTO turns ({_TURN})
SELECT printf('turn_%024x', i), 'default', 'old-' || (i % 1000), i, 'turn', '{{"text":"hello"}}',
    '00000000' || printf('%024x', i), 0, i FROM n;
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :size)
INSERT INTO cards (project, scope, position, type, content, digest, author, created_at_ms)
SELECT 'default', printf('%024x', i), 0, 'task.deliverable', '{{"status":"success"}}', 'd', 'old', i FROM n;
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :size)
INSERT INTO heads ({_HEAD})
SELECT 'default', printf('idle-%08d', i), 0, 'idle', 0, 0, 0, 0, 'closed', 1, 1, 0, i FROM n;
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :size)
INSERT INTO inbox (project, agent_id, seq, turn_id, starts, losses, cards)
SELECT 'default', printf('idle-%08d', i), 1, printf('turn_%024x', i), 0, 0, 0 FROM n;
COMMIT;
"""

_POSTGRES = f"""
INSERT INTO turns ({_TURN})
SELECT 'turn_' || lpad(to_hex(i), 24, '0'), 'default', 'old-' || (i % 1000), i, 'turn', '{{"text":"hello"}}',
    '00000000' || lpad(to_hex(i), 24, '0'), 0, i FROM :numbers AS i;
INSERT INTO cards (project, scope, position, type, content, digest, author, created_at_ms)
SELECT 'default', lpad(to_hex(i), 24, '0'), 0, 'task.deliverable', '{{"status":"success"}}', 'd', 'old', i
FROM :numbers AS i;
INSERT INTO heads ({_HEAD})
SELECT 'default', 'idle-' || lpad(i::text, 8, '0'), 0, 'idle', 0, 0, 0, 0, 'closed', 1, 1, 0, i
FROM :numbers AS i;
INSERT INTO inbox (project, agent_id, seq, turn_id, starts, losses, cards)
SELECT 'default', 'idle-' || lpad(i::text, 8, '0'), 1, 'turn_' || lpad(to_hex(i), 24, '0'), 0, 0, 0
FROM :numbers AS i
"""
