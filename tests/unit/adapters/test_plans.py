"""What is asked often is found by an index, on both engines: no table is read through and nothing is sorted in vain."""

import asyncio
import json
import os
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from msgspec.structs import replace

from homeostat.adapters.stores.postgres import PostgresEngine, PostgresRuns, PostgresTurns, turns
from homeostat.adapters.stores.postgres.engine import SESSION
from homeostat.adapters.stores.sqlite import SqliteEngine, SqliteRuns, SqliteTurns
from homeostat.adapters.stores.statements import statements
from homeostat.adapters.stores.turns_read import AFTER_ALL
from homeostat.core.clock import Millis
from homeostat.core.ids import WorkerId, scope_of
from homeostat.core.limits import STATE_ROWS_LATEST
from homeostat.core.machines.task import TaskStatus
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.ports.runs import RunStore
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.run import Run
from homeostat.core.records.turn import OpenTurn, Turn, WaitStatus
from homeostat.testing.suites import run_store as runs
from homeostat.testing.suites import turn_records as a

AGENTS = 200
TURNS = 3_000
FEW = 5  # of the neighbour that has little to do

TABLES = {"heads", "turns", "inbox", "waits", "cards", "box_owners", "steps", "answers", "outbox"}
"""Leases are not among them: there is one per worker, and looking for the late ones reads them all."""

IN_ORDER = {
    "inbox_line",
    "heads_list",
    "box_entries",
    "box_length",
    "outbox_get",
    "due_waits",
    "due_unclaimed",
}
"""Where an index gives the order, so that a page costs a page."""

WHOLE = {"deliverables_doubled", "turns_counted", "turns_headless", "box_needed"}
"""What reads everything on purpose: nobody waits for a verification of all there is, and a box is ended seldom."""

FRAGMENTS = {"gates_pass"}
"""What PostgreSQL hears as the end of another statement only."""

FORGETS = {"expire", "ended_cards", "ended_owners", "freed_cards", "freed_ends"}

READS = sorted(
    name
    for name, text in statements("sqlite", "turns").items()
    if text.startswith(("SELECT", "WITH")) and name not in WHOLE
)


