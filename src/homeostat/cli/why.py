"""`homeostat why`: cause, evidence, decision and effect of anything, in the server's words."""

import textwrap
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from homeostat.cli.connection import Project, Url, talk
from homeostat.cli.nouns import bare
from homeostat.cli.output import Output, OutputOption, show

if TYPE_CHECKING:
    from homeostat.client.client import Client

why = typer.Typer(
    help="Tell why something is as it is: cause, evidence, decision, effect. An id alone will do.", no_args_is_help=True
)

NOUNS = {
    "agent": "Tell how an agent's health came to be what it is, from the evidence.",
    "run": "Tell why a run stands where it stands: who brought it there, what failed, what it waits for.",
    "turn": "Tell how a turn came to be where it is: who asked, who works on it, what it waits for, how it ended.",
    "incident": "Tell why there was an incident, what was done about it, and what it did to messages.",
    "approval": "Tell why somebody is asked, on which evidence, and what follows from the answer.",
    "call": "Tell why a model call ended as it did, and what it cost.",
}


def _teller(noun: str) -> Callable[..., None]:
    def command(
        thing: Annotated[str, typer.Argument(metavar="ID", help=f"The {noun}'s id.", parser=bare)],
        *,
        url: Url = None,
        project: Project = None,
        output: OutputOption = Output.TABLE,
    ) -> None:
        async def work(client: "Client") -> None:
            from homeostat.cli.tables import plain, screen
            from homeostat.client.client import path_part

            told: Any = await client.read_json(f"/v1/why/{noun}s/{path_part(thing)}")
            if output is Output.JSON:
                show(told, output)
                return
            text = plain(told["text"])
            width = screen().width
            typer.echo(text if width is None else textwrap.fill(text, width, break_long_words=False))

        talk(work, url, project)

    return command


for _noun, _words in NOUNS.items():
    why.command(_noun, help=_words)(_teller(_noun))
