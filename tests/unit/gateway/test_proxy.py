"""A call passes the gateway unchanged, is known by its key, and is written down once, whatever becomes of it."""

import asyncio
import json
from typing import Any

import pytest

from homeostat.adapters.upstreams.simulated import Pace, Reply, SimulatedUpstream
from homeostat.core.gateway_errors import UpstreamBroke, UpstreamTimedOut, UpstreamUnreachable
from homeostat.core.ports.upstream import Headers, UpstreamRequest
from homeostat.core.records.call import Api, Metered, Outcome, Priced
from homeostat.core.records.policy import Action
from homeostat.gateway.office import Manners
from homeostat.testing.gateways import ANN, INSTANT, KEY, Keys, booth

CHAT: dict[str, Any] = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Hello"}]}
MESSAGES: dict[str, Any] = {"model": "claude-sonnet-4-5", "max_tokens": 64, "messages": CHAT["messages"]}


class Scripted:
    """An upstream that answers as it is told and remembers what it was asked."""

    def __init__(
        self,
        *blocks: bytes | Exception,
        status: int = 200,
        content_type: bytes = b"application/json",
        headers: Headers | None = None,
    ) -> None:
        self.blocks = list(blocks)
        self.status = status
        self.headers: Headers = [(b"content-type", content_type), *(headers or [])]
        self.requests: list[UpstreamRequest] = []
        self.bodies: list[bytes] = []
        self.gate: asyncio.Event | None = None
        self.reached = asyncio.Event()
        self.cancelled = False

    async def send(self, request: UpstreamRequest) -> "ScriptedAnswer":
        self.requests.append(request)
        body = request.body
        self.bodies.append(body if isinstance(body, bytes) else b"".join([piece async for piece in body]))
        self.reached.set()
        if self.blocks and isinstance(self.blocks[0], UpstreamUnreachable | UpstreamTimedOut):
            raise self.blocks[0]
        return ScriptedAnswer(self)

    async def close(self) -> None: ...


class ScriptedAnswer:
    def __init__(self, script: Scripted) -> None:
        self._script = script
        self._left = list(script.blocks)
        self.status = script.status
        self.headers = script.headers
        self._closed = asyncio.Event()

    @property
    def complete(self) -> bool:
        return not self._left

    async def read(self) -> bytes:
        gate = self._script.gate
        if gate is not None:
            waits = [asyncio.ensure_future(gate.wait()), asyncio.ensure_future(self._closed.wait())]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
            gate.clear()
        if self._closed.is_set():
            raise UpstreamBroke(upstream="scripted", problem="it was cancelled")
        if not self._left:
            return b""
        block = self._left.pop(0)
        if isinstance(block, Exception):
            raise block
        return block

    def close(self) -> None:
        if self._left:
            self._script.cancelled = True
        self._closed.set()


ANSWER = json.dumps(
    {
        "id": "chatcmpl-1",
        "model": "gpt-4o-mini-2024-07-18",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 500, "total_tokens": 1500},
    }
).encode()


def sse(*events: object) -> list[bytes]:
    return [b"data: " + (e if isinstance(e, bytes) else json.dumps(e).encode()) + b"\n\n" for e in events]


def chunk(content: str) -> dict[str, Any]:
    return {"model": "gpt-4o-mini", "choices": [{"index": 0, "delta": {"content": content}, "finish_reason": None}]}


# --- faithfulness ---------------------------------------------------------------------------------------------


async def test_an_answer_passes_to_the_byte_and_is_metered() -> None:
    upstream = Scripted(ANSWER, headers=[(b"x-request-id", b"req_7"), (b"openai-version", b"2020-10-01")])
    async with booth(upstream=upstream) as desk:
        heard = await desk.call("/openai/v1/chat/completions?beta=1", CHAT, headers={"OpenAI-Beta": "x"})
        assert (heard.status, heard.body) == (200, ANSWER)
        assert heard.headers["x-request-id"] == "req_7"
        (request,) = upstream.requests
        assert (request.method, request.target) == (b"POST", b"/v1/chat/completions?beta=1")
        assert upstream.bodies == [json.dumps(CHAT).encode()]
        assert dict(request.headers)[b"openai-beta"] == b"x"
        (call,) = await desk.log()
    assert call.outcome is Outcome.ANSWERED
    assert (call.usage.tokens_in, call.usage.tokens_out) == (1000, 500)
    assert call.cost_micros == 150 + 300  # $0.15 and $0.60 a million
    assert (call.metered, call.priced, call.api) == (Metered.REPORTED, Priced.LISTED, Api.OPENAI_CHAT)
    assert call.call_id == heard.headers["x-homeostat-call-id"]
    assert call.latency_ms > 0


