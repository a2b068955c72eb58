"""The code of an agent of the simulated fleet. It stands alone, so that whoever replays a run of theirs finds it."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from homeostat.agent.managed import ManagedAgent
from homeostat.agent.turn import Turn

MODEL: Final = "gpt-4o-mini"
ANSWER_TOKENS_MAX: Final = 1_000  # as much as a call holds of its run's budget until it has ended

Chat = Callable[[str], Awaitable[None]]


class Villager(ManagedAgent):
    """Chats when it is spoken to, and does a task of a run in earnest: it asks a model, counts, and writes it down."""

    def __init__(self, chat: Chat | None = None) -> None:
        self._chat = chat

    async def process(self, turn: Turn) -> Any:
        if turn.run_id is None and self._chat is not None:
            await self._chat(turn.agent_id)
            return "done"
        answer = await turn.llm(
            f"I am {turn.agent_id}: {turn.input}", model=MODEL, name="think", max_tokens=ANSWER_TOKENS_MAX
        )
        words = await turn.step("count", _count, answer.text)
        await turn.write("note", {"about": turn.input, "words": words})
        return {"said": answer.text, "words": words}


def _count(text: str) -> int:
    return len(text.split())
