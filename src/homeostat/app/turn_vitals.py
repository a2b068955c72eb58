"""Makes vital signs out of turns: how each ended, and what tools told the agent on its way."""

import asyncio
from collections import deque
from typing import Final

from homeostat.core.clock import Clock
from homeostat.core.codec import Json, from_json
from homeostat.core.ids import AgentId, ToolCallId, TraceId, TurnId
from homeostat.core.ports.bus import Bus
from homeostat.core.ports.gateway import Listener
from homeostat.core.records.conversation import Speaker, Utterance
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.turn import AgentKey
from homeostat.core.records.view import Outcome
from homeostat.core.records.vitals import Vitals
from homeostat.core.standstills import Standstills
from homeostat.immune.immune import Immune
from homeostat.immune.intake import HEARSAY

RESULTS_WAITING_MAX: Final = 1_000  # what tools said that nobody has looked at yet; beyond it the oldest go unheard


class TurnVitals:
    """Listens for ends of turns. The announcement says all that is needed: a read per turn would cost more.

    Results of tools are looked at beside the loop that serves agents. What was heard in them goes on, the words do not.
    """

    def __init__(self, *, immune: Immune, listener: Listener, clock: Clock, standstills: Standstills) -> None:
        self._immune = immune
        self._standstills = standstills
        self._listener = listener
        self._clock = clock
        self._results: deque[tuple[AgentKey, str, TraceId | None, Json]] = deque(maxlen=RESULTS_WAITING_MAX)
        self._wanted = asyncio.Event()
        self._listening = asyncio.Lock()

    async def listen(self, bus: Bus) -> None:
        await bus.subscribe(subject("*", Channel.EVT, "agent", "*", "task"), self._on_task)

    async def _on_task(self, event: Event) -> None:
        if not self._immune.leading:
            return
        ended = from_json(event.payload)
        if ended["status"] == Outcome.STOP:
            return  # whoever stopped it knows why
        now, worked_ms = self._clock.now_ms(), ended.get("worked_ms")
        spoiled = worked_ms is not None and self._standstills.spoiled(now - worked_ms, worked_ms)
        self._immune.intake.take(
            Vitals(
                sample_id=event.event_id,
                project=event.project,
                agent_id=AgentId(event.target),
                at_ms=now,
                source="turn",
                latency_ms=None if spoiled else worked_ms,
                steps=ended.get("steps"),
                retries=ended.get("losses", 0),
                error=ended["status"] == Outcome.FAILED,
                trace_id=ended["trace_id"],
            )
        )

    def on_result(
        self, key: AgentKey, turn_id: TurnId, call_id: ToolCallId, trace_id: TraceId | None, result: Json
    ) -> None:
        """Keep what a tool brought until there is time to look at it."""
        self._results.append((key, f"{turn_id}:{call_id}", trace_id, result))  # each turn has a first call
        self._wanted.set()

    async def run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self.catch_up()

    async def catch_up(self) -> None:
        """Look at everything that waits."""
        async with self._listening:
            while self._results:
                await self._look(*self._results.popleft())

    async def _look(self, key: AgentKey, sample_id: str, trace_id: TraceId | None, result: Json) -> None:
        said = Utterance(Speaker.TOOL, _words(result))
        hearsay = await asyncio.to_thread(self._listener.listen, (said,))
        if hearsay is not None:
            await self._immune.report(
                Vitals(
                    sample_id=sample_id,
                    project=key[0],
                    agent_id=key[1],
                    at_ms=self._clock.now_ms(),
                    source=HEARSAY,
                    trace_id=trace_id,
                    hearsay=hearsay,
                )
            )


def _words(result: Json) -> str:
    """The texts in a result, one per line, as the agent will read them."""
    words: list[str] = []
    todo = [from_json(result)]
    while todo:
        item = todo.pop()
        if isinstance(item, str):
            words.append(item)
        elif isinstance(item, list):
            todo += reversed(item)  # pyright: ignore[reportUnknownArgumentType] - as sent
        elif isinstance(item, dict):
            todo += reversed(item.values())  # pyright: ignore[reportUnknownArgumentType] - as sent
    return "\n".join(words)
