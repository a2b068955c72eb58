"""The promises of the immune system, each on a real kernel, a real gateway and a model with faults it cannot see."""

from dataclasses import replace
from pathlib import Path

import pytest

from homeostat.adapters.enforcers.cluster import Cluster
from homeostat.adapters.enforcers.kubernetes import KubernetesEnforcer
from homeostat.adapters.upstreams.simulated.faults import Faults
from homeostat.app.settings import Settings
from homeostat.core.codec import to_json
from homeostat.core.ids import DEFAULT_PROJECT
from homeostat.core.machines.phase import Phase
from homeostat.core.records.enforcement import Effect, Strategy
from homeostat.core.records.event import Event, subject
from homeostat.core.records.immune import Applied, ApprovalStatus, Diagnosis, RemedyAction, Spread
from homeostat.core.records.policy import QUARANTINED
from homeostat.core.records.turn import AgentKey
from homeostat.core.records.view import Outcome
from homeostat.immune.errors import ApprovalSettled
from homeostat.immune.ladder import LADDERS
from homeostat.testing.clinic import DOCTRINE, Clinic, clinic
from homeostat.testing.cluster import Deployment, FakeCluster

P = Phase
FLEET = [f"agent-{number}" for number in range(10)]
SICK = FLEET[0]
FEW = FLEET[:3]
FLOOD = Faults(tokens=400)
SLOW = Faults(latency=60.0)
TALKATIVE = Faults(tokens=40)


class Practice:
    """Remedies that end the fault of an agent when the right one is given."""

    def __init__(self, cures: RemedyAction | None) -> None:
        self.cures = cures
        self.given: list[RemedyAction] = []
        self.cures_after = 0
        self.clinic: Clinic | None = None

    async def apply(self, key: AgentKey, action: RemedyAction, reason: str) -> tuple[Applied, str]:
        assert self.clinic is not None
        self.given.append(action)
        if action is self.cures or len(self.given) == self.cures_after:
            self.clinic.faults.pop(key[1], None)
        return Applied.APPLIED, "given"

    async def undo(self, key: AgentKey) -> None:
        del key


async def until(one: Clinic, *phases: Phase, name: str = SICK, names: list[str] = FLEET, samples: int = 60) -> None:
    """Let the fleet go on until an agent is in one of these phases."""
    for _ in range(samples):
        if one.phase(name) in phases:
            return
        await one.sample(*names)
    raise AssertionError(f"{name} is {one.phase(name)}: {await one.path(name)}")


def only(one: Clinic, name: str = SICK) -> bool:
    """Whether everybody but one agent is left alone."""
    return all(one.phase(other) in (P.HEALTHY, P.SUSPECTED) for other in FLEET if other != name)


async def test_uc_1_an_anomaly_that_goes_away_isolates_nobody() -> None:
    async with clinic(doctrine=replace(DOCTRINE, severe_sigma=99.0)) as one:
        await one.train(*FLEET)
        one.faults[SICK] = TALKATIVE
        await until(one, P.SUSPECTED)
        one.faults.clear()
        await until(one, P.HEALTHY)
        assert await one.path(SICK) == [P.HEALTHY, P.SUSPECTED, P.HEALTHY]
        assert await one.incidents() == []
        assert (await one.call(SICK)).status == 200


async def test_uc_2_a_standard_anomaly_is_healed_and_the_agent_recovers() -> None:
    practice = Practice(RemedyAction.RESET_MEMORY)
    mild = replace(DOCTRINE, approval_sigma=99.0, severe_sigma=99.0)
    async with clinic(remedies=practice, doctrine=mild) as one:
        practice.clinic = one
        await one.train(*FLEET)
        one.faults[SICK] = TALKATIVE
        await until(one, P.QUARANTINED, P.HEALING, P.PROBATION)
        await until(one, P.HEALTHY)
        path = await one.path(SICK)
        assert path[-6:] == [P.SUSPECTED, P.DRAINING, P.QUARANTINED, P.HEALING, P.PROBATION, P.HEALTHY]
        assert practice.given == [RemedyAction.RESET_MEMORY]
        (incident,) = await one.incidents(SICK)
        assert incident.hypotheses[0].diagnosis is Diagnosis.PROMPT_DRIFT
        assert incident.hypotheses[0].because
        assert incident.outcome == "cured by reset_memory"
        assert incident.treatments[0].cured
        assert incident.lost == 0
        assert only(one)


async def test_uc_3_a_severe_anomaly_waits_for_an_approval() -> None:
    practice = Practice(RemedyAction.RESET_MEMORY)
    async with clinic(remedies=practice) as one:
        practice.clinic = one
        immune = one.system.immune
        await one.train(*FEW)
        one.faults[SICK] = FLOOD
        await one.sample(*FEW)
        assert await one.path(SICK) == [P.HEALTHY, P.DRAINING, P.QUARANTINED]
        await one.sample(*FEW[1:], times=3)
        assert one.phase(SICK) is P.QUARANTINED
        assert practice.given == []
        (asked,) = await immune.store.approvals(DEFAULT_PROJECT, status=None, before=None, limit=9)
        assert asked.status is ApprovalStatus.PENDING
        assert asked.sigma >= 5
        answer = await immune.approvals.approve(DEFAULT_PROJECT, asked.approval_id, reason="go on", actor="ann")
        assert (answer.answered_by, answer.reason) == ("ann", "go on")
        assert practice.given == [asked.action]
        with pytest.raises(ApprovalSettled):
            await immune.approvals.reject(DEFAULT_PROJECT, asked.approval_id, reason="no", actor="bob")
        await until(one, P.HEALTHY, names=FEW)
        (incident,) = await one.incidents(SICK)
        assert incident.treatments[0].approval_id == asked.approval_id


