"""Passes an answer on as it comes, and looks at it on the way without holding it up."""

import asyncio
from typing import Final

from homeostat.core.clock import Clock
from homeostat.core.limits import ANSWER_BYTES_READ_MAX
from homeostat.core.ports.upstream import UpstreamResponse
from homeostat.gateway.asgi import Send
from homeostat.gateway.dialects.shapes import Dialect, StreamReader
from homeostat.gateway.headers import AnswerHeaders
from homeostat.gateway.sieve import Sieve

PING: Final = b": ping\n\n"


class Relay:
    """One answer on its way to the agent. `sending_since` says since when the agent has not taken what it was sent."""

    reader: StreamReader | None = None
    first_token_at: float | None = None
    sending_since: float | None = None
    started = False
    complete = False
    _pinging: asyncio.Task[None] | None = None

    def __init__(self, *, send: Send, response: UpstreamResponse, headers: AnswerHeaders, clock: Clock) -> None:
        self._send = send
        self._response = response
        self._headers = headers
        self._clock = clock
        self._heard_at = clock.monotonic()
        self._blocks: list[bytes] | None = None
        self._sieve: Sieve | None = None
        self.answer_bytes = 0

    def look(self, dialect: Dialect, sieve: Sieve | None, *, hides_usage: bool) -> None:
        """Read what passes, and take out what may not."""
        self._sieve = sieve
        if not self._headers.streams:
            self._blocks = []
            return
        self.reader = dialect.stream(hides_usage=hides_usage)
        if hides_usage or sieve is not None:
            self._headers.drop_length()

    @property
    def between_events(self) -> bool:
        """Whether what the agent has got so far ends with a whole event."""
        return self.reader is not None and (self._sieve is not None or self.reader.between_events)

    @property
    def answer(self) -> bytes | None:
        """The whole answer, where it was kept to be read."""
        return b"".join(self._blocks) if self._blocks is not None and self.complete else None

    async def run(self) -> None:
        """Relay until the answer ends. Raises `UpstreamFailed` where it breaks off."""
        if self._sieve is not None and self._blocks is not None:
            await self._run_whole(self._sieve)
            return
        response, clock = self._response, self._clock
        await self._start()
        while True:
            block = await response.read()
            self._heard_at = clock.monotonic()
            ended = response.complete or not block
            out = self._pass(block) if block else block
            if ended:
                await self._body(out + self._finish(), more=False)
                self.complete = True
                return
            if out:
                await self._body(out, more=True)

    async def _run_whole(self, sieve: Sieve) -> None:
        """An answer that has to be judged as a whole is passed on as a whole."""
        while block := await self._response.read():
            self._heard_at = self._clock.monotonic()
            self._pass(block)
        if self._blocks is None:
            sieve.refuse_unread()
        self.complete = True
        body = sieve.answer(b"".join(self._blocks))
        self._headers.drop_length()
        self._headers.returned.append((b"content-length", b"%d" % len(body)))
        await self._start()
        await self._body(body, more=False)

    def _pass(self, block: bytes) -> bytes:
        self.answer_bytes += len(block)
        if self.reader is not None:
            out = self.reader.feed(block)
            if self.first_token_at is None and self.reader.spoke:
                self.first_token_at = self._heard_at
            return self._sieve.feed(out) if self._sieve is not None and out else out
        if self.first_token_at is None:
            self.first_token_at = self._heard_at
        if self._blocks is not None:
            self._blocks.append(block)
            if self.answer_bytes > ANSWER_BYTES_READ_MAX:
                self._blocks = None
        return block

    def _finish(self) -> bytes:
        """What was held back of an answer that has ended."""
        rest = self.reader.finish() if self.reader is not None else b""
        return self._sieve.finish(rest) if self._sieve is not None else rest

    # --- to the agent --------------------------------------------------------------------------------------

    async def _start(self) -> None:
        self.started = True
        self.sending_since = self._heard_at
        head = {"type": "http.response.start", "status": self._response.status, "headers": self._headers.returned}
        await self._send(head)
        self.sending_since = None

    async def _body(self, body: bytes, *, more: bool) -> None:
        if self._pinging is not None:
            await self._pinging
            self._pinging = None
        self.sending_since = self._heard_at
        await self._send({"type": "http.response.body", "body": body, "more_body": more})
        self.sending_since = None

    async def end(self, last: bytes) -> None:
        """Close a stream that broke off in an orderly way."""
        await self._body(last, more=False)

    def ping(self, now: float, seconds: float) -> None:
        """Keep a silent stream alive with a comment, if none of its events is under way."""
        if now - self._heard_at >= seconds and self.sending_since is None and self.between_events:
            self._heard_at = now
            if self._pinging is None or self._pinging.done():
                self._pinging = asyncio.get_running_loop().create_task(self._comment())

    async def _comment(self) -> None:
        await self._send({"type": "http.response.body", "body": PING, "more_body": True})
