"""Tasks of runs that wait for somebody's word: approvals, too, though the API lists them with their runs."""

import shlex
from typing import TYPE_CHECKING, Any

import typer

from homeostat.cli.surroundings import every
from homeostat.cli.tables import plain
from homeostat.client.client import path_part

if TYPE_CHECKING:
    from homeostat.client.client import Client

Row = dict[str, Any]


async def held_tasks(client: "Client", run_id: str) -> list[Row]:
    """The tasks of a run that wait for approval."""
    return await every(client, f"/v1/runs/{path_part(run_id)}/tasks", "tasks", "status:held approval:yes")


async def tell_held(client: "Client", *, before: str = "") -> None:
    """Say which tasks of all runs wait, and how they are answered."""
    lines = [
        f"{task['name']} of {run['goal']!r} waits, too: homeostat approve {_thing(run, task)}"
        for run in await every(client, "/v1/runs", "runs", "status:paused,applying")
        if run["tasks"].get("held")
        for task in await held_tasks(client, run["run_id"])
    ]
    if before:
        rest = f" {_counted(len(lines))} for an answer by name:" if lines else ""
        typer.echo(f"{before}{rest}", err=True)
    for line in lines:
        typer.echo(plain(line), err=True)


async def tell_held_of(client: "Client", run: Row) -> None:
    """Say for which answers a run that was to go on waits."""
    if not run["tasks"].get("held") or not (tasks := await held_tasks(client, run["run_id"])):
        return
    typer.echo(f"{run['run_id']} is held up: {_counted(len(tasks))} for approval.", err=True)
    for task in tasks:
        typer.echo(plain(f"  homeostat approve {_thing(run, task)}, or reject"), err=True)


def _counted(count: int) -> str:
    return "1 task waits" if count == 1 else f"{count} tasks wait"


def _thing(run: Row, task: Row) -> str:
    return shlex.quote(f"{run['run_id']}/{task['name']}")
