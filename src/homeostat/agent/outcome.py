"""How the end of an author's code becomes the end of a turn."""

import logging
from dataclasses import dataclass
from typing import Any, cast

from homeostat.agent.errors import StartupError, as_json
from homeostat.core.codec import NULL, Json, to_json
from homeostat.core.errors import HomeostatError
from homeostat.core.limits import ERROR_CHARS_MAX
from homeostat.core.records.view import Outcome

CAUSES_MAX = 5

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ending:
    """What is delivered."""

    status: Outcome
    result: Json = NULL
    error: Json | None = None
    problem: BaseException | None = None

    def tell(self, turn_id: str, agent_id: str) -> None:
        """Write a failure where its author looks first, with the way it took unless it was raised on purpose."""
        problem = self.problem
        if problem is None:
            return
        said = isinstance(problem, HomeostatError) and not isinstance(problem, StartupError)
        hint = f" {problem.hint}" if isinstance(problem, HomeostatError) and problem.hint else ""
        words = f"{type(problem).__name__}: {words_of(problem)}{hint}"
        log.warning("turn %s of %s failed: %s", turn_id, agent_id, words, exc_info=None if said else problem)


def success(value: Any) -> Ending:
    """A deliverable; raises `NotJson` if the value cannot be one."""
    return Ending(Outcome.SUCCESS, as_json(value, what="what the agent returned"))


def failure(problem: BaseException) -> Ending:
    """A failed deliverable that says what happened, and why."""
    return Ending(Outcome.FAILED, error=to_json(describe(problem)), problem=problem)


def words_of(problem: BaseException) -> str:
    """What an exception says; a failure is told even if that cannot be written, or the exception cannot say it."""
    try:
        return str(problem).encode(errors="backslashreplace").decode()
    except Exception as worse:  # noqa: BLE001 - an author's code, once more
        return f"it cannot say what happened: {type(worse).__qualname__}"


def describe(problem: BaseException, depth: int = 0) -> dict[str, Any]:
    kind = type(problem)
    told: dict[str, Any] = {
        "code": problem.code if isinstance(problem, HomeostatError) else "agent_error",
        "type": kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}",
        "message": (words_of(problem) or kind.__qualname__)[:ERROR_CHARS_MAX],
    }
    if isinstance(problem, HomeostatError) and problem.hint:
        told["hint"] = problem.hint
    if isinstance(problem, BaseExceptionGroup) and depth < CAUSES_MAX:
        several = cast("BaseExceptionGroup[BaseException]", problem).exceptions
        told["errors"] = [describe(one, depth + 1) for one in several[:CAUSES_MAX]]
    cause = problem.__cause__ or (None if problem.__suppress_context__ else problem.__context__)
    if cause is not None and isinstance(cause, Exception) and depth < CAUSES_MAX:
        told["cause"] = describe(cause, depth + 1)
    return told
