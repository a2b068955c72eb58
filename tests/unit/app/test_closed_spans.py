"""When an agent was held, from steps that were written by processes with clocks of their own."""

from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import pytest

from homeostat.app.verification.isolation import Span, closed_spans, dated
from homeostat.core.clock import Millis
from homeostat.core.ids import DEFAULT_PROJECT, AgentId
from homeostat.core.machines.phase import Phase, PhaseEvent
from homeostat.core.records.immune import Transition

DAY_MS = 86_400_000
NOW = Millis(10 * DAY_MS)
ANN = (DEFAULT_PROJECT, AgentId("ann"))


class Steps:
    """Quarantined, released, quarantined again and released again, at the times that were written down."""

    def __init__(self, *times: int) -> None:
        turns = ((Phase.HEALTHY, Phase.QUARANTINED), (Phase.QUARANTINED, Phase.PROBATION)) * 2
        self._steps = [
            Transition(
                transition_id=f"trn_{number}",
                project=DEFAULT_PROJECT,
                agent_id=AgentId("ann"),
                at_ms=Millis(at),
                source=source if number != 2 else Phase.PROBATION,
                event=PhaseEvent.ORDER_QUARANTINE,
                target=target,
                cause="",
                actor="",
            )
            for number, ((source, target), at) in enumerate(zip(turns, times, strict=True))
        ]

    async def transitions(self, key: object, *, before: str | None, limit: int) -> list[Transition]:
        del key, limit
        return [] if before is not None else self._steps[::-1]


@pytest.mark.parametrize(
    ("times", "spans"),
    [
        ((1000, 2000, 3000, 4000), [(3000, 4000), (1000, 2000)]),
        ((1000, 2000, 3000 - DAY_MS, 4000), [(4000, 4000), (1000, 2000)]),
        ((1000, 2000 + DAY_MS, 3000, 4000), [(3000, 4000), (1000, 1000)]),
        ((1000, 2000, 3000, NOW + 1), [(3000, 3000), (1000, 2000)]),
        ((NOW + 1, NOW + 2, NOW + 3, NOW + 4), [(NOW, 0), (NOW, 0)]),
    ],
    ids=["right clocks", "one behind", "one ahead", "one ahead at last", "all ahead"],
)
async def test_a_clock_that_is_wrong_by_a_day_makes_no_span_longer(
    times: tuple[int, ...], spans: list[tuple[int, int]]
) -> None:
    found = [(span.closed, span.opened) async for span in closed_spans(cast("Any", Steps(*times)), ANN, NOW)]
    assert found == spans


def test_steps_are_dated_by_the_clocks_that_most_agree_with() -> None:
    """One was a day behind when it released an agent and isolated it again: all of that day was taken for isolation."""
    times = [1000, 2000, 3000, 4000, 5000 - DAY_MS, 6000 - DAY_MS, 7000, 8000]
    steps = [replace(Steps(0, 0, 0, 0)._steps[0], at_ms=Millis(at)) for at in times]
    found = [(one.earliest, one.latest) for one in dated(steps, NOW)]
    assert found == [(at, at) for at in times[:4]] + [(4000, 7000)] * 2 + [(7000, 7000), (8000, 8000)]


@pytest.mark.parametrize("one_clock", [True, False])
@pytest.mark.parametrize(
    ("began", "ended", "covered"),
    [
        (40_000, 41_000, True),
        (40_000 + DAY_MS, 41_000, False),
        (40_000, 41_000 - DAY_MS, False),
        (80_000, 99_000, False),
    ],
    ids=["within", "begun by a clock ahead", "ended by a clock behind", "after"],
)
def test_what_ended_before_it_began_proves_nothing(began: int, ended: int, *, covered: bool, one_clock: bool) -> None:
    span = Span(Millis(10_000), Millis(70_000))
    since = span.since(one_clock=one_clock)
    assert span.covers(Millis(began), ended, since=since, one_clock=one_clock) is covered


@pytest.mark.parametrize(
    ("drained", "calls", "shut"),
    [(None, 15_000, 15_000), (11_000, 13_000, 13_000), (30_000, 15_000, 32_000)],
    ids=["nobody knows", "soon", "late"],
)
def test_an_agent_is_asked_for_turns_until_its_gate_was_seen_shut(drained: int | None, calls: int, shut: int) -> None:
    span = Span(Millis(10_000), Millis(70_000), None if drained is None else Millis(drained))
    assert (span.since(one_clock=True), span.shut(one_clock=True)) == (calls, shut)


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ((1000, 9000, 20_000), [(1000, 20_000, 9000)]),
        ((DAY_MS, 9000, 20_000), [(9000, 20_000, None)]),
        ((1000, 1000, 2000), [(1000, 2000, None)]),
    ],
    ids=["it took a while", "one of two clocks was wrong", "killed"],
)
async def test_a_drain_that_ended_before_it_began_is_told_by_the_right_one_of_two_clocks(
    times: tuple[int, ...], found: list[tuple[int, int, int | None]]
) -> None:
    phases = (Phase.HEALTHY, Phase.DRAINING, Phase.QUARANTINED, Phase.PROBATION)
    steps = Steps(0, 0, 0, 0)
    steps._steps = [
        replace(one, at_ms=Millis(at), source=source, target=target)
        for one, at, (source, target) in zip(steps._steps, times, pairwise(phases), strict=False)
    ]
    assert [tuple(span) async for span in closed_spans(cast("Any", steps), ANN, NOW)] == found
