"""Columns for people: as wide as they need to be, never wider than the terminal, coloured only on one."""

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TextIO
from unicodedata import combining, east_asian_width

GAP: Final = "  "
STYLES: Final = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "magenta": "35",
    "cyan": "36",
    "reverse": "7",
}


@dataclass(frozen=True, slots=True)
class Cell:
    """A text and how it is shown."""

    text: str
    style: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A heading. When there is little room a column becomes narrower, down to `least`, then those go that matter least:
    the one with the highest `spare` first, and never one that has none.
    """

    title: str
    right: bool = False
    least: int | None = None
    spare: int = 0


@dataclass(frozen=True, slots=True)
class Screen:
    """Where output goes: how wide it is (None: as wide as it likes), and whether it shows colours."""

    width: int | None = None
    colours: bool = False


def screen(stream: TextIO | None = None) -> Screen:
    """What the standard output is. NO_COLOR turns colours off, whatever its value; FORCE_COLOR turns them on."""
    terminal = (stream or sys.stdout).isatty()
    width = shutil.get_terminal_size().columns if terminal else None
    dumb = os.environ.get("TERM") == "dumb"
    colours = not os.environ.get("NO_COLOR") and (bool(os.environ.get("FORCE_COLOR")) or (terminal and not dumb))
    return Screen(width, colours)


def styled(text: str, style: str, *, on: Screen) -> str:
    if not style or not on.colours:
        return text
    codes = ";".join(STYLES[word] for word in style.split())
    return f"\x1b[{codes}m{text}\x1b[0m"


def plain(text: str) -> str:
    """A text that stays on its line and cannot command a terminal, wherever it came from."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def room(text: str) -> int:
    """How many places of a line a text takes: some characters take two, some none."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def cut(text: str, width: int) -> str:
    if room(text) <= width:
        return text
    while text and room(text) > width - 1:
        text = text[:-1]
    return text + "…" if width > 0 else ""


def filled(text: str, width: int, *, right: bool = False) -> str:
    blanks = " " * (width - room(text))
    return blanks + text if right else text + blanks


class Layout:
    """Which columns are shown, and how wide: what they need, less where there is not enough room for all."""

    def __init__(self, columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, width: int | None) -> None:
        needed = [
            max([room(column.title), *(room(row[number].text) for row in rows)])
            for number, column in enumerate(columns)
        ]
        least = [min(need, column.least or need) for column, need in zip(columns, needed, strict=True)]
        chosen = list(range(len(columns)))
        if width is not None:
            while _total(chosen, least) > width and (spare := [n for n in chosen if columns[n].spare]):
                chosen.remove(max(spare, key=lambda number: columns[number].spare))
            while (excess := _total(chosen, needed) - width) > 0:
                widest = max((n for n in chosen if needed[n] > least[n]), key=lambda n: needed[n], default=None)
                if widest is None:
                    break
                needed[widest] -= min(excess, max(1, (needed[widest] - least[widest]) // 2))
        self._columns = columns
        self._chosen = chosen
        self._sizes = needed

    @property
    def left_out(self) -> list[str]:
        """The titles for which there is no room."""
        return [column.title for number, column in enumerate(self._columns) if number not in self._chosen]

    def heading(self, *, on: Screen) -> str:
        return self.line([Cell(column.title, "bold") for column in self._columns], on=on)

    def line(self, cells: Sequence[Cell], *, on: Screen) -> str:
        """One row. What does not fit even so is cut at the edge, so that a row is a line."""
        left = on.width
        parts: list[str] = []
        for number in self._chosen:
            size = self._sizes[number]
            if left is not None:
                if left <= 0:
                    break
                size = min(size, left)
                left -= size + len(GAP)
            text = cut(plain(cells[number].text), size)
            padded = filled(text, size, right=self._columns[number].right)
            if number == self._chosen[-1]:
                padded = padded.rstrip()
            parts.append(styled(padded, cells[number].style, on=on) if text else padded)
        return GAP.join(parts)


def _total(chosen: Sequence[int], sizes: Sequence[int]) -> int:
    return sum(sizes[number] for number in chosen) + len(GAP) * (len(chosen) - 1)


def table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], *, on: Screen) -> list[str]:
    """A heading and its rows."""
    layout = Layout(columns, rows, width=on.width)
    return [layout.heading(on=on), *(layout.line(row, on=on) for row in rows)]


def ago(seconds: float) -> str:
    """A span of time in one or two words, as short as it can be told."""
    whole = max(0, int(seconds))
    for size, unit, below, lower in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s")):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size}{unit}{rest}{lower}" if rest and whole < 10 * size else f"{whole // size}{unit}"
    return f"{whole}s"


def distance(moment: str, now_ms: int) -> str:
    """How long ago an instant of the API was, or how soon it comes."""
    from homeostat.core.clock import parse_rfc3339

    seconds = (now_ms - parse_rfc3339(moment)) / 1000
    return ago(seconds) if seconds > -1 else f"in {ago(-seconds)}"


def money(dollars: float) -> str:
    """Dollars with as many places as they need to be told from nothing."""
    return f"${dollars:,.2f}" if dollars == 0 or dollars >= 0.01 else f"${dollars:.6f}"


def measure(number: float | None, unit: str = "") -> str:
    """A number as people write it."""
    if number is None:
        return "-"
    text = f"{number:,.0f}" if abs(number) >= 100 or number == int(number) else f"{number:,.1f}"
    return f"{text}{unit}"
