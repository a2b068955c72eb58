"""A state machine is a literal table of rows; a lookup miss is the error."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from homeostat.core.errors import IllegalTransition

S = TypeVar("S", bound=StrEnum)
E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Row(Generic[S, E]):
    """One edge: in this state, on this event, go there, and why that is allowed."""

    state: S
    event: E
    target: S
    why: str


class Machine(Generic[S, E]):
    """A checked table. Construction refuses duplicate rows, unreachable states and ways out of a final state."""

    __slots__ = ("_edges", "final", "initial", "name", "rows", "states")

    def __init__(self, name: str, *, initial: S, final: Iterable[S] = (), rows: Iterable[Row[S, E]]) -> None:
        self.name = name
        self.initial = initial
        self.final = frozenset(final)
        self.rows = tuple(rows)
        self.states = tuple(type(initial))
        edges: dict[tuple[S, E], S] = {}
        for row in self.rows:
            if (row.state, row.event) in edges:
                raise ValueError(f"{name}: two rows for {row.state} by {row.event}")
            if row.state in self.final:
                raise ValueError(f"{name}: {row.state} is final, yet a row leaves it")
            if not row.why:
                raise ValueError(f"{name}: the row {row.state} by {row.event} does not say why")
            edges[row.state, row.event] = row.target
        self._edges: Mapping[tuple[S, E], S] = edges
        if unreachable := set(self.states) - self._reachable():
            raise ValueError(f"{name}: nothing leads to {sorted(unreachable)}")

    def _reachable(self) -> set[S]:
        found = {self.initial}
        frontier = deque(found)
        while frontier:
            here = frontier.popleft()
            for row in self.rows:
                if row.state is here and row.target not in found:
                    found.add(row.target)
                    frontier.append(row.target)
        return found

    def next(self, state: S, event: E) -> S:
        """Where an event leads; there being no row is the caller's bug."""
        try:
            return self._edges[state, event]
        except KeyError:
            raise IllegalTransition(machine=self.name, state=state.value, event=event.value) from None

    def allows(self, state: S, event: E) -> bool:
        return (state, event) in self._edges

    def sources(self, event: E) -> frozenset[S]:
        """The states a compare-and-swap for this event may start from."""
        return frozenset(state for state, by in self._edges if by is event)

    def events(self, state: S) -> tuple[E, ...]:
        """What can happen in a state, in table order."""
        return tuple(row.event for row in self.rows if row.state is state)

    def mermaid(self) -> str:
        """The table as a Mermaid state diagram."""
        lines = ["stateDiagram-v2", f"    [*] --> {self.initial.value}"]
        lines += [f"    {row.state.value} --> {row.target.value} : {row.event.value}" for row in self.rows]
        lines += [f"    {state.value} --> [*]" for state in self.states if state in self.final]
        return "\n".join(lines)
