"""Rows of tasks' states at hand: whoever saved a run last need not read what it wrote itself."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from homeostat.adapters.stores import runs_rows as rows
from homeostat.core.limits import PLANS_AT_HAND_MAX, STATE_ROWS_AT_HAND_MAX
from homeostat.core.records.run import RunChange


@dataclass(slots=True)
class States:
    """Rows of one run at one version, each as its lines. `written` are all that there are, where that is known."""

    lines: dict[int, list[str]] = field(default_factory=dict[int, list[str]])
    written: set[int] | None = None

    def missing(self, change: RunChange) -> list[int]:
        """The rows that have to be read before a change can be written into them."""
        places = rows.places_of(change.tasks)
        return [row for row in places if row not in self.lines and (self.written is None or row in self.written)]

    def write(self, change: RunChange, found: Iterable[rows.Row]) -> list[rows.Row]:
        """Rows in which some tasks have moved; their neighbours are left as they are, unread."""
        self.lines.update((row, states.split("\n")) for row, states in found)
        moved = rows.write_states(change.run.run_id, self.lines, change.tasks)
        if self.written is not None:
            self.written.update(row for _, row, _ in moved)
        return moved


class StatesAtHand:
    """The states of the last runs that were saved here. A state changes only in a save that swaps its run's version: so
    they are true if, and only if, the swap from that version succeeds. They are taken out meanwhile.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, States]] = {}

    def take(self, change: RunChange) -> States:
        """What is known of a run at the version that a change goes on from."""
        version, states = self._known.pop(change.run.run_id, (0, None))
        return states if states is not None and version == change.run.version - 1 else States()

    def keep(self, change: RunChange, states: States) -> None:
        """A change has been saved."""
        run = change.run
        if not run.live:
            return
        for row in list(states.lines)[: max(0, len(states.lines) - STATE_ROWS_AT_HAND_MAX)]:
            del states.lines[row]
        self._known[run.run_id] = (run.version, states)
        if len(self._known) > PLANS_AT_HAND_MAX:
            del self._known[next(iter(self._known))]
