"""Tells whoever watches agents what their calls say of them."""

import asyncio
import logging
from collections.abc import Iterable
from operator import attrgetter
from typing import Final

import msgspec

from homeostat.core.clock import Millis
from homeostat.core.codec import Json, to_json
from homeostat.core.errors import BusUnavailable
from homeostat.core.ports.bus import Bus
from homeostat.core.records.budget import Budget, BudgetLimit, Limits, Posting, Warned
from homeostat.core.records.call import Call, Outcome
from homeostat.core.records.event import Channel, Event
from homeostat.core.records.vitals import Hearsay, Vitals, vitals_of
from homeostat.core.standstills import Standstills
from homeostat.gateway.hearing import Hearing

log = logging.getLogger(__name__)

REFUSED: Final = Outcome.REFUSED
EVENTS: Final = Channel.EVT
SAMPLE_BYTES: Final = 1024  # most are half as long

_agent = attrgetter("agent_id")
_encoder = msgspec.json.Encoder()


class Announcer:
    """Makes vital signs out of calls that were written down.

    Calls in which a tool speaks are announced a little later than others: listening takes time that nobody waits.
    """

    def __init__(self, *, bus: Bus, hearing: Hearing, standstills: Standstills) -> None:
        self._bus = bus
        self.hearing = hearing
        self._standstills = standstills
        self._events: list[Event] = []
        self._waiting: list[Call] = []
        self._wanted = asyncio.Event()
        self._listening = asyncio.Lock()

    def announce(self, event: Event) -> None:
        """Tell something with the next posting."""
        self._events.append(event)

    async def posted(self, posting: Posting, warned: Iterable[Warned]) -> None:
        """Tell what a posting that is written now holds."""
        events, self._events = self._events, []
        events += [_warning(*one, posting.now_ms) for one in warned]
        events += self._vitals(posting.calls)
        if events:
            await self._publish(events)

    async def _publish(self, events: Iterable[Event]) -> None:
        try:
            await self._bus.publish(tuple(events))
        except BusUnavailable as error:
            log.warning("vitals were not announced: %s", error)

    def _vitals(self, calls: Iterable[Call]) -> list[Event]:
        """One for each call that was made; what was refused says nothing of an agent's health."""
        made = [call for call in calls if call.outcome is not REFUSED]
        made.sort(key=_agent)  # what is said of one agent travels together
        if not self._bus.wanted("vitals"):
            for call in made:
                self.hearing.drop(call.call_id)
            return []
        if self.hearing.waits and (told := [call for call in made if self.hearing.holds(call.call_id)]):
            self._waiting += told
            self._wanted.set()
            made = [call for call in made if not self.hearing.holds(call.call_id)]
        return _events([self._sample(call) for call in made])

    def _sample(self, call: Call, hearsay: Hearsay | None = None) -> Vitals:
        return vitals_of(call, hearsay, timed=not self._standstills.spoiled(call.started_at_ms, call.latency_ms))

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
            await self._publish(_events([self._sample(call, findings.get(call.call_id)) for call in calls]))


def _events(samples: Iterable[Vitals]) -> list[Event]:
    """Samples as they are told. All are written into one place, which does not have to grow for each."""
    place = bytearray(SAMPLE_BYTES)
    events: list[Event] = []
    for one in samples:
        _encoder.encode_into(one, place)
        body: Json = place.decode()  # pyright: ignore[reportAssignmentType] - one for every call
        events.append(Event(one.sample_id, one.project, EVENTS, "agent", one.agent_id, "vitals", body))
    return events


def _warning(budget: Budget, limits: Limits, now: Millis) -> Event:
    seconds = budget.elapsed_ms(now) / 1000
    words = {
        BudgetLimit.TOKENS: f"{budget.spent.tokens} of {budget.tokens_max} tokens",
        BudgetLimit.USD: f"${budget.spent.micros / 1e6:.6f} of ${(budget.micros_max or 0) / 1e6:.6f}",
        BudgetLimit.SECONDS: f"{seconds:.1f} s of {budget.seconds_max or 0:g} s",
    }
    body: Json = to_json(
        {
            "kind": budget.kind,
            "holder": budget.holder,
            "tokens_spent": budget.spent.tokens,
            "tokens_max": budget.tokens_max,
            "micros_spent": budget.spent.micros,
            "micros_max": budget.micros_max,
            "seconds_spent": None if budget.seconds_max is None else seconds,
            "seconds_max": budget.seconds_max,
            "caps": limits,
            "reason": f"{', '.join(words[limit] for limit in limits)} spent",
            "at_ms": now,
        }
    )
    event_id = f"{budget.kind}:{budget.holder}:{budget.warned_at_ms}:{'+'.join(limits)}"
    return Event(event_id, budget.project, Channel.EVT, budget.kind, budget.holder, "budget_warning", body)
