"""`homeostat get agents` and `homeostat describe agent`: who is there, and how one of them is."""

from contextlib import aclosing
from enum import StrEnum
from math import inf
from typing import TYPE_CHECKING, Annotated, Any

import typer

from homeostat.cli.connection import Project, Url, talk
from homeostat.cli.nouns import bare
from homeostat.cli.output import document, show_table
from homeostat.cli.selection import FilterOption, Selection, SelectorOption, StatusOption, TypeOption, selection

if TYPE_CHECKING:
    from homeostat.cli.fleet_view import Beside
    from homeostat.cli.tables import Layout
    from homeostat.client.client import Client
    from homeostat.client.feed import FleetFeed

Row = dict[str, Any]

get = typer.Typer(help="List things.", no_args_is_help=True)
describe = typer.Typer(help="Show one thing in full; an id alone will do.", no_args_is_help=True)


class ListOutput(StrEnum):
    """How a list is shown."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


class DetailOutput(StrEnum):
    """How one thing is shown."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


ListOption = Annotated[ListOutput, typer.Option("--output", "-o", help="json is the API's body, unchanged.")]
DetailOption = Annotated[DetailOutput, typer.Option("--output", "-o", help="json is the API's body, unchanged.")]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Go on, with a line for every change that matters.")]


@get.command("agents")
@get.command("agent", hidden=True)
def get_agents(
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]…", help="These agents only.", parser=bare)] = None,
    *,
    agent_type: TypeOption = None,
    selector: SelectorOption = None,
    status: StatusOption = None,
    query: FilterOption = None,
    output: ListOption = ListOutput.TABLE,
    watch: Watch = False,
    url: Url = None,
    project: Project = None,
) -> None:
    """List the agents that are registered, the dead included."""
    wanted = selection(agent_type, selector, status, query)

    async def work(client: "Client") -> None:
        if watch:
            await _watch(client, wanted, set(ids or ()), output)
            return
        rows = await _named(client, ids, wanted) if ids else await _listed(client, wanted)
        tabular = rows and output in (ListOutput.TABLE, ListOutput.WIDE)
        _show_list(rows, output, await _beside(client, rows) if tabular else None)

    talk(work, url, project)


async def _listed(client: "Client", wanted: Selection) -> list[Row]:
    import msgspec

    found = await client.agents(agent_type=wanted.agent_type, status=wanted.status, query=wanted.asked)
    return msgspec.to_builtins(found)


async def _named(client: "Client", ids: list[str], wanted: Selection) -> list[Row]:
    from homeostat.client.client import path_part

    rows = [await client.read_json(f"/v1/agents/{path_part(agent_id)}") for agent_id in dict.fromkeys(ids)]
    return [row for row in rows if wanted.covers(row)]


async def _beside(client: "Client", rows: list[Row]) -> "Beside | None":
    from homeostat.cli.surroundings import beside

    return await beside(client, [row["agent_id"] for row in rows])


def _show_list(rows: list[Row], output: ListOutput, beside: "Beside | None") -> None:
    from homeostat.cli.fleet_view import COLUMNS, WIDE_COLUMNS, cells
    from homeostat.core.clock import SystemClock

    if output is ListOutput.NAME:
        typer.echo("".join(f"agent/{row['agent_id']}\n" for row in rows), nl=False)
    elif output in (ListOutput.JSON, ListOutput.YAML):
        typer.echo(document(rows, yaml=output is ListOutput.YAML))
    elif not rows:
        typer.echo("No agents found.", err=True)
    else:
        columns = WIDE_COLUMNS if output is ListOutput.WIDE else COLUMNS
        now = SystemClock().now_ms()
        made = [cells(row, columns, now_ms=now, beside=beside) for row in rows]
        show_table(columns, made, wide=output is ListOutput.WIDE)


async def _watch(client: "Client", wanted: Selection, ids: set[str], output: ListOutput) -> None:
    """Show the list, then every agent that came, left, or is otherwise than it was; heartbeats alone are no news."""
    import asyncio

    from homeostat.cli.surroundings import LOOK_SECONDS, Spending
    from homeostat.cli.watching import Watcher

    if output is ListOutput.YAML:
        from homeostat.cli.failures import USAGE, fail

        raise fail("a watch cannot be shown as YAML", hint="Use -o json: one object a line.", code=USAGE)
    await client.read_json("/v1/agents?limit=1")  # a person would rather hear at once that there is no server
    feed: FleetFeed = client.follow(agent_type=wanted.agent_type, tag=wanted.tag)
    spending = Spending(client)
    await spending.look()
    looking = asyncio.create_task(spending.run(), name="spending")

    def covers(row: Row) -> bool:
        return wanted.covers(spending.with_cost(row)) and (not ids or row["agent_id"] in ids)

    lines = Lines(output)
    try:
        sift_seconds = inf if wanted.sought is None else LOOK_SECONDS
        async with aclosing(Watcher(feed, covers, sift_seconds=sift_seconds).news()) as told:
            async for news in told:
                if news.problem:
                    typer.echo(f"homeostat: {news.problem}", err=True)
                await _tell(client, [spending.with_cost(row) for row in news.rows], output, lines)
    finally:
        looking.cancel()
        await asyncio.wait({looking})


async def _tell(client: "Client", rows: list[Row], output: ListOutput, lines: "Lines") -> None:
    import msgspec

    if output is ListOutput.JSON:
        for row in rows:
            typer.echo(msgspec.json.encode(row).decode())
    elif output is ListOutput.NAME:
        for row in rows:
            typer.echo(f"agent/{row['agent_id']}")
    elif rows:
        lines.show(rows, await _beside(client, rows))


class Lines:
    """A table that grows; its columns keep the widths they began with."""

    def __init__(self, output: ListOutput) -> None:
        from homeostat.cli.fleet_view import COLUMNS, WIDE_COLUMNS

        self._columns = WIDE_COLUMNS if output is ListOutput.WIDE else COLUMNS
        self._layout: Layout | None = None

    def show(self, rows: list[Row], beside: "Beside | None") -> None:
        from homeostat.cli.fleet_view import cells
        from homeostat.cli.tables import Layout, screen
        from homeostat.core.clock import SystemClock

        now, on = SystemClock().now_ms(), screen()
        made = [cells(row, self._columns, now_ms=now, beside=beside) for row in rows]
        if self._layout is None:
            self._layout = Layout(self._columns, made, width=on.width)
            typer.echo(self._layout.heading(on=on))
        for line in made:
            typer.echo(self._layout.line(line, on=on))


@describe.command("agent")
def describe_agent(
    agent_id: Annotated[str, typer.Argument(metavar="ID", help="The agent's id.", parser=bare)],
    *,
    output: DetailOption = DetailOutput.TEXT,
    url: Url = None,
    project: Project = None,
) -> None:
    """Show an agent: whether it is heard, how healthy it is, what it says, the turn it works on, and its past."""

    async def work(client: "Client") -> None:
        from homeostat.client.client import path_part

        path = f"/v1/agents/{path_part(agent_id)}"
        detail: Row = await client.read_json(path)
        if output is DetailOutput.NAME:
            typer.echo(f"agent/{detail['agent_id']}")
        elif output is not DetailOutput.TEXT:
            typer.echo(document(detail, yaml=output is DetailOutput.YAML))
        else:
            from homeostat.cli.agent_page import page
            from homeostat.cli.tables import screen
            from homeostat.core.clock import SystemClock

            history: Row = await client.read_json(f"{path}/history")
            typer.echo("\n".join(page(detail, history["items"], now_ms=SystemClock().now_ms(), on=screen())))

    talk(work, url, project)
