"""Suspending, reporting and resuming, rule by rule."""

import pytest

from homeostat.core.codec import from_json
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.turn import AfterExecution
from homeostat.testing.desk import Desk, call

TERMINATE = AfterExecution.TERMINATE


@pytest.mark.parametrize(
    ("control", "ends"),
    [
        ({"after_execution": "terminate"}, True),
        ({"after_execution": "suspend"}, False),
        ({"after_execution": "nonsense"}, False),
        ({"after_execution": 7}, False),
        ("terminate", False),
    ],
)
def test_a_result_s_control_word_overrides_what_the_call_said(control: object, *, ends: bool) -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    desk.suspend(grant, call("one"))
    desk.report(grant, "one", {"value": 1, "__cg_control": control})
    assert desk.head("a").status is (HeadStatus.IDLE if ends else HeadStatus.DISPATCHED)


def test_a_turn_resumes_under_a_new_epoch() -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    desk.suspend(grant, call("one"))
    desk.report(grant, "one")
    again = desk.claim("a")
    assert again.turn == grant.turn
    assert again.epoch > grant.epoch, "a worker that missed its own suspension would still be believed"
