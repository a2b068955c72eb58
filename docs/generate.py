"""Writes the reference pages that follow from the code. `--check` says whether they are up to date."""

import asyncio
import inspect
import sys
from pathlib import Path
from typing import Any

import typer
import typer.main

from homeostat.access.authority import TABLE
from homeostat.app.assemble import assemble
from homeostat.app.feed import Kind
from homeostat.app.settings import SETTINGS, Settings
from homeostat.cli.application import application
from homeostat.core import filter as filter_grammar
from homeostat.core.filter_fields import NOUNS
from homeostat.core.machines import ALL
from homeostat.core.machines.table import Machine
from homeostat.core.telemetry import ANNOUNCED, ATTRIBUTES, METRICS, SPANS
from homeostat.server.application import table_of
from homeostat.server.error_pages import error_pages
from homeostat.server.metrics import Metrics
from homeostat.server.patience import Patience

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


def command_line() -> str:
    """Every command with its help."""
    parts = ["# Command line", "", "Generated from the commands themselves; `make docs` writes it anew.", ""]
    root = typer.main.get_command(application)
    parts += [_command(root, ("homeostat",))]
    return "\n".join(parts)


def _command(command: Any, path: tuple[str, ...], parent: Any = None) -> str:
    context = typer.Context(command, info_name=path[-1], parent=parent, terminal_width=100, max_content_width=100)
    lines = [f"## `{' '.join(path)}`", "", "```text", command.get_help(context).rstrip(), "```", ""]
    nested: dict[str, Any] = getattr(command, "commands", {})
    named = sorted((name, one) for name, one in nested.items() if not one.hidden)
    lines += [_command(one, (*path, name), context) for name, one in named]
    return "\n".join(lines)


