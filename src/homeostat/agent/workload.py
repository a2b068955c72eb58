"""What a worker has in hand: turns in work, the lines they stand in, and the count of what became of them."""

import asyncio
from dataclasses import dataclass, field

from homeostat.agent.turn import Turn
from homeostat.core.records.turn import Grant


@dataclass(slots=True)
class Counts:
    """What a worker has done so far."""

    claimed: int = 0
    delivered: int = 0
    failed: int = 0
    suspended: int = 0
    lost: int = 0
    released: int = 0
    deferred: int = 0


@dataclass(slots=True, eq=False)
class Running:
    """One turn in work: its task, and what is known of it so far."""

    grant: Grant
    task: asyncio.Task[None] | None = None
    turn: Turn | None = None
    revoked: bool = False
    handing_back: bool = False


@dataclass(slots=True)
class Line:
    """The turns of one agent that are in work here: each waits until the one before has let go."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    length: int = 0
