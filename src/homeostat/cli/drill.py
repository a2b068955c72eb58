"""`homeostat drill`: a harmless fault down the real path, and how soon it was noticed, contained and over."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from homeostat.cli.connection import Project, Url, talk
from homeostat.cli.failures import ERROR, USAGE, fail
from homeostat.cli.looking import look
from homeostat.cli.numbers import finite
from homeostat.cli.orders import Actor, DryRun, Reason
from homeostat.cli.output import Output, OutputOption, show

if TYPE_CHECKING:
    from homeostat.client.client import Client

KINDS = (
    "prompt-drift",
    "prompt-injection",
    "infinite-loop",
    "tool-instability",
    "memory-corruption",
    "cost-overrun",
    "external-cause",
)
LOOK_SECONDS = 0.5


def drill(
    kind: Annotated[str, typer.Argument(metavar="KIND", help=f"What to pretend: {', '.join(KINDS)}.")],
    *,
    agent: Annotated[str, typer.Option("--agent", help="The agent; it must be healthy and held by nobody.")],
    reason: Reason = "a fire drill",
    seconds: Annotated[
        float, typer.Option("--seconds", min=1, max=120, callback=finite, help="How long until it must be held.")
    ] = 60.0,
    dry_run: DryRun = False,
    actor: Actor = "operator",
    output: OutputOption = Output.TABLE,
    url: Url = None,
    project: Project = None,
) -> None:
    """Pretend a fault of an agent, and measure how soon it is noticed, held and well again.

    The agent is really isolated for some seconds, in which its messages wait; nothing is treated, nothing is learned,
    and it is let out whatever happens. Ends with 1 where it was not detected, contained and released.
    """
    if kind.replace("_", "-") not in KINDS:
        raise fail(f"{kind!r} cannot be drilled", hint=f"Try one of {', '.join(KINDS)}.", code=USAGE)
    body = {"kind": kind.replace("-", "_"), "reason": reason, "actor": actor, "seconds": seconds}

    async def work(client: "Client") -> None:
        from homeostat.client.client import path_part

        path = f"/v1/agents/{path_part(agent)}/drill"
        if dry_run:
            from homeostat.cli.giving import show_blast

            told: Any = await client.post_json(f"{path}?dry_run=true", body)
            show(told, output) if output is Output.JSON else show_blast([told])
            return
        done = await followed(client, await client.post_json(path, body), quiet=output is Output.JSON)
        result = done["result"]
        if output is Output.JSON:
            show(done if result is None else result, output)
        elif result is not None:
            typer.echo("\n".join(_told(result)))
        if result is None:
            why = done["error"]["detail"] if done["error"] else "look at the agent"
            raise fail(f"the drill is {done['status']}: {why}")
        if result["contained_after_seconds"] is None or not result["released"]:
            raise typer.Exit(ERROR)

    talk(work, url, project)


async def followed(client: "Client", begun: Any, *, quiet: bool) -> Any:
    """Look at an operation until it has ended."""
    import asyncio

    if not quiet:
        typer.echo(
            f"{begun['operation_id']} is under way; Ctrl-C leaves it, and the agent is let out all the same.", err=True
        )
    path = f"/v1/operations/{begun['operation_id']}"
    while begun["status"] == "running":
        await asyncio.sleep(LOOK_SECONDS)
        begun = await look(lambda: client.read_json(path), left="the drill")
    return begun


def _told(result: dict[str, Any]) -> list[str]:
    def after(name: str) -> str:
        seconds = result[f"{name}_after_seconds"]
        return "not in time" if seconds is None else f"after {seconds:.1f} s"

    right = "" if result["first_hypothesis"] == result["kind"] else f" (pretended was {result['kind']})"
    lines = [
        f"{result['agent_id']}: {result['pretended']}",
        f"  detected   {after('detected')}, {result['sigma']:.1f} sigma",
        f"  contained  {after('contained')}",
        f"  recovered  {after('recovered')}",
        f"  diagnosis  {result['first_hypothesis'] or 'none'}{right}",
        f"  released   {'yes' if result['released'] else 'NO: homeostat release ' + result['agent_id']}",
    ]
    if result["incident_id"]:
        lines.append(f"  incident   {result['incident_id']}")
    return lines + ([f"  {result['problem']}"] if result["problem"] else [])
