"""What an operator vetoed is not tried: wherever it was said, whoever heals, and whatever that leaves."""

from itertools import combinations
from pathlib import Path

import pytest

from homeostat.adapters.upstreams.simulated.faults import Faults
from homeostat.app.settings import Settings
from homeostat.core.errors import InvalidRequest
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, ProjectId
from homeostat.core.machines.phase import Phase
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.immune import Applied, Approval, ApprovalStatus, Diagnosis, RemedyAction
from homeostat.core.records.turn import AgentKey
from homeostat.immune.errors import ApprovalSettled, VetoUnknown
from homeostat.immune.ladder import LADDERS
from homeostat.testing.clinic import Clinic, clinic

EVERYBODY = (DEFAULT_PROJECT, None)
D, R = Diagnosis, RemedyAction
FIRST, *OTHERS = LADDERS[D.UNKNOWN]


class Cabinet:
    """Notes what was given, and says of it what it is told to."""

    def __init__(self, says: Applied = Applied.APPLIED) -> None:
        self.given: list[tuple[str, RemedyAction]] = []
        self.says = says

    async def apply(self, key: AgentKey, action: RemedyAction, reason: str) -> tuple[Applied, str]:
        del reason
        self.given.append((key[1], action))
        return self.says, "given"

    async def undo(self, key: AgentKey) -> None:
        del key


async def veto(ward: Clinic, action: RemedyAction, diagnosis: Diagnosis = D.UNKNOWN, agent: str | None = None) -> None:
    key = (DEFAULT_PROJECT, None if agent is None else AgentId(agent))
    await ward.system.immune.memory.veto(key, (diagnosis, action), reason="it forgot a customer", actor="eve")


async def heal(ward: Clinic, *names: str) -> None:
    """Nothing was measured, so that all that can be wrong is unknown."""
    for name in names:
        await ward.system.immune.quarantine(ward.key(name), reason="it is odd", actor="eve")
        await ward.tick()
        await ward.system.immune.heal(ward.key(name), reason="try it", actor="eve")


async def test_a_vetoed_remedy_is_passed_over_and_the_incident_says_so() -> None:
    cabinet = Cabinet()
    async with clinic(remedies=cabinet) as ward:
        await ward.enrol("ann")
        await veto(ward, FIRST)
        await heal(ward, "ann")
        assert cabinet.given == [("ann", OTHERS[0])]
        (incident,) = await ward.incidents("ann")
        assert incident.passed_over == ("reset memory against unknown was vetoed by eve: it forgot a customer",)
        assert [one.action for one in incident.treatments] == [OTHERS[0]]


async def test_a_veto_for_one_agent_is_nobody_elses() -> None:
    cabinet = Cabinet()
    async with clinic(remedies=cabinet) as ward:
        await ward.enrol("ann", "bob")
        await veto(ward, FIRST, agent="ann")
        await veto(ward, FIRST, D.PROMPT_DRIFT)  # against something else
        await heal(ward, "ann", "bob")
        assert cabinet.given == [("ann", OTHERS[0]), ("bob", FIRST)]


async def test_a_veto_holds_at_every_process_and_after_a_restart(tmp_path: Path) -> None:
    cabinet, kept = Cabinet(), Settings(data_dir=tmp_path)
    async with clinic(settings=kept, remedies=cabinet) as ward:
        await ward.enrol("ann")
        async with clinic(settings=kept) as other:  # nothing is between them but the store
            assert (ward.system.immune.leading, other.system.immune.leading) == (True, False)
            await veto(other, FIRST)
        await heal(ward, "ann")
    async with clinic(settings=kept, remedies=cabinet) as later:
        await later.enrol("bob")
        await heal(later, "bob")
        await later.system.immune.memory.lift(EVERYBODY, (D.UNKNOWN, FIRST), reason="mended", actor="eve")
        await later.enrol("cid")
        await heal(later, "cid")
    assert cabinet.given == [("ann", OTHERS[0]), ("bob", OTHERS[0]), ("cid", FIRST)]


async def test_who_has_no_remedy_left_stays_isolated_and_is_told_of() -> None:
    cabinet = Cabinet()
    async with clinic(remedies=cabinet) as ward:
        await ward.enrol("ann")
        for action in LADDERS[D.UNKNOWN]:
            await veto(ward, action)
        assert await ward.system.immune.memory.left(EVERYBODY, D.UNKNOWN) == ()
        await heal(ward, "ann")
        assert cabinet.given == []
        assert ward.phase("ann") is Phase.EXHAUSTED
        (incident,) = await ward.incidents("ann")
        assert len(incident.passed_over) == len(LADDERS[D.UNKNOWN])
        patient = await ward.system.immune.patient(ward.key("ann"))
        assert "reset agent against unknown was vetoed by eve" in patient.cause


