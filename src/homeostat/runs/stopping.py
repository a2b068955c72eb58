"""Bringing a run to rest: its turns stopped or taken from their workers and kept in line, its ledger signed."""

import asyncio
import logging

from homeostat.core.errors import HomeostatError
from homeostat.core.ids import ProjectId, RunId
from homeostat.core.limits import PAGE_MAX
from homeostat.core.machines.task import TaskStatus
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


async def settle_hold(desk: Desk, project: ProjectId, run_id: RunId, *, held: bool) -> None:
    """Give no turn of a run out that is held by force; and where it is not, those again that were kept in line."""
    kernel = desk.kernel
    if held:
        kernel.hold_run(run_id)
    elif run_id in kernel.flusher.held_runs:
        running = await desk.store.tasks(run_id, status=TaskStatus.RUNNING, limit=PAGE_MAX)
        others = await desk.store.open_turns(run_id, PAGE_MAX)
        agents = {agent_id for agent_id, _ in others} | {task.agent_id for task in running if task.agent_id}
        kernel.let_run_go(run_id, [(project, agent_id) for agent_id in sorted(agents)])


async def let_go(desk: Desk) -> None:
    """Hold no run that is held here alone: that it goes on may never have been heard, or before that it rests.

    One that is paused in this very moment is held again; the watchdog finds whatever waits of the others.
    """
    kernel = desk.kernel
    believed = {run_id for run_id in kernel.flusher.held_runs if run_id is not None}
    if not believed or not (alone := believed - set(await desk.store.held())):
        return
    for run_id in alone:
        kernel.let_run_go(run_id, ())
    for run_id in alone & set(await desk.store.held()):
        kernel.hold_run(run_id)


async def seal(desk: Desk, run: Run) -> None:
    """Sign the whole ledger of a run. Should that be impossible now, it is done when somebody asks for it."""
    if desk.ledgers is None:
        return
    try:
        await desk.ledgers.seal(run.project, run.run_id)
    except (HomeostatError, OSError) as problem:
        log.warning("the ledger of run %s is not signed yet: %s", run.run_id, problem)
