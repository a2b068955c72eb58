"""What is wanted is stored before it is done, read back apart from it, kept so, and undone exactly."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace

import pytest

from homeostat.adapters.enforcers.noop import NoopEnforcer
from homeostat.adapters.stores.sqlite import SqliteEnforcement, SqliteEngine, SqliteImmune
from homeostat.core.enforcement_errors import EngineUnreachable, ReceiptUnknown
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.machines.phase import Phase
from homeostat.core.records.enforcement import Effect, Hold, Mandate, Mode, Reading, Strategy, Verb
from homeostat.core.records.immune import Chart, Stance
from homeostat.core.records.turn import AgentKey
from homeostat.core.urgency import is_urgent, urgent_context
from homeostat.immune import enforcement as module
from homeostat.immune import lanes
from homeostat.immune.enforcement import Enforcement
from homeostat.testing.clock import ManualClock
from homeostat.testing.holding import ANN, Frugal, patient

P = Phase
S = Stance
ALL_ENFORCED = dict.fromkeys([Strategy.GATEWAY, Strategy.PROCESS, Strategy.CONTAINER], Effect.ENFORCED)
PROCESS_BY_PHASE = {P.DRAINING: S.DRAINING, P.QUARANTINED: S.CLOSED, P.HEALING: S.OPEN, P.EXHAUSTED: S.CLOSED}
BOB = (ProjectId("default"), AgentId("bob"))


class Way(NoopEnforcer):
    """A way to hold agents that can be broken in every manner."""

    def __init__(self, strategy: Strategy, log: list[tuple[Strategy, Stance]], **manners: bool) -> None:
        super().__init__()
        self.strategy = strategy
        self.log = log
        self.store: SqliteEnforcement | None = None
        self.frees_to_treat = manners.get("frees_to_treat", False)
        self.drains = manners.get("drains", True)
        self.ends = not self.drains
        self.reach = {ANN, BOB}
        self.deaf = False
        self.blind = False
        self.broken = False
        self.hangs: set[AgentKey] = set()
        self.lost = ""
        self.unsure = False
        self.stored: list[Stance] = []

    async def reaches(self, key: AgentKey) -> bool:
        if self.unsure:
            raise EngineUnreachable(engine="it", problem="the socket is gone")
        return key in self.reach

    async def observe(self, key: AgentKey, before: str) -> str:
        return before or f"before {key[1]}"

    async def hold(
        self, key: AgentKey, stance: Stance, reason: str, before: str, mandate: Mandate | None = None
    ) -> None:
        assert before == f"before {key[1]}"
        if self.store is not None:
            found = [hold.wanted for hold in await self.store.holds_of(key) if hold.strategy is self.strategy]
            self.stored += found
        if key in self.hangs:
            await asyncio.Event().wait()
        if self.broken:
            raise EngineUnreachable(engine="it", problem="the socket is gone")
        self.log.append((self.strategy, stance))
        if not self.deaf:
            await super().hold(key, stance, reason, before, mandate)

    async def held(self, key: AgentKey, before: str) -> Reading:
        if self.blind:
            raise EngineUnreachable(engine="it", problem="the socket is gone")
        if key in self.hangs:
            await asyncio.Event().wait()
        return replace(await super().held(key, before), lost=self.lost)


@pytest.fixture
async def store() -> AsyncGenerator[SqliteEnforcement]:
    engine = SqliteEngine(None)
    await engine.open()
    yield SqliteEnforcement(engine)
    await engine.close()


class Bench:
    """Three ways, and an enforcement over them."""

    def __init__(self, store: SqliteEnforcement, mode: Mode = Mode.ALL) -> None:
        self.log: list[tuple[Strategy, Stance]] = []
        self.alerts: list[dict[str, object]] = []
        self.store = store
        self.clock = ManualClock()
        self.gateway = Way(Strategy.GATEWAY, self.log)
        self.process = Way(Strategy.PROCESS, self.log, frees_to_treat=True, drains=False)
        self.container = Way(Strategy.CONTAINER, self.log, frees_to_treat=True, drains=False)
        self.mode = mode
        self.enforcement = self.begin()

    def begin(self, host: str = "here") -> Enforcement:
        ways = [self.container, self.gateway, self.process]
        return Enforcement(
            store=self.store,
            enforcers=ways,
            spending=Frugal(),
            clock=self.clock,
            mode=self.mode,
            tell=self.tell,
            host=host,
        )

    async def tell(self, key: AgentKey, what: str, said: dict[str, object]) -> None:
        del key, what
        self.alerts.append(said)

    async def effects(self, key: AgentKey = ANN) -> dict[Strategy, Effect]:
        return {hold.strategy: hold.effect for hold in await self.store.holds_of(key)}


async def test_a_wish_is_stored_before_anything_is_done(store: SqliteEnforcement) -> None:
    bench = Bench(store)
    bench.gateway.store = bench.process.store = store
    await bench.enforcement.bring(patient(P.QUARANTINED))
    assert bench.gateway.stored == bench.process.stored == [S.CLOSED]
    assert await bench.effects() == ALL_ENFORCED


async def test_what_is_foreseen_is_stored_with_the_decision_and_not_again(store: SqliteEnforcement) -> None:
    bench = Bench(store)
    held = patient(P.QUARANTINED, killed=True)
    foreseen = await bench.enforcement.foresee(held)
    assert {hold.strategy: (hold.wanted, hold.before) for hold in foreseen} == dict.fromkeys(
        ALL_ENFORCED, (S.ENDED, "before ann")
    )
    assert not bench.log, "it is not done before it is stored"
    await store.save_holds(foreseen)
    bench.enforcement.decided(foreseen)
    saved, save = list[int](), store.save_holds

    async def counted(holds: Sequence[Hold], mandate: Mandate | None = None) -> None:
        saved.append(len(holds))
        await save(holds, mandate)

    store.save_holds = counted
    await bench.enforcement.bring(held)
    assert saved == [3], "only what was read back is written"
    assert await bench.effects() == ALL_ENFORCED
    assert await bench.enforcement.foresee(held) == ()
    assert await bench.enforcement.foresee(patient(P.HEALTHY, BOB)) == ()


async def test_who_is_late_undoes_nothing_that_another_process_was_told_since(store: SqliteEnforcement) -> None:
    bench, health = Bench(store), SqliteImmune(store._engine)
    late = bench.begin()
    moved = [replace(patient(phase), version=n) for n, phase in enumerate((P.QUARANTINED, P.HEALTHY, P.DRAINING), 1)]
    for one in moved:
        assert await health.save(Chart(patients=(one,)))
        await bench.enforcement.bring(one)
        if one is moved[0]:
            await late.load()
    bench.log.clear()
    await late.bring(moved[1])
    assert bench.log == [], "it was released, and that was before"
    assert {hold.verb for hold in await store.holds_of(ANN)} == {Verb.QUARANTINE}
    await late.bring(moved[2])
    assert await bench.effects() == ALL_ENFORCED


async def test_a_decision_waits_for_no_engine_that_hangs(
    store: SqliteEnforcement, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FORESEE_SECONDS", 0.01)
    bench = Bench(store)

    async def hang(key: AgentKey, before: str) -> str:
        del key, before
        await asyncio.Event().wait()
        return ""

    bench.container.observe = hang
    assert await bench.enforcement.foresee(patient(P.QUARANTINED)) == ()


async def test_nothing_is_foreseen_of_whom_somebody_sees_to(store: SqliteEnforcement) -> None:
    bench = Bench(store)
    bench.process.hangs = {ANN}
    held = patient(P.QUARANTINED)
    bringing = asyncio.create_task(bench.enforcement.bring(held))
    while not bench.log:  # noqa: ASYNC110 - the gateway is first, then the process hangs
        await asyncio.sleep(0)
    assert await bench.enforcement.foresee(patient(P.HEALING)) == ()
    bringing.cancel()
    await bench.enforcement.close()


async def test_release_undoes_exactly_what_holds_in_reverse(store: SqliteEnforcement) -> None:
    bench = Bench(store)
    bench.container.reach = set()
    await bench.enforcement.bring(patient(P.QUARANTINED))
    bench.container.reach = {ANN}
    bench.log.clear()
    await bench.enforcement.bring(patient(P.PROBATION))
    assert bench.log == [(Strategy.PROCESS, S.OPEN), (Strategy.GATEWAY, S.OPEN)]
    receipt = await bench.enforcement.receipt(ANN)
    assert (receipt.verb, receipt.effect) == (Verb.RELEASE, Effect.ENFORCED)
    assert [hold.strategy for hold in receipt.holds] == [Strategy.GATEWAY, Strategy.PROCESS]
    assert bench.enforcement.unsettled == set()


async def test_healing_lets_the_process_go_behind_closed_gates(store: SqliteEnforcement) -> None:
    bench = Bench(store)
    for phase, process in (
        (P.DRAINING, S.DRAINING),
        (P.QUARANTINED, S.CLOSED),
        (P.HEALING, S.OPEN),
        (P.EXHAUSTED, S.CLOSED),
    ):
        await bench.enforcement.bring(patient(phase))
        assert bench.process.stances[ANN] is process
        assert bench.gateway.stances[ANN] is (S.DRAINING if phase is P.DRAINING else S.CLOSED)
    receipt = await bench.enforcement.receipt(ANN)
    assert receipt.verb is Verb.QUARANTINE
    await bench.enforcement.bring(patient(P.EXHAUSTED, killed=True))
    assert bench.process.stances[ANN] is S.ENDED
    assert (await bench.enforcement.receipt(ANN)).verb is Verb.KILL


async def test_what_did_not_hold_is_put_right_and_the_window_is_written_down(store: SqliteEnforcement) -> None:
    bench = Bench(store)
    await bench.enforcement.bring(patient(P.QUARANTINED))
    held_at = (await store.holds_of(ANN))[1].held_at_ms
    bench.clock.advance(2)
    bench.process.stances[ANN] = S.OPEN  # somebody woke it
    again = bench.begin()  # and Homeostat was killed meanwhile
    await again.load()
    await again.reconcile([patient(P.QUARANTINED)])
    assert bench.process.stances[ANN] is S.CLOSED
    hold = (await store.holds_of(ANN))[1]
    (gap,) = hold.gaps
    assert (gap.from_ms, gap.until_ms) == (held_at, bench.clock.now_ms())
    assert hold.gaps_count == 1
    await again.reconcile([patient(P.QUARANTINED)])
    assert (await store.holds_of(ANN))[1].gaps_count == 1


async def test_what_cannot_be_done_or_seen_is_said_once_and_never_claimed(store: SqliteEnforcement) -> None:
    bench = Bench(store)
    bench.gateway.deaf = bench.process.broken = bench.process.blind = True
    await bench.enforcement.bring(patient(P.QUARANTINED))
    effects = await bench.effects()
    assert effects == {
        Strategy.GATEWAY: Effect.FAILED,
        Strategy.PROCESS: Effect.UNVERIFIED,
        Strategy.CONTAINER: Effect.ENFORCED,
    }
    assert (await bench.enforcement.receipt(ANN)).effect is Effect.FAILED
    assert {alert["strategy"] for alert in bench.alerts} == {Strategy.GATEWAY, Strategy.PROCESS}
    assert "the socket is gone" in str(bench.alerts[1]["problem"])
    await bench.enforcement.reconcile([patient(P.QUARANTINED)])
    assert len(bench.alerts) == 2, "it is said once"
    bench.gateway.deaf = bench.process.broken = bench.process.blind = False
    await bench.enforcement.reconcile([patient(P.QUARANTINED)])
    assert (await bench.enforcement.receipt(ANN)).effect is Effect.ENFORCED


async def test_an_agent_that_is_gone_is_not_claimed_to_be_held(store: SqliteEnforcement) -> None:
    bench = Bench(store)
    bench.process.deaf = True
    bench.process.stances[ANN] = S.ENDED
    await bench.enforcement.bring(patient(P.QUARANTINED))
    assert (await bench.effects())[Strategy.PROCESS] is Effect.UNVERIFIED
    await bench.enforcement.bring(patient(P.QUARANTINED, killed=True))
    assert (await bench.effects())[Strategy.PROCESS] is Effect.ENFORCED, "that is what a kill wants"
    await bench.enforcement.bring(patient(P.PROBATION))
    assert bench.enforcement.unsettled == set(), "who is gone is held by nobody"


async def test_an_agent_that_hangs_keeps_nobody_else_waiting(
    store: SqliteEnforcement, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "BRING_SECONDS", 0.1)
    bench = Bench(store)
    bench.process.hangs = {ANN}
    await bench.enforcement.reconcile([patient(P.QUARANTINED), patient(P.QUARANTINED, BOB)])
    assert await bench.effects(BOB) == dict.fromkeys(
        bench.process.reach and [Strategy.GATEWAY, Strategy.PROCESS, Strategy.CONTAINER], Effect.ENFORCED
    )
    assert bench.gateway.stances[ANN] is S.CLOSED, "what does not hang was done first"
    assert (await bench.effects())[Strategy.PROCESS] is Effect.UNVERIFIED
    bench.process.stances[BOB] = S.OPEN
    await bench.enforcement.reconcile([patient(P.QUARANTINED), patient(P.QUARANTINED, BOB)])
    assert bench.process.stances[BOB] is S.CLOSED
    await bench.enforcement.close()


async def test_what_goes_on_by_itself_hurries_when_an_operator_begins_to_wait_for_it(store: SqliteEnforcement) -> None:
    looked: list[bool] = []
    begun, gate = asyncio.Event(), asyncio.Event()

    class Slow(Way):
        async def held(self, key: AgentKey, before: str) -> Reading:
            looked.append(is_urgent())
            begun.set()
            await gate.wait()
            looked.append(is_urgent())
            return await super().held(key, before)

    bench = Bench(store)
    bench.gateway = Slow(Strategy.GATEWAY, [])
    keeping = bench.begin()
    by_itself = asyncio.create_task(keeping.reconcile([patient(P.QUARANTINED)]))
    await begun.wait()
    work = keeping.bring(patient(P.QUARANTINED))
    waits = asyncio.get_running_loop().create_task(work, context=urgent_context())
    await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(by_itself, waits)
    assert looked[:2] == [False, True]
    looked.clear()
    await keeping.reconcile([patient(P.HEALING)])
    assert looked, "it was not looked at again"
    assert not any(looked), "nobody waits any more"


async def test_a_strategy_that_takes_too_long_is_unverified(
    store: SqliteEnforcement, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STRATEGY_SECONDS", 0.05)
    bench = Bench(store)
    bench.process.hangs = {ANN}
    await bench.enforcement.bring(patient(P.QUARANTINED))
    assert await bench.effects() == {
        Strategy.GATEWAY: Effect.ENFORCED,
        Strategy.PROCESS: Effect.UNVERIFIED,
        Strategy.CONTAINER: Effect.ENFORCED,
    }


async def test_the_first_that_is_verified_is_enough_where_that_is_wanted(store: SqliteEnforcement) -> None:
    bench = Bench(store, Mode.FIRST)
    bench.gateway.deaf = True
    await bench.enforcement.bring(patient(P.QUARANTINED))
    assert await bench.effects() == {Strategy.GATEWAY: Effect.FAILED, Strategy.PROCESS: Effect.ENFORCED}
    assert (await bench.enforcement.receipt(ANN)).effect is Effect.ENFORCED
    bench.gateway.deaf = False
    await bench.enforcement.bring(patient(P.PROBATION))
    assert bench.process.stances[ANN] is S.OPEN
    assert ANN not in bench.container.stances


async def test_somebody_who_comes_into_reach_later_is_held_then(store: SqliteEnforcement) -> None:
    bench = Bench(store)
    bench.process.reach = set()
    await bench.enforcement.bring(patient(P.QUARANTINED))
    assert Strategy.PROCESS not in await bench.effects()
    bench.process.reach = {ANN}
    await bench.enforcement.reconcile([patient(P.QUARANTINED)])
    assert (await bench.effects())[Strategy.PROCESS] is Effect.ENFORCED


async def test_another_process_does_only_what_this_machine_can(store: SqliteEnforcement) -> None:
    bench = Bench(store)
    bench.process.local = True
    await bench.enforcement.reconcile([patient(P.QUARANTINED)], local_only=True)
    assert await bench.effects() == {Strategy.PROCESS: Effect.ENFORCED}


async def test_a_second_quarantine_is_a_new_receipt(store: SqliteEnforcement) -> None:
    bench = Bench(store)
    await bench.enforcement.bring(patient(P.QUARANTINED))
    bench.process.stances[ANN] = S.OPEN
    await bench.enforcement.reconcile([patient(P.QUARANTINED)])
    await bench.enforcement.bring(patient(P.PROBATION))
    bench.clock.advance(10)
    await bench.enforcement.bring(replace(patient(P.QUARANTINED), cause="again"))
    receipt = await bench.enforcement.receipt(ANN)
    assert (receipt.reason, receipt.asked_at_ms) == ("again", bench.clock.now_ms())
    assert all(hold.gaps == () for hold in receipt.holds)


async def test_there_is_no_receipt_for_what_was_never_asked(store: SqliteEnforcement) -> None:
    with pytest.raises(ReceiptUnknown):
        await Bench(store).enforcement.receipt(ANN)


async def test_whoever_might_be_a_container_is_not_claimed_to_be_held_while_nobody_can_tell(
    store: SqliteEnforcement,
) -> None:
    bench = Bench(store)
    bench.container.unsure = bench.container.blind = bench.container.broken = True
    await bench.enforcement.bring(patient(P.QUARANTINED))
    assert (await bench.effects())[Strategy.CONTAINER] is Effect.UNVERIFIED
    assert (await bench.enforcement.receipt(ANN)).effect is Effect.UNVERIFIED
    assert [alert["strategy"] for alert in bench.alerts] == [Strategy.CONTAINER]
    again = bench.begin()  # Homeostat was killed, and the engine is still away
    await again.load()
    await again.reconcile([patient(P.QUARANTINED)])
    assert (await again.receipt(ANN)).effect is Effect.UNVERIFIED
    bench.container.unsure = bench.container.blind = bench.container.broken = False
    await again.reconcile([patient(P.QUARANTINED)])
    assert await bench.effects() == ALL_ENFORCED, "the engine is back, and it is a container"
    assert (await store.holds_of(ANN))[2].before == "before ann", "what there was is seen before it is closed"


async def test_whoever_turns_out_to_be_no_container_is_not_asked_about_as_one(store: SqliteEnforcement) -> None:
    bench = Bench(store)
    bench.container.unsure = True
    await bench.enforcement.bring(patient(P.QUARANTINED))
    bench.container.unsure = False
    bench.container.reach = set()
    await bench.enforcement.reconcile([patient(P.QUARANTINED)])
    assert Strategy.CONTAINER not in await bench.effects()
    assert (await bench.enforcement.receipt(ANN)).effect is Effect.ENFORCED


async def test_one_that_was_held_and_is_out_of_reach_now_is_not_forgotten(store: SqliteEnforcement) -> None:
    bench = Bench(store)
    await bench.enforcement.bring(patient(P.QUARANTINED))
    bench.container.reach = set()
    bench.container.blind = True
    await bench.enforcement.reconcile([patient(P.QUARANTINED)])
    assert (await bench.effects())[Strategy.CONTAINER] is Effect.UNVERIFIED


async def test_a_release_that_leaves_something_down_has_failed(store: SqliteEnforcement) -> None:
    bench = Bench(store)
    await bench.enforcement.bring(patient(P.QUARANTINED, killed=True))
    bench.container.lost = "container 4f is exited"
    await bench.enforcement.bring(patient(P.PROBATION))
    receipt = await bench.enforcement.receipt(ANN)
    assert receipt.effect is Effect.FAILED
    assert "container 4f is exited" in receipt.holds[-1].note
    assert ANN in bench.enforcement.unsettled, "it is tried again"
    bench.container.lost = ""
    await bench.enforcement.reconcile([patient(P.PROBATION)])
    assert bench.enforcement.unsettled == set()


async def test_what_another_machine_holds_is_left_to_it_until_it_falls_silent(store: SqliteEnforcement) -> None:
    there = Bench(store)
    there.gateway.reach = there.container.reach = set()
    there.process.local = True
    await there.enforcement.bring(patient(P.QUARANTINED))
    here = Bench(store)
    here.clock = there.clock
    here.process.reach = set()
    here.process.local = True
    here.process.deaf = True
    elsewhere = here.begin("elsewhere")
    await elsewhere.load()
    for _ in range(2):
        await elsewhere.reconcile([patient(P.QUARANTINED)])
    assert (await here.effects())[Strategy.PROCESS] is Effect.ENFORCED, "it is not for this machine to say"
    there.clock.advance(module.ELSEWHERE_SECONDS + 1)
    await elsewhere.reconcile([patient(P.QUARANTINED)])
    assert (await here.effects())[Strategy.PROCESS] is Effect.UNVERIFIED
    assert "here holds it" in str(here.alerts[-1]["problem"])
    await there.enforcement.reconcile([patient(P.QUARANTINED)])
    assert (await here.effects())[Strategy.PROCESS] is Effect.ENFORCED
    here.process.reach = {ANN}  # it moved
    here.process.deaf = False
    await elsewhere.reconcile([patient(P.QUARANTINED)])
    assert (await store.holds_of(ANN))[1].host == "elsewhere"
