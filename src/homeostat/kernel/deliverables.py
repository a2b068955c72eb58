"""Waiting for the end of a turn: woken by this process' commits, by the bus, or by a slow look of one's own."""

import asyncio
from collections.abc import Iterable
from typing import Any, Protocol

from homeostat.core.ids import ProjectId, TurnId
from homeostat.core.limits import DELIVERABLES_CACHED_MAX, DELIVERABLES_READ_MAX, LEFT_CACHED_MAX, SAFETY_POLL_SECONDS
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.recording import Worked
from homeostat.core.records.view import Deliverable
from homeostat.core.urgency import is_urgent
from homeostat.kernel.rounds import Rounds

End = tuple[ProjectId, Deliverable]
Ending = asyncio.Future[Deliverable | None]
"""Done once a turn may have ended; with how it did, if it was this process that committed it."""


Asked = tuple[ProjectId, bool]
"""In which project somebody looks for an end, and whether it is an operator who does."""

Reading = tuple[set[TurnId], asyncio.Future[dict[TurnId, Deliverable]]]


class Listener(Protocol):
    """Who is told of an end as a future is, but at once, without a turn of the loop; it must not take long."""

    def done(self) -> bool: ...
    def set_result(self, end: Any, /) -> None: ...
    def set_exception(self, problem: BaseException, /) -> None: ...


class Deliverables:
    """Who waits for which turn, and the last few ends, kept at hand."""

    def __init__(self, *, store: TurnStore) -> None:
        self._store = store
        self._waiters: dict[TurnId, list[Listener]] = {}
        self._recent: dict[TurnId, End] = {}
        self._left: dict[TurnId, Worked] = {}
        self._readings: dict[Asked, Reading] = {}
        self._rounds = Rounds(SAFETY_POLL_SECONDS)

    def watch(self, turn_id: TurnId) -> Ending:
        """A future that is done once the turn may have ended."""
        future: Ending = asyncio.get_running_loop().create_future()
        self.listen(turn_id, future)
        return future

    def listen(self, turn_id: TurnId, listener: Listener) -> None:
        """Tell somebody once the turn may have ended."""
        self._waiters.setdefault(turn_id, []).append(listener)

    def unwatch(self, turn_id: TurnId, listener: Listener) -> None:
        waiters = self._waiters.get(turn_id)
        if waiters is not None and listener in waiters:
            waiters.remove(listener)
            if not waiters:
                del self._waiters[turn_id]

    def committed(self, ends: Iterable[End], left: Iterable[Worked] = ()) -> None:
        """Turns ended here, durably: whoever waits for one is given its end. `left` is what some left behind."""
        for worked in left:
            self._left[worked.turn.turn_id] = worked
        if len(self._left) > LEFT_CACHED_MAX:
            for turn_id in list(self._left)[: LEFT_CACHED_MAX // 4]:
                del self._left[turn_id]
        recent, waiters = self._recent, self._waiters
        for end in ends:
            deliverable = end[1]
            turn_id = deliverable.turn_id
            recent[turn_id] = end
            for listener in waiters.pop(turn_id, ()):
                if not listener.done():
                    listener.set_result(deliverable)
        if len(recent) > DELIVERABLES_CACHED_MAX:
            for turn_id in list(recent)[: DELIVERABLES_CACHED_MAX // 4]:
                del recent[turn_id]

    def take_left(self, turn_id: TurnId) -> Worked | None:
        """What a turn left behind that ended here lately, its own steps and what it asked of others apart; once."""
        return self._left.pop(turn_id, None)

    def ended_here(self, turn_id: TurnId) -> bool:
        """Whether it was this process that committed a turn's end, lately."""
        return turn_id in self._recent

    def ended(self, turn_id: TurnId) -> None:
        """A turn is said to have ended; whoever waits should look."""
        for listener in self._waiters.pop(turn_id, ()):
            if not listener.done():
                listener.set_result(None)

    async def get(self, project: ProjectId, turn_id: TurnId) -> Deliverable | None:
        """A turn's end, if it has one."""
        recent = self._recent.get(turn_id)
        if recent is not None and recent[0] == project:
            return recent[1]
        asked = (project, is_urgent())
        wanted, found = self._readings.get(asked) or self._begin_reading(asked)
        wanted.add(turn_id)
        if len(wanted) >= DELIVERABLES_READ_MAX:
            del self._readings[asked]
        return (await asyncio.shield(found)).get(turn_id)

    def _begin_reading(self, asked: Asked) -> Reading:
        wanted: set[TurnId] = set()
        found = asyncio.ensure_future(self._read(asked, wanted))
        found.add_done_callback(_heard)
        self._readings[asked] = (wanted, found)
        return wanted, found

    async def _read(self, asked: Asked, wanted: set[TurnId]) -> dict[TurnId, Deliverable]:
        """Look once for all who asked in the same turn of the loop: ends come many at a time, and waken as many."""
        if (reading := self._readings.get(asked)) is not None and reading[0] is wanted:
            del self._readings[asked]
        return await self._store.deliverables(asked[0], wanted)

    def _at_hand(self, project: ProjectId, turn_id: TurnId) -> bool:
        recent = self._recent.get(turn_id)
        return recent is not None and recent[0] == project

    async def seen(self, future: Ending, seconds: float) -> Deliverable | None:
        """Wait for what `watch` gave, for a while; None says that one should look."""
        return await self._rounds.arrival(future, seconds)

    async def wait(
        self, project: ProjectId, turn_id: TurnId, seconds: float, *, watching: Ending | None = None
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
                    await self._rounds.arrival(future, left)
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


def _heard(found: asyncio.Future[Any]) -> None:
    """Whoever asked was told of a failure; that nobody waited for it any more is none."""
    if not found.cancelled():
        found.exception()