async def test_keys_of_agents_and_hop_by_hop_headers_stay_here() -> None:
    upstream = Scripted(
        ANSWER, headers=[(b"connection", b"x-secret, close"), (b"x-secret", b"1"), (b"set-cookie", b"a")]
    )
    async with booth(upstream=upstream) as desk:
        heard = await desk.call(
            "/openai/v1/chat/completions",
            CHAT,
            headers={
                "X-Api-Key": KEY,
                "Connection": "keep-alive, X-Hop",
                "X-Hop": "1",
                "TE": "trailers",
                "Cookie": "session=1",
                "Accept-Encoding": "gzip",
            },
        )
    sent = dict(upstream.requests[0].headers)
    assert not {b"authorization", b"x-api-key", b"connection", b"x-hop", b"te", b"host", b"cookie"} & set(sent)
    assert KEY.encode() not in b"".join(sent.values())
    assert sent[b"accept-encoding"] == b"identity"
    assert not {"connection", "x-secret", "set-cookie"} & set(heard.headers)


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 529])
async def test_errors_of_the_upstream_pass_and_cost_nothing(status: int) -> None:
    body = b'{"error":{"message":"no","code":"x"}}'
    upstream = Scripted(body, status=status, headers=[(b"retry-after", b"3")])
    async with booth(upstream=upstream) as desk:
        await desk.grant(tokens_max=100_000)
        heard = await desk.chat()
        assert (heard.status, heard.body, heard.headers["retry-after"]) == (status, body, "3")
        (call,) = await desk.log()
        assert (call.outcome, call.status, call.cost_micros, call.error) == (Outcome.ANSWERED, status, 0, True)
        assert (await desk.account()).spent == (0, 0)


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/openai/v1/models"), ("POST", "/openai/v1/files"), ("DELETE", "/anthropic/v1/x/y?z=1")],
)
async def test_unknown_routes_pass_untouched(method: str, path: str) -> None:
    upstream = Scripted(b"\x00\x01", b"\xff", content_type=b"application/octet-stream")
    async with booth(upstream=upstream) as desk:
        heard = await desk.call(path, b"raw \xff bytes" if method == "POST" else None, method=method)
        assert (heard.status, heard.body) == (200, b"\x00\x01\xff")
        assert upstream.bodies == [b"raw \xff bytes" if method == "POST" else b""]
        assert upstream.requests[0].target == "/".join(["", *path.split("/")[2:]]).encode()
        (call,) = await desk.log()
        assert call.priced is (Priced.UNKNOWN if method == "POST" else Priced.FREE)


