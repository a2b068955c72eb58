"""Treats agents by whoever can: the first of several that does not say it cannot."""

from collections.abc import Awaitable, Callable, Sequence

from homeostat.core.ports.immune import Remedies
from homeostat.core.records.immune import Applied, RemedyAction
from homeostat.core.records.turn import AgentKey

Tell = Callable[[AgentKey, str, dict[str, object]], Awaitable[None]]


class ChainedRemedies:
    """Asks one after the other; those that could not act have changed nothing."""

    def __init__(self, remedies: Sequence[Remedies], *, tell: Tell | None = None) -> None:
        self._remedies = tuple(remedies)
        self._tell = tell

    async def apply(self, key: AgentKey, action: RemedyAction, reason: str) -> tuple[Applied, str]:
        said: list[str] = []
        for remedies in self._remedies:
            applied, note = await remedies.apply(key, action, reason)
            if applied is not Applied.NOT_APPLICABLE:
                return applied, note
            said.append(note)
        told = "; ".join(said)
        if self._tell is None:
            return Applied.NOT_APPLICABLE, told
        await self._tell(key, "remedy", {"action": action, "problem": told})
        return Applied.NOT_APPLICABLE, f"{told}; operators were alerted"

    async def undo(self, key: AgentKey) -> None:
        for remedies in reversed(self._remedies):
            await remedies.undo(key)
