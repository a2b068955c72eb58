"""`homeostat worker`: host agents until told to stop."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from homeostat.cli.failures import USAGE, explained, fail
from homeostat.cli.numbers import finite
from homeostat.cli.signals import heed_signals, loop_factory

if TYPE_CHECKING:
    from homeostat.agent.orchestrator import Factory
    from homeostat.agent.worker import Worker
    from homeostat.core.ports.memory import MemoryKeeper
    from homeostat.core.ports.tools import ToolDesk
    from homeostat.core.ports.turns import TurnSource
    from homeostat.core.ports.upstream import Upstream

NAMES_SHOWN = 8

Target = Annotated[str, typer.Argument(metavar="MODULE:AGENT", help="A class, a Profile, or a function.")]
AgentIds = Annotated[
    list[str] | None,
    typer.Option("--agent-id", help="Its id; give it several times to host several. [default: its name]"),
]
Concurrency = Annotated[int | None, typer.Option(min=1, max=10_000, help="Turns to work on side by side.")]
Url = Annotated[str | None, typer.Option(help="The server, else HOMEOSTAT_URL, else http://127.0.0.1:7700.")]
StoreUrl = Annotated[
    str | None, typer.Option(help="postgresql://… or sqlite:///FILE: work on the store itself, without a server.")
]
BusUrl = Annotated[str | None, typer.Option(help="nats://… to hear of other processes at once; with --store-url.")]
Project = Annotated[str | None, typer.Option(help="The project of its agents.")]
StopSeconds = Annotated[
    float | None, typer.Option(min=0, callback=finite, help="What turns get to end when the worker is stopped.")
]
Simulate = Annotated[bool, typer.Option("--simulate-models", help="Answer model calls here, without a network.")]
LogLevel = Annotated[str, typer.Option(help="debug, info, warning or error.")]


def worker(  # noqa: PLR0917 - each is an option of the command
    target: Target,
    agent_id: AgentIds = None,
    concurrency: Concurrency = None,
    url: Url = None,
    store_url: StoreUrl = None,
    bus_url: BusUrl = None,
    project: Project = None,
    stop_seconds: StopSeconds = None,
    log_level: LogLevel = "warning",
    *,
    simulate_models: Simulate = False,
) -> None:
    """Host an agent: take its turns, run them, deliver what comes of them."""
    import asyncio

    from homeostat.agent.hosting import default_agent_id, factory_of
    from homeostat.agent.loading import TargetInvalid, load
    from homeostat.cli.voice import begin_logging
    from homeostat.core import collector

    if url is not None and store_url is not None:
        raise fail("--url and --store-url exclude each other", hint="A worker has one source of turns.", code=USAGE)
    if log_level not in {"debug", "info", "warning", "error"}:
        raise fail(f"--log-level {log_level} is unknown", hint="It is debug, info, warning or error.", code=USAGE)
    agent_ids = _checked(list(dict.fromkeys(agent_id or [default_agent_id(target)])))
    begin_logging(log_level)
    with explained(store=store_url is not None):
        try:
            factory = factory_of(target, load(target))
            collector.settle()
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(
                    _run(
                        target,
                        factory,
                        agent_ids,
                        place=_Place(url, store_url, bus_url, project, simulate_models=simulate_models),
                        concurrency=concurrency,
                        stop_seconds=stop_seconds,
                    )
                )
        except TargetInvalid as problem:
            raise fail(problem.message, hint=problem.fix, code=USAGE) from problem


def _checked(agent_ids: list[str]) -> list[str]:
    """See to all names before anybody is made known under one of them."""
    from homeostat.core.ids import is_agent_id

    for agent_id in agent_ids:
        if not is_agent_id(agent_id):
            hint = "An id is one word of letters, digits and . _ = @ + ~ -, and no word that stands in a path."
            raise fail(f"--agent-id {agent_id!r} cannot be an id", hint=hint, code=USAGE)
    return agent_ids


class _Place:
    """Where the worker gets its turns, and everything else it needs."""

    def __init__(
        self, url: str | None, store_url: str | None, bus_url: str | None, project: str | None, *, simulate_models: bool
    ) -> None:
        self.url = url
        self.store_url = store_url
        self.bus_url = bus_url
        self.project = project
        self.simulate_models = simulate_models
        self.words = ""
        self._client: Any = None
        self._keys: Any = None

    async def open(self, stack: AsyncExitStack) -> "tuple[TurnSource, MemoryKeeper, ToolDesk, Upstream | None, str]":
        return await (self._server(stack) if self.store_url is None else self._store(stack, self.store_url))

    async def _server(self, stack: AsyncExitStack) -> Any:
        import os

        from homeostat.app.settings import default_data_dir
        from homeostat.client.client import Client
        from homeostat.client.keys import KEYS_FILE, KeyRing
        from homeostat.client.tools import GatewayUpstream, HttpMemory, HttpToolDesk
        from homeostat.client.turns import HttpTurns

        client = await stack.enter_async_context(Client(self.url, project=self.project))
        keys = KeyRing(Path(default_data_dir(os.environ)) / KEYS_FILE, url=client.url)
        keys.open()
        self.words = client.url
        self._client, self._keys = client, keys
        upstream = _simulated() if self.simulate_models else GatewayUpstream(client, keys)
        return HttpTurns(client, keys), HttpMemory(client), HttpToolDesk(client), upstream, client.project

    async def take_orders(self, stack: AsyncExitStack, hosting: "Worker", agent_ids: list[str]) -> None:
        """Come into the custody of a server on this machine, and take its orders for every agent."""
        from homeostat.agent.treatment import treat
        from homeostat.client.control import ControlDesk
        from homeostat.client.custody import CustodyLine, place_of

        client = self._client
        if client is None or (found := await place_of(client)) is None:
            return
        desk = ControlDesk(
            public_key=found.control_key,
            project=client.project,
            treat=lambda agent_id, action: treat(hosting.orchestrator, agent_id, action),
        )
        url = await desk.open()
        stack.push_async_callback(desk.close)
        for agent_id in agent_ids:
            if (key := self._keys.get((client.project, agent_id))) is not None:
                shared = len(agent_ids) > 1
                line = CustodyLine(client, key, supervises=False, shared=shared, control_url=url)
                await line.open()
                stack.push_async_callback(line.close)

    async def _store(self, stack: AsyncExitStack, store_url: str) -> Any:
        import os

        from homeostat.app.assemble import assemble
        from homeostat.app.settings import read_settings
        from homeostat.core.ids import ProjectId

        options = {"store_url": store_url, "bus_url": self.bus_url, "project": self.project}
        settings = read_settings(os.environ, options)
        system = await stack.enter_async_context(assemble(settings))
        self.words = system.store_place
        upstream = _simulated() if self.simulate_models else None
        desk = system.tools.desk(ProjectId(settings.project))
        return system.turns, system.memory, desk, upstream, settings.project


def _simulated() -> Any:
    from homeostat.adapters.upstreams.simulated import SimulatedUpstream

    return SimulatedUpstream()


async def _run(
    target: str,
    factory: "Factory",
    agent_ids: list[str],
    *,
    place: _Place,
    concurrency: int | None,
    stop_seconds: float | None,
) -> None:
    import asyncio

    from homeostat.agent.hosting import check_tools
    from homeostat.agent.models import Models
    from homeostat.agent.orchestrator import Orchestrator
    from homeostat.agent.worker import Worker
    from homeostat.core.ids import ProjectId
    from homeostat.core.limits import SAFETY_POLL_SECONDS, STOP_SECONDS, WORKER_CONCURRENCY

    async with AsyncExitStack() as stack:
        source, memory, desk, upstream, project = await place.open(stack)
        check_tools(target, factory, await desk.describe())
        orchestrator = Orchestrator(project=ProjectId(project), memory=memory, tools=desk)
        hosting = Worker(
            source=source,
            orchestrator=orchestrator,
            models=None if upstream is None else Models(upstream),
            project=project,
            concurrency=concurrency or WORKER_CONCURRENCY,
        )
        for agent_id in agent_ids:
            hosting.host(agent_id, factory)
        await hosting.open()
        await place.take_orders(stack, hosting, agent_ids)
        stop = asyncio.Event()
        heed_signals(stop)
        stopping = asyncio.create_task(stop.wait())
        patience = STOP_SECONDS if stop_seconds is None else stop_seconds
        stopping.add_done_callback(lambda task: task.cancelled() or _stop(hosting, patience))
        typer.echo(f"Worker {hosting.session.worker_id} hosts {_listed(agent_ids)} on {place.words}")
        if place.store_url is not None and place.bus_url is None:
            seconds = f"{SAFETY_POLL_SECONDS:g} s"
            typer.echo(f"Messages that other processes send are noticed within {seconds}; with --bus-url, at once.")
        typer.echo("Press Ctrl-C to stop.")
        await hosting.run(stop_seconds=patience)
        stopping.cancel()
        _farewell(hosting)


def _listed(names: list[str]) -> str:
    """A few names, and how many more."""
    shown = ", ".join(names[:NAMES_SHOWN])
    return shown if len(names) <= NAMES_SHOWN else f"{shown} and {len(names) - NAMES_SHOWN} more"


def _stop(hosting: "Worker", seconds: float) -> None:
    hosting.stop()
    if count := len(hosting.running):
        turns = "1 turn" if count == 1 else f"{count} turns"
        typer.echo(
            f"Stopping; {turns} in work may take {seconds:g} s to end and else are handed back. "
            "Press Ctrl-C again to leave at once.",
            err=True,
        )


def _farewell(hosting: "Worker") -> None:
    counts = hosting.counts
    turns = "1 turn" if counts.delivered == 1 else f"{counts.delivered} turns"
    typer.echo(
        f"Stopped: {turns} delivered ({counts.failed} failed), {counts.suspended} suspended, "
        f"{counts.released} handed back."
    )
