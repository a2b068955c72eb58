"""A call that needs no task ends as any other does: answered, refused, failed or abandoned, and written down once."""

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from homeostat.adapters.upstreams.http import HttpLimits, HttpUpstream
from homeostat.core.records.call import Call, Outcome
from homeostat.core.records.policy import QUARANTINED, Action
from homeostat.gateway.asgi import AtOnce
from homeostat.gateway.office import Manners
from homeostat.server.cycle import Cycle
from homeostat.server.patience import Patience
from homeostat.server.serving import bind, serving_app, url_of
from homeostat.testing.gateways import ANN, KEY, Booth, booth, until

Upstreamed = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

SECRET = "sk-of-the-upstream"  # noqa: S105 - made up
SAID = json.dumps(
    {"model": "gpt-4o-mini", "usage": {"prompt_tokens": 9, "completion_tokens": 3}, "choices": []}
).encode()
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-kept: Yes\r\ncontent-length: %d\r\n\r\n" % len(SAID)
ASKED = json.dumps({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 40})
REQUEST = (
    f"POST /openai/v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n"
    f"content-length: {len(ASKED)}\r\n\r\n{ASKED}"
).encode()


class Alone:
    """The gateway behind the protocol, and nothing else; `tasks` counts what needed one."""

    def __init__(self, desk: Booth) -> None:
        self.patience = Patience()
        self._proxy = desk.gateway.application

    def quick(self, request: AtOnce) -> bool:
        return self._proxy.quick(request)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._proxy(scope, receive, send)


@dataclass
class Scene:
    """A gateway that knows its agent and has a connection open; what the upstream does next is up to the test."""

    desk: Booth
    upstream: HttpUpstream
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    then: Upstreamed
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    tasks: int = 0
    heads: list[bytes] = field(default_factory=list[bytes])  # as the upstream got them

    async def hear(self) -> tuple[int, bytes, bytes]:
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        return int(head[9:12]), head, await self.reader.readexactly(length)

    async def ask(self) -> tuple[int, bytes, bytes]:
        self.writer.write(REQUEST)
        return await self.hear()

    async def last(self) -> Call:
        """The newest row of the log, once it is certain that the ledger agrees with all of them."""
        await until(lambda: self.desk.gateway.in_flight_here(ANN) == 0)
        calls = await self.desk.log()
        account = await self.desk.account()
        assert account.spent.tokens == sum(call.usage.tokens for call in calls)
        return calls[0]


async def answers(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + SAID)


@asynccontextmanager
async def quick(
    monkeypatch: pytest.MonkeyPatch, *, secret: str = "", manners: Manners | None = None, silence_seconds: float = 0.3
) -> AsyncGenerator[Scene]:
    scene: Scene

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(int(request.lower().split(b"content-length: ")[1].split(b"\r\n")[0]))
                scene.asked.set()
                scene.heads.append(request)
                await scene.then(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            scene.hung_up.set()
        finally:
            writer.close()

    perform = Cycle.perform

    def counted(cycle: Cycle, work: Coroutine[Any, Any, None]) -> None:
        scene.tasks += 1
        perform(cycle, work)

    monkeypatch.setattr(Cycle, "perform", counted)
    # However slow this machine is, what is known stays at hand: a call that asks again needs a task for that.
    monkeypatch.setattr("homeostat.gateway.policies.POLICY_STALE_SECONDS", 60.0)
    monkeypatch.setattr("homeostat.gateway.doorman.KEY_STALE_SECONDS", 60.0)
    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    limits = HttpLimits(first_byte_seconds=0.3, silence_seconds=silence_seconds, sweep_seconds=0.05)
    upstream = HttpUpstream(name="test", url=f"http://127.0.0.1:{port}", limits=limits, secret=secret)
    listener = bind("127.0.0.1", 0)
    try:
        async with (
            booth(upstream=upstream, manners=manners) as desk,
            serving_app(Alone(desk), listener),
            asyncio.timeout(30),
        ):
            await desk.grant(tokens_max=1_000_000)
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url_of(listener).rsplit(":", 1)[1]))
            scene = Scene(desk, upstream, reader, writer, answers)
            assert (await scene.ask())[0] == 200  # the first one asks who it is, and opens a connection
            await scene.last()
            scene.tasks = 0
            scene.asked.clear()
            yield scene
            writer.close()
            await until(lambda: upstream.open_connections == upstream.idle_connections)
    finally:
        server.close()


async def test_an_answer_that_comes_whole_needs_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    async with quick(monkeypatch) as scene:
        for _ in range(3):
            status, head, body = await scene.ask()
            assert (status, body) == (200, SAID)
            assert b"\r\nx-kept: Yes\r\n" in head
            call = await scene.last()
            assert (call.outcome, call.usage.tokens_in, call.usage.tokens_out) == (Outcome.ANSWERED, 9, 3)
            assert call.call_id.encode() in head
        assert scene.tasks == 0
        assert scene.upstream.connects == 1
        assert len(await scene.desk.log()) == 4


