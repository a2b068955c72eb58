"""What is normal for an agent: shown to operators, who may have it learned anew or faster."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from homeostat.core.clock import Clock
from homeostat.core.codec import to_json
from homeostat.core.ids import AgentId, Ids
from homeostat.core.machines.phase import PHASE, PhaseEvent
from homeostat.core.ports.bus import Bus
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.immune import Patient
from homeostat.core.records.turn import AgentKey
from homeostat.immune.archive import Archive, Portrait
from homeostat.immune.baseline import Baselines, Normal
from homeostat.immune.deciding import Deciding
from homeostat.immune.intake import CALL
from homeostat.immune.ward import Move, Ward
from homeostat.immune.watch import Watch

ACCELERATE: Final = "accelerate"


class NormalDesk:
    """Takes operators' word on what is normal. Only the process that decides learns, so that it is told where it is."""

    def __init__(
        self,
        *,
        ward: Ward,
        archive: Archive,
        baselines: Baselines,
        watch_of: Callable[[AgentKey], Awaitable[Watch]],
        leads: Callable[[], bool],
        deciding: Deciding,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._ward = ward
        self._archive = archive
        self._baselines = baselines
        self._watch_of = watch_of
        self._leads = leads
        self._deciding = deciding
        self._clock = clock
        self._ids = ids

    async def listen(self, bus: Bus) -> None:
        await bus.subscribe(subject("*", Channel.EVT, "agent", "*", ACCELERATE), self._on_accelerate)

    def known(self, key: AgentKey) -> tuple[Normal, ...]:
        """What is normal for an agent, as far as this process knows."""
        watch = self._ward.watches.get(key)
        row = None if watch is None else watch.rows.get(CALL)
        return () if row is None else self._baselines.normals(row)

    async def portraits(self, key: AgentKey) -> list[Portrait]:
        """What is normal for an agent, by stream of its vitals."""
        await self._watch_of(key)
        return await self._archive.portraits(key, live=self._leads())

    async def reset(self, key: AgentKey, *, reason: str, actor: str) -> Patient:
        """Learn anew what is normal for an agent; until that is known it is not judged."""
        async with self._deciding:
            watch = await self._watch_of(key)
            if watch.phase is not PHASE.initial:
                incident = watch.incident
                if incident is not None:
                    closed_at = self._clock.now_ms()
                    incident = replace(incident, closed_at_ms=closed_at, outcome="its normal is learned anew")
                move = Move(
                    watch=watch,
                    event=PhaseEvent.BASELINE_RESET,
                    cause=reason,
                    actor=actor,
                    incident=incident,
                    changes={"incident_id": None, "sigma": 0.0},
                )
                await self._ward.move(move)
            await self._archive.unlearn(watch)
            return watch.patient

    async def accelerate(self, key: AgentKey) -> Patient:
        """Let an agent's normal adapt fast for its next samples, wherever that is decided."""
        watch = await self._watch_of(key)
        event_id = f"acc_{self._ids.scope()}"
        await self._ward.publish(Event(event_id, key[0], Channel.EVT, "agent", key[1], ACCELERATE, to_json({})))
        return watch.patient

    async def _on_accelerate(self, event: Event) -> None:
        watch = self._ward.watches.get((event.project, AgentId(event.target)))
        if watch is not None and self._leads():
            self._archive.accelerate(watch)
