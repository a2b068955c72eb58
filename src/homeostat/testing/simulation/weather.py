"""How rough a seed's world is: each seed draws its own rates, so that some are calm in one way and wild in another."""

from dataclasses import dataclass

from homeostat.core.ids import Chance


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """Rates of everything that can go wrong. Probabilities are per operation, `every` is mean seconds between."""

    store_refuses: float = 0.0
    store_forgets_to_answer: float = 0.0
    store_slow: float = 0.0
    crash_after_commit: float = 0.0
    bus_loses: float = 0.0
    bus_repeats: float = 0.0
    bus_delays: float = 0.0
    bus_refuses: float = 0.0
    claim_given_up: float = 0.0
    worker_leaves: float = 0.0
    crash_every: float = 0.0
    stall_every: float = 0.0
    jump_every: float = 0.0
    outage_every: float = 0.0
    operator_every: float = 0.0


CALM = Weather()


def draw(chance: Chance) -> Weather:
    """A seed's weather. Half of the rates are zero in any one seed: faults hide each other when all of them rage."""

    def some(*values: float) -> float:
        return chance.choice(values) if chance.random() < 0.5 else 0.0

    return Weather(
        store_refuses=some(0.005, 0.02, 0.1),
        store_forgets_to_answer=some(0.005, 0.02, 0.1),
        store_slow=some(0.005, 0.02),
        crash_after_commit=some(0.002, 0.01),
        bus_loses=some(0.1, 0.5, 1.0),
        bus_repeats=some(0.1, 0.3),
        bus_delays=some(0.1, 0.5),
        bus_refuses=some(0.02, 0.2),
        claim_given_up=some(0.1, 0.4),
        worker_leaves=some(0.05, 0.2),
        crash_every=some(3.0, 8.0, 20.0),
        stall_every=some(5.0, 15.0),
        jump_every=some(4.0, 15.0),
        outage_every=some(10.0),
        operator_every=chance.choice((1.0, 2.0, 5.0)),
    )
