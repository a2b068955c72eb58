"""What is done because of an agent's health is done only while that is as it was: who is late undoes nothing."""

import asyncio
from dataclasses import replace
from typing import Final

import pytest

from homeostat.app.stores import enforcement_store, gateway_store, immune_store, turn_store
from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.enforcement_errors import AgentMoved
from homeostat.core.ids import AgentId
from homeostat.core.machines.phase import Phase
from homeostat.core.records.enforcement import Hold, Mandate, Strategy, Verb
from homeostat.core.records.head import Gate
from homeostat.core.records.immune import Chart, Stance
from homeostat.core.records.policy import Action, Policy, PolicyId, PolicyOrigin
from homeostat.core.records.turn import MessageType
from homeostat.kernel.commands import Enqueue
from homeostat.testing.holding import ANN, patient
from homeostat.testing.kernels import running_kernel
from tests.conformance.engines import Engine

NOW: Final = Millis(1_000)
VOID: Final = Mandate(ANN, 1)
GOOD: Final = Mandate(ANN, 2)
HOLD: Final = Hold(
    project=ANN[0],
    agent_id=ANN[1],
    strategy=Strategy.GATEWAY,
    wanted=Stance.CLOSED,
    verb=Verb.QUARANTINE,
    reason="it loops",
    actor="ann",
    asked_at_ms=NOW,
)
BLOCK: Final = Policy(
    policy_id=PolicyId("hold"),
    project=ANN[0],
    agent_id=ANN[1],
    action=Action.BLOCK,
    origin=PolicyOrigin.IMMUNE,
    reason="it loops",
    created_at_ms=NOW,
)


@pytest.fixture(autouse=True)
async def twice_moved(engine: Engine) -> None:
    """Ann's health is at its second version."""
    health = immune_store(engine)
    for version, phase in enumerate((Phase.HEALTHY, Phase.DRAINING), start=1):
        assert await health.save(Chart(patients=(replace(patient(phase), version=version),)))


async def test_what_is_wanted_is_not_overwritten(engine: Engine) -> None:
    store = enforcement_store(engine)
    await store.save_holds([HOLD], GOOD)
    with pytest.raises(AgentMoved):
        await store.save_holds([replace(HOLD, wanted=Stance.OPEN)], VOID)
    assert await store.holds_of(ANN) == [HOLD]


async def test_a_policy_is_neither_set_nor_dropped(engine: Engine) -> None:
    store = gateway_store(engine)
    with pytest.raises(AgentMoved):
        await store.put_policy(BLOCK, VOID)
    assert (await store.policies())[1] == []
    version = await store.put_policy(BLOCK, GOOD)
    with pytest.raises(AgentMoved):
        await store.drop_policy(BLOCK.project, BLOCK.policy_id, VOID)
    assert await store.policies() == (version, [BLOCK])
    assert await store.drop_policy(BLOCK.project, BLOCK.policy_id, GOOD) is not None


async def test_a_gate_is_not_turned_and_nobody_else_suffers(engine: Engine) -> None:
    async with running_kernel(turn_store(engine)) as kernel:
        await kernel.register(ANN)
        await kernel.set_gate(ANN, Gate.CLOSED, "it loops", GOOD)
        late, sent = await asyncio.gather(
            kernel.set_gate(ANN, Gate.OPEN, None, VOID),
            kernel.enqueue(Enqueue(key=ANN, type=MessageType.TURN, payload=Json("1"))),
            return_exceptions=True,
        )
        assert isinstance(late, AgentMoved)
        assert not isinstance(sent, BaseException), "it was in the same flush"
        view = await kernel.store.head(*ANN)
        assert view is not None
        assert (view.head.gate, view.head.gate_reason, view.head.queued) == (Gate.CLOSED, "it loops", 1)
        await kernel.set_gate(ANN, Gate.OPEN, None, GOOD)
        await kernel.set_gate(ANN, Gate.CLOSED, "by hand")
        view = await kernel.store.head(*ANN)
        assert view is not None
        assert view.head.gate is Gate.CLOSED


async def test_of_agents_that_nobody_watches_nothing_is_asked(engine: Engine) -> None:
    stranger = replace(HOLD, agent_id=AgentId("bob"))
    await enforcement_store(engine).save_holds([stranger], Mandate(stranger.key, 1))
