"""The safety net: whatever was left undone is found by its date and done, a bounded number at a time."""

import asyncio
import logging
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from homeostat.core.clock import Clock, Millis
from homeostat.core.codec import Json, to_json
from homeostat.core.errors import BusUnavailable, HomeostatError, Unavailable
from homeostat.core.ids import ProjectId, ToolCallId, TurnId, scope_floor
from homeostat.core.limits import (
    LEASE_BEATS,
    MISDATED_ROWS_MAX,
    RERING_SECONDS,
    RETENTION_PAUSE_SECONDS,
    SWEEP_ROWS_MAX,
    WATCHDOG_IDLE_SECONDS,
)
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.turn import AgentKey, MessageType, Wait, WaitStatus
from homeostat.core.records.view import Due
from homeostat.kernel.commands import CloseCall, Command, Dispatch, EndLease, Fence, Recover, Report, Reported
from homeostat.kernel.dock import Dock
from homeostat.kernel.flush import Flusher
from homeostat.kernel.outbox import Relay
from homeostat.kernel.signals import wakeup

log = logging.getLogger(__name__)

RETENTION_EVERY_SECONDS = 60.0


class Watchdog:
    """Recovers lost turns, times out waits, rings again for unclaimed ones, and forgets what is old."""

    def __init__(
        self,
        *,
        store: TurnStore,
        flusher: Flusher,
        relay: Relay,
        dock: Dock,
        clock: Clock,
        lease_seconds: float,
        retention_seconds: float,
    ) -> None:
        self._store = store
        self._flusher = flusher
        self._relay = relay
        self._dock = dock
        self._clock = clock
        self._lease_ms = int(lease_seconds * 1000)
        self._retention_ms = int(retention_seconds * 1000)
        self._sooner = asyncio.Event()
        self._next_ms: Millis | None = None
        self._rung_up_to = Millis(0)
        self._retain_at = clock.monotonic() + RETENTION_EVERY_SECONDS
        self._backlog = False
        self._wall_ahead = self._ahead()
        self._patient_until = clock.monotonic()
        self._misdated: dict[tuple[TurnId, ToolCallId], tuple[float, Wait]] = {}

    def expect(self, instant: Millis) -> None:
        """Something new will be due; look then, if that is sooner than planned."""
        if self._next_ms is None or instant < self._next_ms:
            self._next_ms = instant
            self._sooner.set()

    async def run(self) -> None:
        while True:
            try:
                await self.tick()
            except Unavailable as error:
                log.warning("the watchdog could not look: %s", error)
                self._next_ms = None
            await self._sleep()

    async def _sleep(self) -> None:
        now = self._clock.now_ms()
        seconds = WATCHDOG_IDLE_SECONDS
        if self._next_ms is not None:
            soonest = 0.5 if self._clock.monotonic() < self._patient_until else 0.02
            seconds = min(seconds, max(soonest, (self._next_ms - now) / 1000))
        self._sooner.clear()
        try:
            async with asyncio.timeout(seconds):
                await self._sooner.wait()
        except TimeoutError:
            pass

    async def tick(self) -> int:
        """One bounded round; returns how many things were set right."""
        now = self._clock.now_ms()
        self._next_ms = None
        due = await self._store.due(
            now,
            unclaimed=(self._rung_up_to, Millis(now - int(RERING_SECONDS * 1000))),
            lease_ms=self._lease_ms,
            limit=SWEEP_ROWS_MAX,
        )
        if due.next_ms is not None:
            self.expect(due.next_ms)  # a commit meanwhile may have named an earlier date
        due = self._believable(replace(due, timeouts=(*due.timeouts, *self._overdue(due.misdated))))
        self._flusher.forget(self._doubtful(due))
        done = await self._recover(due)
        done += await self._time_out(due.timeouts)
        helped = await self._each([Dispatch(key=key) for key in due.stranded])
        if helped:
            self.expect(now)  # others may be behind them, or before those this round began with
        self._ring(due)
        return done + helped + await self._announce() + await self._retain()

    async def _recover(self, due: Due) -> int:
        """Take from dead workers what they hold. While there may be more of it, the next look is at once.

        Leases end first: a turn may go back to the very worker that lost it, which then needs a lease that lasts, and
        not only until another watchdog ends the old one that it has seen, too. They stay as long as they lead to more
        turns than one round takes, since without one a turn has to be searched for.
        """
        dead = dict(due.dead_workers)
        ends = [EndLease(worker_id=worker_id, over=end) for worker_id, end in dead.items()]
        whole = sum(lost[3] in dead for lost in due.lost) < SWEEP_ROWS_MAX
        done = await self._each(ends) if whole else 0
        recovered = await self._each(self._recoveries(due))
        if recovered:
            self.expect(self._clock.now_ms())
        elif not whole:
            done += await self._each(ends)  # those in front cannot be helped, and must not hide the others
        return done + recovered

    async def _time_out(self, late: Sequence[Wait]) -> int:
        """End calls that took too long. What a turn left open at its end is closed, or it would be late for ever."""
        answers = await self._answers([self._timeout(wait) for wait in late])
        refused = [wait for wait, answer in zip(late, answers, strict=True) if answer == Reported(accepted=False)]
        left = await self._left_open({(wait.project, wait.turn_id) for wait in refused}) if refused else []
        return _helped(answers) - len(refused) + await self._each([CloseCall(wait=wait) for wait in left])

    async def _left_open(self, turns: Collection[tuple[ProjectId, TurnId]]) -> list[Wait]:
        """What is still open of those of some turns that have ended: nobody answers that any more."""
        views = [await self._store.turn(*turn) for turn in turns]
        ended = [view for view in views if view is not None and view.deliverable is not None]
        return [wait for view in ended for wait in view.waits if wait.status is WaitStatus.PENDING]

    def _believable(self, due: Due) -> Due:
        """A lease is judged by the wall clock. After that jumped, live workers get one lease's time to renew."""
        ahead, now = self._ahead(), self._clock.monotonic()
        if abs(ahead - self._wall_ahead) * 1000 > self._lease_ms / LEASE_BEATS:
            log.warning("the wall clock jumped by %+.1f s", ahead - self._wall_ahead)
            self._patient_until = now + self._lease_ms / 1000
        self._wall_ahead = ahead
        if now >= self._patient_until:
            return due
        dead = dict(due.dead_workers)
        orphans = tuple(lost for lost in due.lost if lost[3] not in dead)  # no lease at all: no clock is in doubt
        return replace(due, dead_workers=(), lost=orphans)

    def _overdue(self, misdated: Sequence[Wait]) -> list[Wait]:
        """A call that began in the future has a deadline that may be days away. It is given the time it was to have
        from when it was seen here first, which is never too little.
        """
        now, known = self._clock.monotonic(), self._misdated
        for wait in misdated:
            if len(known) < MISDATED_ROWS_MAX:
                until = now + (wait.deadline_ms - wait.created_at_ms) / 1000
                known.setdefault((wait.turn_id, wait.call_id), (until, wait))
        over = [wait for until, wait in known.values() if until <= now]
        for wait in over:
            del known[wait.turn_id, wait.call_id]
        if known:
            soonest = min(until for until, _ in known.values()) - now
            self.expect(Millis(self._clock.now_ms() + int(soonest * 1000)))
        return over

    def _ahead(self) -> float:
        """How far the wall clock is ahead of the one that cannot jump."""
        return self._clock.now_ms() / 1000 - self._clock.monotonic()

    async def _announce(self) -> int:
        """Say what others left unsaid. A bus that is away holds up neither the calendar nor retention."""
        try:
            said = await self._relay.sweep()
        except BusUnavailable as error:
            log.warning("announcements that others left behind wait: %s", error)
            return 0
        if (seconds := self._relay.again_seconds) is not None:
            self.expect(Millis(self._clock.now_ms() + int(seconds * 1000)))  # more lies behind what one round may take
        return said

    def _doubtful(self, due: Due) -> set[AgentKey]:
        return {*due.stranded, *(lost[0] for lost in due.lost), *((w.project, w.agent_id) for w in due.timeouts)}

    def _ring(self, due: Due) -> None:
        """Announce again what nobody entered, the next ones in the next round: nothing is written for it."""
        for key, _ in due.unclaimed:
            self._dock.ready(key)
        self._relay.hand_over(None, [wakeup(key, "watchdog") for key, _ in due.unclaimed])
        whole = len(due.unclaimed) < SWEEP_ROWS_MAX
        self._rung_up_to = Millis(0) if whole else due.unclaimed[-1][1]

    def _recoveries(self, due: Due) -> list[Command]:
        return [
            Recover(fence=Fence(key, turn_id, epoch, worker_id), cause=f"the lease of {worker_id} ended")
            for key, turn_id, epoch, worker_id in due.lost
        ]

    @staticmethod
    def _timeout(wait: Wait) -> Command:
        body: Json = to_json({"error": "timeout", "tool": wait.tool, "deadline_ms": wait.deadline_ms})
        return Report(
            key=(wait.project, wait.agent_id),
            turn_id=wait.turn_id,
            call_id=wait.call_id,
            type=MessageType.TIMEOUT,
            status=WaitStatus.TIMEOUT,
            result=body,
        )

    async def _each(self, commands: Sequence[Command]) -> int:
        """Run commands side by side; returns how many of them set something right."""
        return _helped(await self._answers(commands))

    async def _answers(self, commands: Sequence[Command]) -> list[Any]:
        """Run commands side by side; one that fails is reported and stops none of the others."""
        answers = await asyncio.gather(*(self._flusher.submit(cmd) for cmd in commands), return_exceptions=True)
        for command, answer in zip(commands, answers, strict=True):
            if isinstance(answer, HomeostatError):
                log.warning("%s was not possible: %s", type(command).__name__, answer)
            elif isinstance(answer, BaseException):
                log.error("%s failed", type(command).__name__, exc_info=answer)
        return answers

    async def _retain(self) -> int:
        """Forget what ended past its time, a bounded number per round, round after round while there is more.

        So with cards that are left of boxes that have ended. Turns come first: at least half of the time the store has
        nothing of it to do.
        """
        began, removed = self._clock.monotonic(), 0
        if began >= self._retain_at:
            before = scope_floor(self._clock.now_ms() - self._retention_ms)
            removed = await self._store.expire(before, SWEEP_ROWS_MAX)
            removed = max(removed, await self._store.clear(SWEEP_ROWS_MAX))
            ended = self._clock.monotonic()
            self._backlog = removed >= SWEEP_ROWS_MAX
            pause = max(RETENTION_PAUSE_SECONDS, ended - began) if self._backlog else RETENTION_EVERY_SECONDS
            self._retain_at = ended + pause
        if self._backlog:
            left = self._retain_at - self._clock.monotonic()
            self.expect(Millis(self._clock.now_ms() + int(left * 1000) + 1))
        return removed


def _helped(answers: Sequence[Any]) -> int:
    return sum(1 for answer in answers if answer and not isinstance(answer, BaseException))