def few() -> list[Turn]:
    """The turns of another project, spread over those of the large one."""
    return [a.turn(n, at=a.NOW + n * TURNS // FEW, project=a.ELSEWHERE) for n in range(FEW)]


async def fill(store: TurnStore) -> None:
    """A store after some weeks: mostly finished turns, some in work, some waiting, and a small project beside them."""
    heads = [a.idle(f"agent-{n:04d}") for n in range(AGENTS)]
    await a.register(store, *heads, a.idle(project=a.ELSEWHERE))
    await a.put(store, turns=a.by_id(few()), cards=[a.deliverable(one) for one in few()])
    for batch in range(0, TURNS, 500):
        made = [
            a.turn(
                number,
                at=a.NOW + number,
                agent_id=f"agent-{number % AGENTS:04d}",
                parent_turn_id=None if number % 3 else a.turn(0).turn_id,
                trace_id=a.turn(0).trace_id if number % 5 else a.turn(number, at=a.NOW + number).trace_id,
            )
            for number in range(batch, batch + 500)
        ]
        waiting = [a.wait(one, "c", deadline=a.NOW + one.seq, status=_status(one.seq)) for one in made]
        await a.put(
            store,
            turns=a.by_id(made),
            inbox_put=a.in_line(*(OpenTurn(one) for one in made if one.seq % 4 == 0)),
            new_waits=a.waits_of(*waiting),
            cards=[a.deliverable(one) for one in made] + [a.card(scope_of(one.turn_id), 1) for one in made],
            steps=[a.step(one, "s") for one in made],
            answers={(a.PROJECT, one.turn_id): a.answer(one.turn_id, at=a.NOW + one.seq) for one in made},
        )
        await a.put(store, outbox=a.announcement(batch))
    moved = [
        a.holding(head, a.turn(n, agent_id=head.agent_id), HeadStatus.RUNNING if n % 3 else HeadStatus.DISPATCHED)
        for n, head in enumerate(heads[:50])
    ]
    await a.put(store, heads=a.swap(*moved), leases={WorkerId(f"wrk_{n}"): Millis(a.NOW) for n in range(20)})


async def fill_runs(store: RunStore) -> None:
    """Runs that are nearly over: some thousand of their tasks have ended, the last is in hand."""
    for number in range(3):
        made = await store.create(runs.change_of(runs.run_of(number), new_tasks=(runs.task_of(0),)), request_key=None)
        assert isinstance(made, Run)
        began = [runs.begun(number, place, runs.ANN) for place in range(TURNS + 1)]
        tasks = (*(replace(task, status=TaskStatus.SUCCEEDED) for task in began[:-1]), began[-1])
        assert await store.save(runs.change_of(runs.following(made), tasks=tasks))


def _status(number: int) -> WaitStatus:
    return WaitStatus.PENDING if number % 50 == 0 else WaitStatus.SUCCESS


# --- SQLite ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sqlite_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plans") / "turns.db"

    async def make() -> None:
        engine = SqliteEngine(path)
        await engine.open()
        await fill(SqliteTurns(engine))
        await fill_runs(SqliteRuns(engine))
        await engine.close()

    asyncio.run(make())
    return path


def sqlite_plan(path: Path, text: str) -> list[str]:
    connection = sqlite3.connect(path)
    count = max((int(number) for number in re.findall(r"\?(\d+)", text)), default=0) or text.count("?")
    values = [json.dumps([["p", "a"]])] * count
    plan = [row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + text, values)]
    connection.close()
    return plan


def scanned(plan: list[str], text: str) -> set[str]:
    """The tables a plan reads through, by their own names: all of them, or all that a project has there."""
    aliases = dict(re.findall(r"(?:FROM|JOIN) (\w+) AS (\w+)", text))
    names = {alias: table for table, alias in aliases.items()}
    through = re.compile(r"SCAN (\w+)(?!.*VIRTUAL TABLE)|SEARCH (\w+) USING .*\(project=\?\)$")
    found = {match[1] or match[2] for line in plan if (match := through.match(line))}
    return {names.get(name, name) for name in found} & TABLES


@pytest.mark.parametrize("name", ["head_swap", "head_take", "turn_put", "wait_put", "wait_answer", "card_put"])
def test_sqlite_makes_no_table_for_a_row_it_checks(sqlite_path: Path, name: str) -> None:
    connection = sqlite3.connect(sqlite_path)
    text = statements("sqlite", "turns")[name]
    count = max((int(number) for number in re.findall(r"\?(\d+)", text)), default=0) or text.count("?")
    steps = [row[1] for row in connection.execute("EXPLAIN " + text, [None] * count)]
    connection.close()
    assert "OpenEphemeral" not in steps


@pytest.mark.parametrize("name", sorted(set(statements("sqlite", "turns")) - WHOLE))
def test_sqlite_reads_through_no_table(sqlite_path: Path, name: str) -> None:
    text = statements("sqlite", "turns")[name]
    plan = sqlite_plan(sqlite_path, text)
    if name == "due_stranded":  # the partial index is the list itself: reading it through is the point
        assert any("USING INDEX heads_stranded" in line for line in plan), plan
    else:
        assert scanned(plan, text) == set(), plan
    if name in IN_ORDER:
        assert not any("TEMP B-TREE" in line for line in plan), plan


def test_sqlite_finds_calls_to_make_in_the_order_of_their_deadlines(sqlite_path: Path) -> None:
    plan = sqlite_plan(sqlite_path, statements("sqlite", "tools")["calls_waiting"])
    assert any("waits USING INDEX waits_due" in line for line in plan), plan
    assert any("SEARCH taken USING PRIMARY KEY (turn_id=? AND call_id=?)" in line for line in plan), plan
    assert not any("TEMP B-TREE" in line for line in plan), plan


@pytest.mark.parametrize("name", ["states_latest", "states_marked", "turns_in_line", "agents_barred"])
def test_sqlite_finds_what_runs_wait_for(sqlite_path: Path, name: str) -> None:
    text = statements("sqlite", "runs")[name]
    plan = sqlite_plan(sqlite_path, text)
    assert scanned(plan, text) == set(), plan
    assert not any(re.match(r"SCAN (\w+)(?!.*VIRTUAL TABLE)", line) for line in plan), plan
    if name == "states_latest":
        assert any("(run_id=? AND place>?)" in line for line in plan), plan


def test_a_plan_that_reads_through_a_table_is_seen(sqlite_path: Path) -> None:
    text = "SELECT h.epoch FROM heads AS h WHERE h.epoch = ?1 ORDER BY h.losses"
    plan = sqlite_plan(sqlite_path, text)
    assert scanned(plan, text) == {"heads"}
    assert any("TEMP B-TREE" in line for line in plan)
    of_a_project = "SELECT h.epoch FROM heads AS h WHERE h.project = ?1"
    assert scanned(sqlite_plan(sqlite_path, of_a_project), of_a_project) == {"heads"}


def test_sqlite_gives_a_small_project_its_page_without_reading_its_neighbours(sqlite_path: Path) -> None:
    connection = sqlite3.connect(sqlite_path)
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    connection.set_progress_handler(count, 1)
    found = connection.execute(statements("sqlite", "turns")["turns_recent"], (a.ELSEWHERE, AFTER_ALL, FEW + 1))
    assert [row[0] for row in found.fetchall()] == [one.turn_id for one in reversed(few())]
    connection.close()
    assert steps < TURNS, "not even one step for each turn of the others"


# --- PostgreSQL --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def postgres(postgres_server_url: str) -> Iterator[str]:
    """A database that has been filled and counted."""
    name = f"homeostat_plans_{os.getpid()}"
    url = urlunsplit(urlsplit(postgres_server_url)._replace(path=f"/{name}"))

    async def administer(statement: str) -> None:
        connection = await asyncpg.connect(postgres_server_url)
        await connection.execute(statement)
        await connection.close()

    async def make() -> None:
        await administer(f"CREATE DATABASE {name}")
        engine = PostgresEngine(url)
        await engine.open()
        await fill(PostgresTurns(engine))
        await fill_runs(PostgresRuns(engine))
        await engine.fetch("ANALYZE")
        await engine.close()

    asyncio.run(make())
    yield url
    asyncio.run(administer(f"DROP DATABASE {name} WITH (FORCE)"))


async def postgres_plan(url: str, text: str, *values: str, run: bool = False) -> list[dict[str, Any]]:
    """All nodes of a statement's plan on a connection as the engine's are; `run` counts the rows they see, too."""
    connection = await asyncpg.connect(url, server_settings=SESSION)
    await connection.execute(f"PREPARE explained AS {text}")
    count = max((int(number) for number in re.findall(r"\$(\d+)", text)), default=0)
    given = f"({', '.join(values or ['NULL'] * count)})" if count else ""
    (row,) = await connection.fetch(f"EXPLAIN (FORMAT JSON{', ANALYZE' if run else ''}) EXECUTE explained{given}")
    await connection.close()
    return list(nodes(json.loads(row[0])[0]["Plan"]))


async def widths(url: str) -> dict[str, int]:
    """How many columns each table has."""
    connection = await asyncpg.connect(url)
    found = await connection.fetch(
        "SELECT table_name, count(*) FROM information_schema.columns WHERE table_schema = 'public' GROUP BY 1"
    )
    await connection.close()
    return {row[0]: row[1] for row in found}


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from nodes(inner)


def read_through(plan: list[dict[str, Any]]) -> set[str]:
    """Tables of which a plan looks at every row, or at every row of a project.

    It reads them, or an index on all of them without a condition that says more.
    """
    found: set[str] = set()
    for node in plan:
        condition = node.get("Index Cond", "")
        whole = node["Node Type"] == "Seq Scan" or (
            node["Node Type"] in {"Index Scan", "Index Only Scan", "Bitmap Index Scan"}
            and (not condition or re.fullmatch(r"\(+(\w+\.)?project\)? = [^()]+\)", condition))
        )
        if whole and node.get("Relation Name") in TABLES:
            found.add(node.get("Index Name") or node["Relation Name"])
    return found


@pytest.mark.parametrize(
    "name", sorted(({*READS, *FORGETS, "mailboxes_load"} & set(statements("postgres", "turns"))) - FRAGMENTS)
)
async def test_postgres_reads_through_no_table(postgres: str, name: str) -> None:
    plan = await postgres_plan(postgres, statements("postgres", "turns")[name])
    ended = {"box_owners_ended"}  # the partial index is the list itself
    listed = {"due_next": {"waits_due"}, "ended_any": ended, "ended_cards": ended}  # the first is of one entry
    assert read_through(plan) == listed.get(name, set()), plan
    if name in IN_ORDER:
        assert not [node for node in plan if node["Node Type"] == "Sort"], plan


async def test_postgres_finds_calls_to_make_in_the_order_of_their_deadlines(postgres: str) -> None:
    plan = await postgres_plan(postgres, statements("postgres", "tools")["calls_waiting"])
    (waits,) = [node for node in plan if node.get("Relation Name") == "waits"]
    (taken,) = [node for node in plan if node.get("Relation Name") == "calls_taken"]
    assert waits["Index Name"] == "waits_due", plan
    assert ("turn_id = " in taken["Index Cond"], "call_id = " in taken["Index Cond"]) == (True, True), plan
    assert not [node for node in plan if node["Node Type"] == "Sort"], plan


async def test_postgres_finds_what_runs_have_in_hand_and_reads_nothing_that_is_finished(postgres: str) -> None:
    text = statements("postgres", "runs")["states_latest"]
    wanted = ", ".join(f"'{runs.run_of(number).run_id}'" for number in range(3))
    plan = await postgres_plan(postgres, text, f"ARRAY[{wanted}]", str(STATE_ROWS_LATEST), run=True)
    reads = [node for node in plan if node.get("Relation Name") == "run_states"]
    assert reads
    for node in reads:
        looked_at = node["Actual Loops"] * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
        assert looked_at <= 3 * STATE_ROWS_LATEST, node


@pytest.mark.parametrize("name", ["turns_in_line", "agents_barred"])
async def test_postgres_finds_what_runs_wait_for(postgres: str, name: str) -> None:
    plan = await postgres_plan(postgres, statements("postgres", "runs")[name])
    assert read_through(plan) == set(), plan


@pytest.mark.parametrize("heads", [1, 2])
async def test_a_save_of_everything_looks_everything_up(postgres: str, heads: int) -> None:
    width = await widths(postgres)
    swap = ("head_swap", width["heads"]) if heads == 1 else ("heads_swap", 0)
    lone = {name: width[turns.SQL[name].split()[2]] for name in turns.LONE if heads == 1}
    shape = (swap, *((name, lone.get(name, 0)) for _, name, _ in turns.PARTS))
    plan = await postgres_plan(postgres, turns._statement(shape))
    assert read_through(plan) == set(), plan
    assert not [node["Node Type"] for node in plan if "Hash" in node["Node Type"] or "Merge" in node["Node Type"]]
    locks = [node for node in plan if node["Node Type"] == "LockRows"]
    assert len(locks) == heads - 1
    for lock in locks:
        (sort,) = lock["Plans"]
        assert sort["Node Type"] == "Sort", "heads are locked in the order of their keys"
        assert [key.split()[0] for key in sort["Sort Key"]] == ["h.project", "h.agent_id"]


async def test_a_plan_that_reads_through_a_postgres_table_is_seen(postgres: str) -> None:
    assert read_through(await postgres_plan(postgres, "SELECT epoch FROM heads WHERE epoch = $1")) != set()
    assert read_through(await postgres_plan(postgres, "SELECT project FROM heads ORDER BY project, agent_id")) != set()
    of_a_project = "SELECT h.agent_id FROM heads AS h WHERE h.project = $1 ORDER BY h.agent_id LIMIT 1"
    assert read_through(await postgres_plan(postgres, of_a_project, "'umbrella'")) != set()


async def test_postgres_gives_a_small_project_its_page_without_reading_its_neighbours(postgres: str) -> None:
    text = statements("postgres", "turns")["turns_recent"]
    plan = await postgres_plan(postgres, text, f"'{a.ELSEWHERE}'", f"'{AFTER_ALL}'", str(FEW + 1), run=True)
    reads = [node for node in plan if node.get("Relation Name") == "turns"]
    assert sum(node["Actual Rows"] for node in reads) == FEW
    assert sum(node.get("Rows Removed by Filter", 0) for node in reads) == 0


def test_every_part_of_a_save_is_planned() -> None:
    parts = {name for _, name, _ in turns.PARTS}
    writing = {name for name, text in statements("postgres", "turns").items() if "(SELECT ok FROM go)" in text}
    assert writing == parts | {"heads_swap", "heads_stale"}
