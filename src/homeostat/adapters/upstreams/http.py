"""An upstream over HTTP/1.1: a pool of connections, and the key that only it knows."""

import ssl
from collections.abc import Callable

from homeostat.core.ports.upstream import Pending, UpstreamRequest, UpstreamResponse
from homeostat.http.connection import Answer
from homeostat.http.pool import HttpLimits, Pool


class HttpUpstream(Pool):
    """Sends model calls below one base URL."""

    def __init__(
        self,
        *,
        name: str,
        url: str,
        authorization: tuple[bytes, bytes] | None = None,
        secret: str = "",
        limits: HttpLimits | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(
            name=name,
            url=url,
            setting=f"upstream {name}",
            lines=() if authorization is None else (authorization,),
            limits=limits,
            tls=tls,
        )
        self._secret = secret.encode()

    async def send(self, request: UpstreamRequest) -> UpstreamResponse:
        return self.received(await self.exchange(request))

    def send_at_once(self, request: UpstreamRequest, arrived: Callable[[], None]) -> Answer | None:
        connection = self.take_idle()
        if connection is None:
            return None
        body, limits = request.body, self.limits
        assert isinstance(body, bytes), "what comes in pieces has to be awaited"
        answer = connection.send(
            self.head(request, b"content-length: %d\r\n" % len(body)),
            body,
            bodiless=False,
            first_byte_seconds=limits.first_byte_seconds,
            idle_seconds=limits.silence_seconds,
        )
        answer.arrived = arrived
        return answer

    def received(self, pending: Pending) -> UpstreamResponse:
        if pending.status == 0:
            assert pending.error is not None
            raise pending.error
        if self._secret and (pending.status >= 400 or self._tells(pending)):
            return Discreet(pending, self._secret)
        return pending

    def _tells(self, pending: Pending) -> bool:
        secret = self._secret
        if pending.written:
            return pending.written.find(secret) >= 0
        return any(secret in value for _, value in pending.headers)


class Discreet:
    """An answer whose sender may repeat the key it was given: the reader sees stars in its place."""

    __slots__ = ("_answer", "_held", "_secret", "_stars", "headers")

    def __init__(self, answer: UpstreamResponse, secret: bytes) -> None:
        self._answer = answer
        self._secret = secret
        self._stars = b"*" * len(secret)
        self._held = b""
        self.headers = [(name, value.replace(secret, self._stars)) for name, value in answer.headers]

    @property
    def status(self) -> int:
        return self._answer.status

    @property
    def complete(self) -> bool:
        return self._answer.complete

    async def read(self) -> bytes:
        """What has arrived, but for an end so short that the rest of the key might follow it."""
        while True:
            block = await self._answer.read()
            data = (self._held + block).replace(self._secret, self._stars)
            if not block or self._answer.complete:
                self._held = b""
                return data
            hidden = len(self._secret) - 1
            data, self._held = data[: len(data) - hidden], data[len(data) - hidden :]
            if data:
                return data

    def close(self) -> None:
        self._answer.close()
