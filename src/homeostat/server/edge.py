"""The outermost layer: every request is bounded, guarded, answered and counted here, whatever becomes of it."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from functools import partial
from typing import Any, Final, Protocol

from homeostat.app.assemble import System
from homeostat.app.settings import is_loopback
from homeostat.core.errors import HomeostatError, InternalError, OriginRefused, PayloadTooLarge, Unauthenticated
from homeostat.core.limits import BODY_BYTES_MAX
from homeostat.gateway.asgi import AtOnce, reply
from homeostat.server import heartbeats
from homeostat.server.answers import Answer, StreamedAnswer
from homeostat.server.call import SAFE_METHODS, Call, Receive, Scope
from homeostat.server.doorkeeper import Doorkeeper
from homeostat.server.endpoints import Endpoint
from homeostat.server.metrics import Metrics
from homeostat.server.patience import Patience
from homeostat.server.problems import problem
from homeostat.server.routing import Router

log = logging.getLogger(__name__)

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Quick = Callable[[Scope, Receive, Send], Awaitable[Receive | None]]

HOSTS_KEPT_MAX: Final = 64


class Socket(Protocol):
    """Something live to follow; `verb` is what whoever opens it must be allowed to do."""

    verb: str

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class Edge:
    """Answers the endpoints of the table itself and passes everything else on, under the same guard."""

    def __init__(
        self,
        app: App,
        *,
        system: System,
        router: Router,
        metrics: Metrics,
        patience: Patience,
        sockets: Mapping[str, Socket],
        doorkeeper: Doorkeeper,
    ) -> None:
        self._known_hosts: set[bytes] = set()
        heartbeat = heartbeats.QuickHeartbeat(system, tally=metrics.heartbeats, hosts=self._known_hosts)
        self._quick = {heartbeats.PATH: heartbeat}
        self._heartbeat_at_once = heartbeat.at_once
        self._app = app
        self._owns = system.gateway.owns
        self._proxy = system.gateway.application
        self._call_at_once = partial(self._proxy.quick, hosts=self._known_hosts)
        self._system = system
        self._router = router
        self._metrics = metrics
        self.patience = patience
        self._sockets = sockets
        self._doorkeeper = doorkeeper

    def quick(self, request: AtOnce) -> bool:
        """Answer a heartbeat or begin a model call without a task. False where either has to be looked at closely."""
        if request.raw_path == heartbeats.RAW_PATH:
            return self._heartbeat_at_once(request)
        return self._call_at_once(request)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._other(scope, receive, send)
            return
        if self._owns(scope["path"]):
            await self._gateway(scope, receive, send)
            return
        if (quick := self._quick.get(scope["path"])) is not None:
            try:
                unread = await quick(scope, receive, send)
            except HomeostatError as error:
                await self._refuse(scope, receive, send, error)
                return
            if unread is None:
                return
            receive = unread
        began = self._system.clock.monotonic()
        raw_path: bytes = scope.get("raw_path") or scope["path"].encode()
        call = Call(scope, receive, parameters={}, system=self._system, patience=self.patience)
        endpoint: Endpoint | None = None
        try:
            self._guard(call)
            found = self._router.find(scope["method"], raw_path)
            if found is None:
                if self._system.access.required and scope["method"] not in SAFE_METHODS:
                    await self._doorkeeper.admit(call, "unknown")
                status = await self._pass_on(call, receive, send)
                self._metrics.answered(None, scope["method"], status, self._system.clock.monotonic() - began)
                return
            endpoint, call.parameters = found
            await self._doorkeeper.admit(call, endpoint.name)
            answer = await self._doorkeeper.run(call, endpoint)
        except HomeostatError as error:
            answer = self._problem(call, error)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 — whatever it was, the caller is answered and the log has it
            answer = self._broken(call, error)
        if isinstance(answer, StreamedAnswer):
            assert endpoint is not None
            await self._stream(call, endpoint.name, answer, send)
        else:
            await self._send(call, answer, send)
        self._metrics.answered(endpoint, scope["method"], answer.status, self._system.clock.monotonic() - began)

    async def _gateway(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Model calls have a layer of their own; only the guard is common to all."""
        for name, value in scope["headers"]:
            if name == b"origin" or (name == b"host" and value not in self._known_hosts):
                try:
                    self._guard(Call(scope, receive, parameters={}, system=self._system, patience=self.patience))
                except HomeostatError as error:
                    await self._refuse(scope, receive, send, error)
                    return
        await self._proxy(scope, receive, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, error: HomeostatError) -> None:
        """Say why the short way ended early."""
        call = Call(scope, receive, parameters={}, system=self._system, patience=self.patience)
        answer = self._problem(call, error)
        await self._send(call, answer, send)
        self._metrics.answered(None, scope["method"], answer.status, 0.0)

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            call = Call(scope, receive, parameters={}, system=self._system, patience=self.patience)
            try:
                self._guard(call)
                socket = self._sockets.get(scope["path"])
                if socket is not None:
                    await self._doorkeeper.admit(call, socket.verb)
                    scope["homeostat.project"] = call.project
            except HomeostatError as error:
                await send({"type": "websocket.close", "code": 1008, "reason": error.message[:120]})
                return
            if self._owns(scope["path"]):
                await self._proxy(scope, receive, send)
                return
            if socket is not None:
                if not await self._doorkeeper.while_admitted(call, socket.verb, socket(scope, receive, send)):
                    with contextlib.suppress(OSError, RuntimeError):
                        await send({"type": "websocket.close", "code": 1008, "reason": Unauthenticated().message})
                return
        await self._app(scope, receive, send)

    def _problem(self, call: Call, error: HomeostatError) -> Answer:
        if call.trace_id is None:
            call.trace_id = self._system.ids.trace()
        return problem(error, call.trace_id)

    def _broken(self, call: Call, error: Exception) -> Answer:
        """The caller learns that it was us, and the log learns what it was."""
        answer = self._problem(call, InternalError())
        log.error("%s %s failed (%s)", call.scope["method"], call.scope["path"], call.trace_id, exc_info=error)
        return answer

    # --- guarding ------------------------------------------------------------------------------------------

    def _guard(self, call: Call) -> None:
        """No page of another site may speak for its visitor, and no name may be rebound to this server."""
        host = call.headers.get(b"host", b"")
        if host not in self._known_hosts:
            self._check_host(host)
        origin = call.headers.get(b"origin")
        if origin is not None and call.scope.get("method") not in SAFE_METHODS and origin.partition(b"://")[2] != host:
            raise OriginRefused(origin=origin.decode("latin-1"), host=host.decode("latin-1"))

    def _check_host(self, host: bytes) -> None:
        name = host.decode("latin-1")
        bare = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
        known = self._system.settings.allowed_hosts
        guarded = self._system.settings.loopback or known
        if guarded and bare and not is_loopback(bare.lower()) and bare.lower() not in known:
            raise OriginRefused(origin=name, host=self._system.settings.host)
        if len(self._known_hosts) < HOSTS_KEPT_MAX:
            self._known_hosts.add(host)

    # --- answering -----------------------------------------------------------------------------------------

    async def _send(self, call: Call, answer: Answer, send: Send) -> None:
        headers = [
            (b"content-type", answer.media_type),
            (b"content-length", str(len(answer.body)).encode()),
            (b"x-content-type-options", b"nosniff"),
            *answer.headers,
        ]
        if answer.status == 204:
            del headers[:2]
        if call.trace_id is not None:
            headers.append((b"traceparent", traceparent(call.trace_id, self._system.ids.span())))
        body = b"" if call.scope["method"] == "HEAD" else answer.body
        if answer.status != PayloadTooLarge.http_status:
            await reply(call.scope, send, answer.status, headers, body)
            return
        # Whoever is cut off in the middle of a sentence would not hear why: listen a little longer, then hang up.
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await call.discard()
        await send({"type": "http.response.body", "body": b""})

    async def _stream(self, call: Call, verb: str, answer: StreamedAnswer, send: Send) -> None:
        """Send parts as they come, until the caller leaves or may no longer read, or the server stops."""
        headers = [(b"content-type", answer.media_type), (b"x-content-type-options", b"nosniff"), *answer.headers]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})

        async def send_all() -> None:
            if call.scope["method"] != "HEAD":
                async for part in answer.parts:
                    await send({"type": "http.response.body", "body": part, "more_body": True})

        try:
            if not self.patience.over:  # else nobody would await what is made here
                with contextlib.suppress(HomeostatError):  # the server stops, and a reader comes back to the next one
                    gone = self._doorkeeper.while_admitted(call, verb, call.hung_up())
                    await self.patience.wait(send_all(), gone)
            await send({"type": "http.response.body", "body": b""})
        finally:
            answer.close()

    async def _pass_on(self, call: Call, receive: Receive, send: Send) -> int:
        """Let the framework answer; its bodies are bounded as ours are."""
        size = 0
        status: int | None = None

        async def bounded() -> MutableMapping[str, Any]:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > BODY_BYTES_MAX:
                raise PayloadTooLarge(what="the body", size=f"more than {BODY_BYTES_MAX}", limit=BODY_BYTES_MAX)
            return message

        async def watched(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(call.scope, bounded, watched)
        except Exception:
            if status is None:
                raise
            log.exception("%s %s broke off", call.scope["method"], call.scope["path"])
        return status or 500


def traceparent(trace_id: str, span_id: str) -> bytes:
    """The header by which a trace goes on."""
    return f"00-{trace_id}-{span_id}-01".encode()
