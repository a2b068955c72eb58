"""Runs as one object: what the server, the command line and the other rooms call."""

import logging
from collections.abc import Awaitable, Callable
from typing import cast

from homeostat.core.clock import Clock, Millis
from homeostat.core.codec import from_json, to_json
from homeostat.core.errors import BusUnavailable, MalformedPayload
from homeostat.core.ids import Ids, ProjectId, RunId
from homeostat.core.limits import LEDGER_RETENTION_SECONDS, PLANNER_SECONDS, RUN_LEASE_SECONDS
from homeostat.core.machines.run import RunStatus
from homeostat.core.ports.bus import Bus
from homeostat.core.ports.runs import Agents, PlanFunction, RunStore
from homeostat.core.records.budget import BudgetLimit
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.run import Run
from homeostat.core.redaction import redact_text
from homeostat.core.run_errors import RunUnknown
from homeostat.kernel.kernel import Kernel
from homeostat.runs.budget import Alarm, Bank, Purse, Spending
from homeostat.runs.control import Control
from homeostat.runs.desk import Desk, Notes
from homeostat.runs.driver import Driver
from homeostat.runs.ledgers import Ledgers
from homeostat.runs.stopping import settle_hold
from homeostat.runs.sweeping import Sweeper

log = logging.getLogger(__name__)

Loop = tuple[str, Callable[[], Awaitable[None]]]

MOVED = "moved"
GOAL_TOLD_CHARS = 120  # enough to know which one is meant


class Runs:
    """Goals on their way. `loops` are its background work; whoever assembles it owns their tasks."""

    def __init__(
        self,
        *,
        store: RunStore,
        kernel: Kernel,
        bank: Bank,
        agents: Agents,
        bus: Bus,
        clock: Clock,
        ids: Ids,
        ledgers: Ledgers | None = None,
        notes: Notes | None = None,
        lease_seconds: float = RUN_LEASE_SECONDS,
        ledger_retention_seconds: float = LEDGER_RETENTION_SECONDS,
        planner_seconds: float = PLANNER_SECONDS,
    ) -> None:
        self.store = store
        self._bus = bus
        self._clock = clock
        self.purse = Purse(bank)
        self._desk = Desk(
            store=store,
            kernel=kernel,
            agents=agents,
            purse=self.purse,
            clock=clock,
            ids=ids,
            moved=self._announce,
            notes=notes,
            ledgers=ledgers,
            planner_seconds=planner_seconds,
        )
        self._ledgers = ledgers
        self.driver = Driver(self._desk, lease_seconds=lease_seconds)
        self.control = Control(self._desk, changed=self._announce)
        self.told: list[Callable[[Run], Awaitable[None]]] = []
        self.sweeper = Sweeper(self._desk, retention_seconds=ledger_retention_seconds)
        self.loops: tuple[Loop, ...] = (("run driver", self.driver.run), ("ledger sweep", self.sweeper.run))

    async def open(self) -> None:
        """Hear of runs that others changed, and finish what a red button began."""
        await self._bus.subscribe(subject("*", Channel.EVT, "run", "*", MOVED), self._on_moved)
        await self._bus.subscribe(subject("*", Channel.EVT, "run", "*", "budget_warning"), self._on_warning)
        await self._bus.subscribe(subject("*", Channel.EVT, "run", "*", "budget_refused"), self._on_refused)
        for button in await self.store.buttons():
            await self.control.enforce(button)

    def add_planner(self, name: str, function: PlanFunction) -> None:
        """Let a function of this process make plans, under a name."""
        self._desk.planners[name] = function

    @property
    def ledgers(self) -> Ledgers:
        """The ledgers of these runs, where somebody can read and sign them."""
        assert self._ledgers is not None, "these runs were assembled without a way to read their ledgers"
        return self._ledgers

    # --- readers -------------------------------------------------------------------------------------------

    async def get(self, project: ProjectId, run_id: RunId) -> Run:
        run = await self.store.run(project, run_id)
        if run is None:
            raise RunUnknown(run_id=run_id)
        return run

    async def spending(self, run: Run) -> Spending:
        return await self.purse.spending(run, self._clock.now_ms())

    # --- what is said --------------------------------------------------------------------------------------

    async def _announce(self, run: Run) -> None:
        """Tell everybody that a run moved; whoever does not hear it will see it."""
        await settle_hold(self._desk, run.project, run.run_id, held=run.held)
        self.driver.wake(run.run_id, version=run.version)
        for listener in tuple(self.told):
            await listener(run)
        body = to_json(
            {
                "run_id": run.run_id,
                "version": run.version,
                "goal": redact_text(run.config.goal)[:GOAL_TOLD_CHARS],
                "status": run.status,
                "forced": run.forced,
                "actor": run.moved.actor,
                "reason": run.moved.reason,
                "at_ms": run.moved.at_ms,
                "tasks": run.counts,
                "trace_id": run.trace_id,
                "created_at_ms": run.created_at_ms,
            }
        )
        event = Event(f"{run.run_id}:{run.version}", run.project, Channel.EVT, "run", run.run_id, MOVED, body)
        try:
            await self._bus.publish((event,))
        except BusUnavailable as problem:
            log.info("others will see run %s by looking: %s", run.run_id, problem)

    async def _on_moved(self, event: Event) -> None:
        try:
            said = cast("dict[str, object]", from_json(event.payload))
            version, held = int(str(said["version"])), said["status"] == RunStatus.PAUSED and bool(said["forced"])
        except (MalformedPayload, KeyError, ValueError, TypeError):
            return
        run_id = RunId(event.target)
        await settle_hold(self._desk, event.project, run_id, held=held)
        self.driver.wake(run_id, version=version)

    async def _on_warning(self, event: Event) -> None:
        self.driver.look(RunId(event.target))

    async def _on_refused(self, event: Event) -> None:
        try:
            said = cast("dict[str, object]", from_json(event.payload))
            at_ms, limit = Millis(int(str(said["at_ms"]))), BudgetLimit(str(said["limit"]))
        except (MalformedPayload, KeyError, ValueError, TypeError):
            return
        self.broke(RunId(event.target), at_ms, str(said.get("why") or "the budget cap is reached"), limit)

    def broke(self, run_id: RunId, at_ms: Millis, why: str, limit: BudgetLimit) -> None:
        """A call of a run was refused at that time because a bound leaves nothing for it."""
        self.purse.alarm(run_id, Alarm(at_ms, why, limit))
        self.driver.look(run_id)
