"""What happened in a seed: short lines for a reader, one running hash that two equal runs share, and counts."""

import zlib
from collections import Counter, deque
from collections.abc import Callable


class Violation(Exception):
    """Something happened that must never happen; the message begins with the name of the broken check."""

    def __init__(self, check: str, detail: str) -> None:
        super().__init__(f"{check}: {detail}")
        self.check = check


class Trace:
    """The story of one seed."""

    def __init__(self, now: Callable[[], float], *, keep: int = 60) -> None:
        self._now = now
        self._names: dict[str, str] = {}
        self._kinds: Counter[str] = Counter()
        self.lines: deque[str] = deque(maxlen=keep)
        self.digest = 0
        self.counts: Counter[str] = Counter()

    def note(self, what: str) -> None:
        """Write one line."""
        line = f"{self._now():9.3f} {what}"
        self.digest = zlib.crc32(line.encode(), self.digest)
        self.lines.append(line)

    def count(self, interesting: str, times: int = 1) -> None:
        """Something worth seeing happened."""
        if times:
            self.counts[interesting] += times

    def short(self, identifier: str | None) -> str:
        """A long id as a reader can keep it in mind: `turn7`, `wrk2`."""
        if identifier is None:
            return "-"
        name = self._names.get(identifier)
        if name is None:
            kind = identifier.split("_", 1)[0]
            self._kinds[kind] += 1
            name = self._names[identifier] = f"{kind}{self._kinds[kind]}"
        return name
