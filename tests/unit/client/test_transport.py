"""Requests are repeated under one key while that can help, and errors come out as they went in."""

import asyncio
import contextlib
import re
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

from homeostat import Client
from homeostat.access.errors import RequestUnderWay
from homeostat.client import transport as module
from homeostat.client.transport import Transport, error_of
from homeostat.core import enforcement_errors, errors, gateway_errors, run_errors
from homeostat.core.errors import (
    HomeostatError,
    InternalError,
    InvalidRequest,
    ServerUnreachable,
    SettingInvalid,
    StoreUnavailable,
    Unavailable,
)
from homeostat.immune.errors import ApprovalSettled
from homeostat.server.error_pages import error_kinds
from homeostat.server.problems import problem
from homeostat.testing.servers import free_port

Answering = Callable[[int, bytes], bytes]


@asynccontextmanager
async def answering(answer: Answering) -> AsyncGenerator[tuple[str, list[bytes]]]:
    """A server that says what a test wants, to requests counted from one; nothing at all hangs up."""
    heard: list[bytes] = []
    connections: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                break
            length = next(
                (line.split(b":")[1] for line in head.lower().splitlines() if b"content-length" in line), b"0"
            )
            heard.append(head + await reader.readexactly(int(length)))
            said = answer(len(heard), heard[-1])
            if not said:
                break
            writer.write(said)
            await writer.drain()
        writer.close()

    port = free_port()
    server = await asyncio.start_server(serve, "127.0.0.1", port)
    async with server:
        yield f"http://127.0.0.1:{port}", heard
        for writer in connections:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()


def response(status: int, body: bytes = b"{}") -> bytes:
    return b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%b" % (status, len(body), body)


def keys(heard: list[bytes]) -> set[bytes]:
    return {line for request in heard for line in request.lower().splitlines() if line.startswith(b"idempotency-key")}


UNAVAILABLE = response(503, problem(StoreUnavailable(problem="away"), "0" * 32).body)


@pytest.mark.parametrize("trouble", [UNAVAILABLE, b"", response(502), response(504)])
async def test_a_request_is_repeated_under_the_same_key(trouble: bytes) -> None:
    async with answering(lambda count, _: response(200, b'{"n":3}') if count == 3 else trouble) as (url, heard):
        transport = Transport(url=url)
        received = await transport.send("POST", "/v1/boxes", body={"a": 1})
        await transport.close()
    assert received.content == b'{"n":3}'
    assert len(heard) == 3
    assert len(keys(heard)) == 1
    assert len({request.split(b"\r\n\r\n")[1] for request in heard}) == 1


async def test_a_query_in_the_path_is_asked() -> None:
    async with answering(lambda *_: response(200, b"[]")) as (url, heard), Client(url) as client:
        assert await client.read_json("/v1/agents?status=dead&limit=1") == []
    assert heard[0].startswith(b"GET /v1/agents?status=dead&limit=1 ")


async def test_an_answer_in_pieces_is_put_together_and_says_where_the_next_page_is() -> None:
    said = b'HTTP/1.1 200 X\r\nlink: </v1/agents?cursor=7>; rel="next"\r\ntransfer-encoding: chunked\r\n\r\n'
    async with answering(lambda *_: said + b"2\r\n[1\r\n3\r\n,2]\r\n0\r\n\r\n") as (url, _):
        transport = Transport(url=url)
        received = await transport.send("GET", "/v1/agents", query={"status": "a b&c"})
        await transport.close()
    assert (received.content, received.next_path) == (b"[1,2]", "/v1/agents?cursor=7")


async def test_nothing_that_is_asked_for_ends_a_line() -> None:
    async with answering(lambda *_: response(200)) as (url, heard):
        transport = Transport(url=url)
        await transport.send("GET", "/x y\r\nevil: 1", query={"q": "ä b\r\n"})
        with pytest.raises(InvalidRequest, match="x-homeostat-project"):
            await transport.send("GET", "/x", project="a\r\nevil: 1")
        await transport.close()
    assert [request.splitlines()[0] for request in heard] == [b"GET /x%20y%0D%0Aevil:%201?q=%C3%A4%20b%0D%0A HTTP/1.1"]
    assert b"\r\nevil" not in heard[0]


async def test_who_gives_up_hangs_up_and_the_next_one_is_answered() -> None:
    async with answering(lambda count, _: response(200) if count > 1 else response(200, b"..")[:-1]) as (url, heard):
        transport = Transport(url=url)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(transport.send("GET", "/half"), 0.05)
        assert (await transport.send("GET", "/whole")).content == b"{}"
        await transport.close()
    assert len(heard) == 2


