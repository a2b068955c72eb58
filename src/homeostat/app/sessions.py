"""Workers elsewhere: what a server has to remember of each, so that no turn is lost to a lost answer."""

import asyncio
import logging
from collections.abc import Collection, Generator
from contextlib import contextmanager, suppress
from weakref import WeakValueDictionary

from msgspec.structs import replace

from homeostat.app.local_turns import LocalSession, LocalTurns
from homeostat.core.errors import HomeostatError, Overloaded, StaleEpoch, TurnUnknown, WorkerUnknown
from homeostat.core.ids import TurnId, WorkerId, mark_in
from homeostat.core.limits import WORKER_SESSIONS_MAX
from homeostat.core.records.turn import AgentKey, Grant
from homeostat.core.records.work import Fence, fence_of
from homeostat.kernel.kernel import Kernel

log = logging.getLogger(__name__)


class RemoteSession:
    """One worker that is reached over a wire.

    Turns handed out are remembered until they end, so that an answer which never arrived can be given again. `mark` is
    that of the worker's id: it says for whom the worker may act.
    """

    def __init__(self, kernel: Kernel, mark: str) -> None:
        self._kernel = kernel
        self.mark = mark
        self.local: LocalSession
        self.given: dict[TurnId, Grant] = {}
        self._revoked: dict[TurnId, tuple[Fence, float]] = {}
        self._bell = asyncio.Event()
        self._turnstile = asyncio.Lock()
        self._newcomer: asyncio.Future[None] | None = None
        self._seen_at = kernel.clock.monotonic()
        self._present = 0

    @property
    def worker_id(self) -> WorkerId:
        return self.local.worker_id

    def revoke(self, fence: Fence) -> None:
        """Note that the worker has lost a turn. Word of an old attempt may come late."""
        before = self._revoked.get(fence.turn_id)
        if before is not None and before[0].epoch > fence.epoch:
            return
        given = self.given.get(fence.turn_id)
        if given is not None and fence_of(given) == fence:
            del self.given[fence.turn_id]
        self._revoked[fence.turn_id] = (fence, self._kernel.clock.monotonic())
        self._bell.set()

    @contextmanager
    def presence(self) -> Generator[None, None, None]:
        """The worker is there as long as one of its requests is."""
        self._present += 1
        try:
            yield
        finally:
            self._present -= 1
            self._seen_at = self._kernel.clock.monotonic()

    @property
    def silent_seconds(self) -> float:
        return 0.0 if self._present else self._kernel.clock.monotonic() - self._seen_at

    async def claim(self, limit: int, seconds: float, holding: Collection[str]) -> list[Grant]:
        """Turns for the worker; first of all those it was given and does not know of.

        A worker claims once at a time: a claim that still waits when the next one comes belongs to a connection that
        is gone. It ends, and what it had got goes to the newcomer.
        """
        if self._newcomer is not None and not self._newcomer.done():
            self._newcomer.set_result(None)
        newcomer = self._newcomer = asyncio.get_running_loop().create_future()
        async with self._turnstile:
            lost = await self._unheard_of([grant for turn_id, grant in self.given.items() if turn_id not in holding])
            if lost or newcomer.done():
                return lost[:limit]
            claiming = asyncio.ensure_future(self.local.claim(limit, seconds))
            claiming.add_done_callback(self._give)
            try:
                await asyncio.wait({claiming, newcomer}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not claiming.done():
                    claiming.cancel()
                    await asyncio.wait({claiming})
            return [] if claiming.cancelled() else claiming.result()

    async def _unheard_of(self, unknown: list[Grant]) -> list[Grant]:
        """Of grants that the worker does not know of, those it has to be given again: others it ended elsewhere.

        It may have begun, and forgotten: whatever was stored of the turn has to be read.
        """
        if not unknown:
            return unknown
        held = {fence for fence, _ in await self._kernel.store.held(self.worker_id)}
        for grant in unknown:
            if fence_of(grant) not in held:
                self.ended(grant.turn.turn_id, grant.epoch)
        return [replace(grant, fresh=False) for grant in unknown if fence_of(grant) in held]

    def _give(self, claiming: asyncio.Future[list[Grant]]) -> None:
        if not claiming.cancelled() and claiming.exception() is None:
            for grant in claiming.result():
                revoked = self._revoked.get(grant.turn.turn_id)
                if revoked is None or revoked[0] != fence_of(grant):
                    self.given[grant.turn.turn_id] = grant

    async def renew(self, seconds: float, holding: Collection[str], named: Collection[Fence] = ()) -> list[Fence]:
        """A beat; answers with what is revoked, waiting for it if nothing is.

        A worker names what it works on, and under which epochs: then it hears also of what another server granted it. A
        revocation is repeated until the worker no longer names the turn: an answer may have been lost. One of a turn
        that it does not name is kept for a lease, as the turn itself may still be on its way to it.
        """
        held = {*map(TurnId, holding), *(fence.turn_id for fence in named)}
        before = self._revoked.copy()
        own = {fence.turn_id for fence in await self.local.beat(held, named)}
        since = self._kernel.clock.monotonic() - self.local.lease_seconds
        self._revoked = {
            turn_id: told
            for turn_id, told in self._revoked.items()
            if turn_id not in self.given
            and (turn_id in held or told[1] > since)
            and (turn_id not in own or told is not before.get(turn_id))  # else it has been granted anew by now
        }
        if seconds > 0 and self._revoked.keys().isdisjoint(held):
            self._bell.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._bell.wait()
        return [fence for fence, _ in self._revoked.values()]

    async def grant(self, key: AgentKey, turn_id: TurnId, epoch: int, *, repeated: bool = False) -> Grant:
        """The worker's leave to work on a turn it says it holds; the kernel checks again when it writes.

        What may be `repeated` under its key is left to the kernel, which knows the answer to it and what is stale.
        """
        given = self.given.get(turn_id)
        if given is not None and given.epoch == epoch and given.turn.key == key:
            return given
        view = await self._kernel.store.turn(key[0], turn_id)
        if view is None:
            raise TurnUnknown(turn_id=turn_id)
        held = view.epoch == epoch and (view.worker_id == self.worker_id or view.deliverable is not None)
        if view.turn.key != key or not (held or repeated):
            raise StaleEpoch(turn_id=turn_id, worker_id=self.worker_id, epoch=epoch)
        return Grant(view.turn, epoch, self.worker_id, fresh=False, waits=view.waits)

    @contextmanager
    def writing(self, turn_id: TurnId, epoch: int) -> Generator[None, None, None]:
        """Around whatever a fence protects: a turn that is no longer the worker's is not given again."""
        try:
            yield
        except StaleEpoch:
            self.ended(turn_id, epoch)
            raise

    def ended(self, turn_id: TurnId, epoch: int, following: Grant | None = None) -> None:
        """A turn is no longer the worker's under this epoch; perhaps another one came in its place."""
        given = self.given.get(turn_id)
        if given is not None and given.epoch == epoch:
            del self.given[turn_id]
        if following is not None:
            self.given[following.turn.turn_id] = following


class WorkerSessions:
    """The workers of one server. One that falls silent for a whole lease is let go, and its turns with it."""

    def __init__(self, kernel: Kernel, turns: LocalTurns) -> None:
        self._kernel = kernel
        self._turns = turns
        self._sessions: dict[WorkerId, RemoteSession] = {}
        self._doors: WeakValueDictionary[WorkerId, asyncio.Lock] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._sessions)

    def get(self, worker_id: str) -> RemoteSession:
        try:
            return self._sessions[WorkerId(worker_id)]
        except KeyError:
            raise WorkerUnknown(worker_id=worker_id) from None

    async def open(
        self,
        hosted: Collection[AgentKey],
        worker_id: WorkerId | None,
        holding: Collection[Fence],
        *,
        mark: str = "",
    ) -> tuple[RemoteSession, list[Fence]]:
        """Begin a session, or take one up again; returns what the worker held and holds no longer.

        A worker that has no id yet is given one with this mark; one that comes back has its mark in its id.
        """
        named = self._kernel.ids.worker(mark) if worker_id is None else worker_id
        async with self._doors.setdefault(named, asyncio.Lock()):  # one that asks again is let in once
            session = self._sessions.get(named)
            if session is not None:
                await session.local.host(hosted)
                return session, [fence for fence in await session.renew(0.0, (), holding) if fence in holding]
            if len(self._sessions) >= WORKER_SESSIONS_MAX:
                raise Overloaded(problem=f"{len(self._sessions)} workers are connected")
            session = RemoteSession(self._kernel, mark_in(named))
            session.local = await self._turns.open(hosted, session.revoke, worker_id=named, stands_in=True)
            try:
                gone = await self._take_up(session, holding) if worker_id is not None else []
            except BaseException:
                await session.local.close(lost=True)  # it comes again, and has to be told then
                raise
            self._sessions[named] = session
            return session, gone

    async def _take_up(self, session: RemoteSession, holding: Collection[Fence]) -> list[Fence]:
        """Compare what a returning worker holds with what the store says. What it does not know of goes back."""
        claimed = set(holding)
        actual = {fence for fence, _ in await self._kernel.store.held(session.worker_id)}
        for fence in claimed & actual:
            session.local.adopt(fence)
        for fence in actual - claimed:
            with suppress(StaleEpoch):
                await self._kernel.release(fence)
        return list(claimed - actual)

    async def close(self, worker_id: str, *, lost: bool = False) -> None:
        """A worker leaves, and what it holds goes to others. Turns of one that is lost are lost with its lease."""
        session = self.get(worker_id)
        del self._sessions[session.worker_id]
        await session.local.close(lost=lost)

    # --- the loop ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._kernel.lease_seconds / 2)
            await self.tick()

    async def tick(self) -> int:
        """Let go of workers that have been silent for a whole lease; returns how many."""
        gone = [s for s in self._sessions.values() if s.silent_seconds > self._kernel.lease_seconds]
        for session in gone:
            log.warning("worker %s fell silent", session.worker_id)
            try:
                await self.close(session.worker_id, lost=True)
            except HomeostatError as error:
                log.warning("the berth of %s was not closed properly: %s", session.worker_id, error)
        return len(gone)

    async def leave(self) -> None:
        """The server stops. Workers keep the turns they know of, and come back with them to whoever serves next."""
        for session in self._sessions.values():
            berth = self._kernel.dock.close(session.worker_id)
            for grant in berth.granted if berth is not None else ():
                with suppress(HomeostatError):
                    await self._kernel.release(fence_of(grant))
        self._sessions.clear()
