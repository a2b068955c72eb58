"""What a turn can wait for without holding anything: tools, and turns of other agents."""

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, cast

from homeostat.agent.errors import CallFailed
from homeostat.agent.journal import Result
from homeostat.core.codec import Json
from homeostat.core.ids import AgentId, ToolCallId
from homeostat.core.records.turn import ToolCall, WaitStatus
from homeostat.core.records.work import Ask

AGENT_TOOL = "agent:"
"""How a wait is named that another agent answers."""


class Done:
    """What a call returns that is done when it returns; it may be awaited all the same."""

    def __await__(self) -> Generator[None, None, None]:
        yield from ()


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One thing to wait for. Awaiting it gives its result; `turn.gather` waits for several in one suspension."""

    order: ToolCall | Ask
    wait: Callable[["Request"], Awaitable[list[Any]]]

    @property
    def call_id(self) -> ToolCallId:
        return self.order.call_id

    @property
    def tool(self) -> str:
        return self.order.tool if isinstance(self.order, ToolCall) else AGENT_TOOL + self.order.agent_id

    @property
    def args(self) -> Json:
        return self.order.args if isinstance(self.order, ToolCall) else self.order.payload

    def __await__(self) -> Generator[Any, None, Any]:
        results = yield from self.wait(self).__await__()
        if isinstance(results[0], CallFailed):
            raise results[0]
        return results[0]

    def read(self, result: Result) -> Any:
        """What the author gets: a value, or a `CallFailed` to raise."""
        if isinstance(self.order, ToolCall):
            if result.status is WaitStatus.SUCCESS:
                return result.value
            return CallFailed(tool=self.tool, status=result.status.value, result=result.value)
        value: object = result.value
        answer = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        if result.status is WaitStatus.SUCCESS:
            return answer.get("result")
        problem: object = answer.get("error") or result.value
        return CallFailed(tool=f"agent {self.order.agent_id!r}", status=result.status.value, result=problem)


def target_of(agent: Any) -> AgentId:
    """An agent's id, whether it was named or handed over."""
    return AgentId(agent if isinstance(agent, str) else str(getattr(agent, "agent_id", agent)))