def settings() -> str:
    """Every setting: its variable, its default, what it does."""
    rows = [f"| `{s.variable}` | `{s.default}` | {s.summary} |" for s in SETTINGS]
    return "\n".join(
        [
            "# Settings",
            "",
            "An option of `homeostat up` overrules the environment, and that the default; what holds is shown by",
            "`homeostat config show --origin`. Generated from `homeostat.app.settings`; `make docs` writes it anew.",
            "",
            "| Variable | Default | What it does |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def errors() -> str:
    """Every code that an answer may carry, each with a page of its own."""
    parts = [
        "# Errors",
        "",
        "Errors are `application/problem+json` with `code`, `detail`, `hint` and `trace_id`; their `type` leads to",
        "the page of their code, which every server has at `/errors/CODE`. Codes are stable; words may change.",
        "Generated from the errors themselves; `make docs` writes it anew.",
        "",
        "| Code | HTTP | What it says |",
        "|---|---|---|",
    ]
    for code, page in error_pages(table_of()).items():
        told = page.message.replace("|", "\\|")
        parts.append(f"| [`{code}`](errors/{code}.md) | {page.kind.http_status} | {told} |")
    return "\n".join([*parts, ""])


def filters() -> str:
    """The filter grammar, and the fields of every noun."""
    said = inspect.cleandoc(filter_grammar.__doc__ or "").split("\n\n")
    parts = [
        "# Filters",
        "",
        "`-q` on the command line, `?q=` on the lists of the API and the dashboard's search box take the same filters.",
        "An unknown field or a term that cannot be read is refused with `filter_invalid`, which names the fields.",
        "Generated from the grammar and its fields; `make docs` writes it anew.",
        "",
        said[1],
        "",
        "```text",
        inspect.cleandoc(said[2]),
        "```",
        "",
    ]
    for reader in NOUNS:
        rows = [f"| `{one.name}` | {one.kind} | {one.words} |" for one in reader.fields]
        parts += [f"## {reader.noun.capitalize()}", "", "| Field | Is a | Means |", "|---|---|---|", *rows, ""]
    return "\n".join(parts)


def api() -> str:
    """Every route, who may use it, and what it does."""
    parts = [
        "# HTTP API",
        "",
        "The whole description, with shapes and examples, is at `/openapi.json` of every server; people read it at",
        "`/docs`. Who may: roles by name; `agent` is an agent's own key, `agent (own)` only on what is its own.",
        "Generated from the routes; `make docs` writes it anew.",
        "",
    ]
    by_tag: dict[str, list[str]] = {}
    for route in table_of():
        row = TABLE[route.name]
        who = "everybody" if row.open else ", ".join(sorted(row.roles))
        if not row.open and row.agents != "never":
            who += ", agent" + (" (own)" if row.agents == "own" else "")
        flags = " ".join(word for word, on in (("dry run", row.dry_run), ("audited", row.audited)) if on)
        words = f"{route.summary}." + (f" *({flags})*" if flags else "")
        by_tag.setdefault(route.tag, []).append(f"| `{route.method} {route.path}` | {who.strip(', ')} | {words} |")
    for tag, rows in sorted(by_tag.items()):
        parts += [f"## {tag.capitalize()}", "", "| Route | Who may | What it does |", "|---|---|---|", *rows, ""]
    return "\n".join(parts)


def telemetry() -> str:
    """Metrics, spans and events by name."""
    parts = [
        "# Metrics, spans and events",
        "",
        "Generated from the tables that make them; `make docs` writes it anew. Labels are bounded: route templates,",
        "codes and states, never anybody's ids.",
        "",
        "## Metrics at `/metrics`",
        "",
        "| Metric | Kind | What it counts |",
        "|---|---|---|",
        *(f"| `{name}` | {kind} | {words} |" for name, kind, words in asyncio.run(_families())),
        "",
        "## OpenTelemetry",
        "",
        "Sent where an OpenTelemetry SDK is set up in the server's process (`opentelemetry-instrument homeostat up`);",
        "without one nothing is measured, and nothing costs.",
        "",
        "| Span | What it covers |",
        "|---|---|",
        *(f"| `{name}` | {words} |" for name, words in SPANS.items()),
        "",
        "| Metric | Unit | What it measures |",
        "|---|---|---|",
        *(f"| `{one.name}` | {one.unit} | {one.words} |" for one in METRICS),
        "",
        "| Attribute | What it says |",
        "|---|---|",
        *(f"| `{name}` | {words} |" for name, words in ATTRIBUTES.items()),
        "",
        "## Events at `/v1/events`",
        "",
        *(f"- `{kind.value}`" for kind in Kind),
        "",
        "## What a turn says on the bus",
        "",
        "Subjects begin with `hs.v1.{project}.main.`. A task, a step and a call go out with the commit they tell of,",
        "at least once, and under an id that tells a repeat; where the bus is in the process, steps are said while",
        "somebody listens.",
        "",
        "| Subject | What it tells |",
        "|---|---|",
        *(f"| `{name}` | {words} |" for name, words in ANNOUNCED.items()),
        "",
    ]
    return "\n".join(parts)


async def _families() -> list[tuple[str, str, str]]:
    """What a server counts, asked of one that is made for it and keeps nothing."""
    async with assemble(Settings(ephemeral=True)) as system:
        metrics = Metrics(system, Patience())
        metrics.fleet.census = await system.fleet.census()
        found = metrics.registry.collect()
        return sorted(
            (one.name + ("_total" if one.type == "counter" else ""), one.type, one.documentation) for one in found
        )


PAGES = {
    "state-machines.md": state_machines,
    "command-line.md": command_line,
    "settings.md": settings,
    "errors.md": errors,
    "filters.md": filters,
    "api.md": api,
    "telemetry.md": telemetry,
}


def pages() -> dict[str, str]:
    """Every page there is to be, by its name."""
    made = {name: page() for name, page in PAGES.items()}
    return made | {f"errors/{code}.md": page.markdown() for code, page in error_pages(table_of()).items()}


def main(arguments: list[str]) -> int:
    wanted = pages()
    stale = [name for name, page in wanted.items() if _read(REFERENCE / name) != page]
    gone = sorted(
        f"errors/{one.name}" for one in (REFERENCE / "errors").glob("*.md") if f"errors/{one.name}" not in wanted
    )
    if "--check" in arguments:
        for name in [*stale, *gone]:
            print(f"docs/reference/{name} is out of date: run `make docs`", file=sys.stderr)
        return 1 if stale or gone else 0
    (REFERENCE / "errors").mkdir(parents=True, exist_ok=True)
    for name in gone:
        (REFERENCE / name).unlink()
    for name in stale:
        (REFERENCE / name).write_text(wanted[name], encoding="utf-8")
        print(f"docs/reference/{name}")
    return 0


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
