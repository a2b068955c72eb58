"""Versions of what can be changed: who changes what somebody else has changed meanwhile is told, and shown it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec

from homeostat.access.authority import ROWS, TABLE
from homeostat.access.errors import VersionStale
from homeostat.core.errors import HomeostatError
from homeostat.core.ids import digest_of
from homeostat.server.answers import Answer
from homeostat.server.call import Call
from homeostat.server.endpoints import Endpoint

SHOWN: Final = frozenset(row.shows for row in ROWS if row.shows)
"""The routes whose answers carry an ETag: they show what other routes change."""

MOVES_BY_ITSELF: Final = frozenset(
    {
        *("tokens_spent", "tokens_held", "usd_spent", "usd_held", "warned_at", "warned_of"),
        *("baseline", "sigma", "history", "incident", "last_heard_at", "head", "reported", "metrics"),
    }
)
"""What changes without anybody changing it is no part of a version."""

NONE_YET: Final = '"none"'


class Versions:
    """Compares before a change, one change of an object at a time in this process."""

    def __init__(self, by_name: dict[str, Endpoint]) -> None:
        self._by_name = by_name
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def guarded(self, call: Call, endpoint: Endpoint, work: Callable[[], Awaitable[Answer]]) -> Answer:
        """Do the work, if the object is still what the caller says it saw."""
        wanted = call.headers.get(b"if-match")
        row = TABLE.get(endpoint.name)
        if endpoint.name in SHOWN:
            return _marked(await work())
        shows = None if row is None else self._by_name.get(row.shows)
        if shows is None or wanted is None:
            return await work()
        lock = self._locks.setdefault(f"{row.shows if row else ''} {call.scope['path']}", asyncio.Lock())
        async with lock:
            current = await shown(shows, call)
            if wanted.decode("latin-1").strip() not in {"*", etag_of(current)}:
                raise VersionStale(current=current, etag=etag_of(current))
            return _marked(await work())


async def shown(shows: Endpoint, call: Call) -> dict[str, Any] | None:
    """An object as its own route shows it; None where it is not there."""
    try:
        answer = await shows.run(call)
    except HomeostatError:
        return None
    return document_of(answer.body)


def document_of(body: bytes) -> dict[str, Any] | None:
    """An answer as the object that it shows."""
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except msgspec.MsgspecError:
        return None


def etag_of(document: dict[str, Any] | None) -> str:
    """The version of an object, from what is not moved by time alone."""
    if document is None:
        return NONE_YET
    kept = {name: value for name, value in document.items() if name not in MOVES_BY_ITSELF}
    return f'"{digest_of(msgspec.json.encode(kept, order="sorted").decode())}"'


def _marked(answer: Answer) -> Answer:
    document = document_of(answer.body) if answer.status < 300 and answer.body else None
    if document is None:
        return answer
    headers = (*answer.headers, (b"etag", etag_of(document).encode()))
    return Answer(answer.status, answer.body, answer.media_type, headers)
