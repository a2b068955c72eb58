"""A remedy is the agent's, not its worker's: whoever hosts it next finds it treated."""

from typing import Any

import pytest

from homeostat.agent.errors import CannotTreat
from homeostat.agent.memory import VolatileMemory
from homeostat.agent.orchestrator import Orchestrator
from homeostat.agent.protocol import ExecutionContext
from homeostat.agent.react import Profile, ReActAgent
from homeostat.core.clock import SystemClock
from homeostat.core.codec import to_json
from homeostat.core.ids import DEFAULT_PROJECT, AgentId
from homeostat.core.limits import TREATMENT_SECONDS
from homeostat.core.ports.memory import TREATED
from homeostat.core.records.immune import RemedyAction
from homeostat.testing.clock import ManualClock

R = RemedyAction


def search(query: str) -> str:
    """Find something."""
    return query


class Researcher(ReActAgent):
    """Has everything that can be taken from it."""

    profile = Profile(model="m", system_prompt="new", earlier_prompts=("old",), tools=(search,), max_steps=12)
    memory_keys = frozenset({"names"})

    def traits(self) -> tuple[str, int, list[str]]:
        return self._profile.system_prompt, self._profile.max_steps, list(self._tools)


async def host(keeper: VolatileMemory, clock: ManualClock) -> Researcher:
    """A worker begins, and hosts the agent."""
    agent = Researcher()
    agent._clock = clock
    agent.bind(agent_id="ann", memory=keeper)
    await agent.startup()
    return agent


async def a_turn(agent: Researcher, **values: Any) -> None:
    """Remember something as a turn does, which clears up behind the turn before."""
    await agent.memory.begin(f"turn_{values}")
    for key, value in values.items():
        agent.memory.update(key, value)
    await agent.memory.flush()
    agent.memory.end()


async def test_remedies_hold_for_whoever_hosts_the_agent_next() -> None:
    keeper, clock = VolatileMemory(), ManualClock()
    agent = await host(keeper, clock)
    assert agent.traits() == ("new", 12, ["search"])
    for action in (R.ROLLBACK_PROMPT, R.REDUCE_AUTONOMY, R.REDUCE_AUTONOMY, R.REVOKE_TOOLS):
        await agent.treat(action)
    assert agent.traits() == ("old", 3, [])
    for name in ("eve", "bob"):
        await a_turn(agent, names=[name])
    again = await host(keeper, clock)
    assert again.traits() == ("old", 3, []), "it was killed, and another worker hosts it"
    await again.treat(R.RESET_MEMORY)
    assert (await host(keeper, clock)).traits() == ("old", 3, []), "whoever forgets is not cured of remedies"
    clock.advance(TREATMENT_SECONDS + 1)
    assert (await host(keeper, clock)).traits() == ("new", 12, ["search"]), "they do not hold for ever"


async def test_what_could_not_be_done_is_not_done_later() -> None:
    keeper, clock = VolatileMemory(), ManualClock()
    agent = await host(keeper, clock)
    await agent.treat(R.REVOKE_TOOLS)
    with pytest.raises(CannotTreat):
        await agent.treat(R.REVOKE_TOOLS)
    assert await agent.memory.treatments() == [R.REVOKE_TOOLS]


async def test_a_remedy_that_was_lifted_is_gone_before_the_next_turn() -> None:
    keeper = VolatileMemory()
    orchestrator = Orchestrator(memory=keeper)
    orchestrator.host("ann", Researcher)

    async def next_turn() -> Researcher:
        await (await orchestrator.get_lifecycle()).initialize(ExecutionContext(trace_id="t", target="ann"))
        agent = await orchestrator.ready("ann")
        assert isinstance(agent, Researcher)
        return agent

    agent = await next_turn()
    for action in (R.ROLLBACK_PROMPT, R.REVOKE_TOOLS):
        await agent.treat(action)
    assert await next_turn() is agent, "nobody lifted anything"
    kept = [["rollback_prompt", SystemClock().now_ms()]]
    await keeper.keep((DEFAULT_PROJECT, AgentId("ann")), {TREATED: to_json(kept)}, SystemClock().now_ms())
    assert (await next_turn()).traits() == ("old", 12, ["search"]), "the other remedy holds on"
    await keeper.keep((DEFAULT_PROJECT, AgentId("ann")), {TREATED: None}, SystemClock().now_ms())
    assert (await next_turn()).traits() == ("new", 12, ["search"])
    await orchestrator.shutdown()
