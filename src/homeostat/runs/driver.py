"""The driver: takes live runs that nobody looks after, and gives each a conductor."""

import asyncio
import logging

from homeostat.core.clock import Millis
from homeostat.core.errors import Unavailable
from homeostat.core.ids import RunId
from homeostat.core.limits import (
    LEASE_BEATS,
    RUN_LEASE_SECONDS,
    RUNS_CLAIMED_MAX,
    RUNS_SEEN_SECONDS,
    WATCHDOG_IDLE_SECONDS,
)
from homeostat.core.records.run import Run
from homeostat.runs.conductor import Conductor
from homeostat.runs.desk import Desk
from homeostat.runs.others import Others
from homeostat.runs.stopping import let_go

log = logging.getLogger(__name__)


class Driver:
    """One per process. Runs of a process that stops beating are taken by the others, under a new epoch."""

    def __init__(self, desk: Desk, *, lease_seconds: float = RUN_LEASE_SECONDS) -> None:
        self._desk = desk
        self.name = f"drv_{desk.ids.scope()}"
        self._lease_seconds = lease_seconds
        self._conductors: dict[RunId, tuple[Conductor, asyncio.Task[None]]] = {}
        self._woken = asyncio.Event()
        self._beaten_at: float | None = None
        self._others = Others(desk.clock, lease_seconds=lease_seconds)

    # --- what others tell it -------------------------------------------------------------------------------

    def wake(self, run_id: RunId | None = None, *, version: int | None = None) -> None:
        """A run was made or changed, here or elsewhere."""
        found = self._conductors.get(run_id) if run_id is not None else None
        if found is None:
            self._woken.set()
        elif version is None or version > found[0].run.version:
            found[0].wake()

    def look(self, run_id: RunId) -> None:
        """Something was said of the money of a run."""
        if (found := self._conductors.get(run_id)) is not None:
            found[0].look()

    # --- the loop ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        try:
            while True:
                self._woken.clear()
                try:
                    await self.tick()
                except Unavailable as problem:
                    log.warning("runs wait: %s", problem)
                try:
                    async with asyncio.timeout(self.patience()):
                        await self._woken.wait()
                except TimeoutError:
                    continue
        finally:
            await self._leave()

    def patience(self) -> float:
        """For how long there is nothing to look at, unless somebody says so."""
        if self._conductors:
            return RUNS_SEEN_SECONDS
        return max(RUNS_SEEN_SECONDS, min(WATCHDOG_IDLE_SECONDS, self._others.missed_in_seconds()))

    async def tick(self) -> int:
        """Beat, take what nobody has, and see that every run of ours is being driven; returns how many there are."""
        store = self._desk.store
        await let_go(self._desk)
        if self._conductors:
            await self._beat()
        if await self._unclaimed():
            await self._beat(always=True)
            for run in await store.claim(self.name, limit=RUNS_CLAIMED_MAX):
                self._conduct(run)
        if self._beaten_at is None:
            return 0
        versions = await store.driven(self.name)
        for run_id, (project, version) in versions.items():
            if (found := self._conductors.get(run_id)) is None:
                run = await store.run(project, run_id)
                if run is not None and run.live and run.driver == self.name:
                    self._conduct(run)
            elif version > found[0].run.version:
                found[0].wake()
        for run_id in self._conductors.keys() - versions.keys():
            self._conductors[run_id][0].wake()  # it is at rest, or somebody else's: it will find out
        return len(self._conductors)

    async def _unclaimed(self) -> bool:
        """Whether there is a run to take: those of drivers that stopped beating are anybody's."""
        store = self._desk.store
        beats, unclaimed = await store.drivers()
        beats.pop(self.name, None)
        for name, until in (dead := self._others.dead(beats)):
            await store.bury(name, until)
        return (await store.drivers())[1] if dead else unclaimed  # one that had nothing to do does not beat either

    async def _beat(self, *, always: bool = False) -> None:
        at = self._desk.clock.monotonic()
        if always or self._beaten_at is None or at - self._beaten_at >= self._lease_seconds / LEASE_BEATS:
            until = Millis(self._desk.clock.now_ms() + int(self._lease_seconds * 1000))
            await self._desk.store.beat(self.name, until)
            self._beaten_at = at

    def _conduct(self, run: Run) -> None:
        known = self._conductors.pop(run.run_id, None)
        if known is not None:
            known[0].lost = True
            known[1].cancel()
        conductor = Conductor(self._desk, run)
        task = asyncio.get_running_loop().create_task(conductor.drive(), name=f"run {run.run_id}")
        self._conductors[run.run_id] = (conductor, task)
        task.add_done_callback(lambda done: self._done(run.run_id, done))

    def _done(self, run_id: RunId, task: "asyncio.Task[None]") -> None:
        found = self._conductors.get(run_id)
        if found is not None and found[1] is task:
            del self._conductors[run_id]
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("run %s could not be driven; it is taken up again", run_id, exc_info=problem)
            return  # the next look finds it, not before: a run that cannot be driven must not spin
        if found is not None and found[0].run.live and not found[0].lost:
            self._woken.set()

    async def _leave(self) -> None:
        """Stop driving; others may take over at once."""
        tasks = [task for _, task in self._conductors.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._conductors.clear()
        if self._beaten_at is not None:
            self._beaten_at = None
            try:
                await self._desk.store.leave(self.name)
            except Unavailable as problem:
                log.info("runs are left to the lease: %s", problem)
