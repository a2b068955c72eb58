"""`homeostat get` and `homeostat describe` for everything that has a row in the table of nouns."""

from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from homeostat.cli.agents import DetailOption, DetailOutput, ListOption, ListOutput, Watch, describe, get
from homeostat.cli.connection import Project, Url, talk
from homeostat.cli.failures import USAGE, fail
from homeostat.cli.nouns import NOUNS, WORD_CHARS_MIN, Member, Noun, Row, Shown, bare
from homeostat.cli.selection import FilterOption, sought

if TYPE_CHECKING:
    from collections.abc import Callable

    from homeostat.cli.tables import Column
    from homeostat.client.client import Client

Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]…", help="These only.", parser=bare)]
Limit = Annotated[int, typer.Option("--limit", min=1, help="How many at most, newest first.")]
AgentOption = Annotated[str | None, typer.Option("--agent", help="Of this agent only.")]
PAGE = 100
SAID = {
    "heads": "List which turn each agent has, who holds it, and what waits behind it.",
    "audit": "List what operators did, newest first.",
    "tools": "List the tools that services offer to agents.",
}
VIEWED = frozenset({"runs"})  # described in a view of their own
FILTERED = frozenset({"turns", "heads", "approvals", "incidents", "policies", "budgets", "calls", "audit", "runs"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which part of a list."""

    agent: str | None
    query: str | None
    limit: int


def add_nouns() -> None:
    """Give every noun its commands."""
    for noun in NOUNS:
        get.command(noun.name, help=SAID.get(noun.name, f"List {noun.name}, newest first."))(_getter(noun))
        if noun.name != noun.one:
            get.command(noun.one, hidden=True)(_getter(noun))
        if noun.show_path and noun.name not in VIEWED:
            describe.command(noun.one, help=f"Show one {noun.one} in full.")(_describer(noun))


def _getter(noun: Noun) -> "Callable[..., None]":
    def command(
        ids: Ids = None,
        *,
        agent: AgentOption = None,
        query: FilterOption = None,
        limit: Limit = 50,
        output: ListOption = ListOutput.TABLE,
        watch: Watch = False,
        url: Url = None,
        project: Project = None,
    ) -> None:
        if noun.name in FILTERED:
            sought(noun.name, query)
        elif query is not None:
            raise fail(f"{noun.name} cannot be filtered", code=USAGE)
        wanted = Wanted(agent, query, limit)

        async def work(client: "Client") -> None:
            if watch:
                await _watch(client, noun, wanted, output)
            elif ids:
                rows = await _named(client, noun, ids)
                show_rows(noun, rows, output, body=rows[0] if len(rows) == 1 else rows)
            else:
                await show_listed(client, noun, wanted, output)
                if noun.name == "approvals":
                    from homeostat.cli.held import tell_held

                    await tell_held(client)

        talk(work, url, project)

    return command


async def show_listed(client: "Client", noun: Noun, wanted: Wanted, output: ListOutput) -> None:
    """A list as the API has it."""
    body = await _listed(client, noun, wanted)
    show_rows(noun, body[noun.items], output, body=body)


def _describer(noun: Noun) -> "Callable[..., None]":
    def command(
        thing: Annotated[str, typer.Argument(metavar="ID", help="As `homeostat get` shows it.", parser=bare)],
        *,
        output: DetailOption = DetailOutput.TEXT,
        url: Url = None,
        project: Project = None,
    ) -> None:
        async def work(client: "Client") -> None:
            row: Row = await client.read_json(_path(noun, thing))
            show_detail(noun, row, output)

        talk(work, url, project)

    return command


def _path(noun: Noun, thing: str) -> str:
    from homeostat.client.client import path_part

    parts = thing.split("/", 1) if "+" in noun.key else [thing]
    return noun.show_path.replace("{id}", "/".join(map(path_part, parts)))


async def _named(client: "Client", noun: Noun, ids: list[str]) -> list[Row]:
    if not noun.show_path:
        found = await _listed(client, noun, Wanted(None, None, PAGE))
        return [row for row in found[noun.items] if noun.id_of(row) in ids]
    return [await client.read_json(_path(noun, one)) for one in dict.fromkeys(ids)]


async def _listed(client: "Client", noun: Noun, wanted: Wanted) -> Row:
    """The API's body, with page after page in it until there are as many as were asked for."""
    from urllib.parse import urlencode

    from homeostat.client.client import path_part

    of_agent = wanted.agent is not None and noun.of_agent
    path = noun.of_agent.replace("{agent}", path_part(wanted.agent or "")) if of_agent else noun.list_path
    asked: dict[str, object] = {"limit": min(wanted.limit, PAGE)}
    terms = [wanted.query] if wanted.query else []
    if wanted.agent is not None and not of_agent:
        terms.append(f'agent:"{wanted.agent}"')
    if terms:
        asked["q"] = " ".join(terms)
    found: list[Row] = []
    while True:
        page: Row = await client.read_json(f"{path}?{urlencode(asked)}")
        found += page[noun.items]
        cursor = page.get("next_cursor")
        if cursor is None or len(found) >= wanted.limit:
            return page | {noun.items: found[: wanted.limit]}
        asked["cursor"] = cursor


def show_rows(noun: Noun, rows: list[Row], output: ListOutput, *, body: object) -> None:
    """A table, or the API's own members."""
    from homeostat.cli.output import document, show_table
    from homeostat.cli.tables import Cell
    from homeostat.core.clock import SystemClock

    if output is ListOutput.NAME:
        typer.echo("".join(f"{noun.one}/{noun.id_of(row)}\n" for row in rows), nl=False)
    elif output in (ListOutput.JSON, ListOutput.YAML):
        typer.echo(document(body, yaml=output is ListOutput.YAML))
    elif not rows:
        typer.echo(f"No {noun.many} found.", err=True)
    elif noun.name == "runs":
        from homeostat.cli.run_view import listing

        show_table(*listing(rows, wide=output is ListOutput.WIDE), wide=output is ListOutput.WIDE)
    else:
        wanted = (*noun.columns, *noun.wide) if output is ListOutput.WIDE else noun.columns
        now = SystemClock().now_ms()
        lines = [[Cell(written(one, row.get(one.name), now_ms=now)) for one in wanted] for row in rows]
        show_table([_column(one) for one in wanted], lines, wide=output is ListOutput.WIDE)


def _column(member: Member) -> "Column":
    from homeostat.cli.tables import Column

    number = member.shown is not Shown.WORD
    return Column(member.title, right=number, least=None if member.whole else WORD_CHARS_MIN, spare=member.spare)


def written(member: Member, value: Any, *, now_ms: int) -> str:
    """A member as one cell of a table."""
    if value is None or member.shown is Shown.WORD:
        return brief(value)
    if member.shown is Shown.NUMBER:
        from homeostat.cli.tables import measure

        return measure(value)
    if member.shown is Shown.MONEY:
        from homeostat.cli.tables import money

        return money(value)
    from homeostat.cli.tables import distance

    return distance(value, now_ms)


def show_detail(noun: Noun, row: Row, output: DetailOutput) -> None:
    from homeostat.cli.output import document

    if output is DetailOutput.NAME:
        typer.echo(f"{noun.one}/{noun.id_of(row)}")
    elif output is not DetailOutput.TEXT:
        typer.echo(document(row, yaml=output is DetailOutput.YAML))
    else:
        from homeostat.cli.detail import page
        from homeostat.cli.tables import screen
        from homeostat.core.clock import SystemClock

        if noun.name == "incidents":
            from homeostat.cli.incident_page import digest

            row = digest(row)
        typer.echo("\n".join(page(row, now_ms=SystemClock().now_ms(), width=screen().width)))


def brief(value: Any) -> str:
    """A member as one cell."""
    from homeostat.cli.tables import plain

    if value is None or value == "":
        return "-"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict | list):
        import json

        return plain(json.dumps(value, ensure_ascii=False))[:80] if value else "-"
    return plain(str(value))


async def _watch(client: "Client", noun: Noun, wanted: Wanted, output: ListOutput) -> None:
    """Show the list, then whatever came or changed, whenever an event says that something did."""
    if not noun.kinds:
        raise fail(f"{noun.name} cannot be watched", code=USAGE)
    from homeostat.cli.events import follow
    from homeostat.cli.looking import look

    seen: dict[str, Row] = {}
    async with aclosing(follow(client, noun.kinds)) as events:
        async for _ in events:
            found = await look(lambda: _listed(client, noun, wanted), left=f"the list of {noun.many}")
            rows = found[noun.items]
            fresh = [row for row in reversed(rows) if seen.get(noun.id_of(row)) != row]
            seen |= {noun.id_of(row): row for row in fresh}
            if fresh:
                show_rows(noun, fresh, output, body=fresh)
