"""How processes hear of each other: doorbells, events and stream chunks."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from homeostat.core.records.event import Event

Handler = Callable[[Event], Awaitable[None]]


class Subscription(Protocol):
    """A standing interest in a subject."""

    async def cancel(self) -> None: ...


class Bus(Protocol):
    """Carries announcements. Losing every one of them costs latency, never a message."""

    async def publish(self, events: tuple[Event, ...]) -> None:
        """Hand over events; commands and events reach every subscriber at least once, chunks at most once.

        Raises `BusUnavailable` if they could not be handed over.
        """
        ...

    def wanted(self, suffix: str) -> bool:
        """Whether anybody may be listening for this kind; lets a publisher skip what nobody hears."""
        ...

    async def subscribe(self, pattern: str, handler: Handler) -> Subscription:
        """Call a handler for each event whose subject matches (`*` one token, `>` the rest)."""
        ...

    async def close(self) -> None: ...
