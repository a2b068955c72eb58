"""Who uses an installation over HTTP while it is hurt: senders of turns, callers of models, and an operator."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx2
import msgspec

from homeostat.core.clock import Clock, SystemClock
from homeostat.core.codec import to_json
from homeostat.core.errors import AgentExists, HomeostatError
from homeostat.core.machines.phase import RUNS, Phase
from homeostat.testing.chaos.installation import ISOLATED
from homeostat.testing.chaos.isolation import BECAUSE, CHAT, Isolated
from homeostat.testing.chaos.people import People
from homeostat.testing.parties import SCRIPTS, Journal, agents

CAPS: Final[Mapping[str, float]] = {"tokens": 1_000, "usd": 0.000_36}
TOKEN: Final[Mapping[str, float]] = {"tokens": 1, "usd": (12 * 0.15 + 10 * 0.60) / 22 / 1e6}
"""What a token of an answer comes to at least: the provider always says the same, and its model has a list price."""
TINY: Final = 1e-9
CALLERS: Final = 6
PATIENCE_SECONDS: Final = 60.0
CALL_GAP_SECONDS: Final = 0.05
TURN_GAP_SECONDS: Final = 0.2
TENDING_SECONDS: Final = 2.0
SPENT: Final = 402


class Citizens:
    """Turns, model calls under budgets that run out one after the other, and who is isolated and released."""

    def __init__(self, people: People, folder: Path, hosted: int, clock: Clock | None = None) -> None:
        self._people = people
        self._chance = people.chance
        self._clock = clock or SystemClock()
        self._journal = Journal(folder / "told-http.jsonl")
        self._hosted = [key[1] for key in agents(hosted)]
        self._keys: dict[str, str] = {}
        self._number = itertools.count(1)
        self._units = itertools.cycle(CAPS)
        self._unit: dict[str, str] = {}
        self.spenders: Counter[str] = Counter()
        """The tokens that each was answered. A call without an answer is unknown, and counts as none."""
        self._left = False
        self.isolated: Final = [Isolated(people, name, self._journal, self._clock) for name in ISOLATED]

    async def settle_in(self) -> None:
        """The agents that are hosted get their names, and some more are there to be isolated."""
        for name in (*self._hosted, *ISOLATED):
            await self._register(name)

    async def _register(self, name: str) -> bool:
        enrolled = await self._people.insist(lambda client: client.register("citizen", agent_id=name))
        if enrolled is not None:
            self._keys[name] = enrolled.api_key
        return enrolled is not None

    async def live(self, streams: int) -> None:
        """Go on until told that it is over."""
        async with asyncio.TaskGroup() as group:
            for number in range(streams):
                group.create_task(self._send_turns(number))
            group.create_task(self._spend())
            for patient in self.isolated:
                group.create_task(patient.live(self._keys[patient.agent_id]))
        self._left = True

    # --- turns -------------------------------------------------------------------------------------------------

    async def _send_turns(self, stream: int) -> None:
        people = self._people
        while not people.over.is_set():
            number = next(self._number)
            payload = {"id": f"http:{stream}:{number}", "script": self._chance.choice(SCRIPTS[:2])}
            raw = msgspec.Raw(to_json(payload).encode())
            agent = self._chance.choice(self._hosted)
            key = f"chaos-{stream}-{number}"
            accepted = await people.insist(
                lambda client, agent=agent, raw=raw, key=key: client.enqueue(agent, raw, idempotency_key=key)
            )
            if accepted is None:
                return
            self._journal.note(turn=accepted.turn_id, payload=to_json(payload))
            people.counts["turns over HTTP"] += 1
            client = self._chance.choice(people.clients)
            try:
                end = await client.deliverable(accepted.turn_id, wait=2.0)
            except (HomeostatError, httpx2.HTTPError):
                continue
            self._journal.note(end=accepted.turn_id, card=end.card_id)
            people.counts["ends over HTTP"] += 1
            await asyncio.sleep(self._chance.uniform(0.0, TURN_GAP_SECONDS))

    # --- model calls ---------------------------------------------------------------------------------------------

    async def _spend(self) -> None:
        """One agent after the other comes to the end of its budget, with several of its calls in flight."""
        people = self._people
        while not people.over.is_set():
            name = f"spender-{next(self._number)}"
            try:
                if not await self._register(name):
                    return
            except AgentExists:  # whoever registered it lost the answer, and the key with it
                people.counts["registrations without an answer"] += 1
                continue
            unit = self._unit[name] = next(self._units)
            if not await people.put(f"/v1/budgets/agent/{name}", {unit: CAPS[unit]}):
                return
            self.spenders[name] = 0
            await asyncio.gather(*(self._call_until_spent(name) for _ in range(CALLERS)))

    async def _call_until_spent(self, name: str) -> None:
        people = self._people
        while not people.over.is_set():
            answer = await people.call(self._keys[name], CHAT)
            status = answer.status
            self.spenders[name] += answer.tokens
            people.counts[f"calls answered {status}" if status else "calls without an answer"] += 1
            if status == SPENT:
                return
            await asyncio.sleep(CALL_GAP_SECONDS)

    # --- an operator ---------------------------------------------------------------------------------------------

    async def tend(self) -> None:
        """For ever: release whom the immune system isolates for being slow, as agents are whose workers are killed.

        When all is over those are released too whom the operators isolated: their turns would wait for ever.
        """
        people = self._people
        while True:
            rows: list[dict[str, Any]] = []
            with suppress(HomeostatError):
                rows = await people.insist(lambda client: client.read_json("/v1/agents?limit=500"), always=True) or []
            for row in rows:
                tended = row["agent_id"] in self._hosted or (row["agent_id"] in ISOLATED and self._left)
                if not tended or row["phase"] in RUNS:
                    continue
                agent = f"/v1/agents/{row['agent_id']}"
                verbs = ("quarantine", "release") if row["phase"] == Phase.HEALING else ("release",)
                with suppress(HomeostatError, httpx2.HTTPError):
                    for verb in verbs:
                        await self._chance.choice(people.clients).post_json(f"{agent}/{verb}", BECAUSE)
                    people.counts["agents isolated by the immune system and released"] += 1
            await asyncio.sleep(TENDING_SECONDS)

    # --- afterwards ----------------------------------------------------------------------------------------------

    async def audit(self) -> None:
        """When all has come to rest: nothing was spent above any cap, and nothing is still held."""
        until = self._clock.monotonic() + PATIENCE_SECONDS
        for name in self.spenders:
            await self._audit(name, until)

    async def _audit(self, name: str, until: float) -> None:
        people, unit = self._people, self._unit[name]
        while True:
            account = await people.insist(lambda client: client.read_json(f"/v1/budgets/agent/{name}"), always=True)
            assert account is not None
            if broken := passed(account, self.spenders[name], unit):
                people.violations += broken
                return
            if not account[f"{unit}_held"]:
                people.counts["tokens spent"] += account["tokens_spent"]
                return
            if self._clock.monotonic() > until:
                people.violations.append(f"finally_nothing_is_held: {account}")
                return
            await asyncio.sleep(0.5)


def passed(account: Mapping[str, Any], tokens: int, unit: str) -> list[str]:
    """What an account does not hold up: neither it nor the answers themselves pass the cap, and it knows of them all.

    What is held for calls under way may become theirs, so it counts until nothing is held any more.
    """
    found: list[str] = []
    taken, answered = account[f"{unit}_spent"] + account[f"{unit}_held"], tokens * TOKEN[unit]
    words = f"{answered:g} {unit} were answered: {account}"
    if taken > CAPS[unit] + TINY:
        found.append(f"always_within_the_cap: {account}")
    if answered > CAPS[unit] + TINY:
        found.append(f"always_within_the_cap: {words}")
    if answered > taken + TINY:
        found.append(f"always_what_was_answered_is_charged: {words}")
    return found
