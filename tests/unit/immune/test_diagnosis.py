"""From evidence to hypotheses to remedies, and how experience and operators change both."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from homeostat.bench.diagnosis import measure
from homeostat.core.clock import Millis
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, chance
from homeostat.core.records.immune import (
    ActualCause,
    Diagnosis,
    Evidence,
    Feedback,
    FeedbackId,
    Hypothesis,
    Lesson,
    RemedyAction,
    Spread,
)
from homeostat.core.records.vitals import Vitals
from homeostat.immune.correlator import Cohort, Correlator
from homeostat.immune.diagnostician import Diagnostician
from homeostat.immune.intake import Intake
from homeostat.immune.ladder import COSTS, LADDERS, Experience
from homeostat.immune.vitals import Anomaly
from homeostat.testing.clock import ManualClock

ANN = (DEFAULT_PROJECT, AgentId("ann"))
NOW = Millis(1)
NEVER = Millis(0)
D, R = Diagnosis, RemedyAction


def seen(*kinds: Anomaly, sigma: float = 5.0) -> list[Evidence]:
    return [Evidence(kind=kind.value, sigma=sigma, at_ms=NOW, why=f"{kind} was seen") for kind in kinds]


@pytest.mark.parametrize(
    ("kinds", "diagnosis"),
    [
        ((Anomaly.PROMPT_CHANGE, Anomaly.OUTPUT_TOKEN_SPIKE), D.PROMPT_DRIFT),
        ((Anomaly.TOOL_OUTPUT_ORDERS, Anomaly.NEW_TOOL), D.PROMPT_INJECTION),
        ((Anomaly.REPEATED_CALL, Anomaly.COST_SPIKE), D.INFINITE_LOOP),
        ((Anomaly.RETRY_SPIKE, Anomaly.ERROR_SPIKE), D.TOOL_INSTABILITY),
        ((Anomaly.INPUT_TOKEN_SPIKE,), D.MEMORY_CORRUPTION),
        ((Anomaly.COST_SPIKE,), D.COST_OVERRUN),
        ((Anomaly.LATENCY_SPIKE,), D.EXTERNAL_CAUSE),
        ((), D.UNKNOWN),
    ],
)
def test_each_diagnosis_has_evidence_that_leads_to_it(kinds: tuple[Anomaly, ...], diagnosis: Diagnosis) -> None:
    found = Diagnostician().diagnose(seen(*kinds))
    assert found[0].diagnosis is diagnosis
    assert not kinds or f"{kinds[0]} was seen" in found[0].because
    assert [one.confidence for one in found] == sorted((one.confidence for one in found), reverse=True)


def said(cause: ActualCause, diagnosis: Diagnosis, *kinds: Anomaly) -> Feedback:
    return Feedback(
        feedback_id=FeedbackId(f"fbk_{cause}"),
        project=DEFAULT_PROJECT,
        agent_id=ANN[1],
        cause=cause,
        notes="",
        at_ms=NOW,
        author="ann",
        diagnosis=diagnosis,
        kinds=tuple(kind.value for kind in kinds),
    )


@pytest.mark.parametrize(
    ("cause", "diagnosis", "rises"),
    [
        (ActualCause.FALSE_POSITIVE, D.TOOL_INSTABILITY, False),
        (ActualCause.WRONG_DIAGNOSIS, D.TOOL_INSTABILITY, False),
        (ActualCause.PROVIDER_OUTAGE, D.TOOL_INSTABILITY, False),
        (ActualCause.CORRECT, D.TOOL_INSTABILITY, True),
    ],
)
def test_every_word_of_an_operator_changes_later_confidences_and_can_be_taken_back(
    cause: ActualCause, diagnosis: Diagnosis, *, rises: bool
) -> None:
    doctor = Diagnostician()

    def confidence(of: Diagnosis = diagnosis) -> float:
        found = doctor.diagnose(seen(Anomaly.ERROR_SPIKE))
        assert sum(one.confidence for one in found) == pytest.approx(1)
        return next(one.confidence for one in found if one.diagnosis is of)

    before, outage = confidence(), confidence(D.EXTERNAL_CAUSE)
    assert doctor.shifts() == []
    word = said(cause, diagnosis, Anomaly.ERROR_SPIKE)
    doctor.hear(word)
    assert doctor.shifts()
    assert (confidence() > before) is rises
    assert confidence() != before
    if cause is ActualCause.PROVIDER_OUTAGE:
        fallen = confidence()
        assert confidence(D.EXTERNAL_CAUSE) - outage >= before - fallen - 1e-9, "what one loses the other wins"
    doctor.hear(replace(word, withdrawn=True))
    assert confidence() == before
    assert doctor.shifts() == []


def test_confidences_mean_what_they_say_on_illnesses_that_nothing_was_fitted_to() -> None:
    found = measure(each=20, seed="of the tests")
    assert found["cases"] > 100
    assert found["calibration_error"] < 0.05
    assert found["brier"] < 0.35
    assert found["first_right"] > 0.75


def lesson(action: RemedyAction, *, cured: int = 0, failed: int = 0, agent: str = "ann") -> Lesson:
    return Lesson(
        project=DEFAULT_PROJECT,
        agent_id=AgentId(agent),
        diagnosis=D.PROMPT_DRIFT,
        action=action,
        cured=cured,
        failed=failed,
        failed_at_ms=NOW if failed else NEVER,
    )


def test_what_helped_the_fleet_is_tried_first() -> None:
    wins = [lesson(R.ROLLBACK_PROMPT, cured=5), lesson(R.REDUCE_AUTONOMY, cured=2), lesson(R.RESET_MEMORY, cured=1)]
    assert Experience(wins).ladder(D.PROMPT_DRIFT) == (
        R.ROLLBACK_PROMPT,
        R.REDUCE_AUTONOMY,
        R.RESET_MEMORY,
        R.RESET_AGENT,
    )
    assert Experience().ladder(D.PROMPT_DRIFT) == LADDERS[D.PROMPT_DRIFT]


def test_a_remedy_is_ranked_by_how_likely_it_helps_and_not_by_how_often_it_did() -> None:
    often = [lesson(R.RESET_MEMORY, cured=10, failed=30), lesson(R.REDUCE_AUTONOMY, cured=3)]
    assert Experience(often).ladder(D.PROMPT_DRIFT) == (
        R.REDUCE_AUTONOMY,
        R.ROLLBACK_PROMPT,
        R.RESET_MEMORY,
        R.RESET_AGENT,
    )


def test_what_costs_twice_as_much_has_to_help_twice_as_often() -> None:
    dear = lesson(R.RESET_AGENT, cured=98)
    assert Experience([dear]).ladder(D.PROMPT_DRIFT)[-1] is R.RESET_AGENT, "nobody knows yet whether the others help"
    cheap = [lesson(action, cured=5, failed=5) for action in LADDERS[D.PROMPT_DRIFT][:-1]]
    assert Experience([dear, *cheap]).ladder(D.PROMPT_DRIFT)[-1] is R.RESET_AGENT
    vain = [lesson(action, failed=5) for action in LADDERS[D.PROMPT_DRIFT][:-1]]
    assert Experience([dear, *vain]).ladder(D.PROMPT_DRIFT)[0] is R.RESET_AGENT


Odds = dict[RemedyAction, float]


def cost_of(action: RemedyAction) -> float:
    return COSTS.get(action, 1.0)


def spent(order: Callable[[Experience, Odds], Sequence[RemedyAction]], odds: Odds, seed: int) -> float:
    """What it costs to heal five hundred agents, one after the other, by an order of remedies."""
    luck, experience, total = chance(seed), Experience(), 0.0
    for _ in range(500):
        for action in order(experience, odds):
            total += cost_of(action)
            cured = luck.random() < odds[action]
            experience.learn(lesson(action, cured=int(cured), failed=int(not cured)))
            if cured:
                break
    return total


def test_to_learn_the_order_costs_hardly_more_than_to_know_it() -> None:
    ladder = LADDERS[D.PROMPT_DRIFT]
    given = known = learned = 0.0
    for seed in range(40):
        luck = chance("odds", seed)
        odds = {action: luck.random() for action in ladder}
        odds[R.RESET_AGENT] = max(odds[R.RESET_AGENT], 0.9)
        given += spent(lambda _, __: ladder, odds, seed)
        known += spent(lambda _, odds: sorted(ladder, key=lambda one: -odds[one] / cost_of(one)), odds, seed)
        learned += spent(lambda experience, _: experience.ladder(D.PROMPT_DRIFT), odds, seed)
    assert learned <= 1.03 * known
    assert learned < given


def test_what_failed_is_not_tried_again_on_the_same_agent_until_it_is_given_a_fresh_start() -> None:
    experience = Experience([lesson(R.RESET_MEMORY, failed=1)])
    drift = [Hypothesis(diagnosis=D.PROMPT_DRIFT, confidence=0.9)]
    assert next(experience.rungs(ANN, drift, [], since=NEVER)) == (D.PROMPT_DRIFT, R.ROLLBACK_PROMPT)
    tried = [(D.PROMPT_DRIFT, action) for action in LADDERS[D.PROMPT_DRIFT]]
    assert list(experience.rungs(ANN, drift, tried, since=NEVER)) == []
    assert experience.failed(ANN, D.PROMPT_DRIFT, R.RESET_MEMORY, since=NEVER)
    assert not experience.failed(ANN, D.PROMPT_DRIFT, R.RESET_MEMORY, since=NOW)
    other = (DEFAULT_PROJECT, AgentId("bob"))
    assert not experience.failed(other, D.PROMPT_DRIFT, R.RESET_MEMORY, since=NEVER)


def test_a_verdict_names_the_cohort_and_forgets_what_is_past() -> None:
    correlator = Correlator(window_seconds=60)
    agents = [(DEFAULT_PROJECT, AgentId(f"a{number}")) for number in range(20)]
    fleet, big, small = Cohort("fleet", DEFAULT_PROJECT), Cohort("model big"), Cohort("model small")
    cohorts = {agent: (fleet, big if number < 4 else small) for number, agent in enumerate(agents)}
    for agent in agents:
        correlator.active(agent, cohorts[agent], 0.0)
    correlator.affected(agents[0], cohorts[agents[0]], ["latency_spike"], 0.0)
    assert correlator.verdict(cohorts[agents[0]], ["latency_spike"], 0.0).spread is Spread.AGENT_SPECIFIC
    correlator.affected(agents[1], cohorts[agents[1]], ["latency_spike"], 0.0)
    assert correlator.verdict(cohorts[agents[0]], ["latency_spike"], 0.0).spread is Spread.PARTIAL
    correlator.affected(agents[2], cohorts[agents[2]], ["latency_spike"], 0.0)
    verdict = correlator.verdict(cohorts[agents[0]], ["latency_spike"], 0.0)
    assert (verdict.spread, verdict.cohort, verdict.affected) == (Spread.FLEET_WIDE, big, 3)
    assert correlator.verdict(cohorts[agents[0]], ["cost_spike"], 0.0).spread is Spread.AGENT_SPECIFIC
    for agent in agents:
        correlator.active(agent, cohorts[agent], 100.0)
    assert correlator.verdict(cohorts[agents[0]], ["latency_spike"], 100.0).spread is Spread.AGENT_SPECIFIC


def sample(number: int = 0, **changes: Any) -> Vitals:
    usual = Vitals(
        sample_id=f"s{number}",
        project=DEFAULT_PROJECT,
        agent_id=ANN[1],
        at_ms=ManualClock().now_ms(),
        source="report",
        latency_ms=10.0,
    )
    return structs.replace(usual, **changes)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"latency_ms": float("nan")}, "implausible"),
        ({"latency_ms": float("inf")}, "implausible"),
        ({"cost_usd": -1.0}, "implausible"),
        ({"tokens_in": -5}, "implausible"),
        ({"retries": 10**15}, "implausible"),
        ({"at_ms": 1 << 60}, "future"),
        ({"at_ms": 0}, "ancient"),
        ({}, None),
    ],
)
def test_what_cannot_be_true_does_not_come_in(changes: dict[str, Any], problem: str | None) -> None:
    intake = Intake(clock=ManualClock())
    assert intake.take(sample(**changes)) == problem
    assert intake.refused.total() == (problem is not None)
    assert len(intake.drain()) == (problem is None)


def test_a_repeated_sample_counts_once_and_a_flood_is_cut() -> None:
    intake = Intake(clock=ManualClock())
    assert intake.take(sample()) is None
    assert intake.take(sample()) == "repeated"
    for number in range(1, 1000):
        intake.take(sample(number))
    assert intake.refused["flood"] > 900
    assert sum(len(waiting) for waiting in intake.drain().values()) == 64
