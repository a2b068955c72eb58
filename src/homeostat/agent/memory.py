"""What an agent remembers across requests: read as copies, written only through `update()`, kept by a keeper.

Changes are kept just before their turn is delivered, and a worker may die in between. So what they replaced is set
aside with them, under the turn's name: a turn that begins again finds its memory as it was, and changes it once.
"""

from collections.abc import Callable, Generator, Mapping
from typing import Any, Final

from homeostat.agent.errors import StateViolationError
from homeostat.agent.invocation import is_once
from homeostat.agent.ownership import StateOwnership
from homeostat.core.clock import Clock, Millis
from homeostat.core.codec import Json, from_json, to_json
from homeostat.core.errors import MalformedPayload
from homeostat.core.limits import MEMORY_KEYS_MAX, NAME_CHARS_MAX, TREATMENT_SECONDS, TREATMENTS_KEPT_MAX
from homeostat.core.ports.memory import ASIDE, CLEARED, TREATED, MemoryKeeper
from homeostat.core.records.turn import AgentKey

NOTE: Final = ASIDE
"""Says which turn changed what, last."""


class VolatileMemory:
    """A keeper that lives as long as its process: for agents that run on their own, and for tests."""

    def __init__(self) -> None:
        self._kept: dict[AgentKey, dict[str, Json]] = {}

    async def recall(self, agent: AgentKey) -> dict[str, Json]:
        return dict(self._kept.get(agent, {}))

    async def keep(self, agent: AgentKey, changes: Mapping[str, Json | None], at: Millis) -> None:
        del at
        kept = self._kept.setdefault(agent, {})
        for key, value in changes.items():
            if value is None:
                kept.pop(key, None)
            else:
                kept[key] = value


class Pending:
    """A change that holds in this process already; awaiting it makes it durable now instead of later."""

    __slots__ = ("_key", "_memory")

    def __init__(self, memory: "AgentMemory", key: str) -> None:
        self._memory = memory
        self._key = key

    def __await__(self) -> Generator[Any, None, None]:
        return self._memory.persist(self._key).__await__()


