"""The turns a worker holds, and the moment at which it has to let go of all of them."""

from homeostat.core.clock import Clock
from homeostat.core.ids import TurnId
from homeostat.core.ports.turns import OnRevoke
from homeostat.core.records.turn import Grant
from homeostat.core.records.work import Fence, fence_of


class Holdings:
    """What was granted and not yet given back. Without a beat for a whole lease, nothing of it is the worker's."""

    def __init__(self, *, clock: Clock, lease_seconds: float, on_revoke: OnRevoke) -> None:
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._on_revoke = on_revoke
        self._fences: dict[TurnId, Fence] = {}
        self._beaten_at = clock.monotonic()

    def __len__(self) -> int:
        return len(self._fences)

    @property
    def fences(self) -> tuple[Fence, ...]:
        return tuple(self._fences.values())

    def holds(self, fence: Fence) -> bool:
        return self._fences.get(fence.turn_id) == fence

    def take(self, grant: Grant) -> bool:
        """Begin to hold a turn; False if it is held already, as when an answer arrived twice."""
        fence = fence_of(grant)
        held = self._fences.get(fence.turn_id)
        if held == fence:
            return False
        if not self._fences:
            self.beaten()  # whoever holds nothing does not beat; a claim renews the lease
        if held is not None:
            self.revoke(held)
        self._fences[fence.turn_id] = fence
        return True

    def adopt(self, fence: Fence) -> None:
        """Hold a turn that was granted to the same worker before; with this it shows itself, as by a beat."""
        self.beaten()
        self._fences[fence.turn_id] = fence

    def drop(self, grant: Grant) -> None:
        """A turn was delivered, suspended or handed back. The end of an old attempt says nothing about a newer one."""
        fence = fence_of(grant)
        if self.holds(fence):
            del self._fences[fence.turn_id]

    def revoke(self, fence: Fence) -> None:
        """A turn was taken away; its worker is told once."""
        if self.holds(fence):
            del self._fences[fence.turn_id]
            self._on_revoke(fence)

    def beaten(self, at: float | None = None) -> None:
        """A beat got through. The lease runs from some moment after it was sent, and not from when its answer came."""
        self._beaten_at = self._clock.monotonic() if at is None else max(at, self._beaten_at)

    @property
    def seconds_left(self) -> float | None:
        """How long a beat may take that has to keep what is held; as long as it likes where that is nothing."""
        return max(0.0, self._beaten_at + self._lease_seconds - self._clock.monotonic()) if self._fences else None

    def missed(self) -> tuple[Fence, ...]:
        """A beat did not get through; after a whole lease of them others may have the turns. Returns what it let go."""
        if self._clock.monotonic() - self._beaten_at < self._lease_seconds:
            return ()
        return self.let_go()

    def let_go(self) -> tuple[Fence, ...]:
        """The lease is over: nothing that was held is the worker's any more."""
        held = self.fences
        for fence in held:
            self.revoke(fence)
        return held
