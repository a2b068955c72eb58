"""Says in few words where two values differ."""

from typing import Any, Final, cast

from homeostat.core.codec import Json, from_json, to_json
from homeostat.core.redaction import redact_json
from homeostat.runs.replaying.earlier import EARLIER

SHOWN_CHARS: Final = 160
_ABSENT: Final = object()


def as_kept(now: Json, recorded: str | None) -> Json:
    """A JSON text as the ledger has it if it is the same, without its secrets. One that is recorded to the letter has
    none.
    """
    if now == recorded:
        return now
    kept = redact_json(now)
    if recorded is None or kept == recorded or same(was := from_json(recorded), from_json(kept)):
        return kept
    before = (rules(now) for rules in EARLIER)
    return next((text for text in before if same(was, from_json(text))), kept)


def difference(recorded: Any, now: Any) -> tuple[str, str, str]:
    """The place of the first difference, and what stands there in each; the place is empty if it is the whole."""
    place = ""
    while True:
        step = _step_down(recorded, now)
        if step is None:
            return place, shown(recorded), shown(now)
        name, recorded, now = step
        place += f"[{name}]" if isinstance(name, int) else f".{name}" if place else name


def _step_down(recorded: Any, now: Any) -> tuple[str | int, Any, Any] | None:
    if isinstance(recorded, dict) and isinstance(now, dict):
        old, new = cast("dict[str, Any]", recorded), cast("dict[str, Any]", now)
        for name in [*old, *(name for name in new if name not in old)]:
            pair = (old.get(name, _ABSENT), new.get(name, _ABSENT))
            if not same(*pair):
                return name, *pair
    if isinstance(recorded, list) and isinstance(now, list):
        first, second = cast("list[Any]", recorded), cast("list[Any]", now)
        for number in range(max(len(first), len(second))):
            pair = (_at(first, number), _at(second, number))
            if not same(*pair):
                return number, *pair
    return None


def _at(values: list[Any], number: int) -> Any:
    return values[number] if number < len(values) else _ABSENT


def same(one: Any, other: Any) -> bool:
    """Whether two values are one JSON: true is not 1, and 1.0 is."""
    if one is _ABSENT or other is _ABSENT:
        return one is other
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        old, new = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        return old.keys() == new.keys() and all(same(old[name], new[name]) for name in old)
    if isinstance(one, list) and isinstance(other, list):
        first, second = cast("list[Any]", one), cast("list[Any]", other)
        return len(first) == len(second) and all(map(same, first, second))
    return bool(one == other)


def shown(value: Any) -> str:
    """A value, cut to what fits a line."""
    if value is _ABSENT:
        return "nothing"
    text = to_json(value, limit=1 << 30)
    return text if len(text) <= SHOWN_CHARS else f"{text[: SHOWN_CHARS - 1]}…"
