"""`homeostat exec`: put a command under control without changing a line of it."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from homeostat.cli.failures import USAGE, explained, fail

if TYPE_CHECKING:
    import asyncio

    from homeostat.client.client import Client
    from homeostat.client.custody import CustodyLine
    from homeostat.client.keys import KeyRing
    from homeostat.core.wire.answers import Registered

Command = Annotated[list[str], typer.Argument(metavar="COMMAND…", help="What to run, behind --.", show_default=False)]
AgentIdOption = Annotated[str | None, typer.Option("--agent-id", help="Its id; made up where none is given.")]
AgentType = Annotated[str | None, typer.Option("--agent-type", help="Its type. [default: the command's name]")]
Tag = Annotated[list[str] | None, typer.Option("--tag", help="A tag; give it several times for several.")]
Url = Annotated[str | None, typer.Option(help="The server, else HOMEOSTAT_URL, else http://127.0.0.1:7700.")]

NOT_FOUND = 127
NOT_EXECUTABLE = 126
SIGNALLED = 128  # and the signal's number, as shells have it
MEGABYTE = 1 << 20
PR_SET_CHILD_SUBREAPER = 36  # of Linux


def execute(
    command: Command,
    agent_id: AgentIdOption = None,
    agent_type: AgentType = None,
    tag: Tag = None,
    url: Url = None,
) -> None:
    """Run a command as an agent: registered, with its own key, its model calls through the gateway.

    It finds OPENAI_BASE_URL, ANTHROPIC_BASE_URL and their keys in its environment, is kept alive in the fleet while it
    runs and deregistered at its end. Signals are passed on to it, and its exit code is this one's.
    """
    import asyncio

    if not command:
        raise fail("there is nothing to run", hint="homeostat exec -- python my_agent.py", code=USAGE)
    with explained():
        code = asyncio.run(_execute(command, agent_id, agent_type, tuple(tag or ()), url))
    raise typer.Exit(code)


async def _execute(
    command: list[str], agent_id: str | None, agent_type: str | None, tags: tuple[str, ...], url: str | None
) -> int:
    import os
    from pathlib import Path

    from homeostat.app.settings import default_data_dir
    from homeostat.client.client import Client
    from homeostat.client.keys import KEYS_FILE, KeyRing

    async with Client(url) as client:
        keys = KeyRing(Path(default_data_dir(os.environ)) / KEYS_FILE, url=client.url)
        keys.open()
        enrolment = Enrolment(client, keys, agent_type or _type_of(command[0]), tags)
        registered = await enrolment.register(agent_id)
        try:
            bases = await _bases(client)
            return await _run(command, _environment(client, registered, bases), enrolment, client)
        finally:
            await enrolment.leave()


class Enrolment:
    """The command's place in the fleet. Once it runs, nothing that goes wrong here is allowed to disturb it."""

    def __init__(self, client: "Client", keys: "KeyRing", agent_type: str, tags: tuple[str, ...]) -> None:
        self._client = client
        self._keys = keys
        self._type = agent_type
        self._tags = tags
        self._registered: Registered | None = None

    async def register(self, agent_id: str | None, *, pid: int | None = None) -> "Registered":
        from homeostat.client.heartbeat import whereabouts
        from homeostat.core.ids import AgentId, ProjectId
        from homeostat.core.wire.answers import Registered

        known = None
        if agent_id is not None:
            known = self._keys.get((ProjectId(self._client.project), AgentId(agent_id)))
        body = {
            "agent_type": self._type,
            "agent_id": agent_id,
            "tags": list(self._tags) or None,
            **whereabouts(),
            "pid": pid,
            "api_key": known,
        }
        given = {name: value for name, value in body.items() if value is not None}
        answer = await self._client.transport.send(
            "POST", "/v1/agents/register", project=self._client.project, body=given
        )
        self._registered = registered = answer.read(Registered)
        agent = (ProjectId(self._client.project), AgentId(registered.agent_id))
        if agent_id is not None:
            self._keys.keep(agent, registered.api_key)
        else:
            self._keys.remember(agent, registered.api_key)
        return registered

    async def beat(self, process: Any) -> None:
        """Say every interval that the command is alive, and what it weighs."""
        import asyncio
        import logging

        from homeostat.core.clock import SystemClock, rfc3339
        from homeostat.core.errors import AgentGone, HomeostatError, Refused

        assert self._registered is not None
        clock = SystemClock()
        began, interval = clock.now_ms(), self._registered.push_interval_seconds
        while True:
            now = clock.now_ms()
            status: dict[str, object] = {
                "agent_id": self._registered.agent_id,
                "agent_type": self._type,
                "tags": list(self._tags),
                "timestamp": rfc3339(now),
                "started_at": rfc3339(began),
                "uptime_seconds": (now - began) / 1000,
                "status": "running",
                "last_action": "",
                "items_processed": 0,
                "queue_depth": 0,
                "processing_time_avg_ms": 0.0,
                "error_count": 0,
                "memory_mb": _memory(process.pid),
                "push_interval_seconds": interval,
            }
            try:
                interval = await self._send_status(status)
            except (AgentGone, Refused) as error:
                logging.getLogger(__name__).warning("%s no longer beats: %s", self._registered.agent_id, error)
                return
            except HomeostatError as error:
                logging.getLogger(__name__).debug("a heartbeat was lost: %s", error)
            await asyncio.sleep(interval)

    async def _send_status(self, status: dict[str, object]) -> float:
        import httpx2
        import msgspec

        from homeostat.client.transport import error_of
        from homeostat.core.errors import ServerUnreachable

        assert self._registered is not None
        headers = {"authorization": f"Bearer {self._registered.api_key}"}
        try:
            answer = await self._client.transport.http.post("/v1/agents/status", json=status, headers=headers)
        except httpx2.TransportError as problem:
            raise ServerUnreachable(url=self._client.url, problem=str(problem)) from problem
        if answer.status_code >= 400:
            raise error_of(answer.status_code, answer.content)
        return msgspec.json.decode(answer.content, type=dict[str, Any])["push_interval_seconds"]

    async def leave(self) -> None:
        from contextlib import suppress

        from homeostat.client.client import path_part
        from homeostat.core.errors import HomeostatError

        if self._registered is not None:
            path = f"/v1/agents/{path_part(self._registered.agent_id)}/deregister"
            with suppress(HomeostatError):  # it will be found dead
                await self._client.transport.send("POST", path, project=self._client.project)