async def test_the_first_byte_goes_out_when_it_comes_in() -> None:
    upstream = Scripted(*sse(chunk("a"), chunk("b"), b"[DONE]"), content_type=b"text/event-stream")
    upstream.gate = asyncio.Event()
    async with booth(upstream=upstream) as desk:
        conversation = desk.open(
            "/openai/v1/chat/completions", {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
        )
        talking = asyncio.create_task(desk.talk(conversation))
        for count in (1, 2, 3):
            upstream.gate.set()
            await conversation.until(count)
            assert conversation.heard.pieces == [bytes(b) for b in upstream.blocks[:count] if isinstance(b, bytes)]
        await talking


async def test_half_an_event_is_not_held_back() -> None:
    upstream = Scripted(b"data: {", b'"choices":[]}\n\n', content_type=b"text/event-stream")
    upstream.gate = asyncio.Event()
    wanted = {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
    async with booth(upstream=upstream) as desk:
        conversation = desk.open("/openai/v1/chat/completions", wanted)
        talking = asyncio.create_task(desk.talk(conversation))
        upstream.gate.set()
        await conversation.until(1)
        assert conversation.heard.body == b"data: {"
        upstream.gate.set()
        await talking


@pytest.mark.parametrize("options", [{}, {"stream_options": {"include_obfuscation": False}}])
async def test_usage_is_asked_for_and_hidden(options: dict[str, Any]) -> None:
    upstream = SimulatedUpstream(pace=INSTANT, script=lambda _: Reply("Good morning to you."))
    async with booth(upstream=upstream) as desk:
        heard = await desk.call("/openai/v1/chat/completions", {**CHAT, "stream": True, **options})
        assert b'"usage"' not in heard.body
        assert heard.body.endswith(b"data: [DONE]\n\n")
        (call,) = await desk.log()
        assert (call.metered, call.streamed) == (Metered.REPORTED, True)
        assert call.usage.tokens_out > 0
        assert call.first_token_ms is not None


async def test_usage_is_asked_for_though_the_agent_says_no_in_a_name_with_escapes() -> None:
    upstream = Scripted(*sse(chunk("Hi")), content_type=b"text/event-stream")
    said = b'{"stream\\u005foptions":{"include_usage":false},' + json.dumps({**CHAT, "stream": True}).encode()[1:]
    async with booth(upstream=upstream) as desk:
        assert (await desk.call("/openai/v1/chat/completions", said)).status == 200
        assert json.loads(upstream.bodies[0])["stream_options"] == {"include_usage": True}


# --- identity -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [None, "", "hs_wrong"])
async def test_an_unknown_key_is_refused(key: str | None) -> None:
    upstream = Scripted(ANSWER)
    async with booth(upstream=upstream) as desk:
        heard = await desk.chat(key=key)
        assert heard.status == 401
        assert heard.json["error"]["code"] == "unauthenticated"
        assert heard.headers["x-should-retry"] == "false"
        assert upstream.requests == []
        claude = await desk.call("/anthropic/v1/messages", MESSAGES, key=key)
        assert claude.json["error"]["type"] == "authentication_error"


async def test_a_key_of_an_agent_that_left_is_refused() -> None:
    keys = Keys({KEY: ANN})
    async with booth(keys=keys) as desk:
        assert (await desk.chat()).status == 200
        keys.drop(KEY)
        desk.gateway.office.doorman.forget()
        assert (await desk.chat()).status == 401


async def test_keys_are_asked_for_once_in_a_while() -> None:
    keys = Keys({KEY: ANN})
    async with booth(keys=keys) as desk:
        await asyncio.gather(*(desk.chat() for _ in range(20)))
        assert keys.asked == 1


async def test_an_agents_word_counts_only_in_development() -> None:
    async with booth() as desk:
        assert (await desk.chat(key=None, headers={"X-Agent-Id": "ann"})).status == 401
    async with booth(development=True) as desk:
        assert (await desk.chat(key=None, headers={"x-AGENT-id": "bob"})).status == 200
        (call,) = await desk.log()
        assert call.agent_id == "bob"


async def test_the_anthropic_sdk_sends_its_key_in_another_header() -> None:
    async with booth() as desk:
        heard = await desk.call(
            "/anthropic/v1/messages", MESSAGES, key=None, headers={"x-api-key": KEY, "anthropic-version": "2023-06-01"}
        )
        assert heard.status == 200
        (call,) = await desk.log()
        assert (call.api, call.agent_id, call.metered) == (Api.ANTHROPIC_MESSAGES, "ann", Metered.REPORTED)


# --- bad input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b'{"model": 1}'])
async def test_malformed_json_is_refused_here(body: bytes) -> None:
    upstream = Scripted(ANSWER)
    async with booth(upstream=upstream) as desk:
        heard = await desk.call("/openai/v1/chat/completions", body)
        assert heard.status == 400
        assert heard.json["error"]["code"] == "malformed_payload"
        assert heard.json["error"]["type"] == "invalid_request_error"
        assert upstream.requests == []
        (call,) = await desk.log()
        assert (call.outcome, call.code) == (Outcome.REFUSED, "malformed_payload")


async def test_a_body_over_the_limit_is_refused_before_it_is_read() -> None:
    async with booth(manners=Manners(body_bytes_max=100)) as desk:
        heard = await desk.chat("x" * 200)
        assert (heard.status, heard.json["error"]["code"]) == (413, "payload_too_large")
        lying = await desk.chat("x" * 200, headers={"content-length": "1"})
        assert lying.status in {200, 413}


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (UpstreamUnreachable(upstream="u", problem="refused"), 502, "upstream_unreachable"),
        (UpstreamTimedOut(upstream="u", seconds=1, problem="first"), 504, "upstream_timed_out"),
    ],
)
async def test_an_upstream_that_is_down(error: Exception, status: int, code: str) -> None:
    async with booth(upstream=Scripted(error)) as desk:
        await desk.grant(tokens_max=100_000)
        heard = await desk.chat(max_tokens=50)
        assert (heard.status, heard.json["error"]["code"]) == (status, code)
        assert "x-should-retry" not in heard.headers
        (call,) = await desk.log()
        assert (call.outcome, call.code) == (Outcome.FAILED, code)
        spent = (await desk.account()).spent
        assert spent.tokens == (0 if code == "upstream_unreachable" else call.usage.tokens)
        assert (spent.tokens == 0) == (code == "upstream_unreachable")


