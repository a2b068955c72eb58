"""What a run of the campaign consists of: minutes by default, or the large figure, split between the engines."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from homeostat.testing.chaos.campaign import Ask
from homeostat.testing.chaos.faults import JUMPS, STORE_JUMPS, TROUBLES, WORLDLY
from homeostat.testing.chaos.installation import Size
from homeostat.testing.chaos.scene import STORES

RECORDING_CUTS: Final = 25
FULL_CUTS: Final = 210  # two may fall on one place
FAILURE_GROWTH: Final[Mapping[bool, float]] = {False: 0.25, True: 0.0}
"""How many of the later writes and syncs are passed over: none in the large run."""
FULL_TURNS: Final[Mapping[str, int]] = {"sqlite": 62_000, "postgres": 38_000}
ABSENT_SECONDS: Final = 45.0
FULL_SECONDS: Final[Mapping[str, float]] = {"sqlite": 450.0, "postgres": 540.0}
FULL: Final[Mapping[str, Mapping[str, int]]] = {
    "sqlite": {
        "worker killed": 500,
        "worker stopped": 120,
        "server killed": 18,
        "gateway killed": 18,
        "immune killed": 12,
        "server stopped": 10,
        "gateway stopped": 10,
        "immune stopped": 10,
        "bus killed": 12,
        "status killed": 12,
        "disk full": 15,
    },
    "postgres": {
        "worker killed": 500,
        "worker stopped": 120,
        "store killed": 100,
        "server killed": 20,
        "gateway killed": 20,
        "immune killed": 12,
        "server stopped": 10,
        "gateway stopped": 10,
        "immune stopped": 10,
        "bus killed": 12,
        "status killed": 12,
        "disk full": 10,
    },
}
FULL_OTHERS: Final = 6
"""How often each trouble of each link and each jump of a clock is had in the large run."""

ABSENT: Final[Mapping[str, int]] = {
    "worker killed": 15,
    "worker stopped": 4,
    "store killed": 2,
    "server killed": 1,
    "gateway killed": 1,
    "immune killed": 1,
}

TOTALS: Final[Mapping[str, tuple[str, ...]]] = {
    "turns accepted": ("turns accepted",),
    "worker kills": ("worker killed",),
    "stalls past the lease": ("worker stopped", "server stopped", "gateway stopped", "immune stopped"),
    "database kills": ("store killed",),
    "control-plane kills": ("server killed", "gateway killed", "immune killed"),
    "kills of Redis and NATS": ("status killed", "bus killed"),
    "troubles of links": tuple(
        f"{name} link {trouble}" for name in ("store", "bus", "status", "upstream") for trouble in TROUBLES
    ),
    "jumps of clocks": (*JUMPS, *STORE_JUMPS),
    "full disks": ("disk full",),
}
"""What the lines of the large figure are made of."""


def campaigns(engines: Sequence[str], *, seed: int, seconds: float, full: bool, worlds: bool = True) -> list[Ask]:
    """Each engine for some time, and each one more time without Redis and NATS."""
    asks = [full_run(engine, seed) if full else Ask(engine, seed, seconds) for engine in engines]
    asks += [_absent(engine, seed, min(ABSENT_SECONDS, seconds / 2)) for engine in engines]
    return asks if worlds else [_without_worlds(ask) for ask in asks]


def _absent(engine: str, seed: int, seconds: float) -> Ask:
    goals = {name: count for name, count in ABSENT.items() if STORES[engine].mortal or name != "store killed"}
    return Ask(engine, seed, seconds, goals=goals, size=Size(absent=True))


def _without_worlds(ask: Ask) -> Ask:
    goals = ask.goals and {name: count for name, count in ask.goals.items() if name not in WORLDLY}
    return replace(ask, goals=goals, size=replace(ask.size, worlds=False))


def full_run(engine: str, seed: int, share: float = 1.0) -> Ask:
    """An engine's part of the large figure, or a share of it at the same pace."""
    goals = {name: max(1, round(count * share)) for name, count in _full(engine).items()}
    seconds, turns = FULL_SECONDS[engine] * share, int(FULL_TURNS[engine] * share)
    return Ask(engine, seed, seconds, goals=goals, turns=turns, size=Size(agents=160, streams=128))


def _full(engine: str) -> dict[str, int]:
    links = [name for name in ("store", "bus", "status", "upstream") if engine == "postgres" or name != "store"]
    others = [f"{name} link {trouble}" for name in links for trouble in TROUBLES] + [*JUMPS]
    others += STORE_JUMPS if engine == "postgres" else ()
    return {**FULL[engine], **dict.fromkeys(others, FULL_OTHERS)}


ENGINES: Final = tuple(STORES)
