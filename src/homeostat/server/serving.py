"""Listening on a port, and stopping without dropping a request."""

import asyncio
import errno
import socket
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final, Protocol, cast

import uvicorn

from homeostat.app.assemble import System
from homeostat.core import collector
from homeostat.core.errors import SettingInvalid
from homeostat.server.frames import SharingProtocol
from homeostat.server.patience import Patience
from homeostat.server.protocol import LeanProtocol
from homeostat.server.turnstile import Turnstile

PORTS_TRIED_MAX: Final = 20
GRACE_SECONDS: Final = 10  # how long requests under way may take once the server stops
SOCKET_BYTES_MAX: Final = 64 << 10  # what a reader of the live feed may say at once
KEEP_ALIVE_SECONDS: Final = 75  # longer than clients keep a connection, so that they are the ones to close it


def bind(host: str, port: int) -> socket.socket:
    """A listening socket on a port, or on the next one that is free."""
    last: OSError | None = None
    for candidate in range(port, min(port + PORTS_TRIED_MAX, 65_536)) if port else (0,):
        try:
            return _listen(host, candidate)
        except OSError as problem:
            if problem.errno not in {errno.EADDRINUSE, errno.EACCES}:
                raise SettingInvalid(setting="--host", problem=f"{host}: {problem.strerror or problem}") from problem
            last = problem
    assert last is not None
    raise SettingInvalid(
        setting="--port", problem=f"{port} and the {PORTS_TRIED_MAX - 1} ports after it cannot be used"
    ) from last


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2_048)
    except BaseException:
        listener.close()
        raise
    return listener


def url_of(listener: socket.socket) -> str:
    host, port, *_ = listener.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def configured(app: Any) -> uvicorn.Config:
    """How every application of ours is served."""
    return uvicorn.Config(
        app,
        http=cast("type[asyncio.Protocol]", partial(LeanProtocol, turnstile=Turnstile())),
        lifespan="off",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,  # who is calling is told by a key, never by a header that anybody can send
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        ws=SharingProtocol,
        ws_max_size=SOCKET_BYTES_MAX,
    )


class Servable(Protocol):
    """An ASGI application that can let go of those who wait."""

    patience: Patience

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...


class HttpServer(uvicorn.Server):
    """Serves a system on a socket; whoever runs it decides what a signal means."""

    def __init__(self, app: Servable) -> None:
        self.patience = app.patience
        super().__init__(configured(app))
        self.ready = asyncio.Event()
        self.running: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        collector.settle()
        self.ready.set()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield

    def finish(self) -> None:
        """Take no new requests, answer those that are held open, let the others end."""
        self.patience.end()
        self.should_exit = True


def serving(system: System, listener: socket.socket) -> AbstractAsyncContextManager[HttpServer]:
    """A whole Homeostat on a socket."""
    # Loading the routes takes a while: whoever is isolated is held again after a restart before that begins.
    from homeostat.server.application import create_app  # noqa: PLC0415

    return serving_app(create_app(system), listener)


@asynccontextmanager
async def serving_app(app: Servable, listener: socket.socket) -> AsyncGenerator[HttpServer, Any]:
    """A server that answers within the block and has finished every request behind it."""
    server = HttpServer(app)
    running = server.running = asyncio.create_task(server.serve([listener]), name="http server")
    starting = asyncio.create_task(server.ready.wait())
    try:
        await asyncio.wait({running, starting}, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
        yield server
    finally:
        starting.cancel()
        server.finish()
        await running
