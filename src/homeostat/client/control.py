"""The desk where a worker takes orders for the agents it hosts: signed by its server, fresh, and each only once."""

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from homeostat.core.clock import Clock, SystemClock
from homeostat.core.records.immune import Applied, RemedyAction
from homeostat.core.wire.control import (
    ACTIONS,
    NONCE,
    ORDER_AGE_SECONDS_MAX,
    ORDER_BYTES_MAX,
    SIGNATURE,
    TIMESTAMP,
    OrderAnswer,
    OrderBody,
    signed_text,
)

log = logging.getLogger(__name__)

Treat = Callable[[str, RemedyAction], Awaitable[tuple[Applied, str]]]

_LENGTH: Final = re.compile(r"[0-9]{1,9}")
HEAD_BYTES_MAX: Final = 8 << 10
ORDER_SECONDS: Final = 10.0
NONCES_MAX: Final = 10_000
REASONS: Final = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 405: "Method Not Allowed"}


class Rejected(Exception):
    """An order that is not followed, and why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class ControlDesk:
    """A few lines of HTTP, since an agent's process loads no server."""

    def __init__(self, *, public_key: str, project: str, treat: Treat, clock: Clock | None = None) -> None:
        self._key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
        self._project = project
        self._treat = treat
        self._clock = clock or SystemClock()
        self._began_ms = self._clock.now_ms()
        self._nonces: OrderedDict[str, None] = OrderedDict()
        self._server: asyncio.Server | None = None
        self.followed = 0

    async def open(self, host: str = "127.0.0.1", port: int = 0) -> str:
        """Begin to listen; returns the address."""
        self._server = await asyncio.start_server(self._serve, host, port, limit=HEAD_BYTES_MAX)
        taken = self._server.sockets[0].getsockname()
        return f"http://{f'[{taken[0]}]' if ':' in taken[0] else taken[0]}:{taken[1]}"

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(ORDER_SECONDS):
                try:
                    status, told = 200, await self._follow(reader)
                except Rejected as problem:
                    log.warning("an order was refused: %s", problem)
                    status, told = problem.status, OrderAnswer(applied=Applied.FAILED, note=str(problem))
                body = msgspec.json.encode(told)
                head = f"HTTP/1.1 {status} {REASONS[status]}\r\ncontent-type: application/json\r\n"
                writer.write(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError) as problem:
            log.debug("an order did not get through: %s", problem)
        finally:
            writer.close()

    async def _follow(self, reader: asyncio.StreamReader) -> OrderAnswer:
        path, headers = await _head(reader)
        action = ACTIONS.get(path)
        if action is None:
            raise Rejected(404, "there is no such order")
        length = headers.get("content-length", "")
        if not _LENGTH.fullmatch(length) or int(length) > ORDER_BYTES_MAX:
            raise Rejected(400, "an order says how long it is, and it is short")
        body = await reader.readexactly(int(length))
        self._prove(path, headers, body)
        try:
            order = msgspec.json.decode(body, type=OrderBody)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
            raise Rejected(400, str(problem)) from problem
        if order.project != self._project:
            raise Rejected(404, f"nobody of project {order.project!r} is here")
        applied, note = await self._treat(order.agent_id, action)
        self.followed += applied is Applied.APPLIED
        return OrderAnswer(applied=applied, note=note)

    def _prove(self, path: str, headers: dict[str, str], body: bytes) -> None:
        """Refuse what our server did not sign, what is old, and what was said before, to a worker before us as well."""
        stamp, nonce = headers.get(TIMESTAMP, ""), headers.get(NONCE, "")
        try:
            self._key.verify(bytes.fromhex(headers.get(SIGNATURE, "")), signed_text(path, stamp, nonce, body))
        except (InvalidSignature, ValueError) as problem:
            raise Rejected(401, "it is not signed by the server this worker works for") from problem
        age_ms = self._clock.now_ms() - int(stamp)
        if abs(age_ms) > ORDER_AGE_SECONDS_MAX * 1000 or int(stamp) < self._began_ms:
            raise Rejected(401, "it was signed too long ago, or before this worker began")
        if nonce in self._nonces:
            raise Rejected(401, "it was given before")
        self._nonces[nonce] = None
        while len(self._nonces) > NONCES_MAX:
            self._nonces.popitem(last=False)


async def _head(reader: asyncio.StreamReader) -> tuple[str, dict[str, str]]:
    """The path of a POST, and its headers."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as problem:
        raise Rejected(400, "its headers are too long") from problem
    first, *lines = raw.decode("latin-1").split("\r\n")
    method, _, rest = first.partition(" ")
    if method != "POST":
        raise Rejected(405, "orders are POSTed")
    pairs = (line.partition(":") for line in lines if line)
    return rest.partition(" ")[0], {name.strip().lower(): value.strip() for name, _, value in pairs}
