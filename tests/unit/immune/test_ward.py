"""What a process knows of an agent's health never goes back, and a word that came too late is not called heeded."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from homeostat.app.settings import Settings
from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.enforcement_errors import AgentMoved
from homeostat.core.errors import IllegalTransition, StaleEpoch, StoreUnavailable
from homeostat.core.ids import DEFAULT_PROJECT, Ids, ProjectId
from homeostat.core.machines.phase import Phase, PhaseEvent
from homeostat.core.records.enforcement import Effect, Verb
from homeostat.core.records.head import Gate
from homeostat.core.records.immune import IMMUNE_ACTOR, Approval, ApprovalStatus, Chart, Incident, IncidentId, Patient
from homeostat.core.records.turn import AgentKey, MessageType
from homeostat.core.records.view import Outcome
from homeostat.core.records.work import fence_of
from homeostat.immune.healer import BY_HAND, FIRE_DRILL
from homeostat.immune.ward import Move
from homeostat.kernel.commands import Deliver, Enqueue
from homeostat.testing.clinic import Clinic, clinic
from homeostat.testing.clock import ManualClock

DAY_MS = 86_400_000


@pytest.fixture
async def ward() -> AsyncGenerator[Clinic]:
    async with clinic() as one:
        await one.enrol("ann")
        yield one


async def test_what_was_read_before_a_kill_does_not_undo_it(ward: Clinic, monkeypatch: pytest.MonkeyPatch) -> None:
    immune, ann = ward.system.immune, ward.key("ann")
    await immune.quarantine(ann, reason="it loops", actor="eve")
    await immune.release(ann, reason="it was nothing", actor="eve")
    read, gate, begun = immune.store.patient, asyncio.Event(), asyncio.Event()

    async def late(key: AgentKey) -> Patient | None:
        found = await read(key)
        if not begun.is_set():
            begun.set()
            await gate.wait()
        return found

    monkeypatch.setattr(immune.store, "patient", late)
    looking = asyncio.create_task(immune.ward.reload(ann))
    await begun.wait()
    await immune.kill(ann, reason="it mails customers", actor="eve")
    gate.set()
    await looking
    assert (immune.phase_of(ann), immune.ward.watches[ann].patient.killed) == (Phase.QUARANTINED, True)


async def test_steps_stand_in_the_order_in_which_they_were_taken_whatever_the_clocks_of_those_who_took_them(
    ward: Clinic,
) -> None:
    immune, ann = ward.system.immune, ward.key("ann")
    processes = [Ids(clock=ManualClock(ward.clock.now_ms() + ahead)) for ahead in (0, DAY_MS, -DAY_MS)]
    for number in range(12):
        immune.ward._ids = processes[number % 3]
        order = immune.release if number % 2 else immune.quarantine
        await order(ann, reason="a drill", actor="eve")
    steps = await ward.steps("ann")
    assert all(later.source is step.target for step, later in pairwise(steps))
    patient = await immune.store.patient(ann)
    assert patient is not None
    assert (patient.phase, patient.last_step) == (steps[-1].target, steps[-1].transition_id)


@pytest.mark.parametrize(("mover", "told"), [(IMMUNE_ACTOR, False), ("bob", True)])
async def test_an_order_is_not_lost_to_the_immune_system_itself(
    ward: Clinic, monkeypatch: pytest.MonkeyPatch, mover: str, *, told: bool
) -> None:
    immune, ann = ward.system.immune, ward.key("ann")
    await immune.quarantine(ann, reason="it loops", actor="eve")
    save, moved = immune.store.save, list[Patient]()

    async def overtaken(chart: Chart) -> bool:
        if not moved and chart.patients:
            before = await immune.store.patient(ann)
            assert before is not None
            moved.append(replace(before, version=before.version + 1, actor=mover))
            assert await save(Chart(patients=tuple(moved)))
        return await save(chart)

    monkeypatch.setattr(immune.store, "save", overtaken)
    with pytest.raises(AgentMoved) if told else nullcontext():
        await immune.release(ann, reason="please", actor="eve")
    assert immune.phase_of(ann) is (Phase.QUARANTINED if told else Phase.PROBATION)


@pytest.mark.parametrize("word", ["quarantine", "release", "heal", "kill"])
async def test_who_was_too_late_is_told_so(ward: Clinic, monkeypatch: pytest.MonkeyPatch, word: str) -> None:
    immune, ann = ward.system.immune, ward.key("ann")
    if word != "quarantine":
        await immune.quarantine(ann, reason="it loops", actor="eve")

    async def taken(chart: Chart) -> bool:
        return not chart.patients

    monkeypatch.setattr(immune.store, "save", taken)
    orders: dict[str, Callable[..., Awaitable[Patient]]] = {
        "quarantine": immune.quarantine,
        "release": immune.release,
        "heal": immune.heal,
        "kill": immune.kill,
    }
    with pytest.raises(AgentMoved):
        await orders[word](ann, reason="please", actor="eve")


@pytest.mark.parametrize("kept", ["only the answer was lost", "another process died over it"])
async def test_a_release_that_was_stored_and_not_done_is_done(
    ward: Clinic, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    """What was decided is in the store; whoever decided it may not know, or may not be there any more."""
    immune, ann = ward.system.immune, ward.key("ann")
    await immune.quarantine(ann, reason="it loops", actor="eve")
    assert (await ward.call("ann")).status == 503
    with monkeypatch.context() as patch:
        if kept == "only the answer was lost":
            save = immune.store.save

            async def unanswered(chart: Chart) -> bool:
                await save(chart)
                raise StoreUnavailable(problem="the connection is gone")

            patch.setattr(immune.store, "save", unanswered)
            with pytest.raises(StoreUnavailable):
                await immune.release(ann, reason="it was nothing", actor="eve")
        else:
            before = await immune.store.patient(ann)
            assert before is not None
            let_out = replace(before, version=before.version + 1, phase=Phase.PROBATION)
            assert await immune.store.save(Chart(patients=(let_out,)))
    await immune.reconcile()
    assert immune.phase_of(ann) is Phase.PROBATION
    assert (await immune.enforcement.receipt(ann)).verb is Verb.RELEASE
    assert (await ward.call("ann")).status == 200
    assert immune.enforcement.out_of_sight == set()


async def test_who_is_killed_while_it_is_to_be_isolated_is_not_isolated_again(ward: Clinic) -> None:
    immune, ann = ward.system.immune, ward.key("ann")
    await ward.enrol(*(f"other{number}" for number in range(9)))  # of ten, two may be isolated
    watch = await immune.watch_of(ann)
    watch.wanted_at = ward.clock.monotonic()
    await immune.kill(ann, reason="it mails customers", actor="eve")
    ward.clock.advance(60)
    await immune.tick()
    assert (watch.phase, watch.patient.actor, watch.wanted_at) == (Phase.QUARANTINED, "eve", None)


async def test_a_lost_race_costs_the_others_of_its_commit_nothing(
    ward: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    immune, ann, bob = ward.system.immune, ward.key("ann"), ward.key("bob")
    await ward.enrol("bob")
    watches = [await immune.watch_of(key) for key in (ann, bob)]
    save, moved = immune.store.save, list[Patient]()

    async def overtaken(chart: Chart) -> bool:
        if not moved:
            before = watches[0].patient
            moved.append(replace(before, version=before.version + 1, phase=Phase.QUARANTINED, actor="eve"))
            assert await save(Chart(patients=tuple(moved)))
        return await save(chart)

    monkeypatch.setattr(immune.store, "save", overtaken)
    known = PhaseEvent.BASELINE_READY
    await immune.ward.move_all([Move(watch=watch, event=known, cause="it is known") for watch in watches])
    assert [immune.phase_of(key) for key in (ann, bob)] == [Phase.QUARANTINED, Phase.HEALTHY]


async def test_who_is_held_by_hand_is_not_treated_for_being_read_meanwhile(
    ward: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    immune, ann = ward.system.immune, ward.key("ann")
    await immune.quarantine(ann, reason="it loops", actor="eve")
    ward.clock.advance(60)
    read, reading, gate = immune.store.incident, asyncio.Event(), asyncio.Event()

    async def slow(project: ProjectId, incident_id: IncidentId) -> Incident | None:
        reading.set()
        await gate.wait()
        return await read(project, incident_id)

    monkeypatch.setattr(immune.store, "incident", slow)
    looking = asyncio.create_task(immune.ward.reload(ann))  # as the reconciler does, beside the tick
    await reading.wait()
    await immune.tick()
    gate.set()
    await looking
    assert immune.phase_of(ann) is Phase.QUARANTINED


async def falls_gravely_ill(ward: Clinic, name: str) -> None:
    """An agent is isolated for something that operators are asked about."""
    immune = ward.system.immune
    watch = await immune.watch_of(ward.key(name))
    watch.sigma = 9.0
    incident, order = immune.orchestrator.diagnose(watch), PhaseEvent.ORDER_QUARANTINE
    async with immune.deciding:
        assert await immune.orchestrator.order(watch, order, incident=incident, cause="it costs")
    await immune.tick()


async def questions(ward: Clinic) -> list[Approval]:
    return await ward.system.immune.store.approvals(DEFAULT_PROJECT, status=None, before=None, limit=9)


async def test_a_question_that_could_not_be_stored_is_asked_again(
    ward: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    immune = ward.system.immune
    save, failed = immune.store.save, list[Chart]()

    async def away(chart: Chart) -> bool:
        if chart.asked and not failed:
            failed.append(chart)
            raise StoreUnavailable(problem="it is away")
        return await save(chart)

    monkeypatch.setattr(immune.store, "save", away)
    await falls_gravely_ill(ward, "ann")
    assert failed
    await immune.tick()
    assert [one.agent_id for one in await questions(ward)] == ["ann"]


async def test_who_decides_again_asks_what_ran_out_while_another_decided(ward: Clinic) -> None:
    immune = ward.system.immune
    await falls_gravely_ill(ward, "ann")
    [asked] = await questions(ward)
    await immune.store.save(Chart(answered=(replace(asked, status=ApprovalStatus.EXPIRED, answered_at_ms=Millis(1)),)))
    immune.leading = False  # another did, and died before it asked again
    await immune.tick()
    assert sorted(one.status for one in await questions(ward)) == [ApprovalStatus.EXPIRED, ApprovalStatus.PENDING]
    await immune.tick()
    assert len(await questions(ward)) == 2


async def test_whom_another_process_moves_during_its_step_keeps_nobody_waiting(
    ward: Clinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    immune = ward.system.immune
    keys = [ward.key(name) for name in ("ann", "bob")]
    await ward.enrol("bob")
    order = PhaseEvent.ORDER_QUARANTINE
    for key in keys:
        watch = await immune.watch_of(key)
        incident = replace(immune.orchestrator.diagnose(watch), cohort=BY_HAND)
        assert await immune.ward.move(Move(watch=watch, event=order, cause="it loops", incident=incident))

    async def overtaken(key: AgentKey) -> int:
        before = await immune.store.patient(key)
        assert before is not None
        if before.phase is Phase.DRAINING:
            moved = replace(before, version=before.version + 1, phase=Phase.QUARANTINED)
            assert await immune.store.save(Chart(patients=(moved,)))
            await immune.ward.reload(key)  # as the reconciler does, beside the tick
        return 0

    monkeypatch.setattr(immune.enforcement, "in_flight", overtaken)
    await immune.tick()
    assert [immune.phase_of(key) for key in keys] == [Phase.QUARANTINED, Phase.QUARANTINED]


async def test_an_operator_takes_over_whom_a_drill_isolated(ward: Clinic) -> None:
    immune, ann = ward.system.immune, ward.key("ann")
    async with immune.deciding:
        watch = await immune.watch_of(ann)
        incident = replace(immune.orchestrator.diagnose(watch), cohort=FIRE_DRILL)
        assert await immune.orchestrator.order(watch, PhaseEvent.ORDER_QUARANTINE, incident=incident, cause="a drill")
    patient = await immune.quarantine(ann, reason="it loops", actor="eve")
    assert (patient.phase, patient.cause, patient.actor) == (Phase.QUARANTINED, "it loops", "eve")
    await immune.tick()  # which lets out whom a drill left behind
    assert immune.phase_of(ann) is Phase.QUARANTINED
    with pytest.raises(IllegalTransition):
        await immune.quarantine(ann, reason="it loops", actor="bob")


@pytest.mark.parametrize("how", ["it began after that was counted", "who shut its gate did not live to take it"])
async def test_nobody_who_is_isolated_keeps_a_turn_in_hand(
    ward: Clinic, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    system, ann = ward.system, ward.key("ann")
    immune, kernel = system.immune, system.kernel
    worker = await kernel.open_worker([ann], lambda _: None)
    await kernel.enqueue(Enqueue(key=ann, type=MessageType.TURN, payload=Json("1")))
    [grant] = await kernel.claim(worker, 1, 5)
    watch = await immune.watch_of(ann)
    incident = replace(immune.orchestrator.diagnose(watch), cohort=BY_HAND)
    move = Move(watch=watch, event=PhaseEvent.ORDER_QUARANTINE, cause="it loops", incident=incident)
    assert await immune.ward.move(move)

    async def nothing(_: AgentKey) -> int:
        return 0

    taken, asked = immune.enforcement.preempt, 0

    async def cut_off(key: AgentKey) -> None:
        nonlocal asked
        asked += 1
        if asked == 1 and how.startswith("who"):
            raise StoreUnavailable(problem="it was killed")
        await taken(key)

    monkeypatch.setattr(immune.enforcement, "in_flight", nothing)
    monkeypatch.setattr(immune.enforcement, "preempt", cut_off)
    for _ in range(3):
        await immune.tick()
    assert immune.phase_of(ann) is Phase.QUARANTINED
    found = await kernel.store.head(*ann)
    assert found is not None
    assert (found.head.gate, found.head.turn_id, found.head.queued) == (Gate.CLOSED, None, 1)
    with pytest.raises(StaleEpoch):
        await kernel.deliver(Deliver(fence=fence_of(grant), status=Outcome.SUCCESS, result=Json("1")))
    assert asked <= 2, "it is seen to once"


async def test_who_decides_tells_of_an_agent_as_it_was_ordered_elsewhere(tmp_path: Path) -> None:
    kept = Settings(data_dir=tmp_path)
    async with clinic(settings=kept) as ward, clinic(settings=kept) as other:  # nothing is between them but the store
        await ward.enrol("ann")
        ann, here, there, kernel = ward.key("ann"), ward.system.immune, other.system.immune, other.system.kernel
        assert (here.leading, there.leading) == (True, False)
        await here.quarantine(ann, reason="it loops", actor="eve")
        await here.tick()
        assert (await here.patient(ann)).phase is Phase.QUARANTINED
        await there.release(ann, reason="it was nothing", actor="bob")
        worker = await kernel.open_worker([ann], lambda _: None)
        await kernel.enqueue(Enqueue(key=ann, type=MessageType.TURN, payload=Json('"go"')))
        assert await kernel.claim(worker, 1, 5)
        await there.quarantine(ann, reason="it loops again", actor="bob")
        receipt = await here.enforcement.receipt(ann)
        assert (receipt.verb, receipt.reason, receipt.effect) == (Verb.QUARANTINE, "it loops again", Effect.ENFORCED)
        told = await here.patient(ann)
        assert (told.phase, told.cause) == (Phase.DRAINING, "it loops again"), "it has something in hand"
