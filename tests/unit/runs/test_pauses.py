"""A task that failed is tried again after a pause, whatever the clock said that named its end."""

import msgspec
import pytest
from msgspec.structs import replace

from homeostat.core.clock import Millis
from homeostat.core.codec import NULL
from homeostat.core.ids import AgentId, BoxId, CardId, TurnId
from homeostat.core.machines.task import TaskStatus
from homeostat.core.records.run import Target, TargetKind, Task, TaskSpec
from homeostat.core.records.view import Deliverable, Outcome
from homeostat.runs.draft import Draft
from homeostat.runs.outcomes import conclude, within_pause
from tests.unit.runs.test_starting import RUN

NOW = Millis(1_750_000_000_000)
DAY = 24 * 3600 * 1000
TURN = TurnId("turn_" + "0" * 24)


def failed_at(now: int, *, attempt: int = 1) -> Task:
    """A task that has just failed, by some clock, and is to be tried again."""
    run = replace(RUN, counts={"running": 1})
    spec = TaskSpec(
        name="t", target=Target(TargetKind.AGENT, "a"), input=msgspec.Raw(b"1"), retries=9, backoff_seconds=2.0
    )
    task = Task(0, spec, TaskStatus.RUNNING, attempt, TURN, AgentId("a"))
    end = Deliverable(
        turn_id=TURN,
        agent_id=AgentId("a"),
        card_id=CardId("card"),
        output_box_id=BoxId("box"),
        status=Outcome.FAILED,
        result=NULL,
        error=None,
        epoch=1,
        finished_at_ms=Millis(now),
    )
    return conclude(Draft(run, Millis(now)), task, end)


@pytest.mark.parametrize(("attempt", "seconds"), [(1, 2), (2, 4), (3, 8)])
def test_a_pause_doubles_and_is_as_long_from_now_if_a_clock_ran_ahead(attempt: int, seconds: int) -> None:
    assert failed_at(NOW, attempt=attempt).not_before_ms == NOW + seconds * 1000
    ahead = failed_at(NOW + DAY, attempt=attempt)
    assert within_pause(ahead, NOW).not_before_ms == NOW + seconds * 1000


def test_a_pause_that_goes_on_is_left_as_it_is() -> None:
    task = failed_at(NOW)
    for now in (NOW, Millis(NOW + 1_500), Millis(NOW + DAY)):
        assert within_pause(task, now) is task