async def test_uc_4_what_an_operator_rejects_waits_until_somebody_heals_it() -> None:
    practice = Practice(None)
    practice.cures_after = 1
    async with clinic(remedies=practice) as one:
        practice.clinic = one
        immune = one.system.immune
        await one.train(*FEW)
        one.faults[SICK] = FLOOD
        await one.sample(*FEW)
        await one.tick()
        (asked,) = await immune.store.approvals(DEFAULT_PROJECT, status=None, before=None, limit=9)
        await immune.approvals.reject(DEFAULT_PROJECT, asked.approval_id, reason="not now", actor="ann")
        assert one.phase(SICK) is P.EXHAUSTED
        await one.sample(*FEW[1:], times=3)
        assert one.phase(SICK) is P.EXHAUSTED
        assert practice.given == []
        await immune.heal(one.key(SICK), reason="now", actor="ann")
        await until(one, P.HEALTHY, names=FEW)
        path = await one.path(SICK)
        assert path[-4:] == [P.EXHAUSTED, P.HEALING, P.PROBATION, P.HEALTHY]


async def test_uc_5_when_every_remedy_of_a_hypothesis_failed_the_next_one_is_tried() -> None:
    practice = Practice(None)
    async with clinic(remedies=practice, doctrine=replace(DOCTRINE, approval_sigma=99.0, attempts_per_hour=99)) as one:
        practice.clinic = one
        await one.train(*FEW)
        one.faults[SICK] = FLOOD
        practice.cures_after = 6
        await until(one, P.QUARANTINED, P.HEALING, P.PROBATION, names=FEW)
        await until(one, P.HEALTHY, names=FEW, samples=200)
        (incident,) = await one.incidents(SICK)
        first, second = incident.hypotheses[0].diagnosis, incident.hypotheses[1].diagnosis
        ladder = LADDERS[first]
        tried = [(one.diagnosis, one.action) for one in incident.treatments]
        assert tried[: len(ladder)] == [(first, action) for action in ladder]
        assert tried[len(ladder)][0] is second
        assert [one.cured for one in incident.treatments] == [False] * (len(tried) - 1) + [True]
        assert len(set(tried)) == len(tried), "nothing that failed is tried again"


async def test_uc_6_what_the_whole_fleet_shows_isolates_nobody_and_is_told_once() -> None:
    alerts: list[Event] = []

    async def hear(event: Event) -> None:
        alerts.append(event)

    async with clinic(doctrine=replace(DOCTRINE, settle_seconds=30.0)) as one:
        await one.system.bus.subscribe(subject("*", "evt", "immune", "*", "alert"), hear)
        await one.train(*FLEET)
        for name in FLEET[:4]:
            one.faults[name] = SLOW
        await one.sample(*FLEET, times=8)
        assert all(one.phase(name) in (P.HEALTHY, P.SUSPECTED) for name in FLEET)
        assert all(P.DRAINING not in path for path in [await one.path(name) for name in FLEET])
        (incident,) = await one.incidents()
        assert incident.spread is Spread.FLEET_WIDE
        assert incident.agent_id is None
        assert set(incident.agents) <= set(FLEET[:4])
        assert len(alerts) == 1
        assert incident.cohort in alerts[0].payload
        one.faults.clear()
        await one.sample(*FLEET, times=12)
        assert all(one.phase(name) is P.HEALTHY for name in FLEET)


async def test_uc_6_what_the_whole_fleet_shows_is_not_held_against_a_remedy() -> None:
    practice = Practice(RemedyAction.RESET_MEMORY)
    mild = replace(DOCTRINE, approval_sigma=99.0, severe_sigma=99.0)
    async with clinic(remedies=practice, doctrine=mild) as one:
        practice.clinic = one
        await one.train(*FLEET)
        one.faults[SICK] = TALKATIVE
        await until(one, P.PROBATION)
        one.faults.update(dict.fromkeys(FLEET, SLOW))
        # Those who are well are noticed first; from then on what the sick one shows is everybody's.
        await one.sample(*(name for name in FLEET if name != SICK), times=3)
        await one.sample(*FLEET, times=10)
        assert one.phase(SICK) is P.PROBATION, await one.path(SICK)
        one.faults.clear()
        await until(one, P.HEALTHY)
        (incident,) = await one.incidents(SICK)
        assert incident.outcome == "cured by reset_memory"


