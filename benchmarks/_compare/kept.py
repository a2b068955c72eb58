"""What was measured is kept cell by cell, so that a run that is stopped loses nothing."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

LOAD_MAX = 2.0 * (os.cpu_count() or 1)  # what a run leaves behind itself is below
RESULTS = Path("benchmarks/results/compare.json")

Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cell:
    """One part of the table: its name, and how it is taken."""

    name: str
    take: Callable[[], Figures]
    quick: bool = False  # taken with less work than a figure needs that is to be believed


class Kept:
    """Every figure that was taken, by the name of its cell."""

    def __init__(self, path: Path = RESULTS) -> None:
        self._path = path
        self.failed: list[str] = []
        self.cells: dict[str, Figures] = json.loads(path.read_text()) if path.exists() else {}

    def take(self, cell: Cell, *, again: bool) -> None:
        """Measure, unless it is there already and was taken as thoroughly."""
        known = self.cells.get(cell.name)
        if known is not None and not again and (cell.quick or not known.get("quick")):
            print(f"  {cell.name}: kept from {known['taken_at']}", flush=True)
            return
        print(f"  {cell.name}", flush=True)
        load = os.getloadavg()[0]
        try:
            figures = cell.take()
        except Exception as problem:  # noqa: BLE001 - whatever it was, the other cells do not suffer for it
            print(f"    not taken: {problem}", flush=True)
            self.failed.append(cell.name)
            return
        taken_at = datetime.now(UTC).isoformat(timespec="minutes")
        self.cells[cell.name] = {"taken_at": taken_at, "load": round(load, 1), "quick": cell.quick, **figures}
        self._path.parent.mkdir(parents=True, exist_ok=True)
        partial = self._path.with_suffix(".part")
        partial.write_text(json.dumps(self.cells, indent=1) + "\n")
        partial.replace(self._path)

    def disturbed(self) -> list[str]:
        """Cells that were taken while others worked on the machine; their figures are worth little."""
        return [name for name, cell in self.cells.items() if cell.get("load", 0.0) > LOAD_MAX]

    def quick(self) -> list[str]:
        """Cells that were taken to see that they can be."""
        return [name for name, cell in self.cells.items() if cell.get("quick")]

    def of(self, prefix: str) -> dict[str, Figures]:
        """The cells whose names begin so, by the rest of their names."""
        return {name.removeprefix(prefix): cell for name, cell in self.cells.items() if name.startswith(prefix)}
