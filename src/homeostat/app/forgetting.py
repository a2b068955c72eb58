"""Has an agent of our own forget what it knows, wherever it is hosted and whether it is up or not."""

from collections.abc import Awaitable, Callable

from homeostat.core.clock import Clock
from homeostat.core.codec import to_json
from homeostat.core.ports.memory import CLEARED, MemoryKeeper
from homeostat.core.records.turn import AgentKey


def context_clearer(keeper: MemoryKeeper, clock: Clock) -> Callable[[AgentKey, str], Awaitable[None]]:
    """Leave word where the agent's next turn looks first: a message on the bus would miss a worker that is down.

    A turn under way is left alone, and what it remembers at its end is forgotten with the rest.
    """

    async def clear(agent: AgentKey, reason: str) -> None:
        await keeper.keep(agent, {CLEARED: to_json(reason)}, clock.now_ms())

    return clear
