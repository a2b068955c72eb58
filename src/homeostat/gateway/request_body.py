"""What an agent sends, whole where it has to be read and in pieces where it only passes."""

from collections.abc import AsyncIterator

from homeostat.core.errors import PayloadTooLarge
from homeostat.gateway.asgi import Inbound


class HungUp(Exception):
    """The agent went away."""


class RequestBody:
    """The body of one request. `read` says whether all of it is here, so that only a farewell can follow."""

    __slots__ = ("_bytes_max", "_request", "read")

    def __init__(self, request: Inbound, bytes_max: int) -> None:
        self._request = request
        self._bytes_max = bytes_max
        self.read = False

    async def whole(self, announced: int) -> bytes:
        """Everything, unless it is more than is taken. Raises `PayloadTooLarge` or `HungUp`."""
        most = self._bytes_max
        if (body := self._request.take_whole()) is not None:
            self.read = True
            return _bounded(body, most)
        if announced > most:
            raise PayloadTooLarge(what="the request", size=announced, limit=most)
        message = await self._request.receive()
        if message["type"] == "http.disconnect":
            raise HungUp
        if not message.get("more_body", False):
            self.read = True
            return message.get("body", b"")
        pieces: list[bytes] = [message["body"]]
        size = len(pieces[0])
        async for piece in self.pieces():
            pieces.append(piece)
            size += len(piece)
            if size > most:
                raise PayloadTooLarge(what="the request", size=size, limit=most)
        return b"".join(pieces)

    async def pieces(self) -> AsyncIterator[bytes]:
        while True:
            message = await self._request.receive()
            if message["type"] == "http.disconnect":
                raise HungUp
            more = message.get("more_body", False)
            self.read = not more
            yield message.get("body", b"")
            if not more:
                return


def take_at_hand(request: Inbound, bytes_max: int) -> bytes:
    """The body of a request that is here as a whole. Raises `PayloadTooLarge`."""
    body = request.take_whole()
    assert body is not None, "what is not here yet cannot be read at once"
    return body if len(body) <= bytes_max else _bounded(body, bytes_max)


def _bounded(body: bytes, bytes_max: int) -> bytes:
    if len(body) > bytes_max:
        raise PayloadTooLarge(what="the request", size=len(body), limit=bytes_max)
    return body
