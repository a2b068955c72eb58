"""`homeostat treatment`: the remedies an agent works under, and an end to them before their time."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from homeostat.cli.connection import Project, Url, talk
from homeostat.cli.failures import require
from homeostat.cli.orders import Actor, DryRun, MustReason
from homeostat.cli.output import Output, OutputOption, show
from homeostat.cli.receipts import Agent

if TYPE_CHECKING:
    from homeostat.client.client import Client

treatment = typer.Typer(help="Show the remedies an agent works under, or lift them.", no_args_is_help=True)

Action = Annotated[str | None, typer.Option("--action", help="Only this one, as in revoke_tools; else all of them.")]


@treatment.command("list")
def list_treatments(
    agent: Agent, *, url: Url = None, project: Project = None, output: OutputOption = Output.TABLE
) -> None:
    """List the remedies in force, and when they end by themselves."""

    async def work(client: "Client") -> None:
        told: Any = await client.read_json(_path(agent))
        if output is Output.JSON:
            show(told, output)
        else:
            _table(agent, told["treatments"])

    talk(work, url, project)


@treatment.command("lift")
def lift_treatments(
    agent: Agent,
    *,
    reason: MustReason = "",
    action: Action = None,
    actor: Actor = "operator",
    dry_run: DryRun = False,
    url: Url = None,
    project: Project = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """End remedies before their time: the agent is made anew without them before its next turn, and watched as ever."""
    if not dry_run:
        require(reason)
    body: dict[str, Any] = {"reason": reason, "actor": actor, **({"action": action} if action else {})}

    async def work(client: "Client") -> None:
        path = _path(agent)
        if dry_run:
            await _rehearse(client, agent, action, body, output)
            return
        told: Any = await client.post_json(f"{path}/lift", body)
        if output is Output.JSON:
            show(told, output)
            return
        lifted = ", ".join(dict.fromkeys(one["action"] for one in told["lifted"]))
        typer.echo(f"{agent} is rid of {lifted}" if lifted else f"{agent} had nothing that could be lifted")

    talk(work, url, project)


async def _rehearse(client: "Client", agent: str, action: str | None, body: dict[str, Any], output: Output) -> None:
    from homeostat.cli.giving import show_blast

    told: Any = await client.post_json(f"{_path(agent)}/lift?dry_run=true", body)
    if output is Output.JSON:
        show(told, output)
        return
    found: Any = await client.read_json(_path(agent))
    _table(agent, [one for one in found["treatments"] if action in (None, one["action"])])
    typer.echo()
    show_blast([told])


def _path(agent: str) -> str:
    from homeostat.client.client import path_part

    return f"/v1/agents/{path_part(agent)}/treatments"


def _table(agent: str, rows: list[dict[str, Any]]) -> None:
    from homeostat.cli.tables import Cell, Column, distance, screen, table
    from homeostat.core.clock import SystemClock

    if not rows:
        typer.echo(f"{agent} works under no remedy.", err=True)
        return
    now = SystemClock().now_ms()
    columns = (Column("ACTION"), Column("KEPT BY"), Column("AGE", right=True), Column("ENDS", right=True))
    lines = [
        [
            Cell(one["action"]),
            Cell(one["kept_by"]),
            Cell(distance(one["since"], now)),
            Cell("-" if one["until"] is None else distance(one["until"], now)),
        ]
        for one in rows
    ]
    typer.echo("\n".join(table(columns, lines, on=screen())))
