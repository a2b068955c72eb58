"""`homeostat ui`: the dashboard in a browser, logged in."""

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from homeostat.cli.connection import Project, Url, talk

if TYPE_CHECKING:
    from homeostat.client.client import Client


def ui(
    *,
    show_only: Annotated[bool, typer.Option("--print", help="Print the address and open nothing.")] = False,
    url: Url = None,
    project: Project = None,
) -> None:
    """Open the dashboard, logged in with HOMEOSTAT_KEY where a login is needed."""

    async def work(client: "Client") -> None:
        session: Any = await client.read_json("/v1/session")
        address = client.url.rstrip("/") + "/"
        if session["login_required"] and os.environ.get("HOMEOSTAT_KEY"):
            ticket: Any = await client.post_json("/v1/login/tickets", {})
            address = client.url.rstrip("/") + ticket["path"]
        if show_only:
            typer.echo(address)
            return
        import webbrowser

        if not webbrowser.open(address):
            typer.echo(f"No browser was found. Open {address} (good once, for a minute).")

    talk(work, url, project)
