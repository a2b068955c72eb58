"""A tool that is not allowed reaches no agent, however an upstream puts it."""

import gzip
import json
from typing import Any

import pytest

from homeostat.core.ports.upstream import Headers, UpstreamRequest
from homeostat.core.records.policy import Action
from homeostat.testing.gateways import booth

DONE = b"data: [DONE]\n\n"
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("search", "delete_all")]


class Told:
    """An upstream that answers with the bytes it is told, and remembers what it was asked."""

    def __init__(self, *blocks: bytes, streams: bool = True, encoding: bytes = b"") -> None:
        self.blocks = blocks
        self.headers: Headers = [(b"content-type", b"text/event-stream" if streams else b"application/json")]
        if encoding:
            self.headers.append((b"content-encoding", encoding))
        self.bodies: list[bytes] = []

    async def send(self, request: UpstreamRequest) -> "Words":
        if isinstance(request.body, bytes):
            self.bodies.append(request.body)
        return Words(self)

    async def close(self) -> None: ...


class Words:
    status = 200

    def __init__(self, told: Told) -> None:
        self.headers = told.headers
        self._left = list(told.blocks)

    @property
    def complete(self) -> bool:
        return not self._left

    async def read(self) -> bytes:
        return self._left.pop(0) if self._left else b""

    def close(self) -> None:
        self._left.clear()


