"""Makes a vital sign out of how each turn ended."""

from homeostat.core.clock import Clock
from homeostat.core.codec import from_json
from homeostat.core.ids import AgentId
from homeostat.core.ports.bus import Bus
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.view import Outcome
from homeostat.core.records.vitals import Vitals
from homeostat.immune.immune import Immune


class TurnVitals:
    """Listens for ends of turns. The announcement says all that is needed: a read per turn would cost more."""

    def __init__(self, *, immune: Immune, clock: Clock) -> None:
        self._immune = immune
        self._clock = clock

    async def listen(self, bus: Bus) -> None:
        await bus.subscribe(subject("*", Channel.EVT, "agent", "*", "task"), self._on_task)

    async def _on_task(self, event: Event) -> None:
        if not self._immune.leading:
            return
        ended = from_json(event.payload)
        if ended["status"] == Outcome.STOP:
            return  # whoever stopped it knows why
        self._immune.intake.take(
            Vitals(
                sample_id=event.event_id,
                project=event.project,
                agent_id=AgentId(event.target),
                at_ms=self._clock.now_ms(),
                source="turn",
                error=ended["status"] == Outcome.FAILED,
                trace_id=ended["trace_id"],
            )
        )
