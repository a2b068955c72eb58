"""What is read for ledgers: entries in order, and what turns have left behind. Entries are written with their runs."""

from collections.abc import Collection
from typing import Protocol

from homeostat.core.ids import ProjectId, RunId, TurnId
from homeostat.core.records.provenance import Block, Entry
from homeostat.core.records.recording import Worked


class LedgerStore(Protocol):
    """Reads ledgers. Every method may raise `StoreUnavailable`."""

    async def entries(self, project: ProjectId, run_id: RunId, *, after: int, limit: int) -> list[Entry]:
        """The entries that follow number `after`, in order; none where there is no such run."""
        ...

    async def blocks(self, project: ProjectId, run_id: RunId, *, after: int, limit: int) -> list[Block]:
        """The same as they are kept: what holds the next `limit` entries, and whatever shares a row with them. Where
        those are missing, what comes next.
        """
        ...

    async def busy(self, turns: Collection[TurnId]) -> set[TurnId]:
        """Which of some turns took steps of their own, or asked others for something."""
        ...

    async def worked(self, project: ProjectId, turns: Collection[TurnId]) -> list[Worked]:
        """Turns and all that they asked of others, with what they left behind; parents come first."""
        ...
