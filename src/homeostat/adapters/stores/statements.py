"""SQL lives in files, one statement each; this reads them once."""

import re
from functools import cache
from importlib.resources import files
from typing import Final


@cache
def statements(dialect: str, room: str) -> dict[str, str]:
    """Every statement of a room in a dialect by its file's name, without the comment that explains it."""
    folder = files("homeostat.adapters.stores") / dialect / "sql" / room
    return {
        entry.name.removesuffix(".sql"): _body(entry.read_text("utf-8"))
        for entry in folder.iterdir()
        if entry.name.endswith(".sql")
    }


@cache
def migrations(dialect: str) -> tuple[tuple[int, str, str], ...]:
    """Every migration of a dialect in order: number, name, text."""
    folder = files("homeostat.adapters.stores") / dialect / "migrations"
    found = [(entry.name, entry.read_text("utf-8")) for entry in folder.iterdir() if entry.name.endswith(".sql")]
    assert len({name[:4] for name, _ in found}) == len(found), (
        "two migrations have one number: the second is never applied"
    )
    return tuple((int(name[:4]), name[5:-4], text) for name, text in sorted(found))


_PLACE: Final = re.compile(r"\$(\d+)")


def numbered(sql: str, used: int) -> str:
    """A statement whose parameters come behind as many others, place by place: `$1` is the beginning of `$12`."""
    return _PLACE.sub(lambda place: f"${int(place[1]) + used}", sql)


def _body(text: str) -> str:
    lines = [line for line in text.splitlines() if not line.startswith("--")]
    return "\n".join(lines).strip().rstrip(";")
