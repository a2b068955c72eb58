"""What a step was asked to do, kept beside its outcome where a turn belongs to a run: replays compare it.

A conversation grows with every call of a model, so a call is told as what is new since the call before it, and as a
digest of the whole. Secrets are taken out first, so that a replay from a recording without them digests the same.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Final, cast

from homeostat.core.canonical import canonical_of
from homeostat.core.codec import NULL, Json, from_json, to_json
from homeostat.core.errors import HomeostatError
from homeostat.core.ids import digest_of
from homeostat.core.limits import CALL_BODY_BYTES_MAX, PAYLOAD_BYTES_MAX
from homeostat.core.redaction import redact_json

TOLD_BYTES_MAX: Final = 64 << 10  # of what a step was asked; beyond it the digest has to do
RECORDED_BYTES_MAX: Final = PAYLOAD_BYTES_MAX // 2  # of what a turn read from memory; beyond it nobody is told
MESSAGES: Final = "messages"
MEMORY: Final = "memory"
MEMORY_OMITTED: Final = "memory_omitted"

Asked = dict[str, Any]
Asking = Callable[[], Asked | None]
"""Says what is asked, only if somebody wants to know. None: there is nothing to tell, or no way to."""
Redacting = Callable[[Json], Json]
_rules: ContextVar[Redacting] = ContextVar("rules", default=redact_json)


class Conversation:
    """The last call of a model that a turn made."""

    def __init__(self) -> None:
        self._before: dict[str, Any] = {}

    def asked(self, body: dict[str, Any]) -> Asked | None:
        """What a call of a model asks."""
        text = _text(body)
        if text is None:
            return None
        whole = cast("dict[str, Any]", from_json(text))
        if _rules.get() is not redact_json:
            return _asked("model", text, None)  # a second look at the same call
        before, self._before = self._before, whole
        told = {name: value for name, value in whole.items() if name != MESSAGES and before.get(name) != value}
        shared = 0
        old, new = (cast("list[Any]", one.get(MESSAGES) or []) for one in (before, whole))
        while shared < min(len(old), len(new)) and old[shared] == new[shared]:
            shared += 1
        return _asked("model", text, {**told, "shared": shared, MESSAGES: new[shared:]})


def work_asked(args: tuple[Any, ...], named: dict[str, Any]) -> Asked | None:
    """What a step was given to work with."""
    if not args and not named:
        return None
    given: dict[str, Any] = {}
    if args:
        given["args"] = args
    if named:
        given["named"] = named
    text = _text(given)
    return None if text is None else _asked("work", text, from_json(text))


def tool_asked(arguments: Any) -> Asked | None:
    """What a tool that runs inside of a turn was given."""
    text = _text(arguments)
    return None if text is None else _asked("tool", text, from_json(text))


def remembered(read: Mapping[str, Json | None], limit: int) -> dict[str, Any]:
    """What was read from an agent's memory, or of how many values that is not told: they take more bytes than that."""
    with suppress(HomeostatError):  # it may be longer in bytes than in characters, or have a name that is no JSON
        if sum(len(text or NULL) for text in read.values()) <= limit:
            to_json(read, limit=limit)
            return {MEMORY: dict(read)}
    return {MEMORY_OMITTED: len(read)}


def digest_under(rules: Redacting, asking: Asking) -> str | None:
    """The digest of what is asked, as one has it who takes secrets out by other rules."""
    before = _rules.set(rules)
    try:
        asked = asking()
    finally:
        _rules.reset(before)
    return None if asked is None else asked["digest"]


def _asked(what: str, text: Json, told: Any) -> Asked:
    asked: Asked = {"what": what, "digest": digest_of(canonical_of(text))}
    if len(text) <= TOLD_BYTES_MAX or len(to_json(told, limit=CALL_BODY_BYTES_MAX)) <= TOLD_BYTES_MAX:
        asked["told"] = told
    return asked


def _text(value: Any) -> Json | None:
    try:
        return _rules.get()(to_json(value, limit=CALL_BODY_BYTES_MAX))
    except HomeostatError:
        return None  # an author may work with anything; what is no JSON cannot be compared