async def _run(command: list[str], environment: dict[str, str], enrolment: Enrolment, client: "Client") -> int:
    """Run the command, and again each time the server asks for it; what it leaves behind stays ours to answer for."""
    from homeostat.cli.tables import plain
    from homeostat.client.custody import CustodyLine
    from homeostat.core.wire.custody import OrderWord

    orders: list[OrderWord] = []
    line = CustodyLine(client, environment["HOMEOSTAT_KEY"], supervises=True, on_order=orders.append)
    _adopt_orphans()
    await line.open()
    if line.refusal:
        typer.echo(f"It is held at the gateway, and not as a process: {line.refusal}", err=True)
    elif line.notice:
        typer.echo(f"homeostat: {plain(line.notice)}", err=True)
    try:
        while True:
            code = await _run_once(command, environment, enrolment, line)
            if not orders or orders.pop() is not OrderWord.RESTART:
                return SIGNALLED - code if code < 0 else code
            orders.clear()
    finally:
        await line.close()


async def _run_once(command: list[str], environment: dict[str, str], enrolment: Enrolment, line: "CustodyLine") -> int:
    import asyncio
    from contextlib import suppress

    from homeostat.core.errors import HomeostatError

    try:
        process = await asyncio.create_subprocess_exec(*command, env=environment)
    except FileNotFoundError as problem:
        raise fail(f"{command[0]}: there is no such command", code=NOT_FOUND) from problem
    except OSError as problem:
        raise fail(f"{command[0]}: {problem.strerror}", code=NOT_EXECUTABLE) from problem
    await line.spawned(process.pid)
    _pass_signals(process)
    beating = asyncio.create_task(_watch(enrolment, environment["HOMEOSTAT_AGENT_ID"], process))
    try:
        return await process.wait()
    finally:
        beating.cancel()
        with suppress(asyncio.CancelledError, HomeostatError):
            await beating


