"""This server's own gateway, called from inside: an agent's name is believed, and every policy holds."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from homeostat.core.gateway_errors import UpstreamFailed
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.ports.upstream import Headers, UpstreamRequest
from homeostat.gateway.asgi import AGENT, Message, Receive, Scope, Send

Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class WholeAnswer:
    """An answer that was read to its end."""

    def __init__(self, status: int, headers: Headers, body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.complete = True
        self._body = body

    async def read(self) -> bytes:
        body, self._body = self._body, b""
        return body

    def close(self) -> None: ...


class InnerGateway:
    """Model calls that are not made over HTTP, and pass every policy and every budget all the same."""

    def __init__(self, application: Application, project: ProjectId, *, prefix: str = "/openai") -> None:
        self._application = application
        self._project = project
        self._prefix = prefix

    async def send(self, request: UpstreamRequest) -> WholeAnswer:
        assert isinstance(request.body, bytes)
        path, _, query = (self._prefix + request.target.decode()).partition("?")
        name = dict(request.headers).get(b"x-agent-id", b"").decode()
        scope: dict[str, Any] = {
            "type": "http",
            "method": request.method.decode(),
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [*request.headers, (b"content-length", b"%d" % len(request.body))],
            AGENT: (self._project, AgentId(name)) if name else None,
        }
        asked: list[Message] = [{"type": "http.request", "body": request.body, "more_body": False}]
        answered: list[Message] = []
        over: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

        async def receive() -> Message:
            return asked.pop() if asked else await over  # nobody hangs up before the answer is here

        async def send(message: Message) -> None:
            answered.append(message)

        try:
            await self._application(scope, receive, send)
        finally:
            over.cancel()
        if not answered or answered[0]["type"] != "http.response.start":
            raise UpstreamFailed(upstream="gateway", problem="it did not answer")
        body = b"".join(message.get("body", b"") for message in answered[1:])
        return WholeAnswer(answered[0]["status"], list(answered[0]["headers"]), body)

    async def close(self) -> None:
        """The gateway is somebody else's to close."""
