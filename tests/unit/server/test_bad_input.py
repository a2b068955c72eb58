"""Whatever is sent, the answer is a problem with a code of its own, and nothing changes."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from homeostat import Client
from homeostat.app.assemble import System, assemble
from homeostat.app.settings import Settings
from homeostat.core.limits import BODY_BYTES_MAX, JSON_DEPTH_MAX, PAYLOAD_BYTES_MAX
from homeostat.core.wording import PATTERNS
from homeostat.server.serving import bind, serving, url_of
from homeostat.testing.servers import free_port

TURN = "turn_" + "0" * 24
WORKER = "wrk_" + "0" * 24
BOX = "box_" + "0" * 24


@pytest.fixture(scope="module")
async def system(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[System]:
    """One for all of these tests: none of them changes anything, or so they claim."""
    async with assemble(Settings(data_dir=tmp_path_factory.mktemp("bad_input"))) as system:
        yield system


@pytest.fixture(scope="module")
async def url(system: System) -> AsyncIterator[str]:
    listener = bind("127.0.0.1", free_port())
    async with serving(system, listener):
        yield url_of(listener)


@pytest.fixture(scope="module")
async def ann(url: str) -> str:
    async with Client(url, retry_seconds=0) as client:
        await client.register("tester", agent_id="ann")
    return "/v1/agents/ann/inbox"


@pytest.fixture
async def unchanged(system: System, ann: str) -> AsyncIterator[None]:
    """What a refused request must leave behind: nothing."""
    before = await system.kernel.store.head("default", "ann")  # pyright: ignore[reportArgumentType]
    commits = system.kernel.flusher.commits
    yield
    assert await system.kernel.store.head("default", "ann") == before  # pyright: ignore[reportArgumentType]
    assert system.kernel.flusher.commits == commits


def problem_of(response: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    assert response.headers["content-type"] == "application/problem+json", response.text
    body = response.json()
    assert (response.status_code, body["status"], body["code"]) == (status, status, code), body
    assert {"type", "title", "detail", "hint", "trace_id"} <= set(body)
    assert body["type"].endswith(code)
    assert len(body["trace_id"]) == 32
    assert body["trace_id"] in response.headers["traceparent"]
    return body


def message(**members: Any) -> dict[str, Any]:
    return {"type": "turn", "payload": 1, **members}


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({"payload": 1}, "malformed_payload", "type"),
        ({"type": 7}, "malformed_payload", "type"),
        (message(paylod=1), "malformed_payload", "paylod"),
        (message(depth=-1), "malformed_payload", "depth"),
        (message(depth="two"), "malformed_payload", "depth"),
        (message(depth=1.5), "malformed_payload", "depth"),
        (message(depth=10**30), "malformed_payload", "depth"),
        (message(correlation_id=""), "malformed_payload", "correlation_id"),
        (message(correlation_id="x" * 201), "malformed_payload", "correlation_id"),
        (message(correlation_id="nul\x00"), "malformed_payload", "correlation_id"),
        (message(correlation_id="line\n"), "malformed_payload", "correlation_id"),
        (message(trace_id="xyz"), "malformed_payload", "trace_id"),
        (message(result_fields={"name": "x"}), "malformed_payload", "result_fields"),
        (message(result_fields=[{"required": True}]), "malformed_payload", "[0].name"),
        (message(result_fields=[{"name": "x"}] * 65), "malformed_payload", "result_fields"),
        (message(depth=21), "depth_exceeded", None),
        (message(type="gossip"), "unknown_message_type", None),
        (message(type=""), "unknown_message_type", None),
        (message(context_box_id=BOX), "box_unknown", None),
        (message(output_box_id=BOX), "box_unknown", None),
        (message(output_box_id=BOX + '_"}'), "box_unknown", None),
        (message(parent_turn_id="turn_x"), "turn_unknown", None),
        ([], "malformed_payload", "body"),
        ("text", "malformed_payload", "body"),
        (message(type="tool_result"), "malformed_payload", "payload"),
        (message(type="tool_result", payload={}), "malformed_payload", "payload.turn_id"),
        (message(type="tool_result", payload={"turn_id": TURN, "tool_call_id": "c"}), "turn_unknown", None),
        (message(type="stop", payload={"turn_id": TURN}), "turn_unknown", None),
        (message(type="stop", payload={"turn_id": "nonsense"}), "turn_unknown", None),
    ],
)
async def test_a_message_that_is_wrong(
    http: httpx2.AsyncClient, ann: str, body: Any, code: str, field: str | None
) -> None:
    status = {"turn_unknown": 404, "box_unknown": 404}.get(code, 422)
    problem = problem_of(await http.post(ann, json=body), status, code)
    if field is not None:
        assert problem["field"] == field


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{}",
        b"nonsense",
        b'{"type": "turn", "payload": }',
        b'{"type": "turn", "payload": NaN}',
        b'{"type": "turn", "payload": 1e999}',
        b'{"type": "turn", "payload": "\\ud800"}',
        b'{"type": "turn", "payload": "\xff"}',
        b'{"type": "\xff", "payload": 1}',
        b'{"type": "turn", "payload": 1} trailing',
        b'{"type": "turn", "payload": "\x01"}',
        b'{"type": "turn", "payload": ' + b"[" * 200_000 + b"]" * 200_000 + b"}",
        b'{"type": "turn", "payload": ' + b"[" * (JSON_DEPTH_MAX + 1) + b"]" * (JSON_DEPTH_MAX + 1) + b"}",
        b'{"type": "turn", "payload": ' + b'{"a":' * 500 + b"1" + b"}" * 500 + b"}",
        b"\x00\x01\x02",
        b"\xef\xbb\xbf{}",
    ],
    ids=lambda body: body[:32].decode("latin-1") + f"…{len(body)}",
)
async def test_a_body_that_is_no_json(http: httpx2.AsyncClient, ann: str, body: bytes) -> None:
    problem_of(await http.post(ann, content=body), 422, "malformed_payload")


async def test_nesting_up_to_the_limit_is_fine(http: httpx2.AsyncClient, ann: str) -> None:
    body = b'{"type": "turn", "payload": ' + b"[" * JSON_DEPTH_MAX + b"]" * JSON_DEPTH_MAX + b"}"
    assert (await http.post(ann, content=body)).status_code == 202


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/v1/agents/bob/inbox", "agent_unknown"),
        ("/v1/agents/%00/inbox", "agent_unknown"),
        ("/v1/agents/" + "x" * 201 + "/inbox", "agent_unknown"),
        ("/v1/agents/a%2Fb/inbox", "agent_unknown"),
        ("/v1/agents/ann/inbox?project=elsewhere", "agent_unknown"),
    ],
)
async def test_an_agent_nobody_knows(http: httpx2.AsyncClient, path: str, code: str) -> None:
    problem_of(await http.post(path, json=message()), 404, code)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/v1/agents/%FF/head", 422, "malformed_payload"),
        ("/v1/agents/bob/head", 404, "agent_unknown"),
        ("/v1/agents/bob/inbox", 404, "agent_unknown"),
        ("/v1/agents/bob/turns", 404, "agent_unknown"),
        (f"/v1/turns/{TURN}", 404, "turn_unknown"),
        ("/v1/turns/nonsense", 404, "turn_unknown"),
        ("/v1/turns/turn_", 404, "turn_unknown"),
        ("/v1/turns/%F0%9F%9C%82", 404, "turn_unknown"),
        (f"/v1/turns/{TURN}/deliverable?wait=30", 404, "turn_unknown"),
        (f"/v1/turns/{TURN}/deliverable?wait=-1", 422, "malformed_payload"),
        (f"/v1/turns/{TURN}/deliverable?wait=61", 422, "malformed_payload"),
        (f"/v1/turns/{TURN}/deliverable?wait=nan", 422, "malformed_payload"),
        (f"/v1/turns/{TURN}/deliverable?wait=soon", 422, "malformed_payload"),
        ("/v1/cards/card_x", 404, "card_unknown"),
        (f"/v1/cards/card_{'0' * 24}_1_{'0' * 32}", 404, "card_unknown"),
        (f"/v1/boxes/{BOX}", 404, "box_unknown"),
        ("/v1/boxes/box_", 404, "box_unknown"),
        ("/v1/agents/ann/inbox?limit=0", 422, "malformed_payload"),
        ("/v1/agents/ann/inbox?limit=100000", 422, "malformed_payload"),
        ("/v1/agents/ann/inbox?cursor=x", 422, "malformed_payload"),
        ("/v1/agents/ann/inbox?cursor=" + "9" * 40, 422, "malformed_payload"),
        ("/v1/agents/ann/turns?cursor=x", 404, "turn_unknown"),
        ("/v1/edges", 422, "invalid_request"),
        (f"/v1/edges?turn_id={TURN}&trace_id={'0' * 32}", 422, "invalid_request"),
        ("/v1/edges?trace_id=x", 422, "malformed_payload"),
        (f"/v1/edges?turn_id={TURN}&cursor=%00", 422, "malformed_payload"),
        ("/v1/edges?a=%FF", 422, "malformed_payload"),
        ("/v1/agents/ann/head?project=", 422, "malformed_payload"),
        ("/v1/agents/ann/head?project=%00", 422, "malformed_payload"),
        ("/v1/agents/ann/head?x=" + "y" * 10_000, 413, "payload_too_large"),
        ("/nowhere", 404, "route_unknown"),
        ("/v1/agents", 404, "route_unknown"),
        ("/v1//turns", 404, "route_unknown"),
    ],
)
async def test_a_question_that_is_wrong(http: httpx2.AsyncClient, path: str, status: int, code: str) -> None:
    response = await http.get(path)
    if path == "/v1/agents" and response.status_code == 200:
        return
    problem_of(response, status, code)


async def test_a_method_that_is_not_possible_names_those_that_are(http: httpx2.AsyncClient) -> None:
    response = await http.put("/v1/agents/ann/inbox", json={})
    problem_of(response, 405, "method_not_allowed")
    assert response.headers["allow"] == "GET, POST"


@pytest.mark.usefixtures("unchanged")
async def test_a_payload_over_the_limit(http: httpx2.AsyncClient, ann: str) -> None:
    fitting = "x" * (PAYLOAD_BYTES_MAX - 2)
    problem = problem_of(await http.post(ann, json=message(payload=fitting + "x")), 413, "payload_too_large")
    assert (problem["what"], problem["limit"]) == ("payload", PAYLOAD_BYTES_MAX)
    problem_of(await http.post(ann, json=message(payload="x" * BODY_BYTES_MAX)), 413, "payload_too_large")


async def test_a_payload_of_exactly_the_limit(http: httpx2.AsyncClient, ann: str) -> None:
    accepted = await http.post(ann, json=message(payload="x" * (PAYLOAD_BYTES_MAX - 2)))
    assert accepted.status_code == 202, accepted.text


async def _raw(url: str, *parts: bytes, answer_before: int) -> bytes:
    """Send a request piece by piece; the answer has to come before the piece of that number."""
    host, port = url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        for part in parts[:answer_before]:
            writer.write(part)
            await writer.drain()
        async with asyncio.timeout(10):
            return await reader.readuntil(b"\r\n\r\n")
    finally:
        writer.close()


@pytest.mark.usefixtures("unchanged")
async def test_a_body_over_the_limit_is_refused_before_it_is_read(url: str) -> None:
    head = b"POST /v1/agents/ann/inbox HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n"
    assert b" 413 " in await _raw(url, head, b"{", answer_before=1)


@pytest.mark.usefixtures("unchanged")
async def test_a_body_without_a_stated_length_is_bounded_too(url: str) -> None:
    head = b"POST /v1/agents/ann/inbox HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    pieces = BODY_BYTES_MAX // 0x10000 + 2
    assert b" 413 " in await _raw(url, head, *[chunk] * pieces, answer_before=1 + pieces)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        (f"/v1/turns/{TURN}/results", {"tool_call_id": "c", "result": 1}, 404, "turn_unknown"),
        (f"/v1/turns/{TURN}/results", {"result": 1}, 422, "malformed_payload"),
        (f"/v1/turns/{TURN}/results", {"tool_call_id": "c", "status": "maybe"}, 422, "malformed_payload"),
        (f"/v1/turns/{TURN}/results", {"tool_call_id": "c", "status": "pending"}, 422, "malformed_payload"),
        (f"/v1/turns/{TURN}/results", {"tool_call_id": "c", "status": "cancelled"}, 422, "malformed_payload"),
        (f"/v1/turns/{TURN}/stop", {}, 404, "turn_unknown"),
        (f"/v1/turns/{TURN}/stop", {"reason": 1}, 422, "malformed_payload"),
        (f"/v1/boxes/{BOX}/fork", {}, 404, "box_unknown"),
        ("/v1/boxes", {"cards": [{"content": 1}]}, 422, "malformed_payload"),
        ("/v1/boxes", {"cards": [{"type": "note"}] * 1001}, 422, "malformed_payload"),
        (f"/v1/workers/{WORKER}/claim", {}, 404, "worker_unknown"),
        (f"/v1/workers/{WORKER}/renew", {"wait": 1e9}, 422, "malformed_payload"),
        (
            f"/v1/workers/{WORKER}/turns/{TURN}/steps",
            {"agent_id": "ann", "epoch": 1, "name": "s"},
            404,
            "worker_unknown",
        ),
    ],
)
async def test_a_request_that_is_wrong(http: httpx2.AsyncClient, path: str, body: Any, status: int, code: str) -> None:
    problem_of(await http.post(path, json=body), status, code)


async def test_a_worker_that_invents_a_turn_or_an_epoch(http: httpx2.AsyncClient, client: Client) -> None:
    await client.register("tester", agent_id="wim")
    worker = (await http.post("/v1/workers", json={"agents": [{"agent_id": "wim"}]})).json()["worker_id"]
    accepted = await client.enqueue("wim", "hello")
    grants = (await http.post(f"/v1/workers/{worker}/claim", json={"wait": 10})).json()["grants"]
    assert [grant["turn"]["turn_id"] for grant in grants] == [accepted.turn_id]
    epoch = grants[0]["epoch"]
    before = await client.turn(accepted.turn_id)
    for what, body in {
        "steps": {"name": "s", "outcome": 1},
        "cards": {"cards": [{"type": "note", "content": 1}]},
        "boxes": {},
        "suspend": {"calls": [{"tool_call_id": "c", "tool": "t"}]},
        "deliver": {"result": 1},
        "release": {},
        "chunks": {"chunk": 1},
    }.items():
        invented = f"/v1/workers/{worker}/turns/{TURN}/{what}"
        problem_of(await http.post(invented, json={"agent_id": "wim", "epoch": epoch, **body}), 404, "turn_unknown")
        held = f"/v1/workers/{worker}/turns/{accepted.turn_id}/{what}"
        problem_of(await http.post(held, json={"agent_id": "wim", "epoch": epoch + 1, **body}), 409, "stale_epoch")
        problem_of(await http.post(held, json={"agent_id": "bob", "epoch": epoch, **body}), 409, "stale_epoch")
        problem_of(await http.post(held, json={"agent_id": "wim", **body}), 422, "malformed_payload")
    assert await client.turn(accepted.turn_id) == before


async def test_a_page_of_another_site_cannot_act(http: httpx2.AsyncClient, url: str, ann: str) -> None:
    for origin in ("https://evil.example", "null", "http://127.0.0.1:1"):
        refused = await http.post(ann, json=message(), headers={"origin": origin})
        problem_of(refused, 403, "origin_refused")
    for host in ("evil.example", "evil.example:7700", "127.0.0.1.evil.example"):
        problem_of(await http.get("/v1/agents/ann/head", headers={"host": host}), 403, "origin_refused")
    own = {"origin": url, "host": url.removeprefix("http://")}
    assert (await http.post(ann, json=message(), headers=own)).status_code == 202


async def test_a_bad_idempotency_key(http: httpx2.AsyncClient, ann: str) -> None:
    for key in ("", "x" * 201):
        response = await http.post(ann, json=message(), headers={"idempotency-key": key})
        assert problem_of(response, 422, "malformed_payload")["field"] == "Idempotency-Key"


NO_ADDRESSES = ["https://[\u00d5\u00ae", "https://", "http://x:99999", "http://x:0", "https://[::1"]


@pytest.mark.parametrize("path", ["/v1/webhooks/on-call", "/v1/agents/ann/control"])
@pytest.mark.parametrize("address", NO_ADDRESSES, ids=repr)
async def test_an_address_that_is_none_is_kept_nowhere(http: httpx2.AsyncClient, path: str, address: str) -> None:
    refused = await http.put(path, json={"url": address})
    assert (refused.status_code, refused.json()["code"]) in ((422, "invalid_request"), (422, "malformed_payload"))
    assert (await http.get(path)).status_code in (404, 405)


async def test_a_bug_of_ours_is_ours(
    http: httpx2.AsyncClient, system: System, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(type(system.kernel.store), "head", broken)
    problem = problem_of(await http.get("/v1/agents/ann/head"), 500, "internal_error")
    assert "secret" not in str(problem)
    assert problem["trace_id"] in caplog.text
    assert "ZeroDivisionError" in caplog.text


async def test_every_pattern_of_the_api_has_words(http: httpx2.AsyncClient) -> None:
    def patterns(place: Any) -> set[str]:
        if isinstance(place, list):
            return {found for item in place for found in patterns(item)}
        if not isinstance(place, dict):
            return set()
        here = {place["pattern"]} if isinstance(place.get("pattern"), str) else set()
        return here | {found for item in place.values() for found in patterns(item)}

    found = patterns((await http.get("/openapi.json")).json()["components"])
    assert found
    assert found <= set(PATTERNS)


async def test_every_number_of_a_question_has_bounds_that_a_store_can_hold(http: httpx2.AsyncClient) -> None:
    described = (await http.get("/openapi.json")).json()
    unbounded = {
        (path, parameter["name"])
        for path, methods in described["paths"].items()
        for operation in methods.values()
        for parameter in operation.get("parameters", ())
        for schema in (parameter["schema"], *parameter["schema"].get("anyOf", ()))
        if schema.get("type") == "integer"
        if not (schema.get("minimum", -(1 << 64)) >= -1 and schema.get("maximum", 1 << 64) <= 1 << 53)
    }
    assert unbounded == set()
