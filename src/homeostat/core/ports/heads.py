"""Where signed heads are kept: apart from the ledgers they pin, so that whoever changes one cannot change both."""

from typing import Protocol

from homeostat.core.ids import RunId


class HeadKeeper(Protocol):
    """Keeps the heads of runs as the texts they were signed as; nothing is ever taken away."""

    async def heads(self, run_id: RunId) -> list[bytes]:
        """Every head of a run, in the order in which they were kept."""
        ...

    async def keep(self, run_id: RunId, head: bytes) -> None:
        """Keep one more; durable when it returns."""
        ...
