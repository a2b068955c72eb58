"""Whether a turn failed for the same reason as when it was recorded.

A step's error is raised as it is while it is new, and told with the step's name whenever it comes from what was stored:
in a turn that was resumed, and in every replay. This is the one difference that says nothing.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple, cast

from homeostat.agent.errors import StepFailed
from homeostat.agent.journal import replay
from homeostat.agent.outcome import describe
from homeostat.core.codec import Json
from homeostat.core.limits import STEP_ERROR_CHARS_MAX
from homeostat.core.redaction import redact_text
from homeostat.runs.replaying.differences import same
from homeostat.runs.replaying.tape import Tape

_SCRIPT: Final = "__main__."  # the module of a script that is run; it has its name where it is imported


class _Reason(NamedTuple):
    """What is compared of an error."""

    code: str
    type: str
    message: str


class _StepError(NamedTuple):
    """What a step raised: what it was, in its own words, and in those it has when it comes from what was stored."""

    kind: str
    first: str
    stored: str


def same_failure(recorded: Any, now: Any, tape: Tape) -> bool:
    """Whether two errors have the same code, type and message."""
    if same(recorded, now):
        return True
    if not (isinstance(recorded, dict) and isinstance(now, dict)):
        return False
    old, new = _reason(cast("dict[str, Any]", recorded)), _reason(cast("dict[str, Any]", now))
    errors = list(_step_errors(tape))
    if any(_raised_it(old, new, error) for error in errors):
        return True
    for error in errors:
        new = new._replace(message=new.message.replace(error.stored, error.first))
    return _alike(old, new)


def _reason(error: dict[str, Any]) -> _Reason:
    code, kind, message = (str(error.get(name, "")) for name in ("code", "type", "message"))
    return _Reason(code, "" if code == StepFailed.code else kind, message)


def _alike(old: _Reason, new: _Reason) -> bool:
    return (old.code, old.message) == (new.code, new.message) and _same_type(old.type, new.type)


def _same_type(old: str, new: str) -> bool:
    return old == new or (old.startswith(_SCRIPT) and new.endswith(old.removeprefix(_SCRIPT[:-1])))


def _raised_it(old: _Reason, new: _Reason, error: _StepError) -> bool:
    """Whether nobody caught what a step raised, neither then nor now."""
    kind = old.type if "." in old.type else f"builtins.{old.type}"
    return new.code == StepFailed.code and new.message == error.stored and kind == error.kind and _said(old, error)


def _said(old: _Reason, error: _StepError) -> bool:
    if not error.first:
        return old.type.endswith(old.message)  # what says nothing is called by its type
    cut = len(error.first) >= STEP_ERROR_CHARS_MAX
    return old.message == error.first or (cut and old.message.startswith(error.first))


def _step_errors(tape: Tape) -> Iterator[_StepError]:
    for name, step in tape.steps.items():
        try:
            replay(name, Json(step.outcome_json))
        except StepFailed as again:
            stored = str(describe(again)["message"])
            yield _StepError(again.kind, str(again.facts["problem"]), redact_text(stored))
