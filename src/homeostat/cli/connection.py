"""How a command that talks to a server finds it, runs, and says what went wrong."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer

from homeostat.cli.failures import INTERRUPTED, explained

if TYPE_CHECKING:
    from homeostat.client.client import Client

CLIENT_RETRY_SECONDS = 0.0  # a person would rather hear that there is no server

Url = Annotated[str | None, typer.Option(help="Where Homeostat is.", envvar="HOMEOSTAT_URL")]
Project = Annotated[str | None, typer.Option(help="The project to act in.", envvar="HOMEOSTAT_PROJECT")]


def talk(work: "Callable[[Client], Awaitable[None]]", url: str | None, project: str | None) -> None:
    """Do something with a server."""
    import asyncio  # not at the top: help would wait for it

    from homeostat.client.client import Client

    async def run() -> None:
        async with Client(url, project=project, retry_seconds=CLIENT_RETRY_SECONDS) as client:
            await work(client)

    with explained():
        try:
            asyncio.run(run())
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # whoever read this has seen enough
            import os
            import sys

            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit from None
