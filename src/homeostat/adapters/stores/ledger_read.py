"""Reads ledgers and what turns left behind, the same on every engine."""

import asyncio
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

from homeostat.adapters.stores import rows
from homeostat.core.ids import ProjectId, RunId, TurnId, scope_of
from homeostat.core.records.card import Card
from homeostat.core.records.provenance import Block, Entry, blocks_of, entry_of
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
        found: list[Entry] = []
        for first_seq, _, text in await self.blocks(project, run_id, after=after, limit=limit):
            known = max(0, after + 1 - first_seq)
            lines = text.split("\n")[known : known + limit - len(found)]
            found += [entry_of(line, project, run_id, first_seq + known + n) for n, line in enumerate(lines)]
        return found

    async def blocks(self, project: ProjectId, run_id: RunId, *, after: int, limit: int) -> list[Block]:
        return [Block(*row) for row in await self._all("blocks", project, run_id, after, limit)]

    async def busy(self, turns: Collection[TurnId]) -> set[TurnId]:
        return {row[0] for row in await self._all("busy", self._list(turns), RECORDING)}

    async def worked(self, project: ProjectId, turns: Collection[TurnId]) -> list[Worked]:
        found = [rows.read_turn(row) for row in await self._all("worked_turns", project, self._list(turns))]
        ids = self._list([turn.turn_id for turn in found])
        scopes = self._list([scope_of(turn.turn_id) for turn in found])
        written = await self._all("worked_cards", scopes)  # first: of what has ended by then, all the rest is there
        taken, called = await asyncio.gather(self._all("worked_steps", ids), self._all("worked_waits", ids))
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


def write_blocks(project: str, run_id: str, first_seq: int, lines: Sequence[str]) -> list[Row]:
    """The rows of entries that are written together."""
    return [(run_id, *block[:2], project, block.text) for block in blocks_of(first_seq, lines)]
