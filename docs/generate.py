"""Writes the reference pages that follow from the code. `--check` says whether they are up to date."""

import sys
from pathlib import Path
from typing import Any

from homeostat.core.machines import ALL
from homeostat.core.machines.table import Machine

REFERENCE = Path(__file__).parent / "reference"


def state_machines() -> str:
    """Every lifecycle as a diagram and as its table."""
    parts = [
        "# State machines",
        "",
        "Generated from the tables in `homeostat.core.machines`; `make docs` writes it anew.",
        "",
    ]
    for machine in ALL:
        parts += [_machine(machine), ""]
    return "\n".join(parts)


def _machine(machine: Machine[Any, Any]) -> str:
    rows = "\n".join(f"| {r.state} | {r.event} | {r.target} | {r.why} |" for r in machine.rows)
    title = machine.name[0].upper() + machine.name[1:]
    return f"## {title}\n\n```mermaid\n{machine.mermaid()}\n```\n\n| In | on | go to | why |\n|---|---|---|---|\n{rows}"


PAGES = {"state-machines.md": state_machines}


def main(arguments: list[str]) -> int:
    stale = [name for name, page in PAGES.items() if _read(REFERENCE / name) != page()]
    if "--check" in arguments:
        for name in stale:
            print(f"docs/reference/{name} is out of date: run `make docs`", file=sys.stderr)
        return 1 if stale else 0
    REFERENCE.mkdir(exist_ok=True)
    for name in stale:
        (REFERENCE / name).write_text(PAGES[name](), encoding="utf-8")
        print(f"docs/reference/{name}")
    return 0


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