def chunk(delta: dict[str, Any], finish: str | None = None) -> str:
    return json.dumps({"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def call(name: str | None, arguments: str = "{}", call_id: str = "c") -> dict[str, Any]:
    return {"tool_calls": [{"index": 0, "id": call_id, "function": {"name": name, "arguments": arguments}}]}


HI, DENIED = chunk({"content": "hi"}), chunk(call("delete_all"))
MESSAGE = {"id": "m", "model": "c", "content": [{"type": "tool_use", "id": "t", "name": "delete_all", "input": {}}]}


@pytest.mark.parametrize("terms", [{"deny": ("delete_*",)}, {"allow": ("search",)}])
@pytest.mark.parametrize(
    "blocks",
    [
        pytest.param((f"data: {HI}\n\n", f"data: {DENIED}\n"), id="no end behind the last event"),
        pytest.param((f"data: {HI}\n\ndata: {DENIED}",), id="no line end behind it either"),
        pytest.param((f"data: {DENIED}\r\rdata: [DONE]\n\n",), id="ends that are carriage returns"),
        pytest.param((f"data: {HI}\n\n", f"data: {DENIED}\r\n\r\ndata: {HI}\n\n"), id="two kinds of ends"),
        pytest.param((f'data: {DENIED[:-1]}, "x": NaN}}\n\n',), id="a number that is none"),
        pytest.param((f"\ufeffdata: {DENIED}\n\n",), id="a mark of its order of bytes"),
        pytest.param((f"data: {HI}\ndata: {DENIED}\n\n",), id="an event a line"),
        pytest.param((f"data: {chunk(call('delete'))}\n\n", f"data: {chunk(call('_all'))}\n\n"), id="half a name"),
        pytest.param(
            tuple(f"data: {chunk(call(name))}\n\n" for name in ("del", "ete", "_all")), id="a third of a name"
        ),
        pytest.param((f"data: {chunk(call(None))}\n\n", f"data: {DENIED}\n\n"), id="a name that comes late"),
        pytest.param((f"data: {HI}\n data: {DENIED}\n\n",), id="a line that begins with a blank"),
        pytest.param((f"event: x\u2028data: {DENIED}\ndata: {HI}\n\n",), id="an end of line that some know"),
        pytest.param((f" data: {DENIED}\ndata: [DONE]\n\n",), id="an event that says it is the last"),
        pytest.param(
            (f"data: {chunk({'tool_calls': [{'index': 0, 'name': 'delete_all', 'arguments': ''}]})}\n\n",),
            id="a name beside its place",
        ),
        pytest.param((f"data: {chunk(call('search'))}\n\n", f"data: {DENIED}\n\n"), id="a name in place of another"),
        pytest.param(
            (f"data: {chunk({'function_call': {'name': 'delete_all', 'arguments': ''}})}\n\n",), id="its older name"
        ),
        pytest.param(
            ('data: {"choices": [{"message": ' + json.dumps(call("delete_all")) + "}]}\n\n",), id="a whole message"
        ),
    ],
)
async def test_a_stream_hides_no_tool(blocks: tuple[str, ...], terms: dict[str, Any]) -> None:
    async with booth(upstream=Told(*[block.encode() for block in blocks])) as desk:
        await desk.put(Action.TOOL_FILTER, **terms)
        heard = await desk.chat(stream=True)
        assert heard.status == 200
        assert b"_all" not in heard.body


async def test_what_is_allowed_passes_a_sieve_to_the_byte() -> None:
    """Comments, marks, a name that comes late, and a last event that nothing ends."""
    answer = f": PROCESSING\n\nevent: x\ndata: {chunk(call(None))}\n\ndata: {chunk(call('search'))}\n\n"
    answer += f"data: {chunk({'function_call': {'name': 'search'}}, 'function_call')}"
    said = answer.encode() + b"\n\n" + DONE[:-1]
    async with booth(upstream=Told(said)) as desk:
        await desk.put(Action.TOOL_FILTER, allow=("search",))
        assert (await desk.chat(stream=True)).body == said


def calls(body: bytes) -> list[dict[str, Any]]:
    chunks = [json.loads(line[6:]) for line in body.decode().splitlines() if line.startswith("data: {")]
    return [one for said in chunks for choice in said["choices"] for one in choice["delta"].get("tool_calls", [])]


@pytest.mark.parametrize("terms", [{"deny": ("searchsearch",)}, {"allow": ("search",)}])
async def test_a_name_that_is_said_again_makes_no_other(terms: dict[str, Any]) -> None:
    """Some say it with every piece, and agents put the pieces together: two halves of one may look alike."""
    said = [f"data: {chunk(call('search'))}\n\n".encode()] * 3
    async with booth(upstream=Told(*said)) as desk:
        await desk.put(Action.TOOL_FILTER, **terms)
        assert [one["function"].get("name") for one in calls((await desk.chat(stream=True)).body)] == [
            "search",
            None,
            None,
        ]


async def test_calls_that_are_numbered_alike_are_several() -> None:
    """Gemini says 0 of each."""
    names = ("search", "read", "delete_all", "read")
    said = [f"data: {chunk(call(name, call_id=str(at)))}\n\n".encode() for at, name in enumerate(names)]
    async with booth(upstream=Told(*said)) as desk:
        await desk.put(Action.TOOL_FILTER, allow=("search", "read"))
        heard = calls((await desk.chat(stream=True)).body)
        assert [(one["index"], one["id"]) for one in heard] == [(0, "0"), (1, "1"), (2, "3")]


async def test_an_older_answer_without_its_call_has_ended() -> None:
    old = {"function_call": {"name": "delete_all", "arguments": "{}"}, "role": "assistant"}
    whole = json.dumps({"choices": [{"index": 0, "message": old, "finish_reason": "function_call"}]}).encode()
    async with booth(upstream=Told(whole, streams=False)) as desk:
        await desk.put(Action.TOOL_FILTER, deny=("delete_*",))
        (choice,) = (await desk.chat()).json["choices"]
        assert choice == {"index": 0, "message": {"role": "assistant"}, "finish_reason": "stop"}


@pytest.mark.parametrize(
    ("kind", "event"),
    [
        ("message_start", {"type": "message_start", "message": MESSAGE}),
        ("content_block_start", {"index": 0, "content_block": MESSAGE["content"][0]}),
    ],
)
async def test_a_message_that_begins_with_a_tool(kind: str, event: dict[str, Any]) -> None:
    said = f"event: {kind}\ndata: {json.dumps(event)}\n\n"
    asked = {"model": "claude-sonnet-4-5", "max_tokens": 9, "stream": True, "messages": []}
    async with booth(upstream=Told(said.encode())) as desk:
        await desk.put(Action.TOOL_FILTER, deny=("delete_*",))
        assert b"delete_all" not in (await desk.call("/anthropic/v1/messages", asked)).body


async def test_nobody_is_asked_to_approve_of_a_tool_that_is_not_allowed() -> None:
    output = [{"type": "mcp_approval_request", "id": "a", "name": "delete_all", "arguments": "{}"}]
    said = Told(json.dumps({"model": "m", "output": output}).encode(), streams=False)
    async with booth(upstream=said) as desk:
        await desk.put(Action.TOOL_FILTER, deny=("delete_*",))
        assert (await desk.call("/openai/v1/responses", {"model": "gpt-4o", "input": "hi"})).json["output"] == []


ITEM = {"type": "function_call", "name": "delete_all", "call_id": "c", "arguments": "{}"}


@pytest.mark.parametrize(
    ("method", "path", "said"),
    [
        ("GET", "/openai/v1/responses/resp_1", {"id": "resp_1", "output": [ITEM]}),
        ("GET", "/openai/v1//Responses/resp_1", {"id": "resp_1", "output": [ITEM]}),
        ("POST", "/openai/v1/responses/resp_1/cancel", {"id": "resp_1", "output": [ITEM]}),
        ("GET", "/openai/v1/responses/resp_1?stream=true", {"type": "response.output_item.done", "item": ITEM}),
        ("GET", "/openai/v1/chat/completions/c_1", {"choices": [{"message": call("delete_all")}]}),
    ],
)
async def test_an_answer_that_is_asked_for_again_hides_no_tool(method: str, path: str, said: dict[str, Any]) -> None:
    """As whoever has a response made in the background does."""
    streams, written = "stream" in path, json.dumps(said).encode()
    written = b"data: %b\n\n" % written if streams else written
    async with booth(upstream=Told(written, streams=streams)) as desk:
        assert (await desk.call(path, method=method)).body == written
        await desk.put(Action.TOOL_FILTER, deny=("delete_*",))
        heard = await desk.call(path, method=method)
        assert heard.status == 200
        assert b"delete_all" not in heard.body


@pytest.mark.parametrize("streams", [True, False])
async def test_an_answer_that_cannot_be_read_is_not_passed(*, streams: bool) -> None:
    packed = gzip.compress(f"data: {DENIED}\n\n".encode())
    async with booth(upstream=Told(packed, streams=streams, encoding=b"gzip")) as desk:
        assert (await desk.chat(stream=streams)).body == packed
        await desk.put(Action.TOOL_FILTER, deny=("delete_*",))
        heard = await desk.chat(stream=streams)
        assert (heard.status, heard.json["error"]["code"]) == (502, "upstream_broke")
        assert "'openai'" in heard.json["error"]["message"]


async def test_functions_are_tools_by_an_older_name() -> None:
    upstream = Told(b"{}", streams=False)
    functions = [tool["function"] for tool in TOOLS]
    async with booth(upstream=upstream) as desk:
        await desk.put(Action.TOOL_FILTER, deny=("delete_*",))
        assert (await desk.chat(tools=TOOLS, functions=functions, function_call={"name": "delete_all"})).status == 200
        assert (await desk.chat(functions=functions[1:], function_call="auto")).status == 200
        both, none = (json.loads(body) for body in upstream.bodies)
        assert (both["tools"], both["functions"], "function_call" in both) == (TOOLS[:1], functions[:1], False)
        assert set(none) == {"model", "messages"}
        assert (await desk.log())[1].tools_offered == ("search", "search")
        await desk.put(Action.TOOL_FILTER, deny=("delete_*",), refuse=True)
        assert (await desk.chat(functions=functions)).status == 403
