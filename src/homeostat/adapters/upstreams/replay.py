"""Answers from recordings: what was asked before is answered as it was answered then, byte for byte."""

import asyncio
import hashlib
from base64 import b64decode, b64encode
from collections import defaultdict, deque
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec

from homeostat.core.errors import SettingInvalid
from homeostat.core.gateway_errors import UpstreamFailed
from homeostat.core.ports.upstream import Headers, Upstream, UpstreamRequest, UpstreamResponse

NOT_KEPT = frozenset({b"set-cookie", b"date"})


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """One exchange. A request is known by its method, its target and what it said; its headers are not kept."""

    method: str
    target: str
    digest: str
    status: int
    headers: tuple[tuple[str, str], ...]
    blocks: tuple[str, ...]

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.method, self.target, self.digest)


_decoder = msgspec.json.Decoder(Recording)
_encoder = msgspec.json.Encoder()
_any = msgspec.json.Decoder()
_canonical = msgspec.json.Encoder(order="deterministic")


def digest_of(body: bytes) -> str:
    """What a request says, whatever its spaces and the order of its members."""
    with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        body = _canonical.encode(_any.decode(body))
    return hashlib.sha256(body).hexdigest()


def read_recordings(path: Path) -> list[Recording]:
    """One recording per line."""
    try:
        return [_decoder.decode(line) for line in path.read_bytes().splitlines() if line.strip()]
    except (OSError, msgspec.MsgspecError) as problem:
        raise SettingInvalid(setting="replay", problem=f"{path}: {problem}") from problem


class ReplayUpstream:
    """Gives recorded answers. One that was recorded several times is given in that order, the last one for ever."""

    def __init__(self, recordings: Iterable[Recording]) -> None:
        self._recordings: dict[tuple[str, str, str], deque[Recording]] = defaultdict(deque)
        for recording in recordings:
            self._recordings[recording.key].append(recording)

    async def send(self, request: UpstreamRequest) -> UpstreamResponse:
        body = await _whole(request)
        key = (request.method.decode(), request.target.decode("latin-1"), digest_of(body))
        waiting = self._recordings.get(key)
        if not waiting:
            raise UpstreamFailed(upstream="replay", problem="nobody has asked this before")
        recording = waiting.popleft() if len(waiting) > 1 else waiting[0]
        headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in recording.headers]
        return Replayed(recording.status, headers, [b64decode(block) for block in recording.blocks])

    async def close(self) -> None:
        """There is nothing to close."""


class Replayed:
    """An answer from a recording, in the blocks in which it came."""

    def __init__(self, status: int, headers: Headers, blocks: list[bytes]) -> None:
        self.status = status
        self.headers = headers
        self._blocks = deque(blocks)
        self._closed = False

    @property
    def complete(self) -> bool:
        return len(self._blocks) <= 1

    async def read(self) -> bytes:
        if self._closed:
            raise UpstreamFailed(upstream="replay", problem="the answer was let go")
        await asyncio.sleep(0)
        return self._blocks.popleft() if self._blocks else b""

    def close(self) -> None:
        self._closed = True


class RecordingUpstream:
    """Passes everything on and writes down what came back whole."""

    def __init__(self, upstream: Upstream, path: Path) -> None:
        self._upstream = upstream
        self._path = path

    async def send(self, request: UpstreamRequest) -> UpstreamResponse:
        body = await _whole(request)
        whole = UpstreamRequest(request.method, request.target, request.headers, body)
        return Recorded(await self._upstream.send(whole), whole, digest_of(body), self._path)

    async def close(self) -> None:
        await self._upstream.close()


class Recorded:
    """An answer that is being written down."""

    def __init__(self, response: UpstreamResponse, request: UpstreamRequest, digest: str, path: Path) -> None:
        self._response = response
        self._request = request
        self._digest = digest
        self._path = path
        self._blocks: list[bytes] = []
        self._written = False

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Headers:
        return self._response.headers

    @property
    def complete(self) -> bool:
        return self._response.complete

    async def read(self) -> bytes:
        block = await self._response.read()
        if block:
            self._blocks.append(block)
        if (not block or self._response.complete) and not self._written:
            self._written = True
            await asyncio.to_thread(self._write)
        return block

    def _write(self) -> None:
        recording = Recording(
            method=self._request.method.decode(),
            target=self._request.target.decode("latin-1"),
            digest=self._digest,
            status=self.status,
            headers=tuple(
                (name.decode("latin-1"), value.decode("latin-1"))
                for name, value in self.headers
                if name not in NOT_KEPT
            ),
            blocks=tuple(b64encode(block).decode() for block in self._blocks),
        )
        with self._path.open("ab") as file:
            file.write(_encoder.encode(recording) + b"\n")

    def close(self) -> None:
        self._response.close()


async def _whole(request: UpstreamRequest) -> bytes:
    if isinstance(request.body, bytes):
        return request.body
    return b"".join([piece async for piece in request.body])
