"""`homeostat top`: the fleet in the terminal, live."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from homeostat.cli.connection import Project, Url, talk
from homeostat.cli.numbers import finite
from homeostat.cli.selection import SelectorOption, StatusOption, TypeOption, selection

if TYPE_CHECKING:
    from homeostat.client.client import Client

Once = Annotated[bool, typer.Option("--once", help="Show it once and leave, as is done where there is no terminal.")]
Every = Annotated[
    float, typer.Option("--every", min=0.1, max=60, callback=finite, metavar="SECONDS", help="How often to draw.")
]


def top(
    *,
    agent_type: TypeOption = None,
    selector: SelectorOption = None,
    status: StatusOption = None,
    every: Every = 1.0,
    once: Once = False,
    url: Url = None,
    project: Project = None,
) -> None:
    """Watch the fleet: a live table, trouble first. q or Ctrl-C leaves."""
    wanted = selection(agent_type, selector, status)

    async def work(client: "Client") -> None:
        from homeostat.cli.top_live import Top, show_once

        await client.read_json("/v1/agents?limit=1")  # a person would rather hear at once that there is no server
        if once or not (sys.stdout.isatty() and sys.stdin.isatty()):
            await show_once(client, wanted)
        else:
            await Top(client, wanted, every).run()

    talk(work, url, project)
