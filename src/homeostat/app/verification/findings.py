"""What a verification found, and what it looked at."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from homeostat.core.errors import MalformedPayload

LOOKS: Final = 3
VIOLATIONS_KEPT_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Violation:
    """One promise that does not hold. Its name says when it should: always, or finally, when all has come to rest."""

    promise: str
    about: str
    detail: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.about}: {self.detail}"


@dataclass(slots=True)
class Report:
    """How much of everything was looked at, and what was wrong with it, the first first."""

    counts: Counter[str] = field(default_factory=Counter[str])
    violations: list[Violation] = field(default_factory=list[Violation])
    left_out: int = 0

    def add(self, found: Iterable[Violation]) -> None:
        for violation in found:
            if len(self.violations) < VIOLATIONS_KEPT_MAX:
                self.violations.append(violation)
            else:
                self.left_out += 1

    @property
    def ok(self) -> bool:
        return not self.violations


Look = Callable[[], Awaitable[list[Violation]]]


async def confirmed(about: str, look: Look, pause: Callable[[], Awaitable[None]]) -> list[Violation]:
    """What is found again at every look. Those who work on while they are read may look wrong for a moment."""
    found = await _legible(about, look)
    for _ in range(LOOKS - 1):
        if not found:
            break
        await pause()
        again = set(await _legible(about, look))
        found = [violation for violation in found if violation in again]
    return found


async def _legible(about: str, look: Look) -> list[Violation]:
    """A row that says nothing that could have been written is a finding, and no reason to give up."""
    try:
        return await look()
    except (msgspec.MsgspecError, MalformedPayload, ValueError, KeyError, AssertionError) as problem:
        return [Violation("always_legible", about, f"{type(problem).__name__}: {problem}")]
