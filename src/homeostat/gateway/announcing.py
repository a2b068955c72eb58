"""Tells whoever watches agents what their calls say of them."""

import asyncio
import logging
from collections.abc import Iterable

from homeostat.core.codec import to_json
from homeostat.core.errors import BusUnavailable
from homeostat.core.ports.bus import Bus
from homeostat.core.records.call import Call, Outcome
from homeostat.core.records.event import Channel, Event
from homeostat.core.records.vitals import Hearsay, vitals_of
from homeostat.gateway.hearing import Hearing

log = logging.getLogger(__name__)


class Announcer:
    """Makes vital signs out of calls that were written down.

    Calls in which a tool speaks are announced a little later than others: listening takes time that nobody waits.
    """

    def __init__(self, *, bus: Bus, hearing: Hearing) -> None:
        self._bus = bus
        self.hearing = hearing
        self._waiting: list[Call] = []
        self._wanted = asyncio.Event()
        self._listening = asyncio.Lock()

    def events(self, calls: Iterable[Call]) -> list[Event]:
        """One for each call that was made; what was refused says nothing of an agent's health."""
        wanted = self._bus.wanted("vitals")
        events: list[Event] = []
        for call in calls:
            if call.outcome is Outcome.REFUSED:
                continue
            if not wanted:
                self.hearing.drop(call.call_id)
            elif self.hearing.holds(call.call_id):
                self._waiting.append(call)
                self._wanted.set()
            else:
                events.append(_event(call))
        return events

    async def run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await self.catch_up()

    async def catch_up(self) -> None:
        """Listen to what waits, and announce it."""
        async with self._listening:
            calls, self._waiting = self._waiting, []
            if not calls:
                return
            findings = await self.hearing.findings([call.call_id for call in calls])
            try:
                await self._bus.publish(tuple(_event(call, findings.get(call.call_id)) for call in calls))
            except BusUnavailable as error:
                log.warning("vitals were not announced: %s", error)


def _event(call: Call, hearsay: Hearsay | None = None) -> Event:
    body = to_json(vitals_of(call, hearsay))
    return Event(call.call_id, call.project, Channel.EVT, "agent", call.agent_id, "vitals", body)
