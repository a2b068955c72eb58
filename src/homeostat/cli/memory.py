"""`homeostat memory`: what was learned of healing, to be read, vetoed, taken along and brought in."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from homeostat.cli.connection import Project, Url, talk
from homeostat.cli.failures import USAGE, fail, require
from homeostat.cli.nouns import bare
from homeostat.cli.orders import Actor, DryRun, MustReason, Reason
from homeostat.cli.output import Output, OutputOption, show

if TYPE_CHECKING:
    from homeostat.client.client import Client

memory = typer.Typer(
    help="Show which remedies helped, veto some, and carry what was learned to another installation.",
    no_args_is_help=True,
)

PATH = "/v1/immune/memory"

Against = Annotated[str, typer.Argument(metavar="DIAGNOSIS", help="What it would be tried against: prompt_drift.")]
Remedy = Annotated[str, typer.Argument(metavar="REMEDY", help="What is meant, as in reset_agent.")]
OneAgent = Annotated[
    str | None, typer.Option("--agent", help="Only for this agent; else for all of the project.", parser=bare)
]
Document = Annotated[Path, typer.Argument(metavar="FILE", help="What `homeostat memory export` wrote; - is the input.")]


@memory.command("show")
def show_memory(*, url: Url = None, project: Project = None, output: OutputOption = Output.TABLE) -> None:
    """Show what was tried against what, how often it helped, and what is vetoed by whom."""

    async def work(client: "Client") -> None:
        told: Any = await client.read_json(PATH)
        if output is Output.JSON:
            show(told, output)
        else:
            _table(told)

    talk(work, url, project)


@memory.command("veto")
def veto(
    diagnosis: Against,
    remedy: Remedy,
    *,
    agent: OneAgent = None,
    reason: MustReason = "",
    actor: Actor = "operator",
    url: Url = None,
    project: Project = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Have a remedy never tried against a diagnosis; what is under way is not cut off."""
    require(reason)
    body = _body(diagnosis, remedy, agent, reason, actor)

    async def work(client: "Client") -> None:
        told: Any = await client.post_json(f"{PATH}/veto", body)
        if output is Output.JSON:
            show(told, output)
            return
        one = told["veto"]
        typer.echo(f"{remedy} against {diagnosis} is vetoed for {_whom(one)} by {one['actor']}: {one['reason']}")
        left = (
            f"left to try: {', '.join(told['left'])}" if told["left"] else "nothing is left to try: it stays isolated"
        )
        typer.echo(left)

    talk(work, url, project)


@memory.command("lift")
def lift(
    diagnosis: Against,
    remedy: Remedy,
    *,
    agent: OneAgent = None,
    reason: Reason = "",
    actor: Actor = "operator",
    url: Url = None,
    project: Project = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Allow a vetoed remedy again."""
    body = _body(diagnosis, remedy, agent, reason, actor)

    async def work(client: "Client") -> None:
        told: Any = await client.post_json(f"{PATH}/lift", body)
        if output is Output.JSON:
            show(told, output)
        else:
            typer.echo(f"{remedy} may be tried against {diagnosis} again, for {_whom(told['veto'])}")

    talk(work, url, project)


@memory.command("export")
def export(
    *,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Where to. [default: the output]")] = None,
    url: Url = None,
    project: Project = None,
) -> None:
    """Write all that was learned as one JSON document: lessons, feedback and vetoes."""

    async def work(client: "Client") -> None:
        from homeostat.cli.output import document

        text = document(await client.read_json(f"{PATH}/export"), yaml=False)
        if file is None:
            typer.echo(text)
            return
        file.write_text(text + "\n", encoding="utf-8")
        typer.echo(f"{file}. Bring it in elsewhere with: homeostat memory import {file} --dry-run")

    talk(work, url, project)


@memory.command("import")
def import_document(
    file: Document,
    *,
    reason: MustReason = "",
    actor: Actor = "operator",
    dry_run: DryRun = False,
    url: Url = None,
    project: Project = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Take in what another memory learned. The same again changes nothing, and what cannot be true is refused."""
    if not dry_run:
        require(reason)
    body = {"reason": reason, "actor": actor, "memory": _read(file)}

    async def work(client: "Client") -> None:
        told: Any = await client.post_json(f"{PATH}/import{'?dry_run=true' if dry_run else ''}", body)
        if output is Output.JSON:
            show(told, output)
            return
        new = ", ".join(f"{name} {told[name]}" for name in ("lessons", "feedback", "vetoes"))
        typer.echo(f"{'it would bring' if dry_run else 'it brought'}: {new}; known before: {told['known']}")
        for diagnosis, ladder in told["ladders"].items():
            typer.echo(f"  {diagnosis}: {', '.join(ladder)}")

    talk(work, url, project)


def _body(diagnosis: str, remedy: str, agent: str | None, reason: str, actor: str) -> dict[str, Any]:
    meant = {"diagnosis": diagnosis.replace("-", "_"), "action": remedy.replace("-", "_")}
    return {**meant, "reason": reason, "actor": actor, **({"agent_id": agent} if agent else {})}


def _read(file: Path) -> Any:
    import msgspec

    try:
        return msgspec.json.decode(typer.get_binary_stream("stdin").read() if str(file) == "-" else file.read_bytes())
    except OSError as problem:
        raise fail(f"{file}: {problem.strerror}", code=USAGE) from problem
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        raise fail(f"{file} is no JSON: {problem}", code=USAGE) from problem


def _whom(veto: dict[str, Any]) -> str:
    return str(veto["agent_id"] or "everybody")


def _table(told: dict[str, Any]) -> None:
    from homeostat.cli.tables import Cell, Column, screen, table

    counts = {(one["diagnosis"], one["action"]): one for one in told["lessons"]}
    vetoes: dict[tuple[str, str], list[str]] = {}
    for one in told["vetoes"]:
        said = f"by {one['actor']} for {_whom(one)}: {one['reason']}"
        vetoes.setdefault((one["diagnosis"], one["action"]), []).append(said)
    columns = (
        Column("AGAINST"),
        Column("REMEDY"),
        Column("TRIED", right=True),
        Column("WON", right=True),
        Column("VETOED"),
    )
    lines: list[list[Cell]] = []
    for diagnosis, ladder in told["ladders"].items():
        for action in ladder:
            won = counts.get((diagnosis, action), {"cured": 0, "failed": 0})
            tried = str(won["cured"] + won["failed"])
            cells = (diagnosis, action, tried, str(won["cured"]), "; ".join(vetoes.get((diagnosis, action), ())) or "-")
            lines.append([Cell(text) for text in cells])
    typer.echo("\n".join(table(columns, lines, on=screen())))
