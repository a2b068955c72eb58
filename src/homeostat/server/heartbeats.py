"""The short way for heartbeats: thousands of requests a second that are nearly always the same.

It answers a heartbeat that is in order, from an agent this process knows, in one piece, and without a task where the
keeper of statuses need not be waited for. Whatever is unusual in any
respect takes the long way, which alone knows how to refuse.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from functools import cache
from typing import Any, Final

import msgspec

from homeostat.app.assemble import System
from homeostat.core.clock import rfc3339
from homeostat.core.ids import key_digest
from homeostat.core.limits import FLEET_BODY_BYTES_MAX
from homeostat.core.records.fleet import AgentStatus
from homeostat.fleet.heartbeats import Receipt
from homeostat.gateway.asgi import AtOnce, reply
from homeostat.server.answers import JSON_TYPE
from homeostat.server.metrics import Tally

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

PATH: Final = "/v1/agents/status"
RAW_PATH: Final = PATH.encode()

_decode = msgspec.json.Decoder(AgentStatus).decode
_BEARER: Final = b"Bearer "
_UNUSUAL: Final = frozenset({b"origin", b"traceparent"})


class QuickHeartbeat:
    """Takes heartbeats; `hosts` are those that have been found to be ours."""

    def __init__(self, system: System, *, tally: Tally, hosts: set[bytes]) -> None:
        self._known = system.fleet.registry.known
        self._known_by = system.fleet.registry.known_by
        self._take = system.fleet.heartbeats.take
        self._take_at_once = system.fleet.heartbeats.take_at_once
        self._monotonic = system.clock.monotonic
        self._tally = tally
        self._hosts = hosts

    def at_once(self, request: AtOnce) -> bool:
        """Answer without a task. False where that cannot be, and nothing was done."""
        began = self._monotonic()
        head = request.head
        digest: str = (None if head is None else head.reading) or self._digest(request)
        if head is not None:
            head.reading = digest
        member = self._known_by(digest)
        body = request.whole()
        if member is None or body is None or len(body) > FLEET_BODY_BYTES_MAX:
            return False
        try:
            status = _decode(body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return False
        if status.agent_id != member.entry.agent_id or (receipt := self._take_at_once(member, status)) is None:
            return False
        answer = _answer(receipt)
        request.answer_as_written(200, _lines(len(answer)), answer)
        self._tally.add(self._monotonic() - began)
        return True

    def _digest(self, request: AtOnce) -> str:
        """Whose key a request bears, as its digest; empty where anything about it is unusual."""
        key = b""
        for name, value in request.headers:
            if name == b"authorization":
                key = value
            elif (name == b"host" and value not in self._hosts) or name in _UNUSUAL:
                return ""
        if request.method != "POST" or not key.startswith(_BEARER):
            return ""
        return key_digest(key[len(_BEARER) :].decode("latin-1"))

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> Receive | None:
        """Answer, and return None; or return what the long way should read instead."""
        began = self._monotonic()
        key: bytes | None = None
        for name, value in scope["headers"]:
            if name == b"authorization":
                key = value
            elif (name == b"host" and value not in self._hosts) or name in _UNUSUAL:
                return receive
        if key is None or not key.startswith(_BEARER) or scope["method"] != "POST":
            return receive
        member = self._known(key[7:].decode("latin-1"))
        if member is None:
            return receive
        message = await receive()
        body: bytes = message.get("body", b"")
        if message.get("more_body") or len(body) > FLEET_BODY_BYTES_MAX:
            return _again(message, receive)
        try:
            status = _decode(body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            return _again(message, receive)
        if status.agent_id != member.entry.agent_id:
            return _again(message, receive)
        answer = _answer(await self._take(member, status))
        await reply(scope, send, 200, _headers(len(answer)), answer)
        self._tally.add(self._monotonic() - began)
        return None


def _answer(receipt: Receipt) -> bytes:
    return b'{"received":true,"push_interval_seconds":%b,"server_time":"%b"}' % (
        repr(receipt.interval.seconds).encode(),
        rfc3339(receipt.received_ms).encode(),
    )


def _again(message: Message, receive: Receive) -> Receive:
    """What was received, to be received once more."""
    first: Message | None = message

    async def replayed() -> Message:
        nonlocal first
        if first is None:
            return await receive()
        again, first = first, None
        return again

    return replayed


@cache
def _headers(length: int) -> list[tuple[bytes, bytes]]:
    """The head of an answer; answers differ in length by a few bytes only."""
    return [
        (b"content-type", JSON_TYPE),
        (b"content-length", str(length).encode()),
        (b"x-content-type-options", b"nosniff"),
    ]


@cache
def _lines(length: int) -> tuple[bytes]:
    """The same, as HTTP writes it."""
    return (b"".join(b"%b: %b\r\n" % line for line in _headers(length)),)
