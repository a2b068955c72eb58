"""What an agent sends, whole where it has to be read and in pieces where it only passes."""

from collections.abc import AsyncIterator

from homeostat.core.errors import PayloadTooLarge
from homeostat.gateway.asgi import BODY, Receive, Scope


class HungUp(Exception):
    """The agent went away."""


class RequestBody:
    """The body of one request. `read` says whether all of it is here, so that only a farewell can follow."""

    __slots__ = ("_bytes_max", "_receive", "read")

    def __init__(self, receive: Receive, bytes_max: int) -> None:
        self._receive = receive
        self._bytes_max = bytes_max
        self.read = False

    def at_hand(self, scope: Scope) -> bytes | None:
        """Everything, where the server has it already and it is no more than is taken."""
        extensions = scope.get("extensions")
        take = extensions.get(BODY) if extensions is not None else None
        body = take() if take is not None else None
        if body is not None:
            self.read = True
            if len(body) > self._bytes_max:
                raise PayloadTooLarge(what="the request", size=len(body), limit=self._bytes_max)
        return body

    async def whole(self, announced: int) -> bytes:
        """Everything, unless it is more than is taken. Raises `PayloadTooLarge` or `HungUp`."""
        most = self._bytes_max
        if announced > most:
            raise PayloadTooLarge(what="the request", size=announced, limit=most)
        message = await self._receive()
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
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise HungUp
            more = message.get("more_body", False)
            self.read = not more
            yield message.get("body", b"")
            if not more:
                return
