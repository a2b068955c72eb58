"""Hosts agents: claims their turns, works on many side by side and in order per agent, hands back what it leaves."""

import asyncio
import logging
from collections.abc import Collection
from typing import Any

from homeostat.agent.attempt import attempt
from homeostat.agent.invocation import Invoker
from homeostat.agent.journal import Journal
from homeostat.agent.models import Models
from homeostat.agent.orchestrator import Factory, Orchestrator
from homeostat.agent.outcome import Ending, failure
from homeostat.agent.suspension import Lost, Suspended
from homeostat.agent.turn import Turn
from homeostat.agent.workload import Counts, Line, Running
from homeostat.core.codec import Json
from homeostat.core.errors import HomeostatError, StaleEpoch, Unavailable
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, Ids, ProjectId
from homeostat.core.limits import (
    CLAIM_SECONDS,
    DEFERRAL_SECONDS,
    DEFERRAL_SECONDS_MAX,
    DEFERRALS_MAX,
    GREEDY_TURNS_MAX,
    LEASE_BEATS,
    STOP_SECONDS,
    UNSTORED_TURNS_MAX,
    WORKER_CONCURRENCY,
)
from homeostat.core.ports.turns import TurnSource, WorkerSession
from homeostat.core.records.turn import Grant
from homeostat.core.records.work import Delivered, Fence

log = logging.getLogger(__name__)


