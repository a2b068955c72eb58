"""What every keeper of the immune system's knowledge promises."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.machines.phase import Phase, PhaseEvent
from homeostat.core.ports.immune import ImmuneStore
from homeostat.core.records.immune import (
    ActualCause,
    Approval,
    ApprovalId,
    ApprovalStatus,
    Chart,
    Diagnosis,
    Evidence,
    Feedback,
    FeedbackId,
    Incident,
    IncidentId,
    Lesson,
    Memory,
    Patient,
    RemedyAction,
    Transition,
    Veto,
)

Check = Callable[[ImmuneStore], Awaitable[None]]

PROJECT: Final = ProjectId("default")
ANN: Final = AgentId("ann")
NOW: Final = Millis(1_000)


def patient(version: int = 1, phase: Phase = Phase.INITIALIZING, agent: AgentId = ANN) -> Patient:
    return Patient(project=PROJECT, agent_id=agent, version=version, phase=phase, since_ms=NOW)


def incident(number: int, agent: AgentId | None = ANN) -> Incident:
    seen = Evidence(kind="latency_spike", sigma=7.0, at_ms=NOW, why="nine times as slow", value=9.0, expected=1.0)
    return Incident(
        incident_id=IncidentId(f"inc_{number:03d}"),
        project=PROJECT,
        agent_id=agent,
        opened_at_ms=NOW,
        evidence=(seen,),
    )


def approval(number: int = 1) -> Approval:
    return Approval(
        approval_id=ApprovalId(f"apr_{number:03d}"),
        project=PROJECT,
        agent_id=ANN,
        incident_id=IncidentId("inc_001"),
        action=RemedyAction.RESET_MEMORY,
        diagnosis=Diagnosis.PROMPT_DRIFT,
        sigma=7.0,
        evidence_digest="d",
        why="it is far off",
        asked_at_ms=NOW,
        expires_at_ms=Millis(2_000),
    )


async def one_process_decides_at_a_time(store: ImmuneStore) -> None:
    assert await store.hold("one", NOW, Millis(2_000))
    assert not await store.hold("two", Millis(1_999), Millis(3_000))
    assert await store.hold("one", Millis(1_500), Millis(2_500))
    assert await store.hold("two", Millis(2_500), Millis(3_500))
    await store.let_go("one")
    assert not await store.hold("one", Millis(2_600), Millis(3_600))
    await store.let_go("two")
    assert await store.hold("one", Millis(2_600), Millis(3_600))
    assert await store.hold("one", Millis(90_000), Millis(91_000)), "its clock jumped ahead, and it died"
    assert await store.hold("two", Millis(2_700), Millis(3_700)), "nobody waits for a clock that was wrong"


async def a_patient_moves_only_from_where_it_was_read(store: ImmuneStore) -> None:
    assert await store.save(Chart(patients=(patient(),)))
    assert not await store.save(Chart(patients=(patient(),)))
    assert await store.save(Chart(patients=(patient(2, Phase.HEALTHY),)))
    assert not await store.save(Chart(patients=(patient(2, Phase.SUSPECTED),), incidents=(incident(1),)))
    assert await store.patient((PROJECT, ANN)) == patient(2, Phase.HEALTHY)
    assert await store.patients() == [patient(2, Phase.HEALTHY)]
    assert await store.unsettled() == {}
    assert await store.save(Chart(patients=(patient(3, Phase.DRAINING),)))
    assert await store.unsettled() == {(PROJECT, ANN): 3}
    assert await store.save(Chart(patients=(patient(4, Phase.HEALTHY),)))
    assert await store.incident(PROJECT, IncidentId("inc_001")) is None, "all or nothing"
    assert await store.patient((PROJECT, AgentId("nobody"))) is None


async def the_first_answer_stands(store: ImmuneStore) -> None:
    assert await store.save(Chart(asked=(approval(),)))
    yes = replace(approval(), status=ApprovalStatus.APPROVED, answered_by="ann", answered_at_ms=NOW)
    assert await store.save(Chart(answered=(yes,)))
    assert not await store.save(Chart(answered=(replace(yes, status=ApprovalStatus.REJECTED),)))
    assert await store.approval(PROJECT, ApprovalId("apr_001")) == yes
    assert await store.save(Chart(asked=(approval(2),)))
    assert await store.approvals(PROJECT, status=None, before=None, limit=9) == [approval(2), yes]
    assert await store.approvals(None, status=ApprovalStatus.PENDING, before=None, limit=9) == [approval(2)]
    assert await store.approvals(PROJECT, status=None, before=ApprovalId("apr_002"), limit=9) == [yes]


async def incidents_are_read_newest_first(store: ImmuneStore) -> None:
    fleet = incident(3, agent=None)
    assert await store.save(Chart(incidents=(incident(1), incident(2), fleet)))
    assert await store.incidents(PROJECT, agent_id=None, before=None, limit=2) == [fleet, incident(2)]
    assert await store.incidents(PROJECT, agent_id=ANN, before=None, limit=9) == [incident(2), incident(1)]
    closed = replace(incident(1), closed_at_ms=NOW, outcome="cured")
    assert await store.save(Chart(incidents=(closed,)))
    assert await store.incident(PROJECT, IncidentId("inc_001")) == closed
    assert await store.incidents(ProjectId("other"), agent_id=None, before=None, limit=9) == []


async def steps_are_kept_with_their_cause(store: ImmuneStore) -> None:
    steps = [
        Transition(
            transition_id=f"trn_{number}",
            project=PROJECT,
            agent_id=ANN,
            at_ms=NOW,
            source=Phase.HEALTHY,
            event=PhaseEvent.ANOMALY,
            target=Phase.SUSPECTED,
            cause="why",
            actor="who",
        )
        for number in range(3)
    ]
    assert await store.save(Chart(transitions=tuple(steps)))
    assert await store.transitions((PROJECT, ANN), before=None, limit=2) == [steps[2], steps[1]]
    assert await store.transitions((PROJECT, ANN), before="trn_1", limit=2) == [steps[0]]


async def lessons_add_up(store: ImmuneStore) -> None:
    one = Lesson(project=PROJECT, agent_id=ANN, diagnosis=Diagnosis.UNKNOWN, action=RemedyAction.RESET_AGENT, cured=1)
    lost = replace(one, cured=0, failed=1, failed_at_ms=NOW)
    assert await store.save(Chart(lessons=(one, lost, one)))
    assert await store.lessons() == [replace(one, cured=2, failed=1, failed_at_ms=NOW)]


async def feedback_can_be_withdrawn(store: ImmuneStore) -> None:
    said = Feedback(
        feedback_id=FeedbackId("fbk_1"),
        project=PROJECT,
        agent_id=ANN,
        cause=ActualCause.CORRECT,
        notes="",
        at_ms=NOW,
        author="operator",
    )
    await store.put_feedback(said)
    await store.put_feedback(replace(said, withdrawn=True))
    assert await store.feedback() == [replace(said, withdrawn=True)]
    assert await store.feedback_by_id(PROJECT, said.feedback_id) == replace(said, withdrawn=True)
    assert await store.feedback_by_id(ProjectId("other"), said.feedback_id) is None


def veto(action: RemedyAction = RemedyAction.RESET_AGENT, agent: AgentId | None = None, **more: object) -> Veto:
    made = Veto(
        project=PROJECT,
        agent_id=agent,
        diagnosis=Diagnosis.UNKNOWN,
        action=action,
        reason="it forgot a customer",
        actor="eve",
        at_ms=NOW,
    )
    return replace(made, **more)


async def a_veto_holds_for_those_it_names_until_it_is_lifted(store: ImmuneStore) -> None:
    everybody, own = veto(), veto(RemedyAction.RESET_MEMORY, ANN, at_ms=Millis(2_000))
    elsewhere = replace(veto(), project=ProjectId("other"), at_ms=Millis(3_000))
    for one in (everybody, own, elsewhere):
        assert await store.put_veto(one) == one
    again = await store.put_veto(replace(everybody, reason="another", actor="bob", at_ms=Millis(9_000)))
    assert again == everybody, "the first word stands"
    assert await store.vetoes() == [everybody, own, elsewhere]
    assert await store.vetoes_on((PROJECT, ANN)) == [everybody, own]
    assert await store.vetoes_on((PROJECT, AgentId("bob"))) == [everybody]
    assert not await store.drop_veto(replace(own, agent_id=None)), "it is ann's alone"
    assert await store.drop_veto(own)
    assert not await store.drop_veto(own)
    assert await store.vetoes() == [everybody, elsewhere]


async def what_is_absorbed_twice_changes_nothing_the_second_time(store: ImmuneStore) -> None:
    known = Lesson(project=PROJECT, agent_id=ANN, diagnosis=Diagnosis.UNKNOWN, action=RemedyAction.RESET_AGENT, cured=5)
    assert await store.save(Chart(lessons=(known,)))
    told = replace(known, cured=2, failed=3, failed_at_ms=NOW)
    said = Feedback(
        feedback_id=FeedbackId("fbk_1"),
        project=PROJECT,
        agent_id=ANN,
        cause=ActualCause.CORRECT,
        notes="",
        at_ms=NOW,
        author="operator",
    )
    for _ in range(2):
        await store.absorb(lessons=[told], feedback=[said], vetoes=[veto()])
        assert await store.lessons() == [replace(known, failed=3, failed_at_ms=NOW)], "the larger of two counts"
        assert await store.feedback() == [said]
        assert await store.vetoes() == [veto()]
    await store.absorb(lessons=[], feedback=[], vetoes=[veto(reason="another")])
    assert await store.vetoes() == [veto()]
    await store.absorb(lessons=[], feedback=[replace(said, project=ProjectId("other"), withdrawn=True)], vetoes=[])
    assert await store.feedback() == [said], "it belongs to another project"


async def baselines_are_kept_to_the_byte(store: ImmuneStore) -> None:
    kept = Memory(project=PROJECT, agent_id=ANN, stream="call", state=bytes(range(256)), habits="{}", saved_at_ms=NOW)
    await store.save_memories([kept])
    await store.save_memories([replace(kept, state=b"\x00\xff")])
    assert await store.memories() == [replace(kept, state=b"\x00\xff")]


async def who_is_gone_is_forgotten_with_what_was_normal_for_it(store: ImmuneStore) -> None:
    kept = Memory(project=PROJECT, agent_id=ANN, stream="call", state=b"1", habits="{}", saved_at_ms=NOW)
    other = replace(kept, agent_id=AgentId("bob"))
    assert await store.save(Chart(patients=(patient(), patient(agent=AgentId("bob")))))
    await store.save_memories([kept, other])
    assert not await store.save(Chart(gone=(patient(version=2),))), "somebody has moved it since"
    assert await store.save(Chart(gone=(patient(),)))
    assert [one.agent_id for one in await store.patients()] == ["bob"]
    assert await store.memories() == [other]
    assert not await store.save(Chart(gone=(patient(),)))


CHECKS: Final[tuple[Check, ...]] = (
    one_process_decides_at_a_time,
    a_patient_moves_only_from_where_it_was_read,
    the_first_answer_stands,
    incidents_are_read_newest_first,
    steps_are_kept_with_their_cause,
    lessons_add_up,
    feedback_can_be_withdrawn,
    a_veto_holds_for_those_it_names_until_it_is_lifted,
    what_is_absorbed_twice_changes_nothing_the_second_time,
    baselines_are_kept_to_the_byte,
    who_is_gone_is_forgotten_with_what_was_normal_for_it,
)
