"""A call counts for the run of the turn its agent works on, whatever the agent says and whoever moved the turn."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from homeostat.app.assemble import System, assemble, assemble_gateway
from homeostat.app.assignments import KernelAssignments
from homeostat.app.settings import Settings
from homeostat.core.codec import Json
from homeostat.core.errors import StoreUnavailable
from homeostat.core.ids import DEFAULT_PROJECT, RunId, TraceId
from homeostat.core.records.budget import BudgetKind
from homeostat.core.records.call import Call, CallFilter
from homeostat.core.records.turn import AgentKey, MessageType, Turn
from homeostat.core.records.view import Outcome as Ending
from homeostat.fleet.registry import Introduction
from homeostat.gateway.errands import Errands
from homeostat.gateway.gateway import Gateway
from homeostat.gateway.headers import RequestHeaders
from homeostat.kernel.commands import Enqueue
from homeostat.testing.clock import ManualClock
from homeostat.testing.gateways import ANN, Booth, Keys, booth, until

LIE = {"X-Homeostat-Run-Id": "run_of_somebody_else"}


async def enrol(system: System) -> str:
    enrolled = await system.enrol(Introduction(agent_type="worker", agent_id=ANN[1]), ANN[1], key=None)
    return enrolled.api_key


async def give(system: System, run: str | None) -> Any:
    order = Enqueue(key=ANN, type=MessageType.TURN, payload=Json("{}"), run_id=None if run is None else RunId(run))
    return await system.kernel.enqueue(order)


def desk_of(system: System, gateway: Gateway | None = None) -> Booth:
    gateway = gateway or system.gateway
    return Booth(gateway, Keys({}), system.bus, gateway.store, gateway.office.routes.outlets["openai"].upstream)


async def last(gateway: Gateway) -> Call:
    return (await gateway.calls(CallFilter(project=DEFAULT_PROJECT), 1))[0]


async def test_calls_count_for_the_run_and_trace_of_the_active_turn(tmp_path: Path) -> None:
    async with assemble(Settings(data_dir=tmp_path)) as system:
        key = await enrol(system)
        desk = desk_of(system)
        await desk.grant("run_1", kind=BudgetKind.RUN, tokens_max=50_000)
        session = await system.turns.open([ANN], lambda _: None)
        for run in ("run_1", "run_2", None):
            await give(system, run)
        for run in ("run_1", "run_2", None):
            (grant,) = await session.claim(1, 5)
            for headers in ({}, LIE):
                assert (await desk.chat(key=key, headers=headers, max_tokens=10)).status == 200
                call = await last(system.gateway)
                assert (call.run_id, call.trace_id) == (run, grant.turn.trace_id)
            await session.deliver(grant, status=Ending.SUCCESS, result=Json("1"), error=None, claim_next=False)
        spent = (await desk.account("run_1", BudgetKind.RUN)).spent.tokens
        assert spent == sum(c.usage.tokens for c in await desk.log(run_id=RunId("run_1"))) > 0
        await desk.chat(key=key, headers=LIE)
        assert (await last(system.gateway)).run_id is None
        await session.close()


async def test_a_run_without_budget_left_refuses_its_turns_calls_though_they_do_not_name_it(tmp_path: Path) -> None:
    async with assemble(Settings(data_dir=tmp_path)) as system:
        key = await enrol(system)
        desk = desk_of(system)
        await desk.grant("run_1", kind=BudgetKind.RUN, tokens_max=1)
        assert (await desk.chat(key=key)).status == 200
        await give(system, "run_1")
        refused = await desk.chat(key=key)
        assert (refused.status, "run 'run_1'" in refused.json["error"]["message"]) == (402, True)


async def test_a_gateway_alone_finds_the_turn_in_the_store(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    async with assemble(settings) as system, assemble_gateway(settings) as alone:
        key = await enrol(system)
        desk = desk_of(system, alone.gateway)
        given = await give(system, "run_1")
        await desk.chat(key=key, headers={**LIE, "X-Homeostat-Turn-Id": given.turn_id})
        assert (await last(alone.gateway)).run_id == "run_1"


async def test_of_an_agent_without_turns_the_store_is_asked_once_until_the_kernel_moves_it(tmp_path: Path) -> None:
    async with assemble(Settings(data_dir=tmp_path)) as system:
        key = await enrol(system)
        desk = desk_of(system)
        asked = 0
        load = system.kernel.store.load

        async def counted(keys: Any) -> Any:
            nonlocal asked
            asked += 1
            return await load(keys)

        assignments = KernelAssignments(cast("Any", SimpleNamespace(load=counted)), kernel=system.kernel)
        system.kernel.flusher.forget([ANN])  # as after a restart
        assert assignments.at_hand(ANN) == (False, None)
        assert await assignments.look_up(ANN) is None
        assert assignments.at_hand(ANN) == (True, None)
        given = await give(system, None)
        session = await system.turns.open([ANN], lambda _: None)
        (grant,) = await session.claim(1, 5)
        known, turn = assignments.at_hand(ANN)
        assert (known, turn and turn.turn_id) == (True, given.turn_id)
        system.kernel.flusher.forget([ANN])  # as when too many are at hand
        assert assignments.at_hand(ANN) == (False, None), "what was so before it was moved is not so any more"
        found = await assignments.look_up(ANN)
        assert found is not None
        assert assignments.at_hand(ANN) == (False, None), "who has a turn is asked about again"
        assert asked == 2
        assert (await desk.chat(key=key)).status == 200
        await session.deliver(grant, status=Ending.SUCCESS, result=Json("1"), error=None, claim_next=False)
        await session.close()


async def test_an_answer_that_was_overtaken_by_a_move_is_not_kept(tmp_path: Path) -> None:
    async with assemble(Settings(data_dir=tmp_path)) as system:
        await enrol(system)
        load = system.kernel.store.load

        async def slow(keys: Any) -> Any:
            found = await load(keys)
            await give(system, None)
            system.kernel.flusher.forget([ANN])
            return found

        assignments = KernelAssignments(cast("Any", SimpleNamespace(load=slow)), kernel=system.kernel)
        assert await assignments.look_up(ANN) is None
        assert assignments.at_hand(ANN) == (False, None)


# --- what is remembered ----------------------------------------------------------------------------------------


def turn(number: int) -> Turn:
    """Of a turn only these are read here."""
    known: dict[str, Any] = {
        "turn_id": f"turn_{number}",
        "run_id": RunId(f"run_{number}"),
        "trace_id": TraceId(f"{number:032x}"),
    }
    fields: dict[str, Any] = dict.fromkeys(Turn.__struct_fields__)
    return Turn(**fields | known)


class Elsewhere:
    """Turns that another process moves."""

    def __init__(self) -> None:
        self.active: Turn | None = None
        self.asked = 0
        self.away = False

    def at_hand(self, agent: AgentKey) -> tuple[bool, Turn | None]:
        del agent
        return False, None

    async def look_up(self, agent: AgentKey) -> Turn | None:
        assert agent == ANN
        self.asked += 1
        await asyncio.sleep(0)
        if self.away:
            raise StoreUnavailable(problem="it is away")
        return self.active


async def test_the_store_is_asked_once_in_a_while_and_again_for_a_turn_that_is_news() -> None:
    clock, elsewhere = ManualClock(), Elsewhere()
    async with booth(clock=clock, assignments=elsewhere) as desk:

        async def run_of(turn_id: str = "") -> str | None:
            assert (await desk.chat(headers={"X-Homeostat-Turn-Id": turn_id} if turn_id else {})).status == 200
            return (await desk.log())[0].run_id

        elsewhere.active = turn(1)
        assert [await run_of() for _ in range(3)] == ["run_1"] * 3
        assert elsewhere.asked == 1
        elsewhere.active = turn(2)
        assert await run_of("turn_2") == "run_2"
        assert await run_of() == "run_2"
        assert elsewhere.asked == 2
        elsewhere.active = turn(3)
        clock.advance(0.2)
        assert await run_of() == "run_3"
        elsewhere.active = None
        assert await run_of("turn_9") is None


async def test_where_nobody_can_say_what_an_agent_works_on_nothing_is_spent() -> None:
    elsewhere = Elsewhere()
    elsewhere.away = True
    async with booth(assignments=elsewhere) as desk:
        assert (await desk.chat()).status == 503
        elsewhere.away = False
        assert (await desk.chat()).status == 200


async def test_an_agent_without_turns_names_a_run_only_where_that_is_allowed() -> None:
    async with booth() as desk:
        await desk.chat(headers=LIE)
        assert (await desk.log())[0].run_id is None


async def test_a_busy_agent_does_not_wait_for_the_next_answer() -> None:
    clock, elsewhere = ManualClock(), Elsewhere()
    errands = Errands(assignments=elsewhere, clock=clock, believes_runs=False)
    headers = RequestHeaders([], readable=True)
    elsewhere.active = turn(1)
    await errands.ask(ANN, headers)
    clock.advance(0.06)
    elsewhere.active = turn(2)
    for _ in range(2):
        known = errands.recall(ANN, headers)
        assert known is not None
        assert known.run_id == "run_1", "as it was a moment ago"
    assert headers.run_id is None, "what a head says is one thing, what a call counts for another"
    await until(lambda: elsewhere.asked == 2)
    await until(lambda: (known := errands.recall(ANN, headers)) is not None and known.run_id == "run_2")
    clock.advance(0.06)
    elsewhere.away = True
    await until(lambda: errands.recall(ANN, headers) is not None and elsewhere.asked == 3)
    clock.advance(0.06)
    assert not errands.recall(ANN, headers), "and nobody is believed for longer than that"
