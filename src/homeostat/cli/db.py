"""`homeostat db`: see how far a store's schema is, and bring it up to date."""

from pathlib import Path
from typing import Annotated

import typer

from homeostat.cli.failures import explained
from homeostat.cli.output import Output, OutputOption, show

StoreUrl = Annotated[
    str | None,
    typer.Option(help="postgresql://… or sqlite:///path; the embedded store if none.", envvar="HOMEOSTAT_STORE_URL"),
]
DataDir = Annotated[
    Path | None, typer.Option(help="Where the embedded store keeps its file.", envvar="HOMEOSTAT_DATA_DIR")
]

database = typer.Typer(help="See to a store's schema.", no_args_is_help=True)


@database.command()
def migrate(*, store_url: StoreUrl = None, data_dir: DataDir = None, output: OutputOption = Output.TABLE) -> None:
    """Bring the schema up to date. Several may do so at once; each migration is applied once."""
    from homeostat.app import stores

    with explained(store=True):
        url = _url(store_url, data_dir)
        import asyncio

        applied = asyncio.run(stores.migrate(url))
    if output is Output.JSON:
        show({"store": stores.place(url), "applied": applied}, output)
        return
    for name in applied:
        typer.echo(f"applied  {name}")
    if not applied:
        typer.echo("Everything was applied already.")


@database.command()
def status(*, store_url: StoreUrl = None, data_dir: DataDir = None, output: OutputOption = Output.TABLE) -> None:
    """Show which migrations are applied and which are pending, and change nothing."""
    from homeostat.app import stores

    with explained(store=True):
        import asyncio

        found = asyncio.run(stores.schema(_url(store_url, data_dir)))
    if output is Output.JSON:
        show(found, output)
        return
    typer.echo(f"store    {found.store}")
    for word, names in (("applied", found.applied), ("pending", found.pending)):
        for name in names:
            typer.echo(f"{word}  {name}" + ("  (of a newer version)" if name in found.unknown else ""))


def _url(store_url: str | None, data_dir: Path | None) -> str:
    """The store that is meant: the one named, else the embedded one."""
    import os

    from homeostat.app.settings import read_settings
    from homeostat.app.stores import embedded_url

    settings = read_settings(os.environ, {"store_url": store_url, "data_dir": data_dir})
    return settings.store_url or embedded_url(settings.data_dir)