def _adopt_orphans() -> None:
    """Have children whose parents have ended come to us, so that nobody leaves the tree by forking twice."""
    import ctypes
    from contextlib import suppress

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


async def _watch(enrolment: Enrolment, agent_id: str, process: Any) -> None:
    """Tell which process it is, then beat for it."""
    from contextlib import suppress

    from homeostat.core.errors import HomeostatError

    with suppress(HomeostatError):
        await enrolment.register(agent_id, pid=process.pid)
    await enrolment.beat(process)


def _pass_signals(process: "asyncio.subprocess.Process") -> None:
    """What is meant for the command reaches it; Ctrl-C in a terminal reaches it by itself."""
    import asyncio
    import os
    import signal
    import sys
    from contextlib import suppress

    def forward(number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            process.send_signal(number)

    loop = asyncio.get_running_loop()
    in_terminal = sys.stdin is not None and sys.stdin.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        loop.add_signal_handler(number, forward, number)
    for number in (signal.SIGINT, signal.SIGQUIT):
        loop.add_signal_handler(number, (lambda _: None) if in_terminal else forward, number)


async def _bases(client: "Client") -> dict[str, str]:
    """The base URL of each family's first upstream."""
    from homeostat.core.errors import RouteUnknown
    from homeostat.core.wire.gateway import GatewayShape

    try:
        answer = await client.transport.send("GET", "/v1/gateway")
    except RouteUnknown as problem:
        raise fail(f"{client.url} has no gateway", hint="Start it with `homeostat up`.") from problem
    bases: dict[str, str] = {}
    for upstream in answer.read(GatewayShape).upstreams:
        bases.setdefault(upstream.family, client.url.rstrip("/") + upstream.base_path)
    return bases


def _environment(client: "Client", registered: "Registered", bases: dict[str, str]) -> dict[str, str]:
    import os

    environment = {**os.environ, "HOMEOSTAT_URL": client.url, "HOMEOSTAT_KEY": registered.api_key}
    environment["HOMEOSTAT_AGENT_ID"] = registered.agent_id
    environment.update(_mark())
    for family, base in bases.items():
        name = family.upper()
        environment[f"{name}_BASE_URL"] = base
        environment[f"{name}_API_KEY"] = registered.api_key
    environment.pop("ANTHROPIC_AUTH_TOKEN", None)  # a key of another kind would be shown instead
    if "openai" in bases:
        environment["OPENAI_API_BASE"] = bases["openai"]  # what older clients read
    return environment


def _mark() -> dict[str, str]:
    """What tells whoever the command starts from everybody else, even when we are dead, where there is a /proc."""
    import os
    from contextlib import suppress

    from homeostat.adapters.enforcers import proc

    with suppress(OSError):
        if (since := proc.started(os.getpid())) is not None:
            return {proc.MARK: proc.mark(proc.Named(os.getpid(), since), proc.boot_id())}
    return {}


def _type_of(program: str) -> str:
    """The command's name, as far as it can be a word."""
    import re
    from pathlib import Path

    return re.sub(r"[^\w.=@+~-]", "-", Path(program).name).lstrip("-.=@+~")[:100] or "command"


def _memory(pid: int) -> float:
    """What a process and its children hold, in megabytes."""
    import psutil

    total = 0
    try:
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            total += one.memory_info().rss
    except psutil.Error:
        return total / MEGABYTE
    return total / MEGABYTE