async def asked(ward: Clinic, status: ApprovalStatus = ApprovalStatus.PENDING) -> list[Approval]:
    return await ward.system.immune.store.approvals(DEFAULT_PROJECT, status=status, before=None, limit=9)


async def test_a_question_about_what_is_vetoed_is_asked_about_something_else() -> None:
    cabinet, alerts = Cabinet(), list[Event]()

    async def hear(event: Event) -> None:
        alerts.append(event)

    async with clinic(remedies=cabinet) as ward:
        immune = ward.system.immune
        await ward.system.bus.subscribe(subject("*", Channel.EVT, "immune", "*", "alert"), hear)
        await ward.train("ann", "bob", "cid", "dan", samples=60)
        ward.faults["ann"] = Faults(tokens=100)
        while not await asked(ward):
            await ward.sample("ann")
        (first,) = await asked(ward)
        await veto(ward, first.action, first.diagnosis)
        with pytest.raises(ApprovalSettled, match="vetoed by eve"):
            await immune.approvals.approve(DEFAULT_PROJECT, first.approval_id, reason="go", actor="ann")
        await ward.tick()
        await ward.tick()
        (second,) = await asked(ward)
        assert (second.incident_id, second.step != first.step) == (first.incident_id, True)
        assert "vetoed by eve" in second.why
        assert "nobody answered" not in second.why
        (over,) = await asked(ward, ApprovalStatus.EXPIRED)
        assert (over.approval_id, over.answered_by) == (first.approval_id, "eve")
        (incident,) = await ward.incidents("ann")
        left = [(one.diagnosis, action) for one in incident.hypotheses for action in LADDERS[one.diagnosis]]
        for diagnosis, action in left:
            await veto(ward, action, diagnosis)
        for _ in range(3):
            await ward.tick()
        assert await asked(ward) == []
        assert ward.phase("ann") is Phase.QUARANTINED
        told = [event for event in alerts if "no remedy is left" in event.payload]
        assert len(told) == 1, "operators are told, once"
        await immune.memory.lift(EVERYBODY, second.step, reason="mended", actor="eve")
        await ward.tick()
        (third,) = await asked(ward)
        assert third.step == second.step
        await immune.approvals.approve(DEFAULT_PROJECT, third.approval_id, reason="go", actor="ann")
        assert cabinet.given == [("ann", second.action)]


async def test_a_veto_is_on_a_rung_and_lifted_where_it_was_given() -> None:
    async with clinic() as ward:
        memory = ward.system.immune.memory
        with pytest.raises(InvalidRequest, match="not tried against"):
            await veto(ward, R.REVOKE_TOOLS)
        await veto(ward, FIRST)
        step = (D.UNKNOWN, FIRST)
        for key in ((DEFAULT_PROJECT, AgentId("ann")), (ProjectId("other"), None)):
            with pytest.raises(VetoUnknown):
                await memory.lift(key, step, reason="", actor="eve")
        await memory.lift(EVERYBODY, step, reason="", actor="eve")
        with pytest.raises(VetoUnknown):
            await memory.lift(EVERYBODY, step, reason="", actor="eve")


async def test_whatever_is_vetoed_all_the_others_are_tried_and_none_of_those() -> None:
    ladder = LADDERS[D.UNKNOWN]
    every = [set(some) for count in range(len(ladder) + 1) for some in combinations(ladder, count)]
    for says in (Applied.APPLIED, Applied.FAILED):
        cabinet = Cabinet(says)
        async with clinic(remedies=cabinet) as ward:
            for number, vetoed in enumerate(every):
                name = f"agent-{number}"
                await ward.enrol(name)
                for action in vetoed:
                    await veto(ward, action, agent=name)
                await heal(ward, name)
                allowed = [(name, action) for action in ladder if action not in vetoed]
                expected = allowed[:1] if says is Applied.APPLIED else allowed
                assert [one for one in cabinet.given if one[0] == name] == expected, says


async def test_what_was_not_applied_has_cured_nobody() -> None:
    """Whoever is released and gets well did so by itself, whatever was tried in vain before."""
    cabinet = Cabinet(Applied.FAILED)
    async with clinic(remedies=cabinet) as ward:
        await ward.train("ann", samples=60)
        await heal(ward, "ann")
        assert ward.phase("ann") is Phase.EXHAUSTED
        await ward.system.immune.release(ward.key("ann"), reason="it looks well", actor="eve")
        while ward.phase("ann") is not Phase.HEALTHY:
            await ward.sample("ann")
        assert all(not lesson.cured for lesson in await ward.system.immune.store.lessons())
        (incident,) = await ward.incidents("ann")
        assert incident.outcome == "well without treatment"
