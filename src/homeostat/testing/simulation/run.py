"""One seed, from its first draw to its verdict."""

from collections import Counter
from dataclasses import dataclass

from homeostat.testing.simulation.world import World


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a seed."""

    seed: int
    failure: str | None
    digest: int
    counts: Counter[str]
    lines: tuple[str, ...]
    commits: int


def simulate(seed: int, *, keep: int = 60) -> Outcome:
    """Run the world of one seed."""
    world = World(seed, keep=keep)
    try:
        world.loop.run_until_complete(world.live())
    except Exception as error:  # noqa: BLE001 — whatever it is, it is the seed's verdict
        world.failure = world.failure or error
    finally:
        world.loop.close()
    failure = world.failure
    return Outcome(
        seed,
        None if failure is None else f"{type(failure).__name__}: {failure}",
        world.trace.digest,
        world.trace.counts,
        tuple(world.trace.lines),
        world.checks.commits,
    )
