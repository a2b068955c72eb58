"""Whether an agent is heard from, judged by the time the server received its heartbeats."""

from enum import StrEnum

from homeostat.core.clock import Millis
from homeostat.core.limits import DEAD_INTERVALS, STALE_INTERVALS
from homeostat.core.machines.table import Machine, Row


class Liveness(StrEnum):
    """How recently an agent was heard."""

    ALIVE = "alive"
    STALE = "stale"
    DEAD = "dead"
    GONE = "gone"

    __hash__ = str.__hash__  # an enumeration's own is many times slower, and sweeps look these up by the thousand


class LivenessEvent(StrEnum):
    """What can happen to an agent's liveness."""

    BEAT = "beat"
    MISSED_STALE = "missed_stale"
    MISSED_DEAD = "missed_dead"
    DEREGISTER = "deregister"
    EXPIRE = "expire"

    __hash__ = str.__hash__


S, E = Liveness, LivenessEvent

LIVENESS = Machine(
    "liveness",
    initial=S.ALIVE,
    final=[S.GONE],
    rows=[
        Row(S.ALIVE, E.BEAT, S.ALIVE, "a heartbeat came in time"),
        Row(S.ALIVE, E.MISSED_STALE, S.STALE, "three intervals without one"),
        Row(S.ALIVE, E.MISSED_DEAD, S.DEAD, "five intervals without one, seen late"),
        Row(S.ALIVE, E.DEREGISTER, S.GONE, "it said goodbye"),
        Row(S.STALE, E.BEAT, S.ALIVE, "heard again"),
        Row(S.STALE, E.MISSED_DEAD, S.DEAD, "five intervals without one"),
        Row(S.STALE, E.DEREGISTER, S.GONE, "it said goodbye late"),
        Row(S.DEAD, E.BEAT, S.ALIVE, "it was only silent"),
        Row(S.DEAD, E.DEREGISTER, S.GONE, "an operator removed it"),
        Row(S.DEAD, E.EXPIRE, S.GONE, "dead for longer than the fleet remembers"),
    ],
)


def verdict_due(presence: Liveness, *, counted_ms: int, since_ms: int, interval_ms: int, expiry_ms: int) -> Millis:
    """When an agent that stays silent comes up for its next verdict."""
    assert presence is not Liveness.GONE, "nobody waits for one who left"
    if presence is Liveness.ALIVE:
        return Millis(counted_ms + STALE_INTERVALS * interval_ms)
    if presence is Liveness.STALE:
        return Millis(counted_ms + DEAD_INTERVALS * interval_ms)
    return Millis(since_ms + expiry_ms)


def missed(presence: Liveness, *, now: int, counted_ms: int, interval_ms: int) -> LivenessEvent:
    """What happened to an agent whose verdict is due."""
    if presence is Liveness.DEAD:
        return LivenessEvent.EXPIRE
    dead = now >= counted_ms + DEAD_INTERVALS * interval_ms
    return LivenessEvent.MISSED_DEAD if dead else LivenessEvent.MISSED_STALE
