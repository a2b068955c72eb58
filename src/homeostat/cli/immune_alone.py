"""`homeostat immune`: the immune system alone, beside the servers that share its store and its bus."""

from typing import TYPE_CHECKING

import typer

from homeostat.cli import up
from homeostat.cli.failures import USAGE, explained, fail
from homeostat.cli.signals import heed_signals, loop_factory

if TYPE_CHECKING:
    from homeostat.app.settings import Settings


def immune(
    *,
    store_url: up.StoreUrl = None,
    bus_url: up.BusUrl = None,
    status_url: up.StatusUrl = None,
    log_level: up.LogLevel = None,
) -> None:
    """Start the immune system alone. Of several on one store one decides; another takes over when it falls silent."""
    import asyncio
    import os

    from homeostat.app.settings import read_settings
    from homeostat.cli.voice import begin_logging

    options = {"store_url": store_url, "bus_url": bus_url, "status_url": status_url, "log_level": log_level}
    with explained(store=True):
        settings = read_settings(os.environ, options)
        begin_logging(settings.log_level)
        if settings.store_url is None or settings.bus_url is None:
            raise fail(
                "the immune system alone hears of agents through a store and a bus that it shares with servers",
                hint="Name them with --store-url postgresql://… and --bus-url nats://….",
                code=USAGE,
            )
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_watch(settings))


async def _watch(settings: "Settings") -> None:
    import asyncio

    import homeostat
    from homeostat.app.assemble import assemble

    stop = asyncio.Event()
    heed_signals(stop)
    async with assemble(settings) as system:
        role = "decides" if system.immune.leading else "waits: another one decides"
        typer.echo(f"Homeostat {homeostat.__version__} immune system {role}")
        typer.echo(f"  {'Data':<9} {system.store_place}")
        typer.echo("Press Ctrl-C to stop.")
        await stop.wait()
