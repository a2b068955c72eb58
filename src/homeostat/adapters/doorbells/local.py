"""The bus inside one process."""

import asyncio
import logging

from homeostat.core.ports.bus import Handler
from homeostat.core.records.event import Event, subject

log = logging.getLogger(__name__)


class LocalSubscription:
    """A handler in the list of its bus."""

    __slots__ = ("_bus", "_of_anybody", "_tokens", "handler", "kind")

    def __init__(self, bus: "LocalBus", pattern: str, handler: Handler) -> None:
        self._bus = bus
        self._tokens = pattern.split(".")
        self.handler = handler
        self.kind = self._tokens[-1]
        self._of_anybody = _of_anybody(pattern)

    def matches(self, event: Event) -> bool:
        if self._of_anybody is not None:
            return self._of_anybody == (event.channel, event.component, event.suffix)
        tokens = event.subject.split(".")
        for index, wanted in enumerate(self._tokens):
            if wanted == ">":
                return len(tokens) > index
            if index >= len(tokens) or wanted not in ("*", tokens[index]):
                return False
        return len(tokens) == len(self._tokens)

    async def cancel(self) -> None:
        self._bus.remove(self)


def _of_anybody(pattern: str) -> tuple[str, str, str] | None:
    """What most listen to: something of one kind, whoever said it. Told by channel, component and suffix alone."""
    tokens = pattern.split(".")
    kind = (tokens[4], tokens[5], tokens[7]) if len(tokens) == 8 else None
    if kind is None or {"*", ">"}.intersection(kind) or pattern != subject("*", *kind[:2], "*", kind[2]):
        return None
    return kind


class LocalBus:
    """Calls handlers directly. A handler that fails is reported and keeps nobody else from hearing."""

    def __init__(self) -> None:
        self._subscriptions: list[LocalSubscription] = []
        self._by_suffix: dict[str, list[LocalSubscription]] = {}
        self._everything: list[LocalSubscription] = []

    async def publish(self, events: tuple[Event, ...]) -> None:
        for event in events:
            interested = self._by_suffix.get(event.suffix, self._everything)
            for subscription in tuple(interested):
                if subscription.matches(event):
                    try:
                        await subscription.handler(event)
                    except asyncio.CancelledError:
                        raise
                    except Exception:
                        log.exception("a listener of %s failed", event.subject)

    def wanted(self, suffix: str) -> bool:
        return bool(self._by_suffix.get(suffix, self._everything))

    async def subscribe(self, pattern: str, handler: Handler) -> LocalSubscription:
        subscription = LocalSubscription(self, pattern, handler)
        self._subscriptions.append(subscription)
        self._index()
        return subscription

    def remove(self, subscription: LocalSubscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
            self._index()

    def _index(self) -> None:
        """Group subscriptions by the last token of their pattern; a wildcard there hears every suffix."""
        self._everything = [s for s in self._subscriptions if s.kind in ("*", ">")]
        suffixes = {s.kind for s in self._subscriptions} - {"*", ">"}
        self._by_suffix = {
            suffix: [s for s in self._subscriptions if s.kind in (suffix, "*", ">")] for suffix in suffixes
        }

    async def close(self) -> None:
        self._subscriptions.clear()
        self._index()
