"""Statements live in files: the same names on both engines, each with its reason, and none that nobody runs."""

import re
from pathlib import Path

import pytest

import homeostat.adapters.stores
from homeostat.adapters.stores.statements import statements

STORES = Path(homeostat.adapters.stores.__path__[0])
DIALECTS = ("sqlite", "postgres")
FILES = sorted(STORES.glob("*/sql/*/*.sql"))

# What only one engine has, by room: SQLite runs several statements in one transaction where PostgreSQL saves round
# trips, and it locks its file where PostgreSQL locks rows.
ONLY_SQLITE = {
    "turns": {
        "heads_load": "mailboxes are put together from several statements in one snapshot",
        "turns_load": "as above",
        "waits_load": "as above",
        "head_take": "a swap leaves the index on holders alone, where PostgreSQL sees by itself that nothing changed",
        "turn_put_task": "the same, for the tasks of runs",
        "turn_put_plain": "a column is cheaper left out than bound empty, where PostgreSQL takes whole rows",
        "turns_old": "one statement per table, in one transaction",
        "expire_answers": "as above",
        "expire_cards": "as above",
        "expire_steps": "as above",
        "expire_turns": "as above",
        "expire_waits": "as above",
        "swept_put": "as above",
        "box_stays": "asked for each box apart, under its only lock, where PostgreSQL makes it part of the save",
    },
    "fleet": {
        "agent_put": "entries are written one by one, in one transaction",
        "agent_swap": "as above",
        "revision_take": "as above",
    },
    "gateway": {},
    "enforcement": {},
    "immune": {},
    "ledger": {},
    "access": {},
    "runs": {},
    "memory": {"memory_put": "values are written one by one, in one transaction", "memory_drop": "as above"},
}
ONLY_POSTGRES = {
    "turns": {
        "clock_now": "whoever has a file open is on its machine, and has its clock",
        "mailboxes_load": "one round trip",
        "expire": "one round trip",
        "heads_swap": "several heads are locked in order before one moves",
        "heads_stale": "the save itself says which heads had moved",
        "head_stale": "as above",
        "box_lock": "whoever ends a box waits for saves that name it, where SQLite has one writer anyway",
        "boxes_stay": "part of the save, where SQLite asks for each apart, under its only lock",
        "swept_lock": "whoever forgets waits for others who do, where SQLite has one writer anyway",
        "mandates_hold": "part of the save, where SQLite asks for each apart, under its only lock",
    },
    "fleet": {"agents_save": "one round trip"},
    "gateway": {
        "budget_see": "reading an account to show it holds nobody up, where SQLite has one writer anyway",
        "gateway_lapsed": "whoever holds a dead gateway's row buries it",
    },
    "enforcement": {},
    "immune": {},
    "ledger": {},
    "access": {"audit_lock": "writers to the chain stand behind each other; SQLite has one writer anyway"},
    "runs": {
        "button_lock": "whoever presses waits for runs that are being made, where SQLite has one writer anyway",
        "button_lock_shared": "and they for whoever presses",
    },
    "memory": {"memory_keep": "one round trip"},
}


@pytest.mark.parametrize("room", sorted(ONLY_SQLITE))
def test_both_engines_answer_to_the_same_names(room: str) -> None:
    sqlite, postgres = set(statements("sqlite", room)), set(statements("postgres", room))
    assert sqlite - postgres == set(ONLY_SQLITE[room])
    assert postgres - sqlite == set(ONLY_POSTGRES[room])


def test_both_engines_have_the_same_rooms() -> None:
    rooms = {dialect: {path.name for path in STORES.glob(f"{dialect}/sql/*")} for dialect in ("sqlite", "postgres")}
    assert rooms["postgres"] == {*ONLY_SQLITE, "tools"}
    assert rooms["sqlite"] == rooms["postgres"]


def test_migrations_have_numbers_of_their_own_and_the_same_names_on_both_engines() -> None:
    named = {dialect: sorted(path.name for path in STORES.glob(f"{dialect}/migrations/*.sql")) for dialect in DIALECTS}
    assert named["sqlite"] == named["postgres"]
    numbers = [name[:4] for name in named["sqlite"]]
    assert len(numbers) == len(set(numbers)), "take the next free number: one that is taken is never applied"


def name_of(path: Path) -> str:
    return path.relative_to(STORES).as_posix()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_statement_says_why_and_is_used(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("-- "), "the first line says what moves and under which condition"
    assert ";" not in re.sub(r"--.*", "", text).strip().removesuffix(";"), "one statement per file"
    dialect = path.relative_to(STORES).parts[0]
    sources = [*STORES.glob("*.py"), *(STORES / dialect).glob("*.py")]
    assert any(f'"{path.stem}"' in source.read_text() for source in sources), "nobody runs it"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_parameters_are_counted_without_a_gap(path: Path) -> None:
    """A number that is left out is a parameter the database cannot guess the type of."""
    text = re.sub(r"--.*", "", path.read_text())
    numbers = {int(number) for number in re.findall(r"(?<!')[$?](\d+)", text)}
    assert numbers == set(range(1, len(numbers) + 1))
