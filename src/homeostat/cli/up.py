"""`homeostat up` and `homeostat server`: run Homeostat until told to stop."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from homeostat.cli.failures import USAGE, explained, fail
from homeostat.cli.numbers import finite
from homeostat.cli.signals import heed_signals, loop_factory

if TYPE_CHECKING:
    import socket
    from contextlib import AbstractAsyncContextManager

    from homeostat.app.assemble import System
    from homeostat.app.data_dir import DataDirectory
    from homeostat.app.settings import Settings
    from homeostat.testing.village import Village

DataDir = Annotated[Path | None, typer.Option(help="Where the embedded store keeps its file.")]
Host = Annotated[str | None, typer.Option(help="The address to listen on; only loopback is possible without login.")]
Port = Annotated[int | None, typer.Option(help="The port to listen on; a taken one moves to the next, 0 takes any.")]
Demo = Annotated[bool, typer.Option("--demo/--no-demo", help="Let a simulated fleet live here, beside your own.")]
Ephemeral = Annotated[bool | None, typer.Option("--ephemeral", help="Keep everything in memory.")]
StoreUrl = Annotated[str | None, typer.Option(help="postgresql://… instead of the embedded store.")]
BusUrl = Annotated[str | None, typer.Option(help="nats://… to hear of other processes at once.")]
Upstreams = Annotated[
    str | None,
    typer.Option(help="Who answers model calls: openai, anthropic, NAME=URL; keys in HOMEOSTAT_NAME_API_KEY."),
]
Planners = Annotated[
    str | None, typer.Option(help="Functions that plan runs: NAME=module:function,…, for run --planner-function NAME.")
]
PlannerSeconds = Annotated[
    float | None, typer.Option(callback=finite, help="How long such a function, or an agent that plans, may take.")
]
StatusUrl = Annotated[str | None, typer.Option(help="redis://… to keep the fleet's status there.")]
AgentExpirySeconds = Annotated[float | None, typer.Option(callback=finite, help="How long a dead agent stays listed.")]
LeaseSeconds = Annotated[float | None, typer.Option(callback=finite, help="How long a silent worker keeps its turns.")]
AuthOption = Annotated[str | None, typer.Option("--auth", help="Who has to log in: none (on loopback only), or keys.")]
TOLD_MAX = 1_000  # tasks that are remembered as told
HELD_TOLD_MAX = 20  # tasks of one run that are told as waiting
LogLevel = Annotated[str | None, typer.Option(help="debug, info, warning or error.")]


def up(
    *,
    port: Port = None,
    host: Host = None,
    data_dir: DataDir = None,
    ephemeral: Ephemeral = None,
    demo: Demo = False,
    store_url: StoreUrl = None,
    bus_url: BusUrl = None,
    status_url: StatusUrl = None,
    agent_expiry_seconds: AgentExpirySeconds = None,
    upstreams: Upstreams = None,
    planners: Planners = None,
    planner_seconds: PlannerSeconds = None,
    lease_seconds: LeaseSeconds = None,
    auth: AuthOption = None,
    log_level: LogLevel = None,
) -> None:
    """Start everything in one process, on embedded engines unless told otherwise.

    With --demo a dozen simulated agents work and fall ill, every minute and a half another one. They are tagged `demo`,
    answered by a simulated model whatever else is configured, and spend nothing.
    """
    run(
        port=port,
        host=host,
        data_dir=data_dir,
        ephemeral=ephemeral,
        demo=demo,
        store_url=store_url,
        bus_url=bus_url,
        status_url=status_url,
        agent_expiry_seconds=agent_expiry_seconds,
        upstreams=upstreams,
        planners=planners,
        planner_seconds=planner_seconds,
        lease_seconds=lease_seconds,
        auth=auth,
        log_level=log_level,
    )


def server(
    *,
    port: Port = None,
    host: Host = None,
    data_dir: DataDir = None,
    ephemeral: Ephemeral = None,
    store_url: StoreUrl = None,
    bus_url: BusUrl = None,
    status_url: StatusUrl = None,
    agent_expiry_seconds: AgentExpirySeconds = None,
    upstreams: Upstreams = None,
    planners: Planners = None,
    planner_seconds: PlannerSeconds = None,
    lease_seconds: LeaseSeconds = None,
    auth: AuthOption = None,
    log_level: LogLevel = None,
) -> None:
    """Start the server alone."""
    run(
        port=port,
        host=host,
        data_dir=data_dir,
        ephemeral=ephemeral,
        store_url=store_url,
        bus_url=bus_url,
        status_url=status_url,
        agent_expiry_seconds=agent_expiry_seconds,
        upstreams=upstreams,
        planners=planners,
        planner_seconds=planner_seconds,
        lease_seconds=lease_seconds,
        auth=auth,
        log_level=log_level,
    )


def run(*, demo: bool = False, **options: Any) -> None:
    """Serve with these options until a signal says stop."""
    import asyncio
    import os
    from contextlib import nullcontext

    from homeostat.app.data_dir import DataDirectory
    from homeostat.app.settings import read_settings
    from homeostat.cli.voice import begin_logging

    with explained(store=True):
        settings = read_settings(os.environ, options)
        begin_logging(settings.log_level)
        refuse_strangers(settings)
        embedded = not settings.ephemeral and settings.store_url is None
        with DataDirectory(settings.data_dir) if embedded else nullcontext() as directory:
            listener = listen(settings)
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(_serve(settings, listener, directory, demo=demo))


def refuse_strangers(settings: "Settings") -> None:
    from homeostat.app.settings import Auth

    if not settings.loopback and settings.auth is Auth.NONE:
        raise fail(
            f"listening on {settings.host} would let anybody on the network command your agents",
            hint="Ask for keys with --auth keys, or use 127.0.0.1.",
            code=USAGE,
        )
    refuse_the_gullible(settings)


def refuse_the_gullible(settings: "Settings") -> None:
    """Model calls are answered for whoever has an agent's key; where a name is enough, only on this machine."""
    if not settings.loopback and settings.development:
        raise fail(
            f"listening on {settings.host}, the word of an agent is no proof of who it is",
            hint="Leave HOMEOSTAT_DEVELOPMENT unset where others can reach this server.",
            code=USAGE,
        )


