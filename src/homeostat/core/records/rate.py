"""What an agent may ask for in a minute, counted in the store and drawn from there in small portions."""

from dataclasses import dataclass
from typing import NamedTuple

from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.records.policy import PolicyId

RateKey = tuple[ProjectId, PolicyId, AgentId]
"""Names one rate limit on one agent; batches are sorted by it."""

UNLIMITED = 1 << 62


class Load(NamedTuple):
    """Requests and tokens."""

    requests: int
    tokens: int

    def plus(self, other: "Load") -> "Load":
        return Load(self.requests + other.requests, self.tokens + other.tokens)

    def minus(self, other: "Load") -> "Load":
        return Load(self.requests - other.requests, self.tokens - other.tokens)

    def times(self, number: int) -> "Load":
        return Load(self.requests * number, self.tokens * number)

    def covers(self, other: "Load") -> bool:
        return self.requests >= other.requests and self.tokens >= other.tokens


NO_LOAD = Load(0, 0)


@dataclass(frozen=True, slots=True)
class RateDraw:
    """A gateway asks for room: what a call needs now, what it would like to have at hand, and the limit it knows."""

    key: RateKey
    need: Load
    wish: Load
    most: Load


@dataclass(frozen=True, slots=True)
class RateDrawn:
    """What became of a draw. It counts under `second`; `left` is what a refused one found, `retry_seconds` its wait."""

    granted: Load | None
    second: int
    left: Load
    retry_seconds: int = 0


@dataclass(frozen=True, slots=True)
class RateReturn:
    """What was drawn under a second and not used. Negative where more was used than had been drawn."""

    key: RateKey
    second: int
    load: Load
