"""Any callable as an agent: it is called with the turn, and what it returns is the deliverable."""

from collections.abc import Callable
from typing import Any

from homeostat.agent.managed import ManagedAgent


class FunctionAgent(ManagedAgent):
    """An agent whose whole work is one function, asynchronous or not."""

    stateless = True

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(agent_id=getattr(function, "__name__", "function"))
        self._function = function

    @property
    def function(self) -> Callable[..., Any]:
        return self._function

    async def process(self, request: Any) -> Any:
        return await self._life.invoker.call(self._function, request)
