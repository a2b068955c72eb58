"""`homeostat key`: who may come in, and as what."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from homeostat.cli.connection import Project, Url, talk
from homeostat.cli.numbers import finite
from homeostat.cli.output import Output, OutputOption, show

if TYPE_CHECKING:
    from homeostat.client.client import Client

key = typer.Typer(help="Make, list, rotate and revoke keys.", no_args_is_help=True)

KeyArgument = Annotated[str, typer.Argument(metavar="KEY_ID", help="As `homeostat key list` shows it.")]
DAY_SECONDS = 86_400


@key.command()
def create(
    name: Annotated[str, typer.Argument(help="Whose key it is, or what it is for.")],
    *,
    role: Annotated[str, typer.Option(help="viewer, operator, approver or admin.")] = "viewer",
    only_project: Annotated[str | None, typer.Option(help="The only project it is good for.")] = None,
    expires_days: Annotated[
        float | None, typer.Option(callback=finite, help="After how many days it opens nothing.")
    ] = None,
    url: Url = None,
    project: Project = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Make a key. Its secret is shown this once."""
    body = {
        "name": name,
        "role": role,
        "project": only_project,
        "expires_in_seconds": None if expires_days is None else expires_days * DAY_SECONDS,
    }
    _issue("/v1/keys", body, url, project, output)


@key.command()
def rotate(
    key_id: KeyArgument,
    *,
    overlap_seconds: Annotated[
        float, typer.Option(callback=finite, help="How long the old secret stays good.")
    ] = 3600.0,
    url: Url = None,
    project: Project = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Give a key a new secret; the old one stays good for a while."""
    from homeostat.client.client import path_part

    _issue(f"/v1/keys/{path_part(key_id)}/rotate", {"overlap_seconds": overlap_seconds}, url, project, output)


def _issue(path: str, body: dict[str, Any], url: str | None, project: str | None, output: Output) -> None:
    async def work(client: "Client") -> None:
        issued: Any = await client.post_json(path, body)
        if output is Output.JSON:
            show(issued, output)
            return
        typer.echo(f"{issued['key']['key_id']}  {issued['key']['role']}  {issued['key']['name']}", err=True)
        typer.echo(issued["secret"])

    talk(work, url, project)


@key.command()
def revoke(
    key_id: KeyArgument,
    *,
    reason: Annotated[str, typer.Option(help="Why; it goes into the audit log.")],
    url: Url = None,
    project: Project = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """End a key, and the sessions it opened."""

    async def work(client: "Client") -> None:
        from homeostat.client.client import path_part

        ended: Any = await client.post_json(f"/v1/keys/{path_part(key_id)}/revoke", {"reason": reason})
        if output is Output.JSON:
            show(ended, output)
            return
        typer.echo(f"{ended['key_id']} ({ended['name']}) opens nothing any more.")

    talk(work, url, project)


@key.command("list")
def list_keys(*, url: Url = None, project: Project = None, output: OutputOption = Output.TABLE) -> None:
    """List the keys there are; secrets are not shown, for nobody has them."""

    async def work(client: "Client") -> None:
        found: Any = await client.read_json("/v1/keys")
        if output is Output.JSON:
            show(found, output)
            return
        from homeostat.cli.tables import Cell, Column, screen, table
        from homeostat.core.clock import SystemClock

        now = SystemClock().now_ms()
        columns = [Column(title) for title in ("KEY", "NAME", "ROLE", "PROJECT", "LAST USED", "STATE")]
        rows = [[Cell(text) for text in (*_facts(one), _used(one, now), _state(one, now))] for one in found["keys"]]
        typer.echo("\n".join(table(columns, rows, on=screen())) if rows else "There are no keys.")

    talk(work, url, project)


def _facts(one: dict[str, Any]) -> tuple[str, ...]:
    from homeostat.cli.tables import plain

    return (one["key_id"], plain(one["name"]), one["role"], plain(one["project"] or "all"))


def _used(one: dict[str, Any], now_ms: int) -> str:
    from homeostat.cli.tables import distance

    return f"{distance(one['last_used_at'], now_ms)} ago" if one["last_used_at"] else "never"


def _state(one: dict[str, Any], now_ms: int) -> str:
    from homeostat.cli.tables import distance

    if one["revoked_at"]:
        return f"revoked {distance(one['revoked_at'], now_ms)} ago"
    if not one["expires_at"]:
        return "good"
    left = distance(one["expires_at"], now_ms)
    return f"ends {left}" if left.startswith("in ") else f"expired {left} ago"
