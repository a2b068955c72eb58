"""Agents that operators isolate and release over and over, with calls and turns that come all the while."""

import asyncio
import itertools
from typing import Any, Final

import httpx2
import msgspec

from homeostat.core.clock import Clock
from homeostat.core.codec import to_json
from homeostat.core.enforcement_errors import ReceiptUnknown
from homeostat.core.errors import HomeostatError, IllegalTransition, Unavailable
from homeostat.core.limits import POLICY_STALE_SECONDS_MAX
from homeostat.core.machines.phase import Phase
from homeostat.core.records.enforcement import Effect, Verb
from homeostat.testing.chaos.journals import Spell
from homeostat.testing.chaos.people import People
from homeostat.testing.parties import SCRIPTS, Journal

PATIENCE_SECONDS: Final = 60.0
TURN_GAP_SECONDS: Final = 0.2
SHUT: Final = (Phase.QUARANTINED, Phase.HEALING, Phase.EXHAUSTED)
ISOLATED_SECONDS: Final = (0.5, 5.0)
WATCHED_SECONDS: Final = 1.0
IN_HAND_SECONDS: Final = 2.5
"""How long who was given a turn before its gate was shut may stand still before it notes that it has begun it."""
BECAUSE: Final = {"reason": "a campaign"}
CHAT: Final[dict[str, Any]] = {
    "model": "gpt-4o-mini",
    "messages": [{"role": "user", "content": "Say something short"}],
    "max_tokens": 40,
}


