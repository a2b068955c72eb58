"""How commands show what they found: a table for people, or JSON for whatever comes behind the pipe."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from homeostat.cli.tables import Cell, Column


class Output(StrEnum):
    """How a command shows what it found."""

    TABLE = "table"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="json is the API's body, unchanged.")]


def show_table(columns: "Sequence[Column]", rows: "Sequence[Sequence[Cell]]", *, wide: bool) -> None:
    """A table on the standard output. Who asked for a wide one is told what there is no room for."""
    from homeostat.cli.tables import Layout, screen, table

    on = screen()
    typer.echo("\n".join(table(columns, rows, on=on)))
    missing = Layout(columns, rows, width=on.width).left_out if wide else []
    if missing:
        said = f"There is no room for {', '.join(missing)}; a wider terminal shows them, and so does `| less -S`."
        typer.echo(said, err=True)


def show(answer: object, output: Output) -> None:
    """Print a record: its members line by line, or as JSON."""
    import msgspec

    if output is Output.JSON:
        typer.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())
        return
    members: dict[str, object] = msgspec.to_builtins(answer)
    width = max(map(len, members), default=0)
    for name, value in members.items():
        if value not in (None, [], {}):
            shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            typer.echo(f"{name:<{width}}  {shown}")


def document(value: object, *, yaml: bool) -> str:
    """The API's members as they are."""
    import msgspec

    if yaml:
        from homeostat.cli.yaml import dump

        return dump(value)
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
