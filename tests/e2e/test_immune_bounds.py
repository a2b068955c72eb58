"""The bounds of the immune system: who decides, how many may be isolated, how long, how often, and who is forgotten."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace

import httpx2
import pytest

from homeostat.adapters.upstreams.simulated.faults import Faults
from homeostat.app.settings import Settings
from homeostat.core.codec import to_json
from homeostat.core.ids import DEFAULT_PROJECT, AgentId
from homeostat.core.machines.phase import Phase
from homeostat.core.records.enforcement import Effect, Verb
from homeostat.core.records.immune import Applied, Approval, ApprovalId, ApprovalStatus, RemedyAction
from homeostat.core.records.turn import AgentKey
from homeostat.core.records.view import Outcome
from homeostat.immune.errors import ApprovalSettled, ApprovalUnknown
from homeostat.server.serving import bind, serving, url_of
from homeostat.testing.clinic import DOCTRINE, Clinic, clinic
from homeostat.testing.clock import ManualClock
from homeostat.testing.holding import Alerts
from homeostat.testing.servers import free_port

P = Phase
FLOOD = Faults(tokens=400)
FLEET = [f"agent-{number}" for number in range(12)]
FEW = FLEET[:3]
SICK = FLEET[0]


class Placebo:
    """Remedies that can all be given and help nobody."""

    def __init__(self) -> None:
        self.given: list[RemedyAction] = []

    async def apply(self, key: AgentKey, action: RemedyAction, reason: str) -> tuple[Applied, str]:
        del key, reason
        self.given.append(action)
        return Applied.APPLIED, "given"

    async def undo(self, key: AgentKey) -> None:
        del key


async def asked(one: Clinic) -> list[Approval]:
    return await one.system.immune.store.approvals(DEFAULT_PROJECT, status=None, before=None, limit=50)


@asynccontextmanager
async def ill(*names: str, fleet: list[str] = FEW, placebo: Placebo | None = None) -> AsyncGenerator[Clinic]:
    """A fleet of which some are gravely ill and isolated."""
    async with clinic(remedies=placebo or Placebo()) as one:
        await one.train(*fleet, samples=60)
        for name in names:
            one.faults[name] = FLOOD
            await one.sample(*fleet)
        await one.tick()
        yield one


# --- how many, how long, how often ---------------------------------------------------------------------------


async def test_no_more_than_the_share_is_isolated_and_the_rest_is_told() -> None:
    async with clinic(doctrine=replace(DOCTRINE, fleet_share=0.9)) as one:
        await one.train(*FLEET, samples=60)
        for name in FLEET[:5]:
            one.faults[name] = FLOOD
            await one.sample(*FLEET)
        isolated = [name for name in FLEET if one.phase(name) not in (P.HEALTHY, P.SUSPECTED)]
        assert len(isolated) == 2, "a fifth of twelve"
        assert one.system.immune.counts.capped == 3


async def test_one_agent_may_always_be_isolated() -> None:
    async with clinic() as one:
        await one.train(*FEW, samples=60)
        one.faults[SICK] = FLOOD
        await one.sample(*FEW)
        assert one.phase(SICK) is P.QUARANTINED, "a fifth of three is less than one"


async def test_each_quarantine_lasts_longer_than_the_one_before() -> None:
    async with clinic() as one:
        await one.train(*FEW, samples=60)
        lasts: list[int] = []
        for _ in range(4):
            await one.system.immune.quarantine(one.key(SICK), reason="again", actor="ann")
            patient = await one.system.immune.patient(one.key(SICK))
            lasts.append(max(0, patient.not_before_ms - one.clock.now_ms()) // 1000)
            await one.tick()
            await one.system.immune.release(one.key(SICK), reason="well", actor="ann")
        assert lasts == [0, 30, 60, 120]


async def test_a_drain_and_a_quarantine_that_a_clock_ahead_began_last_no_longer_than_others() -> None:
    async with clinic() as one:
        await one.train(*FEW, samples=60)
        await one.enqueue(SICK, "something it is busy with")
        one.clock.jump(24 * 3600)
        await one.system.immune.quarantine(one.key(SICK), reason="by a clock that runs ahead", actor="ann")
        one.clock.jump(-24 * 3600)
        assert one.phase(SICK) is P.DRAINING
        await one.tick()
        assert one.phase(SICK) is P.QUARANTINED, "it would be drained for a day"


async def test_attempts_to_heal_are_bounded_by_the_hour() -> None:
    placebo = Placebo()
    lean = replace(DOCTRINE, approval_sigma=99.0, attempts_per_hour=3)
    async with clinic(remedies=placebo, doctrine=lean) as one:
        await one.train(*FEW, samples=60)
        one.faults[SICK] = FLOOD
        for _ in range(80):
            await one.sample(*FEW)
        assert len(placebo.given) == 3
        assert one.phase(SICK) is P.HEALING
        one.clock.advance(3601)
        await one.sample(*FEW)
        assert len(placebo.given) == 4


async def test_turns_that_take_far_longer_than_usual_are_noticed_without_any_model_call() -> None:
    async with clinic() as one:
        await one.enrol(*FEW)
        session = await one.system.turns.open([one.key(name) for name in FEW], on_revoke=lambda _: None)

        async def work(seconds: float) -> None:
            for name in FEW:
                await one.enqueue(name, "work")
                (grant,) = await session.claim(1, 5)
                one.clock.advance(seconds if name == SICK else 2.0)
                await session.deliver(grant, status=Outcome.SUCCESS, result=to_json("done"))
            await one.tick()

        for number in range(40):
            await work(2.0 + number % 3)
        assert all(one.phase(name) is P.HEALTHY for name in FEW)
        (shown,) = await one.system.immune.normal.portraits(one.key(SICK))
        assert shown.stream == "turn"
        assert {normal.name for normal in shown.normals if normal.samples} >= {"latency_ms", "tool_calls", "error_rate"}
        await work(8.0 * 60)
        assert one.phase(SICK) is P.QUARANTINED
        (incident,) = await one.incidents(SICK)
        assert {(seen.kind, seen.source) for seen in incident.evidence} == {("latency_spike", "turn")}


# --- approvals -----------------------------------------------------------------------------------------------


async def test_the_first_answer_stands_and_its_author_is_kept() -> None:
    placebo = Placebo()
    async with ill(SICK, placebo=placebo) as one:
        approvals = one.system.immune.approvals
        (question,) = await asked(one)
        await approvals.approve(DEFAULT_PROJECT, question.approval_id, reason="go on", actor="ann")
        for again in (approvals.approve, approvals.reject):
            with pytest.raises(ApprovalSettled):
                await again(DEFAULT_PROJECT, question.approval_id, reason="", actor="bob")
        (kept,) = await asked(one)
        assert (kept.status, kept.answered_by, kept.reason) == (ApprovalStatus.APPROVED, "ann", "go on")
        assert placebo.given == [question.action], "it is used once, for what was asked about"
        with pytest.raises(ApprovalUnknown):
            await approvals.approve(DEFAULT_PROJECT, ApprovalId("apr_none"), reason="", actor="bob")


class Cure(Placebo):
    """Remedies that help at once."""

    def __init__(self) -> None:
        super().__init__()
        self.patients: list[Clinic] = []

    async def apply(self, key: AgentKey, action: RemedyAction, reason: str) -> tuple[Applied, str]:
        self.patients[0].faults.pop(key[1], None)
        return await super().apply(key, action, reason)


async def test_a_yes_for_some_hours_answers_the_same_question_of_the_same_agent_and_no_longer() -> None:
    cure = Cure()
    async with clinic(remedies=cure) as one:
        cure.patients.append(one)
        await one.train(*FEW, samples=60)

        async def fall_ill_and_recover(hours: float) -> int:
            one.faults[SICK] = FLOOD
            before = len(await asked(one))
            for _ in range(120):
                await one.sample(*FEW)
                for question in await asked(one):
                    if question.status is ApprovalStatus.PENDING:
                        await one.system.immune.approvals.approve(
                            DEFAULT_PROJECT, question.approval_id, reason="known", actor="ann", hours=hours
                        )
                if one.phase(SICK) is P.HEALTHY and SICK not in one.faults:
                    break
            assert one.phase(SICK) is P.HEALTHY
            return len(await asked(one)) - before

        assert await fall_ill_and_recover(hours=2) == 1
        assert await fall_ill_and_recover(hours=0) == 0, "the yes of before stands"
        steps = await one.steps(SICK)
        assert any(step.cause == f"ann approved {cure.given[0].words} for a while: known" for step in steps)
        one.clock.advance(7201)
        assert await fall_ill_and_recover(hours=0) == 1
        assert await fall_ill_and_recover(hours=0) == 1, "a yes without hours is for once"


async def test_an_approval_is_bound_to_the_evidence_it_was_asked_about() -> None:
    placebo = Placebo()
    async with ill(SICK, placebo=placebo) as one:
        immune = one.system.immune
        (question,) = await asked(one)
        watch = immune.ward.watches[one.key(SICK)]
        assert watch.incident is not None
        watch.incident = replace(watch.incident, evidence=watch.incident.evidence[:1])
        with pytest.raises(ApprovalSettled):
            await immune.approvals.approve(DEFAULT_PROJECT, question.approval_id, reason="", actor="ann")
        assert placebo.given == []


async def test_a_question_that_nobody_answers_expires_is_asked_again_and_in_the_end_told() -> None:
    placebo, alerts = Placebo(), Alerts()
    async with ill(SICK, placebo=placebo) as one:
        one.system.immune.enforcement.tell = alerts
        one.clock.advance(24 * 3600 + 1)
        (question,) = await asked(one)
        with pytest.raises(ApprovalSettled):
            await one.system.immune.approvals.approve(DEFAULT_PROJECT, question.approval_id, reason="", actor="ann")
        for times in (2, 3):
            await one.tick()
            await one.tick()
            questions = await asked(one)
            expired = [question.status for question in questions].count(ApprovalStatus.EXPIRED)
            assert (len(questions), expired) == (times, times - 1), "the newest one waits for an answer"
            assert f"asked {times - 1} times before" in questions[0].why
            one.clock.advance(24 * 3600 + 1)
        for _ in range(4):
            await one.tick()
        assert {question.status for question in await asked(one)} == {ApprovalStatus.EXPIRED}
        assert len(await asked(one)) == 3, "it is not asked for ever"
        assert [(said["alert"], said["agent_id"]) for said in alerts.heard] == [("approval", SICK)]
        assert one.phase(SICK) is P.QUARANTINED
        assert placebo.given == []


async def test_a_question_about_an_agent_that_was_released_is_moot() -> None:
    async with ill(SICK) as one:
        await one.system.immune.release(one.key(SICK), reason="it was me", actor="ann")
        await one.tick()
        (question,) = await asked(one)
        assert question.status is ApprovalStatus.EXPIRED


# --- what is normal ------------------------------------------------------------------------------------------


async def test_what_is_normal_is_shown_learned_anew_and_adapted() -> None:
    async with clinic() as one:
        await one.train(*FEW, samples=60)
        immune, key = one.system.immune, one.key(SICK)
        (shown,) = await immune.normal.portraits(key)
        assert (shown.stream, shown.samples, shown.accelerated) == ("call", 60, 0)
        await immune.normal.accelerate(key)
        assert (await immune.normal.portraits(key))[0].accelerated == 50
        await immune.normal.reset(key, reason="another job", actor="ann")
        assert one.phase(SICK) is P.INITIALIZING
        (shown,) = await immune.normal.portraits(key)
        assert (shown.samples, shown.accelerated) == (0, 0)
        one.faults[SICK] = FLOOD
        await one.sample(*FEW, times=35)
        assert await one.path(SICK) == [P.HEALTHY, P.INITIALIZING, P.HEALTHY], "the flood is what is normal now"


# --- who is forgotten ----------------------------------------------------------------------------------------


async def test_agents_that_left_are_forgotten_unless_they_are_held() -> None:
    async with clinic(doctrine=replace(DOCTRINE, save_seconds=0.0)) as one:
        await one.train(*FLEET, samples=40)
        immune, fleet = one.system.immune, one.system.fleet
        await immune.quarantine(one.key(FLEET[1]), reason="held", actor="ann")
        for name in FLEET[:2]:
            await fleet.deregister(AgentId(name))
        await one.tick()
        assert one.key(FLEET[0]) in immune.ward.watches, "it may come back"
        one.clock.advance(3601)
        await one.sample(*FLEET[2:])
        assert one.key(FLEET[0]) not in immune.ward.watches
        assert await immune.store.patient(one.key(FLEET[0])) is None
        assert not [memory for memory in await immune.store.memories() if memory.agent_id == FLEET[0]]
        assert one.phase(FLEET[1]) is P.QUARANTINED
        assert immune.counts.forgotten == 1
        for name in FLEET[2:4]:
            one.faults[name] = FLOOD
            await one.sample(*FLEET[2:])
        assert [one.phase(name) for name in FLEET[2:4]] == [P.QUARANTINED] * 2, "who left fills no place of the share"


async def test_everything_that_is_asked_now_can_be_answered_at_once_and_nothing_later() -> None:
    placebo = Placebo()
    async with ill(*FLEET[:2], fleet=FLEET, placebo=placebo) as one:
        listener = bind("127.0.0.1", free_port())
        async with (
            serving(one.system, listener),
            httpx2.AsyncClient(base_url=url_of(listener), trust_env=False) as http,
        ):
            wanted = [question.approval_id for question in await asked(one)]
            assert len(wanted) == 2
            said = await http.post("/v1/immune/approvals/approve-all", json={"reason": "all known", "actor": "ann"})
            again = await http.post("/v1/immune/approvals/approve-all", json={})
        assert sorted(answer["approval_id"] for answer in said.json()["approved"]) == sorted(wanted)
        assert again.json() == {"approved": [], "settled": []}
        assert {(kept.status, kept.reason) for kept in await asked(one)} == {(ApprovalStatus.APPROVED, "all known")}
        assert len(placebo.given) == 2


# --- who decides ---------------------------------------------------------------------------------------------


async def test_another_process_takes_over_when_the_one_that_decides_falls_silent(postgres_url: str) -> None:
    clock, settings = ManualClock(), Settings(store_url=postgres_url)
    async with clinic(settings=settings, clock=clock) as one, clinic(settings=settings, clock=clock) as other:
        await one.train(*FEW, samples=60)
        await one.system.immune.archive.save()
        await one.system.immune.quarantine(one.key(SICK), reason="to be sure", actor="ann")
        await one.tick()
        assert (one.system.immune.leading, other.system.immune.leading) == (True, False)
        await other.tick()
        assert not other.system.immune.leading
        clock.advance(DOCTRINE.lease_seconds + 1)
        await other.tick()
        assert other.system.immune.leading
        assert other.phase(SICK) is P.QUARANTINED
        assert other.phase(FEW[1]) is P.HEALTHY
        assert other.system.immune.normal.known(one.key(FEW[1])) == one.system.immune.normal.known(one.key(FEW[1]))
        await one.tick()
        assert not one.system.immune.leading, "it was taken for dead, and does not decide beside the other"
        await other.system.immune.release(one.key(SICK), reason="well", actor="ann")
        assert (await one.system.immune.patient(one.key(SICK))).phase is P.PROBATION


async def test_whoever_decides_learns_of_an_order_even_if_word_of_it_is_lost(postgres_url: str) -> None:
    clock, settings = ManualClock(), Settings(store_url=postgres_url)
    async with clinic(settings=settings, clock=clock) as one, clinic(settings=settings, clock=clock) as other:
        await one.enrol(SICK)
        await one.tick()
        await other.tick()
        assert (one.system.immune.leading, other.system.immune.leading) == (True, False)
        await one.system.immune.patient(one.key(SICK))
        await other.system.fleet.registry.refresh()
        await other.system.immune.quarantine(one.key(SICK), reason="they share no bus", actor="ann")
        await one.tick()
        await one.tick()
        assert one.phase(SICK) is P.QUARANTINED
        await other.system.immune.release(one.key(SICK), reason="well", actor="ann")
        await one.tick()
        assert one.phase(SICK) is P.PROBATION
        receipt = await one.system.immune.enforcement.receipt(one.key(SICK))
        assert (receipt.verb, receipt.effect) == (Verb.RELEASE, Effect.ENFORCED)
