"""Reads ledgers and what turns left behind, the same on every engine."""

import asyncio
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

from homeostat.adapters.stores import rows
from homeostat.core.ids import ProjectId, RunId, TurnId, scope_of
from homeostat.core.records.card import Card
from homeostat.core.records.provenance import Entry
from homeostat.core.records.recording import RECORDING, Worked
from homeostat.core.records.turn import Step, Wait

Row = Sequence[Any]


class LedgerReading(ABC):
    """Reads by named statements. A keeper says how to run one, and in which form it takes lists."""

    @abstractmethod
    async def _all(self, name: str, *values: object) -> list[Row]:
        """The rows of a statement."""

    @abstractmethod
    def _list(self, values: Collection[object]) -> object:
        """Values as one parameter."""

    async def entries(self, project: ProjectId, run_id: RunId, *, after: int, limit: int) -> list[Entry]:
        return [Entry(*row) for row in await self._all("entries", project, run_id, after, limit)]

    async def busy(self, turns: Collection[TurnId]) -> set[TurnId]:
        return {row[0] for row in await self._all("busy", self._list(turns), RECORDING)}

    async def worked(self, project: ProjectId, turns: Collection[TurnId]) -> list[Worked]:
        found = [rows.read_turn(row) for row in await self._all("worked_turns", project, self._list(turns))]
        ids = self._list([turn.turn_id for turn in found])
        scopes = self._list([scope_of(turn.turn_id) for turn in found])
        taken, called, written = await asyncio.gather(
            self._all("worked_steps", ids), self._all("worked_waits", ids), self._all("worked_cards", scopes)
        )
        steps: dict[str, list[Step]] = defaultdict(list)
        for row in taken:
            steps[row[1]].append(Step(*row))
        waits: dict[str, list[Wait]] = defaultdict(list)
        for row in called:
            waits[row[0]].append(rows.read_wait(row))
        cards: dict[str, list[Card]] = defaultdict(list)
        for row in written:
            cards[row[1]].append(rows.read_card(row))
        return [
            Worked(
                turn,
                tuple(steps.get(turn.turn_id, ())),
                tuple(waits.get(turn.turn_id, ())),
                tuple(cards.get(scope_of(turn.turn_id), ())),
            )
            for turn in found
        ]
