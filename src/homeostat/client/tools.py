"""Tools, memory and models for a worker or a tool service that runs elsewhere."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any

import httpx2
import msgspec

from homeostat.client.client import Client, path_part
from homeostat.client.keys import KeyRing
from homeostat.core.clock import Millis
from homeostat.core.codec import Json, from_json, to_json
from homeostat.core.errors import CardUnknown
from homeostat.core.gateway_errors import UpstreamFailed
from homeostat.core.ids import AgentId, CardId, ProjectId, ToolCallId, TurnId
from homeostat.core.limits import CLAIM_WAIT_SECONDS_MAX
from homeostat.core.ports.upstream import Headers, UpstreamRequest
from homeostat.core.records.tool import CallKey, OpenCall, ToolSpec
from homeostat.core.records.turn import AgentKey, WaitStatus
from homeostat.core.wire import tools as t

MODEL_SECONDS_MAX = 600.0  # a model may think for long before it says its first word


class HttpToolDesk:
    """A server as the place where calls are waiting."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def register(self, tools: Collection[ToolSpec]) -> None:
        body = {
            "tools": [
                {"name": tool.name, "description": tool.description, "parameters": _raw(tool.parameters)}
                for tool in tools
            ]
        }
        await self._send("POST", "/v1/tools", body)

    async def describe(self) -> dict[str, ToolSpec]:
        known = (await self._send("GET", "/v1/tools")).read(t.ToolsShape)
        return {
            one.name: ToolSpec(one.name, one.description, Json(bytes(one.parameters).decode())) for one in known.items
        }

    async def calls(
        self, tools: Collection[str], *, limit: int, seconds: float, holding: Collection[CallKey] = ()
    ) -> list[OpenCall]:
        held = min(seconds, CLAIM_WAIT_SECONDS_MAX)
        body = {
            "tools": list(tools),
            "limit": limit,
            "wait": held,
            "holding": [{"turn_id": turn_id, "tool_call_id": call_id} for turn_id, call_id in holding],
        }
        found = (await self._send("POST", "/v1/tools/calls", body, held=held)).read(t.CallsShape)
        return [self._call(one) for one in found.calls]

    def _call(self, one: t.CallShape) -> OpenCall:
        return OpenCall(
            ProjectId(self._client.project),
            AgentId(one.agent_id),
            TurnId(one.turn_id),
            ToolCallId(one.tool_call_id),
            one.tool,
            None if one.tool_call_card_id is None else CardId(one.tool_call_card_id),
            Millis(one.deadline_ms),
        )

    async def args(self, call: OpenCall) -> Json:
        if call.call_card_id is None:
            raise CardUnknown(card_id="")
        card = await self._client.card(call.call_card_id)
        return to_json(from_json(card.content).get("args"))

    async def report(self, call: OpenCall, *, status: WaitStatus, result: Json) -> None:
        await self._client.report(call.turn_id, call.call_id, _raw(result), status=status.value)

    async def _send(self, method: str, path: str, body: dict[str, Any] | None = None, *, held: float = 0.0) -> Any:
        return await self._client.transport.send(
            method, path, project=self._client.project, body=body, held_seconds=held
        )


class HttpMemory:
    """A server as the keeper of what agents remember."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def recall(self, agent: AgentKey) -> dict[str, Json]:
        answer = await self._client.transport.send("GET", _memory_path(agent), project=agent[0])
        values = answer.read(t.MemoryShape).values
        return {name: Json(bytes(value).decode()) for name, value in values.items()}

    async def keep(self, agent: AgentKey, changes: Mapping[str, Json | None], at: Millis) -> None:
        del at  # the server's clock counts
        body = {
            "set": {name: _raw(value) for name, value in changes.items() if value is not None},
            "forget": [name for name, value in changes.items() if value is None],
        }
        await self._client.transport.send("PATCH", _memory_path(agent), project=agent[0], body=body)


class GatewayResponse:
    """An answer that the gateway passes on."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self._blocks: AsyncIterator[bytes] = response.aiter_bytes()
        self._closed = False

    @property
    def status(self) -> int:
        return self._response.status_code

    @property
    def headers(self) -> Headers:
        return [(name.lower(), value) for name, value in self._response.headers.raw]

    @property
    def complete(self) -> bool:
        return self._response.is_stream_consumed

    async def read(self) -> bytes:
        if self._closed:
            raise UpstreamFailed(upstream="gateway", problem="the answer was let go")
        try:
            while True:
                block = await anext(self._blocks, b"")
                if block or self._response.is_stream_consumed:
                    return block
        except httpx2.HTTPError as problem:
            raise UpstreamFailed(upstream="gateway", problem=str(problem) or type(problem).__name__) from problem

    def close(self) -> None:
        self._closed = True
        if not self._response.is_closed:
            closing = asyncio.get_running_loop().create_task(self._response.aclose())
            closing.add_done_callback(lambda task: task.cancelled() or task.exception())


class GatewayUpstream:
    """The gateway of a server, as whoever asks a model sees it; each agent asks under its own key."""

    def __init__(self, client: Client, keys: KeyRing, *, prefix: str = "/openai") -> None:
        self._http = client.transport.http
        self._project = ProjectId(client.project)
        self._keys = keys
        self._prefix = prefix

    async def send(self, request: UpstreamRequest) -> GatewayResponse:
        assert isinstance(request.body, bytes)
        headers = [*request.headers, (b"x-homeostat-project", self._project.encode())]
        agent_id = AgentId(dict(request.headers).get(b"x-agent-id", b"").decode())
        if (key := self._keys.get((self._project, agent_id))) is not None:
            headers.append((b"authorization", f"Bearer {key}".encode()))
        built = self._http.build_request(
            request.method.decode(),
            self._prefix + request.target.decode(),
            headers=headers,
            content=request.body,
            timeout=httpx2.Timeout(MODEL_SECONDS_MAX, connect=5.0),
        )
        try:
            return GatewayResponse(await self._http.send(built, stream=True))
        except httpx2.HTTPError as problem:
            raise UpstreamFailed(upstream="gateway", problem=str(problem) or type(problem).__name__) from problem

    async def close(self) -> None:
        """The client's connections are the client's to close."""


def _memory_path(agent: AgentKey) -> str:
    return f"/v1/agents/{path_part(agent[1])}/memory"


def _raw(text: Json) -> msgspec.Raw:
    return msgspec.Raw(text.encode())