async def test_the_head_of_an_answer_is_passed_on_as_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    shared = b"Content-Type: application/json\r\nX-Odd:kept  so\r\n"
    private = b"Set-Cookie: a=b\r\nConnection: keep-alive\r\nKeep-Alive: timeout=5\r\n"
    length = b"Content-Length: %d\r\n" % len(SAID)

    async def chatty(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 Fine\r\n" + shared + private + length + b"\r\n" + SAID)

    async with quick(monkeypatch, secret="sk-planted-secret") as scene:  # noqa: S106 - it is meant to be found
        scene.then = chatty
        for _ in range(2):
            _, head, body = await scene.ask()
            call_id = (await scene.last()).call_id.encode()
            said = b"x-homeostat-call-id: " + call_id + b"\r\n"
            assert head + body == b"HTTP/1.1 200 OK\r\n" + shared + length + said + b"\r\n" + SAID
        scene.writer.write(REQUEST.replace(b"host: x", b"host: x\r\nconnection: close"))
        _, head, body = await scene.hear()
        assert (head.count(b"\r\nconnection: close\r\n"), body) == (1, SAID)
        assert await scene.reader.read() == b"", "it was hung up on"
        assert scene.tasks == 0


async def test_a_key_in_the_head_of_an_answer_is_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "sk-planted-secret"  # noqa: S105 - it is meant to be found

    async def tells(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD.replace(b"x-kept: Yes", b"x-kept: " + secret.encode()) + SAID)

    async with quick(monkeypatch, secret=secret) as scene:
        scene.then = tells
        for _ in range(2):
            status, head, body = await scene.ask()
            assert (status, body) == (200, SAID)
            assert secret.encode() not in head
            assert b"x-kept: " + b"*" * len(secret) in head


async def test_a_head_that_is_said_again_is_forwarded_as_it_was_the_first_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async with quick(monkeypatch) as scene:
        await scene.ask()
        await scene.ask()
        await scene.desk.put(Action.CLEAR_CONTEXT)
        await scene.ask()
        await scene.ask()
        first, *plain, cleared, last = scene.heads
        assert plain == [first, first]
        assert last == cleared != first
        assert cleared.replace(b"x-clear-context: true\r\n", b"") == first
        assert KEY.encode() not in b"".join(scene.heads)
        scene.desk.keys.drop(KEY)
        scene.desk.gateway.office.doorman.forget()
        assert (await scene.ask())[0] == 401, "whose key it is, is asked each time"


async def test_an_answer_in_pieces_is_passed_on_by_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    more = asyncio.Event()

    async def halves(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD[:20])
        await writer.drain()
        await asyncio.sleep(0)
        writer.write(HEAD[20:] + SAID[:5])
        await more.wait()
        writer.write(SAID[5:])

    async with quick(monkeypatch) as scene:
        scene.then = halves
        scene.writer.write(REQUEST)
        assert (await scene.reader.readuntil(SAID[:5])).startswith(b"HTTP/1.1 200"), "the first bytes do not wait"
        more.set()
        assert await scene.reader.readexactly(len(SAID) - 5) == SAID[5:]
        assert (await scene.last()).usage.tokens_out == 3
        assert scene.tasks == 1


async def test_an_agent_that_hangs_up_cancels_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)

    async with quick(monkeypatch) as scene:
        scene.then = never
        scene.writer.write(REQUEST)
        await scene.asked.wait()
        assert scene.desk.gateway.in_flight_here(ANN) == 1
        scene.writer.close()
        await scene.hung_up.wait()
        call = await scene.last()
        assert (call.outcome, call.status, call.code) == (Outcome.ABANDONED, 499, "hung_up")
        assert len(await scene.desk.log()) == 2
        assert scene.tasks == 0


async def nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    raise ConnectionAbortedError


async def half_a_head(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD[:30])
    await writer.drain()
    writer.close()
    raise ConnectionAbortedError


async def garbage(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x00\x01garbage\r\n\r\n")


async def silence(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.readexactly(1)


@pytest.mark.parametrize("misdeed", [nothing, half_a_head, garbage, silence])
async def test_an_upstream_that_fails_is_told_of(monkeypatch: pytest.MonkeyPatch, misdeed: Upstreamed) -> None:
    async with quick(monkeypatch) as scene:
        scene.then = misdeed
        status, _, body = await scene.ask()
        assert status in {502, 504}
        assert json.loads(body)["error"]["code"].startswith("upstream_")
        call = await scene.last()
        assert (call.outcome, call.status) == (Outcome.FAILED, status)
        scene.then = answers
        assert (await scene.ask())[0] == 200
        assert len(await scene.desk.log()) == 3


async def test_a_key_that_an_upstream_repeats_is_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def tells(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = b'{"error":"%b is no key"}' % SECRET.encode()
        writer.write(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: %d\r\n\r\n" % len(body) + body)

    async with quick(monkeypatch, secret=SECRET) as scene:
        scene.then = tells
        status, head, body = await scene.ask()
        assert status == 401
        assert SECRET.encode() not in head + body
        assert b"******" in body


async def test_what_is_refused_at_once_is_counted_and_sent_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    async with quick(monkeypatch) as scene:
        await scene.desk.put(Action.MODEL_FILTER, allow=("other-*",))
        status, _, body = await scene.ask()
        assert (status, json.loads(body)["error"]["code"]) == (403, "model_denied")
        assert (await scene.last()).outcome is Outcome.REFUSED
        await scene.desk.put(Action.BLOCK)
        status, head, body = await scene.ask()
        assert (status, json.loads(body)["error"]["message"]) == (503, QUARANTINED)
        assert b"x-should-retry: false\r\n" in head
        assert (await scene.last()).code == "agent_quarantined"
        assert scene.tasks == 0
        assert not scene.asked.is_set()


async def test_a_budget_that_is_not_at_hand_is_asked_for_by_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    async with quick(monkeypatch) as scene:
        await scene.desk.grant(tokens_max=20)  # less than the first call has used
        status, _, body = await scene.ask()
        assert (status, json.loads(body)["error"]["code"]) == (402, "budget_exceeded")
        assert scene.tasks == 1
        assert (await scene.last()).outcome is Outcome.REFUSED
        assert not scene.asked.is_set()
