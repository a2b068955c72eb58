"""Bringing a run to rest: its turns stopped or taken from their workers and kept in line, its ledger signed."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable
from functools import partial
from typing import Protocol

from homeostat.core.errors import HomeostatError, TurnUnknown
from homeostat.core.ids import AgentId, ProjectId, RunId, TurnId
from homeostat.core.limits import PAGE_MAX
from homeostat.core.records.run import Run
from homeostat.runs.desk import Desk
from homeostat.runs.outcomes import KILLER

log = logging.getLogger(__name__)

Pages = AsyncIterator[list[tuple[AgentId, TurnId]]]


class Ask(Protocol):
    """Reads a page of open turns, those behind one of them."""

    def __call__(self, *, after: TurnId | None, limit: int) -> Awaitable[list[tuple[AgentId, TurnId]]]: ...


async def stop_turns(desk: Desk, run: Run) -> int:
    """Stop every turn of a run, those of agents its agents asked included; returns how many were stopped.

    Its gate is closed by now, so none can be made behind our back; and while the first are stopped, those in line
    behind them are not given out.
    """
    desk.kernel.hold_run(run.run_id)
    try:
        reason = f"run {run.run_id} is {run.status} ({run.moved.reason})"
        found = _open_turns(desk, run.project, run.run_id)
        return await _stop_all(desk, run.project, found, reason=reason, actor=KILLER)
    finally:
        desk.kernel.let_run_go(run.run_id, ())


async def stop_turn(desk: Desk, project: ProjectId, turn_id: TurnId, *, reason: str, actor: str) -> None:
    """Stop a turn, and then all that it asked of others: nobody waits for that any more."""
    await desk.kernel.stop(project, turn_id, reason=reason, actor=actor)
    below = _pages(partial(desk.store.open_below, project, turn_id))
    await _stop_all(desk, project, below, reason=reason, actor=actor)


async def _stop_all(desk: Desk, project: ProjectId, pages: Pages, *, reason: str, actor: str) -> int:
    stopped, failed = 0, list[HomeostatError]()
    async for found in pages:
        ends = await asyncio.gather(
            *(desk.kernel.stop(project, turn_id, reason=reason, actor=actor) for _, turn_id in found),
            return_exceptions=True,
        )
        for end in ends:
            match end:
                case TurnUnknown():  # it was forgotten meanwhile: nothing of it goes on
                    continue
                case HomeostatError():
                    failed.append(end)
                case BaseException():
                    raise end
                case _:
                    stopped += 1
    if failed:
        raise failed[0]
    return stopped


async def preempt_turns(desk: Desk, run: Run) -> int:
    """Take the turns of a run from their workers: back to the front of the line, fenced off, with their steps kept."""
    taken, kernel = 0, desk.kernel
    async for found in _open_turns(desk, run.project, run.run_id):
        taken += sum(
            back is not None
            for back in await asyncio.gather(
                *(kernel.preempt((run.project, agent_id), turn_id) for agent_id, turn_id in found)
            )
        )
    return taken


def _open_turns(desk: Desk, project: ProjectId, run_id: RunId) -> Pages:
    """Every turn of a run that has not ended."""
    return _pages(partial(desk.store.open_turns, project, run_id))


async def _pages(ask: Ask) -> Pages:
    """Open turns, a page at a time: what is done to those of one page leads to the next."""
    after: TurnId | None = None
    while found := await ask(after=after, limit=PAGE_MAX):
        yield found
        after = found[-1][1]


async def settle_hold(desk: Desk, project: ProjectId, run_id: RunId, *, held: bool) -> None:
    """Give no turn of a run out that is held by force; and where it is not, those again that were kept in line."""
    kernel = desk.kernel
    if held:
        kernel.hold_run(run_id)
    elif run_id in kernel.flusher.held_runs:
        agents = {agent_id for agent_id, _ in await desk.store.marked(run_id)}
        async for found in _open_turns(desk, project, run_id):
            agents |= {agent_id for agent_id, _ in found}
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
