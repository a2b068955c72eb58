"""`homeostat config show`: what is set, and by whom."""

from typing import Annotated

import typer

from homeostat.cli.failures import explained
from homeostat.cli.output import Output, OutputOption, show

config = typer.Typer(help="See how Homeostat is set up.", no_args_is_help=True)
SECRETS = ("secret", "password", "token")


@config.callback()
def root() -> None:
    """See how Homeostat is set up."""


@config.command("show")
def show_config(
    *,
    origin: Annotated[bool, typer.Option("--origin", help="Say where each value comes from.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show every setting as `homeostat up` would take it here and now."""
    import os

    from homeostat.app.settings import SETTINGS, read_settings

    with explained():
        settings = read_settings(os.environ)
    rows = [
        {
            "name": one.name,
            "value": shown(one.name, getattr(settings, one.name)),
            "origin": settings.origin(one.name).value,
            "variable": one.variable,
            "summary": one.summary,
        }
        for one in SETTINGS
    ]
    if output is Output.JSON:
        show({"settings": rows}, output)
        return
    from homeostat.cli.tables import Cell, Column, plain, screen, table

    titles = ("SETTING", "VALUE", "ORIGIN", "VARIABLE") if origin else ("SETTING", "VALUE")
    members = ("name", "value", "origin", "variable")[: len(titles)]
    columns = [Column(title, least=8 if title == "VALUE" else None) for title in titles]
    lines = [[Cell(plain(str(row[member]))) for member in members] for row in rows]
    typer.echo("\n".join(table(columns, lines, on=screen())))


def shown(name: str, value: object) -> str:
    """A value in words, without what is secret in it."""
    if value in (None, "", ()):
        return "-"
    if any(word in name for word in SECRETS):
        return "(set)"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_url") or name == "store_url":
        from urllib.parse import urlsplit

        parts = urlsplit(str(value))
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl() if parts.netloc else str(value)
    if isinstance(value, tuple):
        return ", ".join(_word(one) for one in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - any setting's
    return str(value)


def _word(one: object) -> str:
    if isinstance(one, tuple):
        return "=".join(map(str, one))  # pyright: ignore[reportUnknownArgumentType] - a pair of words
    return str(getattr(one, "name", one))
