"""`homeostat gateway`: the gateway alone, beside the servers that share its store."""

from typing import TYPE_CHECKING

import typer

from homeostat.cli import up
from homeostat.cli.failures import explained
from homeostat.cli.signals import heed_signals, loop_factory

if TYPE_CHECKING:
    import socket

    from homeostat.app.assemble import GatewaySystem
    from homeostat.app.settings import Settings


def gateway(
    *,
    port: up.Port = None,
    host: up.Host = None,
    data_dir: up.DataDir = None,
    store_url: up.StoreUrl = None,
    bus_url: up.BusUrl = None,
    upstreams: up.Upstreams = None,
    log_level: up.LogLevel = None,
) -> None:
    """Start the gateway alone: model calls and nothing else, for agents that a server on the same store registered."""
    import asyncio
    import os

    from homeostat.app.settings import read_settings
    from homeostat.cli.voice import begin_logging

    options = {
        "port": port,
        "host": host,
        "data_dir": data_dir,
        "store_url": store_url,
        "bus_url": bus_url,
        "upstreams": upstreams,
        "log_level": log_level,
    }
    with explained(store=True):
        settings = read_settings(os.environ, options)
        begin_logging(settings.log_level)
        up.refuse_the_gullible(settings)
        listener = up.listen(settings)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_serve(settings, listener))


async def _serve(settings: "Settings", listener: "socket.socket") -> None:
    import asyncio

    from homeostat.app.assemble import assemble_gateway
    from homeostat.cli.voice import aside
    from homeostat.server.gateway_alone import GatewayAlone
    from homeostat.server.serving import serving_app, url_of

    stop = asyncio.Event()
    heed_signals(stop)
    async with assemble_gateway(settings) as system, serving_app(GatewayAlone(system), listener) as http:
        _banner(url_of(listener), system)
        assert http.running is not None
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({stopping, http.running}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        aside.say("Stopping; calls under way are finished first. Press Ctrl-C again to leave at once.")


def _banner(url: str, system: "GatewaySystem") -> None:
    import homeostat

    typer.echo(f"Homeostat {homeostat.__version__} gateway is up at {url}")
    for name, value in (*up.gateway_lines(url, system.settings), ("Data", system.store_place)):
        typer.echo(f"  {name:<9} {value}")
    typer.echo("Press Ctrl-C to stop.")
