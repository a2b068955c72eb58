"""One run of an author's code through a turn, from its start to its end or to where it has to wait."""

import asyncio
from types import MappingProxyType
from typing import Any

from homeostat.agent.orchestrator import Orchestrator
from homeostat.agent.outcome import Ending, failure, success
from homeostat.agent.protocol import ExecutionContext
from homeostat.agent.suspension import TurnOver
from homeostat.agent.turn import Turn
from homeostat.core.errors import HomeostatError, Unavailable


async def attempt(orchestrator: Orchestrator, turn: Turn) -> Ending | None:
    """Run the author's code once; None if the turn was left, and `turn.over` says why.

    Whatever the code does with the exception that ends a turn, the turn has ended. `Unavailable` is raised: nothing is
    known to have changed, and the turn can begin again.
    """
    token = turn.enter()
    returned: Any = None
    problem: BaseException | None = None
    try:
        returned = await orchestrator.orchestrate(_context(turn))
    except Unavailable as unavailable:
        if turn.over is None:
            raise
        problem = unavailable
    except asyncio.CancelledError as cancelled:
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise
        problem = cancelled  # the author's code awaited something that was cancelled
    except (Exception, TurnOver, BaseExceptionGroup, SystemExit) as raised:  # noqa: BLE001 - the deliverable has it
        problem = raised
    finally:
        Turn.exit(token)
    return None if turn.over is not None else _ending(turn, returned, problem)


def _context(turn: Turn) -> ExecutionContext:
    routing = {"turn_id": str(turn.id), "project": str(turn.project)}
    if turn.run_id is not None:
        routing["run_id"] = str(turn.run_id)
    return ExecutionContext(
        trace_id=turn.trace_id, target=turn.agent_id, request=turn, routing=MappingProxyType(routing)
    )


def _ending(turn: Turn, returned: Any, problem: BaseException | None) -> Ending:
    if problem is not None:
        return failure(problem)
    try:
        turn.finish()
        return success(turn.result_of(returned))
    except HomeostatError as wrong:
        return failure(wrong)
