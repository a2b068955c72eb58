"""`homeostat baseline`: what is normal for an agent, and how to change that."""

from typing import TYPE_CHECKING, Any

import typer

from homeostat.cli.connection import Project, Url, talk
from homeostat.cli.failures import require
from homeostat.cli.orders import Actor, MustReason
from homeostat.cli.output import Output, OutputOption, show
from homeostat.cli.receipts import Agent

if TYPE_CHECKING:
    from homeostat.client.client import Client

baseline = typer.Typer(help="Show what is normal for an agent, or have it learned anew.", no_args_is_help=True)


@baseline.command("show")
def show_baseline(
    agent: Agent, *, url: Url = None, project: Project = None, output: OutputOption = Output.TABLE
) -> None:
    """Show what is normal for an agent, vital by vital."""

    from homeostat.client.client import path_part

    async def work(client: "Client") -> None:
        told: Any = await client.read_json(f"/v1/agents/{path_part(agent)}/baseline")
        if output is Output.JSON:
            show(told, output)
            return
        if not told["streams"]:
            typer.echo(f"{agent} is {told['phase']}; nothing is known of it yet.")
        for stream in told["streams"]:
            typer.echo(f"{stream['stream'].upper()}S  {stream['samples']} samples")
            typer.echo(f"  {'VITAL':<12}{'MEAN':>14}{'DEVIATION':>14}{'HIGHEST':>14}{'SAMPLES':>10}")
            for one in stream["vitals"]:
                figures = "".join(f"{one[name]:>14.6g}" for name in ("mean", "deviation", "highest"))
                typer.echo(f"  {one['vital']:<12}{figures}{one['samples']:>10}")
            if stream["tools"]:
                typer.echo(f"  tools: {', '.join(stream['tools'])}")

    talk(work, url, project)


@baseline.command("reset")
def reset_baseline(
    agent: Agent, *, reason: MustReason = "", actor: Actor = "operator", url: Url = None, project: Project = None
) -> None:
    """Have what is normal for an agent learned anew; until then it is not judged."""
    _change(agent, "reset", reason, actor, url=url, project=project)


@baseline.command("accelerate")
def accelerate_baseline(
    agent: Agent, *, reason: MustReason = "", actor: Actor = "operator", url: Url = None, project: Project = None
) -> None:
    """Let what is normal for an agent follow its next 50 samples fast."""
    _change(agent, "accelerate", reason, actor, url=url, project=project)


def _change(agent: str, verb: str, reason: str, actor: str, *, url: str | None, project: str | None) -> None:
    from homeostat.client.client import path_part

    require(reason)

    async def work(client: "Client") -> None:
        body = {"reason": reason, "actor": actor}
        told: Any = await client.post_json(f"/v1/agents/{path_part(agent)}/baseline/{verb}", body)
        done = "is learned anew" if verb == "reset" else "follows its next samples fast"
        typer.echo(f"what is normal for {agent} {done}; it is {told['phase']}")

    talk(work, url, project)
