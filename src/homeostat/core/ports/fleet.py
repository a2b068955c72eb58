"""What the fleet asks of the world: a durable register, and a keeper of what changes with every heartbeat."""

from collections.abc import Collection, Sequence
from typing import Protocol, runtime_checkable

from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId
from homeostat.core.machines.liveness import Liveness
from homeostat.core.records.fleet import (
    Admission,
    Beat,
    Census,
    IntervalSetting,
    Mark,
    Registration,
    Roll,
    Sample,
    Silence,
    Standing,
)


class RegistryStore(Protocol):
    """Keeps who is registered and which intervals are set, durably.

    Every change takes the next revision, so that a process can ask for what changed since it last looked.
    Every method may raise `StoreUnavailable`.
    """

    async def save(self, changes: Sequence[tuple[Registration, int | None]]) -> list[Registration | None]:
        """Write registrations in one commit, each over the revision it was decided on (None: the id is new).

        Answers what was written, or None where the entry had changed meanwhile.
        """
        ...

    async def registration(self, agent_id: AgentId) -> Registration | None: ...

    async def by_key(self, key_digest: str) -> Registration | None: ...

    async def changed(self, after_revision: int, limit: int) -> list[Registration]:
        """Registrations past a revision in order, those that are gone included."""
        ...

    async def forget(self, gone_before: Millis, limit: int) -> int:
        """Remove agents that left long ago; returns how many."""
        ...

    async def set_interval(self, setting: IntervalSetting) -> IntervalSetting: ...

    async def intervals(self, after_revision: int) -> list[IntervalSetting]:
        """Settings past a revision, those that were taken back included."""
        ...

    async def save_standings(self, standings: Sequence[Standing]) -> None:
        """Write down how agents stand, for a keeper that lives in memory."""
        ...

    async def standings(self) -> list[Standing]: ...

    async def standings_of(self, agent_ids: Collection[AgentId]) -> list[Standing]:
        """How these agents stood when they were last written down; who never was is missing."""
        ...

    async def drop_standings(self, agent_ids: Collection[AgentId]) -> None: ...


class StatusKeeper(Protocol):
    """Keeps what changes with every heartbeat. Nothing in it is the only copy of anything that matters.

    Every method may raise `StatusUnavailable`. Reading changes nothing; only `beat`, `admit`, `mark`, `drop`
    and `listen` do.
    """

    async def listen(
        self, now: Millis, known: Sequence[Admission], settings: Sequence[IntervalSetting]
    ) -> Collection[AgentId]:
        """Begin to listen, or go on after a gap: silence while nobody listened is nobody's fault.

        Whoever is known but not held is admitted, whoever is held but not known is dropped.
        Answers who was dropped.
        """
        ...

    async def admit(self, now: Millis, admission: Admission) -> None:
        """Hold an agent, as one that was heard just now; its last status stays."""
        ...

    async def beat(self, beat: Beat) -> bool:
        """Take a heartbeat; False if the agent is not held, and then nothing has changed."""
        ...

    async def learn(self, beats: Sequence[Beat]) -> None:
        """Take heartbeats of agents that another process received; a keeper that is shared knows them already."""
        ...

    async def agree(self, agent_id: AgentId, presence: Liveness, since_ms: Millis, interval_ms: int) -> bool:
        """Take another process' verdict; False where it was passed here too, or the agent was heard since."""
        ...

    async def roll(self, now: Millis, limit: int) -> Roll:
        """Who is due for a verdict, at a cost that grows with their number and not with the fleet's."""
        ...

    async def heard_elsewhere(self, silent: Sequence[Silence], now: Millis) -> Collection[AgentId]:
        """Who of the silent was heard by another process, as it wrote down; they are held as it holds them."""
        ...

    async def mark(self, marks: Sequence[Mark]) -> list[AgentId]:
        """Apply verdicts to those who are still as silent as they were judged; answers whom."""
        ...

    async def drop(self, agent_ids: Collection[AgentId]) -> None:
        """Forget agents that left."""
        ...

    async def standings(self, agent_ids: Sequence[AgentId]) -> dict[AgentId, Standing]:
        """How these agents stand; whoever is not held is missing."""
        ...

    async def history(self, agent_id: AgentId, *, since: Millis, limit: int) -> list[Sample]:
        """The newest samples from an instant on, oldest first."""
        ...

    async def show_interval(self, setting: IntervalSetting) -> None:
        """Let those who read the keeper directly see a setting."""
        ...

    async def census(self) -> Census: ...

    async def fallen(self) -> dict[AgentId, Liveness]:
        """Who is held and not alive, at a cost that grows with their number and not with the fleet's."""
        ...

    async def save(self) -> None:
        """Write down what would be missed after a restart."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class QuickKeeper(StatusKeeper, Protocol):
    """A keeper that need not be waited for."""

    def beat_at_once(self, beat: Beat) -> bool:
        """As `beat`."""
        ...