def listen(settings: "Settings") -> "socket.socket":
    from homeostat.server.serving import bind

    listener = bind(settings.host, settings.port)
    taken = listener.getsockname()[1]
    if settings.port not in {0, taken}:
        typer.echo(f"Port {settings.port} is taken; using {taken} instead.")
    return listener


async def _serve(
    settings: "Settings", listener: "socket.socket", directory: "DataDirectory | None", *, demo: bool
) -> None:
    import asyncio

    from homeostat.cli.voice import aside
    from homeostat.server.serving import serving, url_of

    stop = asyncio.Event()
    heed_signals(stop)
    village = _village(settings) if demo else None
    async with _assembled(settings, village) as system, serving(system, listener) as http:
        url = url_of(listener)
        if village is not None:
            system.supervisor.add("simulated fleet", lambda: village.live(system))
        if directory is not None:
            directory.announce(url)
        first = await system.access.keys.create_first() if system.access.required else None
        _banner(url, system, settings, None if first is None else first.secret)
        await _tell_questions(system, url)
        assert http.running is not None
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({stopping, http.running}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        aside.say("Stopping; requests under way are finished first. Press Ctrl-C again to leave at once.")


async def _tell_questions(system: "System", url: str) -> None:
    """Say when an agent or a run waits for an operator, with what to type: nobody answers what nobody has seen."""
    import shlex

    from homeostat.cli.tables import plain
    from homeostat.cli.voice import aloud
    from homeostat.core.codec import from_json
    from homeostat.core.ids import RunId
    from homeostat.core.machines.task import TaskStatus
    from homeostat.core.records.event import Channel, Event, subject

    place = "" if url.endswith(":7700") else f" --url {url}"
    told: set[str] = set()

    def tell(who: str, what: str, thing: str) -> None:
        words = f"{who} waits for your word on {what}: homeostat approve {shlex.quote(thing)}{place}"
        aloud.say(plain(f"{words}  (or reject, or see {url}/#/approvals)"))

    async def on_approval(event: Event) -> None:
        said = from_json(event.payload)
        if said.get("status") == "pending":
            tell(said["agent_id"], said["action"], said["approval_id"])

    async def on_run(event: Event) -> None:
        said = from_json(event.payload)
        if not said.get("tasks", {}).get("held"):
            return
        run_id = RunId(said["run_id"])
        if len(told) > TOLD_MAX:
            told.clear()
        for task in await system.runs.store.tasks(run_id, status=TaskStatus.HELD, limit=HELD_TOLD_MAX):
            thing = f"{run_id}/{task.spec.name}"
            if task.spec.approval and thing not in told:
                told.add(thing)
                tell(f"{run_id} ({said['goal']})", f"its task {task.spec.name}", thing)

    await system.bus.subscribe(subject("*", Channel.EVT, "agent", "*", "approval"), on_approval)
    await system.bus.subscribe(subject("*", Channel.EVT, "run", "*", "moved"), on_run)


def _village(settings: "Settings") -> "Village":
    """Simulated agents, in real time. What they are called by is kept where everything else is."""
    from homeostat.client.keys import KEYS_FILE
    from homeostat.core.clock import SystemClock
    from homeostat.testing.village import Village

    return Village(SystemClock(), keys_file=None if settings.ephemeral else settings.data_dir / KEYS_FILE)


def _assembled(settings: "Settings", village: "Village | None") -> "AbstractAsyncContextManager[System]":
    from dataclasses import replace

    from homeostat.app.assemble import assemble

    if village is None:
        return assemble(settings)
    return assemble(replace(settings, upstreams=(*settings.upstreams, village.upstream)), stand_ins=village.stand_ins)


def _banner(url: str, system: "System", settings: "Settings", key: str | None) -> None:
    import homeostat

    lines = {
        "Dashboard": f"{url}/",
        "API": f"{url}/v1",
        "API docs": f"{url}/docs",
        **dict(gateway_lines(url, settings)),
        "Key": _key_line(system, key),
        "Data": system.store_place,
    }
    typer.echo(f"Homeostat {homeostat.__version__} is up at {url}")
    for name, value in lines.items():
        typer.echo(f"  {name:<9} {value}")
    typer.echo("Press Ctrl-C to stop.")


def _key_line(system: "System", key: str | None) -> str:
    if not system.access.required:
        return "none needed on this machine"
    if key is None:
        return "the ones there are; `homeostat key list` shows them"
    return f"{key} (admin; shown this once: export HOMEOSTAT_KEY={key})"


def gateway_lines(url: str, settings: "Settings") -> list[tuple[str, str]]:
    """Where agents send their model calls, and who answers them."""
    lines: list[tuple[str, str]] = []
    for one in settings.upstreams:
        base = f"{url}/{one.name}" + ("/v1" if one.family == "openai" else "")
        who = "simulated: no upstream is configured, nothing is spent" if one.simulated else one.place
        lines.append((one.name.capitalize() if one.name != "openai" else "OpenAI", f"{base} ({who})"))
    return lines
