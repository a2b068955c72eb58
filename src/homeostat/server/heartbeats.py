"""The short way for heartbeats: thousands of requests a second that are nearly always the same.

It answers a heartbeat that is in order, from an agent this process knows, in one piece. Whatever is unusual in any
respect takes the long way, which alone knows how to refuse.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from functools import cache
from typing import Any, Final

import msgspec

from homeostat.app.assemble import System
from homeostat.core.clock import rfc3339
from homeostat.core.limits import FLEET_BODY_BYTES_MAX
from homeostat.core.records.fleet import AgentStatus
from homeostat.gateway.asgi import reply
from homeostat.server.answers import JSON_TYPE
from homeostat.server.metrics import Tally

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

PATH: Final = "/v1/agents/status"

_decode = msgspec.json.Decoder(AgentStatus).decode
_BEARER: Final = b"Bearer "
_UNUSUAL: Final = frozenset({b"origin", b"traceparent"})


class QuickHeartbeat:
    """Takes heartbeats; `hosts` are those that have been found to be ours."""

    def __init__(self, system: System, *, tally: Tally, hosts: set[bytes]) -> None:
        self._known = system.fleet.registry.known
        self._take = system.fleet.heartbeats.take
        self._monotonic = system.clock.monotonic
        self._tally = tally
        self._hosts = hosts

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
        receipt = await self._take(member, status)
        answer = b'{"received":true,"push_interval_seconds":%b,"server_time":"%b"}' % (
            repr(receipt.interval.seconds).encode(),
            rfc3339(receipt.received_ms).encode(),
        )
        await reply(scope, send, 200, _headers(len(answer)), answer)
        self._tally.add(self._monotonic() - began)
        return None


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
