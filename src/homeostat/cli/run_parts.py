"""What a run is made of: `homeostat plan` gives it tasks, `tasks` lists them, `ledger` tells what happened in it."""

from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from homeostat.cli.agents import ListOption, ListOutput
from homeostat.cli.connection import Project, Url, talk
from homeostat.cli.events import follow
from homeostat.cli.listing import Limit, Wanted, brief, show_listed
from homeostat.cli.nouns import TASKS
from homeostat.cli.orders import Actor, Reason
from homeostat.cli.output import Output, OutputOption, show
from homeostat.cli.runs import RunArgument, tasks_of
from homeostat.cli.selection import FilterOption, sought

if TYPE_CHECKING:
    from homeostat.client.client import Client

ENTRIES_MAX = 500
KIND_CHARS = 12


def plan(
    run: RunArgument,
    *,
    tasks: Annotated[
        str, typer.Option(help="A file with the tasks as JSON, as in POST /v1/runs; - is standard input.")
    ],
    reason: Reason = "",
    actor: Actor = "operator",
    output: OutputOption = Output.TABLE,
    url: Url = None,
    project: Project = None,
) -> None:
    """Give a run that is still being planned its tasks, in place of its planner."""
    body = {"tasks": tasks_of(tasks), "reason": reason, "actor": actor}

    async def work(client: "Client") -> None:
        planned: Any = await client.post_json(f"/v1/runs/{quote(run, safe='')}/plan", body)
        if output is Output.JSON:
            show(planned, output)
        else:
            typer.echo(f"{run} has {sum(planned['tasks'].values())} tasks and is {planned['status']}")

    talk(work, url, project)


def tasks(
    run: RunArgument,
    *,
    query: FilterOption = None,
    limit: Limit = 500,
    output: ListOption = ListOutput.TABLE,
    url: Url = None,
    project: Project = None,
) -> None:
    """List a run's tasks in their order: how each stands, who has it, and what went wrong."""
    sought("tasks", query)

    async def work(client: "Client") -> None:
        await show_listed(client, TASKS.within(run), Wanted(None, query, limit), output)

    talk(work, url, project)


def ledger(
    run: RunArgument,
    *,
    after: Annotated[int, typer.Option(min=0, help="Begin behind this entry.")] = 0,
    newest: Annotated[bool, typer.Option("--newest", help="Newest first; --after is then where to begin.")] = False,
    follow_it: Annotated[
        bool, typer.Option("--follow", "-f", "--watch", "-w", help="Go on with what is written next, until it ends.")
    ] = False,
    query: FilterOption = None,
    limit: Annotated[int, typer.Option(min=1, max=ENTRIES_MAX, help="How many at most.")] = 100,
    output: OutputOption = Output.TABLE,
    url: Url = None,
    project: Project = None,
) -> None:
    """Show what happened in a run: transitions, tasks, calls of models and tools, and acts of operators.

    A page at a time, or with --follow all of it as it is written, an entry a line.
    """
    wanted = sought("ledger", query)
    path = f"/v1/runs/{quote(run, safe='')}/ledger"

    async def work(client: "Client") -> None:
        if not follow_it:
            await _page(client, path, {"cursor": after, "limit": limit, "order": "newest" if newest else "oldest"})
            return
        async with aclosing(follow(client, path=f"{path}/live", cursor=after)) as told:
            async for event in told:
                if event["event"] == "end":
                    return
                if event["event"] == "entry" and (wanted is None or wanted.covers(event["data"])):
                    _tell(event["data"], output)

    async def _page(client: "Client", path: str, asked: dict[str, Any]) -> None:
        from urllib.parse import urlencode

        page: Any = await client.read_json(f"{path}?{urlencode(asked | ({'q': query} if query else {}))}")
        if output is Output.JSON:
            show(page, output)
            return
        for entry in page["entries"]:
            _tell(entry, output)
        if page["next_cursor"] is not None:
            typer.echo(f"There is more: --after {page['next_cursor']}", err=True)

    talk(work, url, project)


def _tell(entry: dict[str, Any], output: Output) -> None:
    if output is Output.JSON:
        import msgspec

        typer.echo(msgspec.json.encode(entry).decode())
        return
    from homeostat.cli.tables import screen

    said = "  ".join(f"{name}={brief(value)}" for name, value in entry["payload"].items() if value not in (None, ""))
    line = f"{entry['seq']:>5}  {entry['at'][11:19]}  {entry['kind']:<{KIND_CHARS}}  {said}"
    typer.echo(line[: screen().width])
