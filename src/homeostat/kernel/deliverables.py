"""Waiting for the end of a turn: woken by this process' commits, by the bus, or by a slow look of one's own."""

import asyncio

from homeostat.core.ids import BoxId, ProjectId, TurnId, turn_of
from homeostat.core.limits import DELIVERABLES_CACHED_MAX, SAFETY_POLL_SECONDS
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.card import DELIVERABLE, Card
from homeostat.core.records.view import Deliverable, read_deliverable
from homeostat.kernel.dock import arrival


class Deliverables:
    """Who waits for which turn, and the last few ends, kept at hand."""

    def __init__(self, *, store: TurnStore) -> None:
        self._store = store
        self._waiters: dict[TurnId, list[asyncio.Future[None]]] = {}
        self._recent: dict[TurnId, tuple[Card, BoxId | None]] = {}

    def watch(self, turn_id: TurnId) -> asyncio.Future[None]:
        """A future that is done once the turn may have ended."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.setdefault(turn_id, []).append(future)
        return future

    def unwatch(self, turn_id: TurnId, future: asyncio.Future[None]) -> None:
        waiters = self._waiters.get(turn_id)
        if waiters is not None and future in waiters:
            waiters.remove(future)
            if not waiters:
                del self._waiters[turn_id]

    def committed(self, cards: list[Card]) -> None:
        """Cards became durable here; ends among them wake their waiters."""
        boxes = {card.reference: BoxId("box_" + card.scope) for card in cards if card.reference is not None}
        for card in cards:
            if card.type == DELIVERABLE and card.reference is None:
                turn_id = turn_of(card.scope)
                self._recent[turn_id] = (card, boxes.get(card.card_id) if boxes else None)
                self.ended(turn_id)
        if len(self._recent) > DELIVERABLES_CACHED_MAX:
            for turn_id in list(self._recent)[: DELIVERABLES_CACHED_MAX // 4]:
                del self._recent[turn_id]

    def ended_here(self, turn_id: TurnId) -> bool:
        """Whether it was this process that committed a turn's end, lately."""
        return turn_id in self._recent

    def ended(self, turn_id: TurnId) -> None:
        """A turn is said to have ended; whoever waits should look."""
        for future in self._waiters.pop(turn_id, ()):
            if not future.done():
                future.set_result(None)

    async def get(self, project: ProjectId, turn_id: TurnId) -> Deliverable | None:
        """A turn's end, if it has one."""
        if self._at_hand(project, turn_id):
            return read_deliverable(*self._recent[turn_id])
        return await self._store.deliverable(project, turn_id)

    def _at_hand(self, project: ProjectId, turn_id: TurnId) -> bool:
        recent = self._recent.get(turn_id)
        return recent is not None and recent[0].project == project

    async def wait(
        self, project: ProjectId, turn_id: TurnId, seconds: float, *, watching: asyncio.Future[None] | None = None
    ) -> Deliverable | None:
        """A turn's end, waiting for it; None when the time is over. A lost wake-up costs time, not the answer."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        future = watching or self.watch(turn_id)
        try:
            known = watching is None or self._at_hand(project, turn_id)
            if known and (found := await self.get(project, turn_id)) is not None:
                return found
            while True:
                left = until - loop.time()
                if left > 0:
                    await arrival(future, min(left, SAFETY_POLL_SECONDS))
                if future.done() and not self._at_hand(project, turn_id):
                    # Watch first, then look: an end in between is not missed.
                    self.unwatch(turn_id, future)
                    future = self.watch(turn_id)
                if (found := await self.get(project, turn_id)) is not None:
                    return found
                if loop.time() >= until:
                    return None
        finally:
            self.unwatch(turn_id, future)
