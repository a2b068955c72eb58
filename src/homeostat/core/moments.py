"""Instants and spans of time in the words people use; what programs read stays RFC 3339."""

from typing import Final

from homeostat.core.clock import Millis, utc

DAY_SECONDS: Final = 86_400
_UNITS: Final = ((DAY_SECONDS, "day", "days"), (3_600, "h", "h"), (60, "min", "min"), (1, "s", "s"))


def span(seconds: float) -> str:
    """A span in its largest unit, with the next one where it still says something: `2 min 5 s`, `3 days`."""
    left = max(0, int(seconds))
    for place, (size, one, many) in enumerate(_UNITS):
        count, rest = divmod(left, size)
        if not count:
            continue
        told = f"{count} {one if count == 1 else many}"
        if count >= 10 or place + 1 == len(_UNITS):
            return told
        below, one_below, many_below = _UNITS[place + 1]
        further = rest // below
        return f"{told} {further} {one_below if further == 1 else many_below}" if further else told
    return "0 s"


def moment(at: Millis, now: Millis) -> str:
    """When something was or will be: the time of day, the day where it is another one, and how far away that is."""
    then, today = utc(at), utc(now)
    if then.date() == today.date():
        clock = f"{then:%H:%M:%S} UTC"
    else:
        year = "" if then.year == today.year else f" {then.year}"
        clock = f"{then.day} {then:%b}{year}, {then:%H:%M} UTC"
    seconds = (now - at) / 1000
    if seconds > -1:
        return f"{clock} ({span(seconds)} ago)"
    return f"{clock} (in {span(-seconds)})"
