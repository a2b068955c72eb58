"""What turns left behind is read in an order in which nothing can be missed."""

from collections.abc import Collection

from homeostat.adapters.stores.ledger_read import LedgerReading, Row
from homeostat.core.ids import DEFAULT_PROJECT, TurnId


class Watched(LedgerReading):
    """Remembers which statements were under way when one began."""

    def __init__(self) -> None:
        self.read: list[str] = []

    async def _all(self, name: str, *values: object) -> list[Row]:
        del values
        self.read.append(name)
        return []

    def _list(self, values: Collection[object]) -> object:
        return values


async def test_whether_a_turn_has_ended_is_read_before_what_it_did() -> None:
    ledger = Watched()
    assert await ledger.worked(DEFAULT_PROJECT, [TurnId("turn_1")]) == []
    assert ledger.read[:2] == ["worked_turns", "worked_cards"]
    assert set(ledger.read[2:]) == {"worked_steps", "worked_waits"}
