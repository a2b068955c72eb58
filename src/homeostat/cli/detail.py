"""One thing in full, for people: what the API tells of it, a line a member, times and money as they are said."""

import json
import re
import textwrap
from typing import Any, Final, cast

from homeostat.cli.tables import measure, money, plain
from homeostat.core.clock import Millis, parse_rfc3339
from homeostat.core.moments import moment

INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
STEP: Final = "  "
EMPTY: Final[tuple[Any, ...]] = (None, "", [], {})

Row = dict[str, Any]


def page(row: Row, *, now_ms: Millis, width: int | None) -> list[str]:
    """The members that say something, in the API's order; what is itself made of members stands below its name."""
    told = {name: value for name, value in row.items() if value not in EMPTY}
    labels = {name: name.replace("_", " ").capitalize() for name in told}
    room = max(map(len, labels.values()), default=0) + len(STEP)
    lines: list[str] = []
    for name, value in told.items():
        parts = _parts_of(value)
        if any(isinstance(one, dict) for one in parts):
            lines += [labels[name], *_below(parts, now_ms=now_ms, width=width)]
        else:
            lines += _wrapped(f"{labels[name]:<{room}}", _said(name, value, now_ms), width)
    return lines


def _parts_of(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else [value]


def _below(parts: list[Any], *, now_ms: Millis, width: int | None) -> list[str]:
    inner = None if width is None else width - len(STEP)
    lines: list[str] = []
    for number, one in enumerate(parts):
        block = page(cast("Row", one), now_ms=now_ms, width=inner) if isinstance(one, dict) else [plain(str(one))]
        lines += [""] * bool(number) + [f"{STEP}{line}".rstrip() for line in block]
    return lines


def _said(name: str, value: Any, now_ms: Millis) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return money(value) if "usd" in name else measure(value) if value == int(value) else f"{value:.4g}"
    if isinstance(value, str):
        return moment(parse_rfc3339(value), now_ms) if INSTANT.fullmatch(value) else value
    if isinstance(value, list):
        return ", ".join(_said(name, one, now_ms) for one in _parts_of(value))
    return json.dumps(value, ensure_ascii=False)


def _wrapped(head: str, text: str, width: int | None) -> list[str]:
    """A label and what it says; what does not fit goes on below, behind the label."""
    lines = [plain(line) for line in text.splitlines()] or [""]
    if width is not None and width > 2 * len(head):
        cut = [textwrap.wrap(line, width - len(head), break_on_hyphens=False) or [""] for line in lines]
        lines = [part for parts in cut for part in parts]
    return [f"{head if not number else ' ' * len(head)}{line}".rstrip() for number, line in enumerate(lines)]
