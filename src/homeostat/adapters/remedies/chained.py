"""Treats agents by whoever can: the first of several that does not say it cannot."""

from collections.abc import Sequence

from homeostat.core.ports.immune import Remedies
from homeostat.core.records.immune import Applied, RemedyAction
from homeostat.core.records.turn import AgentKey


class ChainedRemedies:
    """Asks one after the other; those that could not act have changed nothing."""

    def __init__(self, remedies: Sequence[Remedies]) -> None:
        self._remedies = tuple(remedies)

    async def apply(self, key: AgentKey, action: RemedyAction, reason: str) -> tuple[Applied, str]:
        said: list[str] = []
        for remedies in self._remedies:
            applied, note = await remedies.apply(key, action, reason)
            if applied is not Applied.NOT_APPLICABLE:
                return applied, note
            said.append(note)
        return Applied.NOT_APPLICABLE, "; ".join(said)

    async def undo(self, key: AgentKey) -> None:
        for remedies in reversed(self._remedies):
            await remedies.undo(key)
