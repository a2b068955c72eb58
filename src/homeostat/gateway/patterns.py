"""Names allowed and denied, with `*` for any part of a name."""

import re
from collections.abc import Sequence


class NameFilter:
    """What is denied is denied; an empty list of allowed names allows the rest."""

    __slots__ = ("_allow", "_deny")

    def __init__(self, *, allow: Sequence[str], deny: Sequence[str]) -> None:
        self._allow = _any_of(allow)
        self._deny = _any_of(deny)

    def allows(self, name: str) -> bool:
        if self._deny is not None and self._deny.fullmatch(name):
            return False
        return self._allow is None or self._allow.fullmatch(name) is not None


def _any_of(patterns: Sequence[str]) -> re.Pattern[str] | None:
    if not patterns:
        return None
    return re.compile("|".join(".*".join(re.escape(part) for part in name.split("*")) for name in patterns), re.DOTALL)