class Isolated:
    """One of them. Calls are answered by gateways, turns by workers, and neither while it is isolated."""

    def __init__(self, people: People, agent_id: str, journal: Journal, clock: Clock) -> None:
        self.agent_id: Final = agent_id
        self._path: Final = f"/v1/agents/{agent_id}"
        self._people = people
        self._chance = people.chance
        self._journal = journal
        self._clock = clock
        self._key = ""
        self._number = itertools.count(1)
        self._unheard_releases = 0
        self._begun = asyncio.Event()
        self._order: str | None = None
        """When the quarantine was asked for that stands, as its receipt says; none if it does not."""
        self.spells: list[Spell] = []
        """When no turn of it may have been begun or answered."""

    async def live(self, key: str) -> None:
        """Until all is over. The key is what it calls models with."""
        self._key = key
        await asyncio.gather(self._isolate_and_release(), self._send_turns())

    async def _send_turns(self) -> None:
        """All the time: what comes while it is isolated has to wait."""
        people = self._people
        while not people.over.is_set():
            number = next(self._number)
            payload = to_json({"id": f"{self.agent_id}:{number}", "script": self._chance.choice(SCRIPTS[:2])})
            raw, key = msgspec.Raw(payload.encode()), f"chaos-{self.agent_id}-{number}"
            at = self._clock.monotonic()
            accepted = await people.insist(
                lambda client, raw=raw, key=key: client.enqueue(self.agent_id, raw, idempotency_key=key)
            )
            if accepted is None:
                self._begun.set()
                return
            self._begun.set()
            self._journal.note(turn=accepted.turn_id, payload=payload, agent=self.agent_id, sent_at=at)
            await asyncio.sleep(TURN_GAP_SECONDS)

    async def _isolate_and_release(self) -> None:
        """From the moment a quarantine was enforced until a release is asked for, nobody serves the agent.

        A gateway that cannot ask the store goes by the policies it knows: what it answers then is counted apart. So is
        what comes of a release that got no answer: a server that stood still carries it out when it goes on.
        """
        people = self._people
        await self._begun.wait()  # who never had a turn has no gate to be shut
        while not people.over.is_set():
            if not await self._isolate():
                break
            people.counts["quarantines"] += 1
            shut: float | None = None
            since = self._clock.monotonic()
            until = since + self._chance.uniform(*ISOLATED_SECONDS)
            while (asked := self._clock.monotonic()) < until:
                if shut is None and await self._is_shut():
                    shut = self._clock.monotonic()
                    until = max(until, shut + IN_HAND_SECONDS + WATCHED_SECONDS)
                answer = await people.call(self._key, CHAT)
                people.counts["calls of an isolated agent refused"] += answer.blocked
                if answer.ok and people.store_in_trouble():
                    people.counts["calls of an isolated agent answered without a store to ask"] += 1
                elif answer.ok and await self._released_late():
                    break
                elif answer.ok:
                    detail = f"{answer.gateway} answered, asked {asked - since:.2f} s after it was enforced"
                    people.violations.append(f"always_the_isolated_are_not_served: {detail}")
                await asyncio.sleep(0.02)
            until = self._clock.monotonic()
            if (order := self._order) is not None and await self._receipt() is not None and self._order == order:
                self.spells.append(Spell(self.agent_id, since, None if shut is None else shut + IN_HAND_SECONDS, until))
            await self._release()
        await self._release()  # whatever became of the last order: turns wait

    async def _isolate(self) -> bool:
        """Until the receipt says that it is enforced: before that, the order is written down and being carried out."""
        people = self._people
        try:
            if await people.insist(lambda client: client.post_json(f"{self._path}/quarantine", BECAUSE)) is None:
                return False
        except IllegalTransition:  # it was done, and the answer was lost
            people.counts["quarantines whose answer was lost"] += 1
        patience = people.patience(PATIENCE_SECONDS, self._clock)
        while (receipt := await self._receipt()) is not None:
            if (receipt["verb"], receipt["effect"]) == (Verb.QUARANTINE, Effect.ENFORCED):
                await asyncio.sleep(POLICY_STALE_SECONDS_MAX)  # how long a gateway may believe what it knew
                return True
            if await self._released_late():
                return await self._isolate()
            if patience.over:
                people.violations.append(f"finally_the_isolated_are_not_served: {receipt}")
                return False
            await asyncio.sleep(0.05)
        return False

    async def _is_shut(self) -> bool:
        """Whether its gate is: until what it has in hand is done or taken away, it is only being drained."""
        health = await self._people.insist(lambda client: client.read_json(f"{self._path}/health"))
        if health is None or health["receipt"] is None or health["phase"] not in SHUT:
            return False
        return (health["receipt"]["verb"], health["receipt"]["effect"]) == (Verb.QUARANTINE, Effect.ENFORCED)

    async def _released_late(self) -> bool:
        """Whether a release that nobody heard the end of came after the quarantine, be all over by then or not."""
        if not self._unheard_releases:
            return False
        receipt = await self._receipt(always=True)
        if receipt is None or receipt["verb"] != Verb.RELEASE:
            return False
        self._unheard_releases -= 1
        self._people.counts["releases that came late"] += 1
        return True

    async def _receipt(self, *, always: bool = False) -> dict[str, Any] | None:
        """Whoever isolated it may have died before it wrote down what is wanted of each way; then that comes late."""
        try:
            receipt = await self._people.insist(lambda client: client.read_json(f"{self._path}/receipt"), always=always)
        except ReceiptUnknown:
            self._people.counts["receipts that were not written yet"] += 1
            receipt = {"verb": None, "effect": None}
        held = receipt is not None and receipt["verb"] == Verb.QUARANTINE
        self._order = str(receipt["asked_at"]) if receipt is not None and held else None
        return receipt

    async def _release(self) -> None:
        """Released means that calls are answered again, sooner or later."""
        people = self._people
        patience = people.patience(PATIENCE_SECONDS, self._clock)
        while True:
            try:
                await self._chance.choice(people.clients).post_json(f"{self._path}/release", BECAUSE)
            except (Unavailable, httpx2.HTTPError) as problem:
                people.unanswered("questions", problem)
                self._unheard_releases += 1
            except HomeostatError:
                people.counts["releases refused"] += 1
            answer = await people.call(self._key, CHAT)
            if answer.ok:
                people.counts["releases"] += 1
                return
            if patience.over:
                people.violations.append(f"finally_the_released_are_served: still {answer}")
                return
            await asyncio.sleep(0.1)
