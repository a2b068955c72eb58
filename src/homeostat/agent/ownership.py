"""Who owns which piece of state: the agent, its memory, or the orchestrator."""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, Self

AGENT_PREFIX: Final = "_"
"""A key that begins like this is the agent's own, whatever else is said."""

MEMORY_KEYS: Final = frozenset({"user_history", "history", "embeddings"})
ORCHESTRATOR_KEYS: Final = frozenset({"trace_id", "routing"})


class StateOwnership(StrEnum):
    """Who may write a key: it is read by all, written by one."""

    AGENT = "agent"
    MEMORY = "memory"
    ORCHESTRATOR = "orchestrator"


def owner_of(key: str, *, memory: Iterable[str] = (), orchestrator: Iterable[str] = ()) -> StateOwnership:
    """The owner of a key: by its prefix, by what a class declares, by the defaults, else the agent."""
    if key.startswith(AGENT_PREFIX):
        return StateOwnership.AGENT
    if key in MEMORY_KEYS or key in memory:
        return StateOwnership.MEMORY
    if key in ORCHESTRATOR_KEYS or key in orchestrator:
        return StateOwnership.ORCHESTRATOR
    return StateOwnership.AGENT


class EphemeralState(dict[str, Any]):
    """An agent's own state. Every way to write it asks first whose key that is."""

    __slots__ = ("_admit",)

    def __init__(self, admit: Callable[[str], None]) -> None:
        super().__init__()
        self._admit = admit

    def __setitem__(self, key: str, value: Any) -> None:
        self._admit(key)
        super().__setitem__(key, value)

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *others: Mapping[str, Any] | Iterable[tuple[str, Any]], **named: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - keys are text here
        for key, value in dict(*others, **named).items():
            self[key] = value

    def __ior__(self, other: Mapping[str, Any] | Iterable[tuple[str, Any]]) -> Self:  # pyright: ignore[reportIncompatibleMethodOverride] - keys are text here
        self.update(other)
        return self
