"""The bus inside one process."""

import asyncio
import logging

from homeostat.core.ports.bus import Handler
from homeostat.core.records.event import Event

log = logging.getLogger(__name__)


class LocalSubscription:
    """A handler in the list of its bus."""

    __slots__ = ("_bus", "handler", "tokens")

    def __init__(self, bus: "LocalBus", pattern: str, handler: Handler) -> None:
        self._bus = bus
        self.tokens = pattern.split(".")
        self.handler = handler

    def matches(self, tokens: list[str]) -> bool:
        for index, wanted in enumerate(self.tokens):
            if wanted == ">":
                return len(tokens) > index
            if index >= len(tokens) or wanted not in ("*", tokens[index]):
                return False
        return len(tokens) == len(self.tokens)

    async def cancel(self) -> None:
        self._bus.remove(self)


class LocalBus:
    """Calls handlers directly. A handler that fails is reported and keeps nobody else from hearing."""

    def __init__(self) -> None:
        self._subscriptions: list[LocalSubscription] = []
        self._suffixes: set[str] = set()

    async def publish(self, events: tuple[Event, ...]) -> None:
        for event in events:
            if event.suffix not in self._suffixes and "*" not in self._suffixes:
                continue
            tokens = event.subject.split(".")
            for subscription in tuple(self._subscriptions):
                if subscription.matches(tokens):
                    await self._call(subscription.handler, event)

    async def _call(self, handler: Handler, event: Event) -> None:
        try:
            await handler(event)
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("a listener of %s failed", event.subject)

    def wanted(self, suffix: str) -> bool:
        return suffix in self._suffixes or "*" in self._suffixes

    async def subscribe(self, pattern: str, handler: Handler) -> LocalSubscription:
        subscription = LocalSubscription(self, pattern, handler)
        self._subscriptions.append(subscription)
        self._refresh()
        return subscription

    def remove(self, subscription: LocalSubscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
            self._refresh()

    def _refresh(self) -> None:
        last = {s.tokens[-1] for s in self._subscriptions}
        self._suffixes = {"*"} if last & {"*", ">"} else last

    async def close(self) -> None:
        self._subscriptions.clear()
        self._refresh()