class AgentMemory:
    """One agent's view of its keeper. What is read is a copy: changing it changes nothing."""

    def __init__(
        self, *, agent: AgentKey, keeper: MemoryKeeper, owns: Callable[[str], StateOwnership], clock: Clock
    ) -> None:
        self._agent = agent
        self._keeper = keeper
        self._owns = owns
        self._clock = clock
        self._values: dict[str, Json] = {}
        self._stale = True
        self._used = False
        self._dirty: dict[str, Json | None] = {}
        self._turn: str | None = None
        self._before: dict[str, Json | None] = {}
        self._aside: frozenset[str] = frozenset()
        self._read: dict[str, Json | None] = {}
        self._wrote: set[str] = set()
        self.cleared = False
        self.treatment: Json | None = None

    @property
    def read(self) -> dict[str, Json | None]:
        """What the last turn found here: the values it looked at, as they were before it."""
        return self._read

    @property
    def dirty(self) -> bool:
        """Whether there are changes the keeper has not seen."""
        return bool(self._dirty)

    async def refresh(self) -> None:
        """Read everything anew; changes that were not flushed yet stay on top."""
        kept = await self._keeper.recall(self._agent)
        if CLEARED in kept:
            await self._keeper.keep(self._agent, dict.fromkeys(_forgettable(kept)), self._clock.now_ms())
            self.cleared = True
            kept = {key: kept[key] for key in kept.keys() & {TREATED}}
        self.treatment = kept.get(TREATED)
        self._aside = frozenset(key for key in _forgettable(kept) if key.startswith(ASIDE))
        self._values = {key: text for key, text in kept.items() if not key.startswith(ASIDE)}
        self._before = {}
        self._stale = False
        self._used = self._used or bool(self._values)
        if self._turn is not None and (note := kept.get(NOTE)) is not None:
            self._restore(kept, from_json(note))

    def _restore(self, kept: dict[str, Json], note: dict[str, Any]) -> None:
        """The turn at hand has been here before: what it changed then is as it was, unless it is changed again."""
        if note["turn_id"] != self._turn:
            return
        self._before = {key: kept.get(ASIDE + key) for key in note["keys"]}
        self._dirty = {**self._before, **self._dirty}

    async def begin(self, turn_id: str | None = None) -> None:
        """A turn begins, and the last one may have run elsewhere. Who never remembered anything pays nothing."""
        self._turn = turn_id
        self._stale = True
        self._read = {}
        self._wrote.clear()
        if self._used or self.treatment is not None:  # somebody may have lifted the treatment meanwhile
            await self.refresh()

    def end(self) -> None:
        """The turn is over here: what changes from now on is not part of it."""
        self._turn = None

    def discard(self) -> None:
        """A turn ended without an end: what it changed is not to be seen by the next one."""
        self._dirty.clear()

    async def load(self, key: str, default: Any = None) -> Any:
        """A value, read from the keeper the first time anything is asked for."""
        if self._stale:
            await self.refresh()
        return self.get(key, default)

    def get(self, key: str, default: Any = None) -> Any:
        """A value as it was loaded at startup, or changed since."""
        self._used = True
        text = self._dirty[key] if key in self._dirty else self._values.get(key)
        self._note(key, text)
        return default if text is None else from_json(text)

    def keys(self) -> tuple[str, ...]:
        for key, text in {**self._values, **self._dirty}.items():
            self._note(key, text)
        return self._present()

    def _note(self, key: str, text: Json | None) -> None:
        """A value was looked at. What this run of the code wrote itself, it would find again without being told."""
        if key not in self._wrote:
            self._read.setdefault(key, text)

    def _present(self) -> tuple[str, ...]:
        known = {**self._values, **self._dirty}
        return tuple(key for key, text in known.items() if text is not None)

    def _note_own(self, key: str) -> None:
        """What is written within a step is not written again by a replay, which has to find it."""
        if not is_once():
            self._wrote.add(key)

    def update(self, key: str, value: Any) -> Pending:
        """Change a value. It is flushed with the turn and at shutdown; `await` it to have it durable at once."""
        self._admit(key)
        self._used = True
        if key not in (present := self._present()) and len(present) >= MEMORY_KEYS_MAX:
            raise MalformedPayload(field="memory", problem=f"an agent remembers {MEMORY_KEYS_MAX} keys at most")
        self._dirty[key] = to_json(value, what=f"memory {key!r}")
        self._note_own(key)
        return Pending(self, key)

    def forget(self, key: str) -> Pending:
        """Remove a value."""
        self._admit(key)
        self._dirty[key] = None
        self._note_own(key)
        return Pending(self, key)

    async def forget_all(self) -> int:
        """Remove every value, durably; returns how many there were."""
        kept = await self._keeper.recall(self._agent)
        if forgotten := _forgettable(kept):
            await self._keeper.keep(self._agent, dict.fromkeys(forgotten), self._clock.now_ms())
        self._dirty.clear()
        self._values, self._before, self._aside = {}, {}, frozenset()
        return sum(not key.startswith(ASIDE) for key in kept)

    async def treatments(self) -> list[str]:
        """Remedies that still hold, oldest first."""
        since = self._clock.now_ms() - TREATMENT_SECONDS * 1000
        return [action for action, at_ms in await self._treated() if at_ms >= since]

    async def note_treatment(self, action: str) -> None:
        """Write down a remedy, so that it holds for whoever hosts the agent next."""
        now = self._clock.now_ms()
        noted = [*await self._treated(), [action, now]]
        if sum(one[0] == action for one in noted) > TREATMENTS_KEPT_MAX:  # a remedy pushes out none but its own
            noted.remove(next(one for one in noted if one[0] == action))
        self.treatment = to_json(noted)
        await self._keeper.keep(self._agent, {TREATED: self.treatment}, now)

    async def _treated(self) -> list[Any]:
        text = (await self._keeper.recall(self._agent)).get(TREATED)
        return [] if text is None else from_json(text)

    def _admit(self, key: str) -> None:
        if (owner := self._owns(key)) is not StateOwnership.MEMORY:
            raise StateViolationError(key, owner, StateOwnership.MEMORY)
        if not 0 < len(key) < NAME_CHARS_MAX or key.startswith(ASIDE):
            problem = f"it has 1 to {NAME_CHARS_MAX - 1} characters and does not begin with {ASIDE!r}"
            raise MalformedPayload(field="memory key", problem=problem)

    async def flush(self) -> None:
        """Make every change durable."""
        await self.persist(*self._dirty)

    async def persist(self, *keys: str) -> None:
        """Make the changes of some keys durable."""
        changes = {key: self._dirty[key] for key in keys if key in self._dirty}
        if not changes:
            return
        await self._keeper.keep(self._agent, await self._with_note(changes), self._clock.now_ms())
        for key, text in changes.items():
            if self._dirty.get(key) is text:  # it was not changed again while the keeper wrote
                del self._dirty[key]
            if text is None:
                self._values.pop(key, None)
            else:
                self._values[key] = text

    async def _with_note(self, changes: Mapping[str, Json | None]) -> Mapping[str, Json | None]:
        """Changes of a turn, and beside them what they replace."""
        if self._turn is None:
            return changes
        if self._stale:
            await self.refresh()
        for key in changes:
            self._before.setdefault(key, self._values.get(key))
        note = {NOTE: to_json({"turn_id": self._turn, "keys": list(self._before)})}
        replaced = {ASIDE + key: text for key, text in self._before.items() if text is not None}
        settled = dict.fromkeys(self._aside - note.keys() - replaced.keys())
        self._aside = frozenset((*note, *replaced))
        return {**changes, **settled, **replaced, **note}


def _forgettable(kept: Mapping[str, Json]) -> list[str]:
    """Everything but the remedies: whoever forgets is not cured of them."""
    return [key for key in kept if key != TREATED]
