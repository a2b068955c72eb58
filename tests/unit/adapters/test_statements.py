"""Statements live in files: the same names on both engines, each with its reason, and none that nobody runs."""

import re
from pathlib import Path

import pytest

import homeostat.adapters.stores
from homeostat.adapters.stores.statements import statements

STORES = Path(homeostat.adapters.stores.__path__[0])
FILES = sorted(STORES.glob("*/sql/*/*.sql"))

# SQLite has no LATERAL and no statement that deletes from several tables; it also locks the file, not its rows.
ONLY_SQLITE = {
    "heads_load": "mailboxes are put together from several statements in one snapshot",
    "turns_load": "as above",
    "waits_load": "as above",
    "turns_old": "one statement per table, in one transaction",
    "expire_answers": "as above",
    "expire_cards": "as above",
    "expire_steps": "as above",
    "expire_turns": "as above",
    "expire_waits": "as above",
}
ONLY_POSTGRES = {
    "mailboxes_load": "one round trip",
    "expire": "one round trip",
    "heads_swap": "several heads are locked in order before one moves",
    "heads_stale": "the save itself says which heads had moved",
}


def test_both_engines_answer_to_the_same_names() -> None:
    sqlite, postgres = set(statements("sqlite", "turns")), set(statements("postgres", "turns"))
    assert sqlite - postgres == set(ONLY_SQLITE)
    assert postgres - sqlite == set(ONLY_POSTGRES)


def name_of(path: Path) -> str:
    return path.relative_to(STORES).as_posix()


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_statement_says_why_and_is_used(path: Path) -> None:
    text = path.read_text()
    assert text.startswith("-- "), "the first line says what moves and under which condition"
    assert ";" not in re.sub(r"--.*", "", text), "one statement per file"
    dialect = path.relative_to(STORES).parts[0]
    sources = [*STORES.glob("*.py"), *(STORES / dialect).glob("*.py")]
    assert any(f'"{path.stem}"' in source.read_text() for source in sources), "nobody runs it"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_parameters_are_counted_without_a_gap(path: Path) -> None:
    """A number that is left out is a parameter the database cannot guess the type of."""
    text = re.sub(r"--.*", "", path.read_text())
    numbers = {int(number) for number in re.findall(r"(?<!')[$?](\d+)", text)}
    assert numbers == set(range(1, len(numbers) + 1))
