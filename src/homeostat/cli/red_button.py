"""`homeostat red-button`: everything stops, and nothing begins until it is lifted; or what is pressed is told."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from homeostat.cli.connection import Project, Url, talk
from homeostat.cli.failures import USAGE, fail
from homeostat.cli.orders import Actor, DryRun, MustReason, Yes
from homeostat.cli.output import Output, OutputOption, show

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from homeostat.client.client import Client


def red_button(
    *,
    reason: MustReason = "",
    only: Annotated[str | None, typer.Option("--in", help="One project only; else the whole system.")] = None,
    lift: Annotated[bool, typer.Option("--lift", help="Let runs begin again.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    actor: Actor = "operator",
    output: OutputOption = Output.TABLE,
    url: Url = None,
    project: Project = None,
) -> None:
    """Kill every run, and let none begin until it is lifted.

    Without a reason it only tells what is pressed: for what, by whom, when and why.
    """
    if only is not None and not only.strip():
        raise fail("--in names no project", hint="Leave it out if the whole system is meant.", code=USAGE)
    where = _whose(only)
    body = {"reason": reason, "actor": actor, **({"project": only} if only else {})}
    asked = not (lift or dry_run or yes or reason.strip())
    if not (asked or lift or dry_run or reason.strip()):
        raise fail("the red button needs a reason", hint="Say --reason '…'.", code=USAGE)

    async def work(client: "Client") -> None:
        if asked:
            await _tell(client, only, output)
            return
        if not lift and (dry_run or not yes) and not await _meant(client, body, where, output, dry_run=dry_run):
            return
        if lift:
            left = await client.runs.lift_red_button(project=only, reason=reason, actor=actor)
            if output is Output.JSON:
                show(left, output)
            else:
                typer.echo(lifted(only, [one.project for one in left.pressed]))
            return
        pressed = await client.runs.press_red_button(reason, project=only, actor=actor)
        if output is Output.JSON:
            show(pressed, output)
        else:
            count = len(pressed.killed)
            killed = "1 run was killed" if count == 1 else f"{count} runs were killed"
            typer.echo(f"{killed} in {where}; none begins until --lift")

    talk(work, url, project)


async def _tell(client: "Client", only: str | None, output: Output) -> None:
    """What is pressed: all of it, or what holds the runs of one project."""
    from homeostat.core.clock import SystemClock

    told: Any = await client.read_json("/v1/red-button")
    if output is Output.JSON:
        show(told, output)
        return
    holding = [one for one in told["pressed"] if only is None or one["project"] in (None, only)]
    now = SystemClock().now_ms()
    for one in holding:
        typer.echo(f"The red button of {who_pressed(one, now)}\n  {undone(one['project'])} lets runs begin again.")
    if not holding:
        typer.echo("No red button is pressed." if only is None else f"No red button holds runs of {_whose(only)}.")


def who_pressed(button: "Mapping[str, Any]", now_ms: int) -> str:
    """Whose button it is, and who pressed it, when and why.

    >>> button = {"project": None, "actor": "kim", "reason": "fire", "pressed_at": "2026-01-01T00:00:00Z"}
    >>> who_pressed(button, 1767225720000)
    'the whole system was pressed by kim 2m ago: fire'
    """
    from homeostat.cli.tables import distance, plain

    said = plain(f"by {button['actor']} {distance(button['pressed_at'], now_ms)} ago: {button['reason']}")
    return f"{_whose(button['project'])} was pressed {said}"


def undone(project: str | None) -> str:
    """How a button is lifted."""
    import shlex

    where = f" --in {shlex.quote(project)}" if project else ""
    return f"homeostat red-button{where} --lift"


def _whose(project: str | None) -> str:
    return f"project {project}" if project else "the whole system"


def lifted(project: str | None, left: "Sequence[str | None]") -> str:
    """What may begin now that a button is lifted, and what still holds the rest.

    >>> lifted("billing", [])
    'Runs of project billing may begin again'
    >>> lifted("billing", [None])
    'The red button of project billing is lifted; no run may begin yet: still pressed for the whole system'
    >>> lifted(None, ["billing"])
    'Runs of the whole system may begin again; still pressed for project billing'
    """
    still = f"still pressed for {', '.join(_whose(one) for one in left)}"
    if None in left:
        return f"The red button of {_whose(project)} is lifted; no run may begin yet: {still}"
    return f"Runs of {_whose(project)} may begin again{f'; {still}' if left else ''}"


async def _meant(client: "Client", body: dict[str, Any], where: str, output: Output, *, dry_run: bool) -> bool:
    """Show what the button would end, and ask; false where it is not to be pressed."""
    import sys

    from homeostat.cli.giving import show_blast

    told: Any = await client.post_json("/v1/red-button?dry_run=true", body)
    if output is Output.JSON:
        show(told, output)
    elif told["runs"]:
        show_blast([told])
    else:
        typer.echo(f"No run is under way in {where}: none would be killed, and none would begin.", err=True)
    if dry_run:
        return False
    if not sys.stdin.isatty():
        raise fail(f"this would kill every run of {where}", hint="Say --yes if that is meant.", code=USAGE)
    return typer.confirm(f"Kill every run of {where}?", abort=True, err=True)
