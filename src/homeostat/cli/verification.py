"""`homeostat verify --all`: what was looked at, in numbers, and what was wrong, the first thing first."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from homeostat.cli.failures import ERROR, explained
from homeostat.cli.output import Output, show

if TYPE_CHECKING:
    from homeostat.app.verification import Report

SHOWN_MAX = 20


def verify_store(store_url: str | None, data_dir: Path | None, output: Output) -> None:
    """Check a store, tell, and end with an error where something does not hold."""
    import asyncio
    import os

    from homeostat.app.settings import read_settings
    from homeostat.app.stores import embedded_url, place, require
    from homeostat.app.verification import verify_all

    with explained(store=True):
        settings = read_settings(os.environ, {"store_url": store_url, "data_dir": data_dir})
        url = settings.store_url or embedded_url(settings.data_dir)
        require(url)
        report = asyncio.run(verify_all(settings))
    if output is Output.JSON:
        violations = [{"promise": v.promise, "about": v.about, "detail": v.detail} for v in report.violations]
        checked = dict(report.counts)
        show({"store": place(url), "ok": report.ok, "checked": checked, "violations": violations}, output)
    else:
        _tell(report, place(url))
    if not report.ok:
        raise typer.Exit(ERROR)


def _tell(report: "Report", store: str) -> None:
    typer.echo(f"Checked in {store}:")
    for name, count in report.counts.items():
        typer.echo(f"{count:12,}  {name}")
    for violation in report.violations[:SHOWN_MAX]:
        typer.echo(f"NOT SO: {violation}")
    more = len(report.violations) + report.left_out - SHOWN_MAX
    if more > 0:
        typer.echo(f"and {more:,} more")
    if report.ok:
        typer.echo("Everything is as it was promised.")