class Worker:
    """Works on turns until it is told to stop. It keeps nothing that a crash could lose: the source has it all."""

    def __init__(
        self,
        *,
        source: TurnSource,
        orchestrator: Orchestrator | None = None,
        models: Models | None = None,
        project: str = DEFAULT_PROJECT,
        concurrency: int = WORKER_CONCURRENCY,
        ids: Ids | None = None,
    ) -> None:
        self._source = source
        self._project = ProjectId(project)
        self.orchestrator = orchestrator or Orchestrator(project=self._project)
        self._models = models
        self._concurrency = concurrency
        self._ids = ids or Ids()
        self._invoker = Invoker()
        self._session: WorkerSession | None = None
        self._running: dict[str, Running] = {}
        self._lines: dict[str, Line] = {}
        self._unstored: dict[str, dict[str, Json]] = {}
        self._room = asyncio.Event()
        self._holding = asyncio.Event()
        self._stopping = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.counts = Counts()

    def host(self, agent_id: str, factory: Factory) -> None:
        """Take turns of this agent; the factory makes the agent when it is needed."""
        self.orchestrator.host(agent_id, factory)

    @property
    def session(self) -> WorkerSession:
        assert self._session is not None, "the worker is not open"
        return self._session

    @property
    def running(self) -> Collection[str]:
        """The turns in work."""
        return self._running.keys()

    async def idle(self) -> None:
        """Wait until no turn is in work."""
        await self._idle.wait()

    # --- from beginning to end -----------------------------------------------------------------------------

    async def open(self) -> None:
        """Make the agents known and begin to take their turns."""
        keys = [(self._project, AgentId(agent_id)) for agent_id in self.orchestrator.hosted]
        await self._source.register(keys)
        self._session = await self._source.open(keys, self._on_revoke)

    async def run(self, *, stop_seconds: float = STOP_SECONDS) -> None:
        """Work until `stop()`; then end what runs, or hand it back, and leave."""
        if self._session is None:
            await self.open()
        claiming = asyncio.create_task(self._claim(), name="worker-claim")
        beating = asyncio.create_task(self._beat(), name="worker-beat")
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([claiming, beating, stopping], return_when=asyncio.FIRST_COMPLETED)
            self._stopping.set()
            for loop in (claiming, beating):
                if loop.done():
                    loop.result()
        finally:
            self._stopping.set()
            await _cancel(claiming)
            await self._wind_down(stop_seconds)
            await _cancel(beating)
            await _cancel(stopping)
            await self._leave()

    def stop(self) -> None:
        """Take no more turns; `run` returns when those in work have ended or were handed back."""
        self._stopping.set()

    async def _wind_down(self, seconds: float) -> None:
        if self._running:
            try:
                async with asyncio.timeout(seconds):
                    await self._idle.wait()
            except TimeoutError:
                log.info("%d turns did not end in time and are handed back", len(self._running))
        left = list(self._running.values())
        for running in left:
            running.handing_back = True
            if running.task is not None:
                running.task.cancel()
        await asyncio.gather(*(r.task for r in left if r.task is not None), return_exceptions=True)

    async def _leave(self) -> None:
        await self.orchestrator.shutdown()
        try:
            await self.session.close()
        except Unavailable as problem:
            log.warning("the worker left without a word: %s", problem)

    # --- loops ---------------------------------------------------------------------------------------------

    async def _claim(self) -> None:
        away = False
        while not self._stopping.is_set():
            room = self._concurrency - len(self._running)
            if room <= 0:
                self._room.clear()
                await self._room.wait()
                continue
            try:
                grants = await self.session.claim(room, CLAIM_SECONDS)
            except Unavailable as problem:
                if not away:
                    log.warning("no turns can be claimed: %s It is tried again until it works.", problem)
                away = True
                await asyncio.sleep(self._ids.uniform(DEFERRAL_SECONDS / 2, DEFERRAL_SECONDS))
                continue
            if away:
                log.warning("turns are claimed again")
                away = False
            for grant in grants:
                self._start(grant)

    async def _beat(self) -> None:
        """Renew the lease as long as turns are held, and hear of those that are not ours any more."""
        interval = self.session.lease_seconds / LEASE_BEATS
        while True:
            await self._holding.wait()
            try:
                await self.session.renew(interval)
            except Unavailable as problem:
                log.warning("a beat did not get through: %s", problem)
                await asyncio.sleep(interval / 4)

    def _on_revoke(self, fence: Fence) -> None:
        running = self._running.get(fence.turn_id)
        if running is None or running.grant.epoch != fence.epoch:
            return
        running.revoked = True
        if running.turn is not None:
            running.turn.leave(Lost())
        if running.task is not None:
            running.task.cancel()

    # --- one turn after the other --------------------------------------------------------------------------

    def _start(self, grant: Grant) -> None:
        self.counts.claimed += 1
        running = Running(grant)
        self._running[grant.turn.turn_id] = running
        self._holding.set()
        self._idle.clear()
        running.task = asyncio.create_task(self._line(running), name=f"turn {grant.turn.turn_id}")
        running.task.add_done_callback(lambda task: self._ended(running, task))

    def _ended(self, running: Running, task: asyncio.Task[None]) -> None:
        if self._running.get(running.grant.turn.turn_id) is running:
            del self._running[running.grant.turn.turn_id]
        self._room.set()
        if not self._running:
            self._idle.set()
            self._holding.clear()
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("turn %s ended unexpectedly", running.grant.turn.turn_id, exc_info=problem)

    async def _line(self, running: Running) -> None:
        """Work on a turn when the agent's last one has let go, and on those that follow it, for a while."""
        agent_id = running.grant.turn.agent_id
        line = self._lines.setdefault(agent_id, Line())
        line.length += 1
        try:
            async with line.lock:
                for count in range(1, GREEDY_TURNS_MAX + 1):
                    following = await self._work(running, greedy=count < GREEDY_TURNS_MAX)
                    if following is None:
                        return
                    self._take_up(running, following)
        except asyncio.CancelledError:
            if running.revoked:
                self.counts.lost += 1
            elif running.handing_back:
                await self._hand_back(running)
            else:
                raise
        except Exception:
            await self._give_up(running)
            raise
        finally:
            self._remember(running)
            line.length -= 1
            if not line.length:
                del self._lines[agent_id]

    def _remember(self, running: Running) -> None:
        """A turn may be lost, to a server that was away for too long, with steps done and no way to store them.

        It often comes back to the same worker, which then need not do them again.
        """
        if running.turn is not None and running.turn.unstored:
            self._unstored[running.grant.turn.turn_id] = running.turn.unstored
            while len(self._unstored) > UNSTORED_TURNS_MAX:
                del self._unstored[next(iter(self._unstored))]

    def _take_up(self, running: Running, following: Grant) -> None:
        del self._running[running.grant.turn.turn_id]
        running.grant, running.turn = following, None
        self._running[following.turn.turn_id] = running
        self.counts.claimed += 1

    async def _work(self, running: Running, *, greedy: bool) -> Grant | None:
        """One turn from claim to end; returns the next one if it came along."""
        ending = await self._process(running)
        if ending is None:
            return None
        delivered = await self._deliver(running, ending, greedy=greedy)
        return delivered.next if delivered is not None else None

    async def _process(self, running: Running) -> Ending | None:
        """Hydrate and run the author's code, again if something was unavailable; None if nothing is to be delivered."""
        grant = running.grant
        journal: Journal | None = None
        unstored = self._unstored.pop(grant.turn.turn_id, {})
        pause = DEFERRAL_SECONDS
        for deferrals in range(DEFERRALS_MAX + 1):
            try:
                # The claim has proven the head; the agent brings its tools and profile; then the boxes are read.
                await self.orchestrator.ready(grant.turn.agent_id, trace_id=grant.turn.trace_id)
                hydration = await self.session.hydrate(grant)
                journal = journal or Journal(grant, hydration)
                journal.rewind()
                log.info(
                    "turn %s of %s %s", grant.turn.turn_id, grant.turn.agent_id, "begins" if grant.fresh else "goes on"
                )
                turn = running.turn = Turn(
                    grant=grant,
                    hydration=hydration,
                    session=self.session,
                    journal=journal,
                    models=self._models,
                    invoker=self._invoker,
                    unstored=unstored,
                )
                return await self._attempt(turn)
            except StaleEpoch:  # it was taken away before it began
                self.counts.lost += 1
                return None
            except Unavailable as problem:
                if deferrals == DEFERRALS_MAX:
                    return failure(problem)
                log.warning("turn %s begins again: %s", grant.turn.turn_id, problem)
                self.counts.deferred += 1
            except (Exception, BaseExceptionGroup, SystemExit) as problem:  # noqa: BLE001 - the deliverable has it
                return failure(problem)  # the agent cannot be made, or its boxes cannot be read
            await asyncio.sleep(self._ids.uniform(pause / 2, pause))
            pause = min(pause * 2, DEFERRAL_SECONDS_MAX)
        raise AssertionError("the last round returns")

    async def _attempt(self, turn: Turn) -> Ending | None:
        ending = await attempt(self.orchestrator, turn)
        if ending is None and isinstance(turn.over, Suspended):
            self.counts.suspended += 1
        elif ending is None:
            self.counts.lost += 1
        return ending

    async def _deliver(self, running: Running, ending: Ending, *, greedy: bool) -> Delivered | None:
        turn = running.turn
        while True:
            try:
                delivered = await self._durably(running, ending, greedy=greedy)
            except HomeostatError as problem:
                if ending.error is not None:
                    raise
                ending = failure(problem)  # what was returned is not what was asked for
                continue
            if delivered is not None:
                self.counts.delivered += 1
                self.counts.failed += ending.error is not None
                log.info(
                    "turn %s of %s ended: %s", running.grant.turn.turn_id, running.grant.turn.agent_id, ending.status
                )
                ending.tell(running.grant.turn.turn_id, running.grant.turn.agent_id)
            if turn is not None:
                turn.leave(Lost())
            return delivered

    async def _durably(self, running: Running, ending: Ending, *, greedy: bool) -> Delivered | None:
        """Deliver until it is durable, or the turn is not ours to deliver."""
        pause = DEFERRAL_SECONDS / 10
        while True:
            try:
                return await self.session.deliver(
                    running.grant,
                    status=ending.status,
                    result=ending.result,
                    error=ending.error,
                    recording=None if running.turn is None else running.turn.recording,
                    claim_next=greedy and not self._stopping.is_set(),
                )
            except StaleEpoch:
                self.counts.lost += 1
                return None
            except Unavailable as problem:
                log.warning("turn %s is not delivered yet: %s", running.grant.turn.turn_id, problem)
                await asyncio.sleep(pause)
                pause = min(pause * 2, DEFERRAL_SECONDS_MAX)

    async def _give_up(self, running: Running) -> None:
        """Hand back a turn that even its failure could not end, not at once: it may come straight back."""
        try:
            await asyncio.sleep(self._ids.uniform(DEFERRAL_SECONDS_MAX / 2, DEFERRAL_SECONDS_MAX))
        finally:
            if not running.revoked:
                await self._hand_back(running)

    async def _hand_back(self, running: Running) -> None:
        if running.turn is not None:
            running.turn.leave(Lost())
        try:
            await self.session.release(running.grant)
            self.counts.released += 1
        except HomeostatError as problem:
            log.info("turn %s was not handed back: %s", running.grant.turn.turn_id, problem)


async def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        if (caller := asyncio.current_task()) is not None and caller.cancelling():
            raise
    except Exception:
        log.debug("%s ended with an error", task.get_name(), exc_info=True)
