"""Sweeping: ledgers of runs that ended long ago leave the store, signed before, a bounded part of them at a time."""

import asyncio
import logging

from homeostat.core.clock import Millis
from homeostat.core.errors import HomeostatError
from homeostat.core.ids import RunId, scope_floor
from homeostat.core.limits import LEDGER_SWEEP_ENTRIES_MAX, LEDGER_SWEEP_RUNS_MAX, LEDGER_SWEEP_SECONDS
from homeostat.core.records.run import Run
from homeostat.runs.desk import Desk
from homeostat.runs.draft import Draft
from homeostat.runs.verify import LedgerBroken

log = logging.getLogger(__name__)


class Sweeper:
    """Says of a run first that its ledger is going, then takes it away: nobody takes what is missing for tampering.

    A ledger that is not as it was signed stays: it is evidence.
    """

    def __init__(self, desk: Desk, *, retention_seconds: float) -> None:
        self._desk = desk
        self._retention_ms = int(retention_seconds * 1000)
        self._after = RunId("")

    async def run(self) -> None:
        while True:
            try:
                swept = await self.tick()
            except HomeostatError as problem:
                log.warning("old ledgers wait: %s", problem)
                swept = 0
            await asyncio.sleep(0.05 if swept >= LEDGER_SWEEP_ENTRIES_MAX else LEDGER_SWEEP_SECONDS)

    async def tick(self) -> int:
        """One bounded round; returns how many entries were taken away."""
        now = self._desk.clock.now_ms()
        before = Millis(now - self._retention_ms)
        left = LEDGER_SWEEP_ENTRIES_MAX
        until = RunId("run_" + scope_floor(before))
        found = await self._desk.store.kept(self._after, until, LEDGER_SWEEP_RUNS_MAX)
        # Those that have to stay must not keep the others from their turn: the next round begins behind them.
        self._after = found[-1].run_id if len(found) == LEDGER_SWEEP_RUNS_MAX else RunId("")
        for run in found:
            if run.moved.at_ms > before or (run.swept_at_ms is None and not await self._announce(run, now)):
                continue
            left -= await self._desk.store.sweep(run.run_id, left)
            if left <= 0:
                self._after = RunId("")
                break
        return LEDGER_SWEEP_ENTRIES_MAX - left

    async def _announce(self, run: Run, now: Millis) -> bool:
        """Sign what there is, and say that it goes."""
        if self._desk.ledgers is not None:
            try:
                await self._desk.ledgers.seal(run.project, run.run_id)
            except LedgerBroken as problem:
                log.warning("the ledger of run %s is kept beyond its time: %s", run.run_id, problem)
                return False
        draft = Draft(run, now)
        draft.set(swept_at_ms=now)
        return await self._desk.store.save(draft.change())
