"""Bringing a run to rest: its turns stopped or taken from their workers and kept in line, its ledger signed."""

import asyncio
import logging

from homeostat.core.errors import HomeostatError
from homeostat.core.limits import PAGE_MAX
from homeostat.core.records.run import Run
from homeostat.runs.desk import Desk
from homeostat.runs.outcomes import KILLER

log = logging.getLogger(__name__)


async def stop_turns(desk: Desk, run: Run) -> int:
    """Stop every turn of a run, those of agents its agents asked included; returns how many were stopped.

    Its gate is closed by now, so none can be made behind our back; and while the first are stopped, those in line
    behind them are not given out.
    """
    desk.kernel.hold_run(run.run_id)
    try:
        return await _stop_all(desk, run)
    finally:
        desk.kernel.let_run_go(run.run_id, ())


async def _stop_all(desk: Desk, run: Run) -> int:
    stopped = 0
    while found := await desk.store.open_turns(run.run_id, PAGE_MAX):
        reason = f"run {run.run_id} is {run.status} ({run.moved.reason})"
        ends = await asyncio.gather(
            *(desk.kernel.stop(run.project, turn_id, reason=reason, actor=KILLER) for _, turn_id in found),
            return_exceptions=True,
        )
        for end in ends:
            if isinstance(end, BaseException) and not isinstance(end, HomeostatError):
                raise end
        failed = [end for end in ends if isinstance(end, HomeostatError)]
        stopped += len(ends) - len(failed)
        if failed:
            raise failed[0]
    return stopped


async def preempt_turns(desk: Desk, run: Run) -> int:
    """Take the turns of a run from their workers: back to the front of the line, fenced off, with their steps kept."""
    taken = 0
    for agent_id, turn_id in await desk.store.open_turns(run.run_id, PAGE_MAX):
        taken += await desk.kernel.preempt((run.project, agent_id), turn_id) is not None
    return taken


async def seal(desk: Desk, run: Run) -> None:
    """Sign the whole ledger of a run. Should that be impossible now, it is done when somebody asks for it."""
    if desk.ledgers is None:
        return
    try:
        await desk.ledgers.seal(run.project, run.run_id)
    except (HomeostatError, OSError) as problem:
        log.warning("the ledger of run %s is not signed yet: %s", run.run_id, problem)