async def test_a_stream_that_breaks_between_events_ends_with_an_error_the_sdk_understands() -> None:
    broke = UpstreamBroke(upstream="u", problem="cut")
    upstream = Scripted(*sse(chunk("a"), chunk("b")), broke, content_type=b"text/event-stream")
    async with booth(upstream=upstream) as desk:
        heard = await desk.chat(stream=True)
        assert heard.ended
        last = json.loads(heard.pieces[-1].removeprefix(b"data: "))
        assert last["error"]["code"] == "upstream_broke"
        (call,) = await desk.log()
        assert (call.outcome, call.metered, call.usage.tokens_out) == (Outcome.FAILED, Metered.ESTIMATED, 2)


async def test_a_stream_that_breaks_inside_an_event_is_cut() -> None:
    broke = UpstreamBroke(upstream="u", problem="cut")
    upstream = Scripted(b'data: {"choi', broke, content_type=b"text/event-stream")
    async with booth(upstream=upstream) as desk:
        await desk.grant(tokens_max=100_000)
        heard = await desk.chat(stream=True, stream_options={"include_usage": True}, max_tokens=10)
        assert heard.body == b'data: {"choi'
        assert not heard.ended
        (call,) = await desk.log()
        assert call.metered is Metered.RESERVED
        assert (await desk.account()).spent.tokens == call.usage.tokens > 10


async def test_an_agent_that_hangs_up_cancels_upstream_and_pays_for_what_it_saw() -> None:
    upstream = Scripted(*sse(chunk("a"), chunk("b"), chunk("c")), content_type=b"text/event-stream")
    upstream.gate = asyncio.Event()
    async with booth(upstream=upstream, manners=Manners(patience_seconds=0.001)) as desk:
        await desk.grant(tokens_max=100_000)
        conversation = desk.open("/openai/v1/chat/completions", {**CHAT, "stream": True, "max_tokens": 100})
        talking = asyncio.create_task(desk.talk(conversation))
        upstream.gate.set()
        await conversation.until(1)
        conversation.hang_up()
        await talking
        assert upstream.cancelled
        (call,) = await desk.log()
        assert (call.outcome, call.metered, call.usage.tokens_out) == (Outcome.ABANDONED, Metered.ESTIMATED, 1)
        account = await desk.account()
        assert account.spent.tokens == call.usage.tokens < 100
        assert desk.gateway.in_flight_here(ANN) == 0


async def test_an_agent_that_hangs_up_before_the_first_byte() -> None:
    upstream = SimulatedUpstream(pace=Pace(3600.0, 0.0, spread=0.0))
    async with booth(upstream=upstream, manners=Manners(patience_seconds=0.001)) as desk:
        conversation = desk.open("/openai/v1/chat/completions", CHAT)
        talking = asyncio.create_task(desk.talk(conversation))
        conversation.hang_up()
        await talking
        (call,) = await desk.log()
        assert (call.outcome, call.code) == (Outcome.ABANDONED, "hung_up")


async def test_an_agent_that_stops_reading_is_given_up() -> None:
    upstream = Scripted(*sse(*(chunk("x" * 50) for _ in range(5))), content_type=b"text/event-stream")
    manners = Manners(patience_seconds=0.001, client_stall_seconds=0.005)
    async with booth(upstream=upstream, manners=manners) as desk:
        conversation = desk.open("/openai/v1/chat/completions", {**CHAT, "stream": True})
        conversation.reading.clear()
        await desk.talk(conversation)
        (call,) = await desk.log()
        assert call.outcome is Outcome.ABANDONED


async def test_an_agent_that_stops_reading_a_whole_answer_is_given_up() -> None:
    async with booth(manners=Manners(patience_seconds=0.001, client_stall_seconds=0.005)) as desk:
        conversation = desk.open("/openai/v1/chat/completions", CHAT)
        conversation.reading.clear()
        await desk.talk(conversation)
        (call,) = await desk.log()
        assert call.outcome is Outcome.ABANDONED