async def test_uc_7_work_in_flight_may_end_before_an_agent_is_closed() -> None:
    async with clinic() as one:
        await one.train(*FEW)
        kernel = one.system.kernel
        session = await one.system.turns.open([one.key(SICK)], on_revoke=lambda _: None)
        first = await one.enqueue(SICK, "first")
        second = await one.enqueue(SICK, "second")
        (grant,) = await session.claim(1, 5)
        assert grant.turn.turn_id == first
        await one.system.immune.quarantine(one.key(SICK), reason="to be sure", actor="ann")
        await one.tick()
        assert one.phase(SICK) is P.DRAINING
        assert (await one.call(SICK)).status == 503
        await session.deliver(grant, status=Outcome.SUCCESS, result=to_json("done"))
        await one.tick()
        assert one.phase(SICK) is P.QUARANTINED
        assert await session.claim(1, 0) == []
        waiting = await kernel.store.head(*one.key(SICK))
        assert waiting is not None
        assert waiting.head.queued == 1
        await one.system.immune.release(one.key(SICK), reason="all is well", actor="ann")
        (grant,) = await session.claim(1, 5)
        assert grant.turn.turn_id == second
        await until(one, P.HEALTHY, names=FEW)
        (incident,) = await one.incidents(SICK)
        assert (incident.held, incident.resumed, incident.lost) == (1, 1, 0)


async def test_uc_7_at_the_drain_time_out_what_is_under_way_is_preempted_and_not_lost() -> None:
    async with clinic() as one:
        await one.train(*FEW)
        session = await one.system.turns.open([one.key(SICK)], on_revoke=lambda _: None)
        turn_id = await one.enqueue(SICK, "long")
        await session.claim(1, 5)
        await one.system.immune.quarantine(one.key(SICK), reason="to be sure", actor="ann")
        one.clock.advance(29)
        await one.tick()
        assert one.phase(SICK) is P.DRAINING
        one.clock.advance(2)
        await one.tick()
        assert one.phase(SICK) is P.QUARANTINED
        await one.system.immune.release(one.key(SICK), reason="go on", actor="ann")
        (again,) = await session.claim(1, 5)
        assert again.turn.turn_id == turn_id


async def test_uc_8_a_quarantined_agent_is_refused_by_the_gateway_until_it_is_healed() -> None:
    practice = Practice(RemedyAction.RESET_MEMORY)
    async with clinic(remedies=practice) as one:
        practice.clinic = one
        await one.train(*FEW)
        await one.system.immune.quarantine(one.key(SICK), reason="to be sure", actor="ann")
        assert one.phase(SICK) is P.QUARANTINED
        refused = await one.call(SICK)
        assert refused.status == 503
        assert QUARANTINED in refused.body.decode()
        assert (await one.call(FEW[1])).status == 200
        await one.system.immune.heal(one.key(SICK), reason="now", actor="ann")
        assert one.phase(SICK) is P.PROBATION
        assert (await one.call(SICK)).status == 200


async def test_uc_10_a_deployment_is_scaled_to_nothing_and_back_to_what_it_was() -> None:
    practice = Practice(RemedyAction.RESET_MEMORY)
    fake = FakeCluster(Deployment("researcher", SICK, 3, 3))
    cluster = Cluster("http://cluster", namespace="agents", transport=fake)
    async with clinic(remedies=practice, enforcers=(KubernetesEnforcer(cluster),)) as one:
        practice.clinic = one
        await one.train(*FEW)
        await one.system.immune.quarantine(one.key(SICK), reason="to be sure", actor="ann")
        assert one.phase(SICK) is P.QUARANTINED
        assert fake.deployments["researcher"].replicas == 0
        receipt = await one.system.immune.enforcement.receipt(one.key(SICK))
        assert [hold.strategy for hold in receipt.holds] == [Strategy.GATEWAY, Strategy.KERNEL, Strategy.KUBERNETES]
        assert receipt.effect is Effect.ENFORCED
        assert (await one.call(SICK)).status == 503
        receipt = await one.system.immune.enforcement.receipt(one.key(SICK))
        assert (receipt.spent.refused, receipt.spent.tokens) == (1, 0)
        await one.system.immune.heal(one.key(SICK), reason="now", actor="ann")
        assert one.phase(SICK) is P.PROBATION
        assert fake.deployments["researcher"].replicas == 3, "back to what it was, and not to one"
        assert (await one.system.immune.enforcement.receipt(one.key(SICK))).effect is Effect.ENFORCED
    await cluster.close()


async def test_a_quarantine_outlives_a_restart_and_so_do_baselines(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    async with clinic(settings=settings) as one:
        await one.train(*FEW)
        one.faults[SICK] = FLOOD
        await one.sample(*FEW)
        assert one.phase(SICK) is P.QUARANTINED
        keys = one.keys
        normal = one.system.immune.normal.known(one.key(FEW[1]))
    async with clinic(settings=settings) as again:
        again.keys = keys
        assert again.phase(SICK) is P.QUARANTINED
        assert (await again.call(SICK)).status == 503
        assert again.system.immune.normal.known(again.key(FEW[1])) == normal
        assert again.phase(FEW[1]) is P.HEALTHY