@pytest.mark.parametrize(
    "url", ["localhost:7700", "ftp://x", "http://:80", "http://x:abc", "http://x:70000", "http://[::1"]
)
def test_an_address_that_is_none_is_refused_by_name(url: str) -> None:
    with pytest.raises(SettingInvalid, match=re.escape(f"the server at {url}")):
        Transport(url=url)


async def test_silence_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_SECONDS_MAX", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        transport = Transport(url=f"http://127.0.0.1:{mute.getsockname()[1]}", retry_seconds=0)
        with pytest.raises(ServerUnreachable, match="silent for too long"):
            await transport.send("GET", "/x")
        await transport.close()


async def test_it_gives_up_in_time_and_says_why() -> None:
    async with answering(lambda *_: UNAVAILABLE) as (url, heard):
        transport = Transport(url=url, retry_seconds=0.3)
        with pytest.raises(StoreUnavailable, match="away"):
            await transport.send("GET", "/x")
        await transport.close()
    assert 2 <= len(heard) < 12
    transport = Transport(url=f"http://127.0.0.1:{free_port()}", retry_seconds=0)
    with pytest.raises(ServerUnreachable):
        await transport.send("GET", "/x")
    await transport.close()


@pytest.mark.parametrize("status", [400, 404, 409, 422, 500])
async def test_what_would_not_help_is_not_repeated(status: int) -> None:
    body = problem(InternalError(), "0" * 32).body if status == 500 else b"{}"
    async with answering(lambda *_: response(status, body)) as (url, heard):
        transport = Transport(url=url)
        with pytest.raises(HomeostatError):
            await transport.send("POST", "/x", body={})
        await transport.close()
    assert len(heard) == 1


def every_error() -> list[type[HomeostatError]]:
    rooms = (errors, run_errors, gateway_errors, enforcement_errors)
    defined = [
        kind for room in rooms for kind in vars(room).values() if getattr(kind, "__module__", "") == room.__name__
    ]
    return sorted((kind for kind in defined if issubclass(kind, HomeostatError)), key=lambda kind: kind.code)


@pytest.mark.parametrize("kind", every_error(), ids=lambda kind: kind.code)
def test_an_error_comes_out_as_it_went_in(kind: type[HomeostatError]) -> None:
    facts = {
        "agent_id": "ann",
        "turn_id": "turn_1",
        "field": "x",
        "problem": "y",
        "size": 3,
        "limit": 2,
        "missing": "m",
    }
    raised = kind(**facts)
    answer = problem(raised, "ab" * 16)
    again = error_of(answer.status, answer.body)
    assert type(again) is kind
    assert str(again) == str(raised)
    assert again.facts == {**facts, "trace_id": "ab" * 16}


def test_an_error_of_a_room_that_is_not_the_client_s_keeps_its_code_and_its_hint() -> None:
    raised = ApprovalSettled(approval_id="apr_1", state="approved")
    answer = problem(raised, "ab" * 16)
    again = error_of(answer.status, answer.body)
    assert (again.code, again.http_status, again.hint) == (raised.code, raised.http_status, raised.hint)
    assert str(again) == str(raised)
    assert again.facts["state"] == "approved"
    assert HomeostatError.code == "error", "what one answer said is not said of all"


def test_every_error_has_a_code_of_its_own_and_keeps_problem_members_free() -> None:
    codes = [kind.code for kind in every_error()]
    assert len(codes) == len(set(codes))
    for kind in error_kinds().values():
        if kind.__module__ == "homeostat.agent.errors":
            continue  # raised where agents work, and told to no caller
        for taken in ("type", "title", "status", "detail", "code", "hint", "trace_id"):
            assert f"{{{taken}" not in (kind.__doc__ or ""), f"{kind.__name__} has a fact that problem+json needs"


def test_whatever_a_proxy_says_is_an_error_of_ours() -> None:
    assert type(error_of(502, b"<html>")) is Unavailable
    assert type(error_of(418, b'{"code": "teapot", "detail": "short and stout"}')) is HomeostatError
    assert str(error_of(418, b'{"code": "teapot", "detail": "short and stout"}')) == "short and stout"
    assert "404" in str(error_of(404, b"\xff"))


def test_a_request_that_is_still_under_way_is_asked_for_again() -> None:
    """A server that died with it leaves its key behind; who repeats the request waits, and does not fail."""
    assert isinstance(
        error_of(RequestUnderWay.http_status, RequestUnderWay.code.join(('{"code": "', '"}')).encode()), Unavailable
    )