async def test_a_silent_stream_gets_comments_between_events_and_only_there() -> None:
    blocks = [*sse(chunk("a")), b"data: {", b'"choices":[]}\n\n', *sse(b"[DONE]")]
    upstream = Scripted(*blocks, content_type=b"text/event-stream")
    upstream.gate = asyncio.Event()
    manners = Manners(patience_seconds=0.001, ping_seconds=0.002)
    wanted = {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
    async with booth(upstream=upstream, manners=manners) as desk:
        conversation = desk.open("/openai/v1/chat/completions", wanted)
        talking = asyncio.create_task(desk.talk(conversation))
        upstream.gate.set()
        await conversation.until(3)
        assert conversation.heard.pieces[:3] == [blocks[0], b": ping\n\n", b": ping\n\n"]
        upstream.gate.set()
        while conversation.heard.pieces[-1] != b"data: {":
            await conversation.until(len(conversation.heard.pieces) + 1)
        before = len(conversation.heard.pieces)
        for _ in range(20):
            desk.gateway.warden.tick()
            await asyncio.sleep(0)
        assert len(conversation.heard.pieces) == before
        for _ in range(2):
            upstream.gate.set()
            await asyncio.sleep(0.01)
        await talking
    said = b"".join(piece for piece in conversation.heard.pieces if piece != b": ping\n\n")
    assert said == b"".join(blocks)


async def test_a_whole_answer_gets_no_comments() -> None:
    upstream = Scripted(ANSWER[:10], ANSWER[10:])
    upstream.gate = asyncio.Event()
    async with booth(upstream=upstream, manners=Manners(patience_seconds=0.001, ping_seconds=0.001)) as desk:
        conversation = desk.open("/openai/v1/chat/completions", CHAT)
        talking = asyncio.create_task(desk.talk(conversation))
        upstream.gate.set()
        await conversation.until(1)
        await asyncio.sleep(0.02)
        upstream.gate.set()
        assert (await talking).body == ANSWER


async def test_an_answer_without_usage_is_estimated() -> None:
    async with booth(upstream=Scripted(b"x" * 400)) as desk:
        await desk.chat()
        (call,) = await desk.log()
        assert (call.metered, call.usage.tokens_out) == (Metered.ESTIMATED, 100)


async def test_paths_and_protocols_that_are_not_the_gateways() -> None:
    async with booth() as desk:
        assert desk.gateway.owns("/openai/v1/models")
        assert not desk.gateway.owns("/v1/agents")
        assert (await desk.call("/elsewhere/v1/models", method="GET")).status == 404


@pytest.mark.parametrize(
    "spelled",
    [
        "//chat/completions",
        "/chat/./completions",
        "/chat/completions/",
        "/Chat/Completions",
        "/chat;a=1/completions;b",
        "/chat%2Fcompletions",
        "/chat\\completions",
        "/chat/completions%20",
    ],
)
async def test_a_known_path_is_known_however_it_is_spelled(spelled: str) -> None:
    """Many servers read these alike: policies and budgets were as good as none to whoever knew that."""
    upstream = Scripted(ANSWER)
    async with booth(upstream=upstream) as desk:
        assert (await desk.call(f"/openai/v1{spelled}", CHAT)).status == 200
        assert upstream.requests[0].target == b"/v1/chat/completions"
        assert (await desk.log())[0].usage.tokens_out == 500
        await desk.put(Action.MODEL_FILTER, deny=("*",))
        assert (await desk.call(f"/openai/v1{spelled}", CHAT)).status == 403


async def test_a_path_is_forwarded_as_it_was_judged() -> None:
    """Behind an escaped slash another path was forwarded than the one that policies and budgets were asked about."""
    upstream = Scripted(ANSWER)
    async with booth(upstream=upstream) as desk:
        conversation = desk.open("/openai/x/v1/chat/completions", CHAT)
        conversation.scope["raw_path"] = b"/open%61i%2Fx/v1/chat/completions"
        assert (await desk.talk(conversation)).status == 200
        assert upstream.requests[0].target == b"/x/v1/chat/completions"


@pytest.mark.parametrize("path", ["/openai/../x", "/openai/v1/../../x", "/openai/v1/%2e%2e/x", "/openai/v1\\..\\x"])
async def test_no_path_leads_out_of_its_upstream(path: str) -> None:
    upstream = Scripted(ANSWER)
    async with booth(upstream=upstream) as desk:
        assert (await desk.call(path, CHAT)).status == 404
        assert upstream.requests == []


async def test_the_name_of_an_upstream_may_be_spelled_in_another_way() -> None:
    upstream = Scripted(ANSWER)
    async with booth(upstream=upstream) as desk:
        conversation = desk.open("/openai/v1/models", method="GET")
        conversation.scope["raw_path"] = b"/%6fpen%61i/v1/models"
        assert (await desk.talk(conversation)).status == 200
        assert upstream.requests[0].target == b"/v1/models"


async def test_traces_retries_and_runs_are_read_from_headers() -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    async with booth(manners=Manners(believes_runs=True)) as desk:
        await desk.chat(
            headers={
                "traceparent": f"00-{trace}-00f067aa0ba902b7-01",
                "X-Stainless-Retry-Count": "2",
                "X-Homeostat-Run-Id": "run_1",
            }
        )
        (call,) = await desk.log(run_id="run_1")
        assert (call.trace_id, call.retries, call.run_id) == (trace, 2, "run_1")
