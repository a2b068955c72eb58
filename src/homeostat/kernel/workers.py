"""Workers of this process: how they come, wait for turns, beat, and leave."""

import asyncio
from collections.abc import Collection
from contextlib import suppress
from functools import partial

from homeostat.core.clock import Clock
from homeostat.core.errors import StaleEpoch, Unavailable
from homeostat.core.ids import TurnId, WorkerId
from homeostat.core.limits import CLAIM_BATCH_MAX, SAFETY_POLL_SECONDS
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.event import Event
from homeostat.core.records.turn import AgentKey, Grant
from homeostat.core.records.work import Fence, fence_of
from homeostat.kernel.commands import Claim, EndLease, Release, Renew
from homeostat.kernel.dock import Berth, Dock, Revoke
from homeostat.kernel.flush import Flusher
from homeostat.kernel.rounds import Rounds
from homeostat.kernel.signals import is_from, read_revocation, revocation


class Workers:
    """Brings parked workers and ready turns together, and lets no grant get lost between the two."""

    def __init__(
        self, *, store: TurnStore, flusher: Flusher, dock: Dock, clock: Clock, lease_seconds: float, name: str
    ) -> None:
        self._store = store
        self._flusher = flusher
        self._dock = dock
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._name = name
        self._rounds = Rounds(SAFETY_POLL_SECONDS)

    async def open(self, hosted: Collection[AgentKey], revoke: Revoke, worker_id: WorkerId) -> WorkerId:
        berth = self._dock.open(worker_id, hosted, revoke)
        try:
            await self._look(berth)
        except BaseException:
            self._dock.close(worker_id)  # nobody will come to it
            raise
        return worker_id

    async def host(self, worker_id: WorkerId, agents: Collection[AgentKey]) -> None:
        self._dock.host(worker_id, agents)
        await self._look(self._dock.berth(worker_id))

    async def close(self, worker_id: WorkerId, *, lost: bool = False) -> None:
        """A worker leaves; what it holds goes back and costs no attempt.

        Of one that is `lost` only that goes back which it had not collected. The rest may be what it died of, and has
        to cost an attempt, or it would be given to one worker after the other for ever. Its lease ends by itself, or
        not at all if the worker has gone to another process and beats there.
        """
        berth = self._dock.close(worker_id)
        fences = [fence_of(grant) for grant in berth.granted] if berth else []
        if not lost:
            fences += [fence for fence, _ in await self._store.held(worker_id)]
        releases = [self._flusher.submit(Release(fence=fence)) for fence in dict.fromkeys(fences)]
        for outcome in await asyncio.gather(*releases, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, StaleEpoch):
                raise outcome
        if not lost:
            await self._flusher.submit(EndLease(worker_id=worker_id))

    # --- waiting for turns ---------------------------------------------------------------------------------

    async def claim(self, worker_id: WorkerId, limit: int, seconds: float) -> list[Grant]:
        berth = self._dock.berth(worker_id)
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        limit = min(limit, CLAIM_BATCH_MAX)
        try:
            while True:
                if berth.ready:
                    await self._claim_ready(berth, limit)
                if berth.granted:
                    granted, berth.granted = berth.granted[:limit], berth.granted[limit:]
                    return granted
                left = until - loop.time()
                if left <= 0:
                    return []
                parked = berth.park(limit)
                if not berth.ready:
                    await self._rounds.arrival(parked, left)
                berth.unpark()
                if not berth.granted and not berth.ready:
                    self._dock.berth(worker_id)
                    await self._look(berth)
        finally:
            berth.unpark()

    async def _claim_ready(self, berth: Berth, limit: int) -> None:
        while berth.ready and len(berth.granted) < limit:
            keys = [key for key, _ in zip(list(berth.ready), range(limit - len(berth.granted)), strict=False)]
            for key in keys:
                del berth.ready[key]
            claims = [self._flusher.submit(Claim(key=key, worker_id=berth.worker_id)) for key in keys]
            for claim in claims:
                # A caller that gives up must not take a turn with it: what was granted waits in the berth.
                claim.add_done_callback(partial(self._dock.collect, berth))
            await asyncio.wait(claims)
            undecided = [(key, error) for key, claim in zip(keys, claims, strict=True) if (error := claim.exception())]
            for key, error in undecided:
                if isinstance(error, Unavailable):
                    berth.ready[key] = None
                    if not berth.granted:
                        raise error

    async def _look(self, berth: Berth) -> None:
        """Look for oneself: a turn may wait although no doorbell rang."""
        keys = await self._store.dispatched(berth.hosted, CLAIM_BATCH_MAX)
        self._flusher.forget(keys)
        for key in keys:
            berth.ready[key] = None
        if keys:
            berth.notify()

    # --- staying alive -------------------------------------------------------------------------------------

    async def renew(self, worker_id: WorkerId, held: Collection[TurnId]) -> Collection[Fence]:
        """Beat; returns what the store says the worker holds. Turns it does not know of go back after a lease."""
        berth = self._dock.berth(worker_id)
        await self._flusher.submit(Renew(worker_id=worker_id))
        stored = {fence: None for fence, _ in await self._store.held(worker_id)}
        known = {*held, *(grant.turn.turn_id for grant in berth.granted)}
        strangers = [fence for fence in stored if fence.turn_id not in known]
        for fence, seconds in berth.unheard_of(strangers, self._clock.monotonic()):
            if seconds >= self._lease_seconds:  # before that its grant may still be on its way
                self._flusher.forget([fence.key])
                with suppress(StaleEpoch):
                    await self._flusher.submit(Release(fence=fence))
        return stored.keys()

    def revoked(self, fences: Collection[Fence]) -> list[Event]:
        """Tell workers here which turns are gone. The word for other processes is returned: also one that has a berth
        here may listen at another server.
        """
        for fence in fences:
            self._dock.revoke(fence)
        return [revocation(fence, self._name) for fence in fences]

    def revoke(self, fence: Fence) -> None:
        """Another process took a turn away: what is remembered of its agent is old, and its worker has to stop."""
        self._flusher.forget([fence.key])
        self._dock.revoke(fence)

    async def on_revoke(self, event: Event) -> None:
        """Word of it, if that was not lost; the next beat finds out by itself."""
        if not is_from(event, self._name) and (fence := read_revocation(event)) is not None:
            self.revoke(fence)

    def hand_back(self, grant: Grant) -> None:
        """Give a turn back whose worker did not stay for it; should that fail, the watchdog finds it."""
        self._flusher.submit(Release(fence=fence_of(grant))).add_done_callback(_disregard)


def _disregard(future: "asyncio.Future[object]") -> None:
    """Nobody waits for this answer, and nothing depends on it."""
    if not future.cancelled():
        future.exception()
