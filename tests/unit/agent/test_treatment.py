"""A remedy is the agent's, not its worker's: whoever hosts it next finds it treated."""

from typing import Any

import pytest

from homeostat.agent.errors import CannotTreat
from homeostat.agent.memory import VolatileMemory
from homeostat.agent.react import Profile, ReActAgent
from homeostat.core.limits import TREATMENT_SECONDS
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
