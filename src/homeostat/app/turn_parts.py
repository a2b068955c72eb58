"""What a turn was made of, read back from what it left behind: its durable steps and the tools it waited for."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, cast

from homeostat.core.codec import from_json
from homeostat.core.records.recording import RECORDING, Worked
from homeostat.core.records.turn import Step, Wait, WaitStatus

WRONG: Final = frozenset({WaitStatus.ERROR, WaitStatus.TIMEOUT, WaitStatus.CANCELLED})


@dataclass(frozen=True, slots=True)
class Part:
    """One thing a turn did that was kept: when it began and ended, and whether it failed. Its key is the turn's own."""

    key: str
    name: str
    step: bool
    tool: bool
    began_ms: int
    ended_ms: int
    failed: bool


def parts_of(worked: Worked, began_ms: int) -> list[Part]:
    """The parts of a turn that was begun then, in the order of their ends.

    A step's outcome is kept with the instant of its end alone; it began when what was kept before it had ended.
    """
    waits = [_of_wait(wait) for wait in worked.waits]
    found = list(waits)
    last = began_ms
    for step in sorted(worked.steps, key=lambda one: one.created_at_ms):
        if step.name != RECORDING:
            ended = step.created_at_ms
            before = max((wait.ended_ms for wait in waits if last <= wait.ended_ms <= ended), default=last)
            found.append(_of_step(step, min(before, ended)))
            last = ended
    return sorted(found, key=lambda one: (one.ended_ms, one.began_ms))


def owner(parts: Iterable[Part], at_ms: int) -> Part | None:
    """The step that a call which ended then was made in: the first whose outcome was kept after it."""
    return next((part for part in parts if part.step and at_ms <= part.ended_ms), None)


def _of_wait(wait: Wait) -> Part:
    return Part(
        key=wait.call_id,
        name=wait.tool,
        step=False,
        tool=True,
        began_ms=wait.created_at_ms,
        ended_ms=wait.answered_at_ms or wait.created_at_ms,
        failed=wait.status in WRONG,
    )


def _of_step(step: Step, began_ms: int) -> Part:
    outcome = cast("dict[str, Any]", from_json(step.outcome))
    asked = cast("dict[str, Any]", outcome.get("asked") or {})
    return Part(
        key=step.name,
        name=step.name,
        step=True,
        tool=asked.get("what") == "tool",
        began_ms=began_ms,
        ended_ms=step.created_at_ms,
        failed="error" in outcome,
    )
