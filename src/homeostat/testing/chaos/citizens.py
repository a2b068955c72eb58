"""Who uses an installation over HTTP while it is hurt, and notes what it was told."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx2
import msgspec

from homeostat.client.client import Client
from homeostat.core.clock import Clock, SystemClock
from homeostat.core.codec import to_json
from homeostat.core.errors import HomeostatError, Unavailable
from homeostat.core.ids import Chance
from homeostat.testing.parties import PROJECT, SCRIPTS, Journal, agents

T = TypeVar("T")

TOKENS_CAP: Final = 200_000
CALLS_AT_ONCE: Final = 4
PATIENCE_SECONDS: Final = 60.0
BLOCKED: Final = 503
SPENT: Final = 402
BECAUSE: Final = {"reason": "a campaign"}
CHAT: Final[dict[str, Any]] = {
    "model": "gpt-4o-mini",
    "messages": [{"role": "user", "content": "Say something short"}],
    "max_tokens": 40,
}


class Citizens:
    """Turns, model calls under one budget, and an operator who isolates and releases, over any of several servers."""

    def __init__(self, urls: Sequence[str], folder: Path, chance: Chance, clock: Clock | None = None) -> None:
        self._urls = itertools.cycle(urls)
        self._clock = clock or SystemClock()
        self._chance = chance
        self._journal = Journal(folder / "told-http.jsonl")
        self._keys: dict[str, str] = {}
        self._number = itertools.count(1)
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self.over = asyncio.Event()

    async def settle_in(self) -> None:
        """Register those who call models, with one budget between them and the end of the campaign."""
        for name in ("caller", "patient"):
            enrolled = await self._insist(lambda client, name=name: client.register("citizen", agent_id=name))
            assert enrolled is not None
            self._keys[name] = enrolled.api_key
        await self._insist(lambda client: self._put(client, "/v1/budgets/agent/caller", {"tokens": TOKENS_CAP}))

    async def live(self, streams: int) -> None:
        """Go on until told that it is over."""
        tasks = [self._send_turns(number) for number in range(streams)]
        tasks += [self._call_models() for _ in range(CALLS_AT_ONCE)]
        tasks.append(self._isolate_and_release())
        await asyncio.gather(*tasks)

    # --- turns -------------------------------------------------------------------------------------------------

    async def _send_turns(self, stream: int) -> None:
        hosted = [key[1] for key in agents(12)]
        while not self.over.is_set():
            number = next(self._number)
            payload = {"id": f"http:{stream}:{number}", "script": self._chance.choice(SCRIPTS[:2])}
            raw = msgspec.Raw(to_json(payload).encode())
            agent = self._chance.choice(hosted)
            key = f"chaos-{stream}-{number}"
            accepted = await self._insist(
                lambda client, agent=agent, raw=raw, key=key: client.enqueue(agent, raw, idempotency_key=key)
            )
            if accepted is None:
                return
            self._journal.note(turn=accepted.turn_id, payload=to_json(payload))
            self.counts["turns over HTTP"] += 1
            with suppress(HomeostatError, httpx2.HTTPError):
                async with self._client() as client:
                    end = await client.deliverable(accepted.turn_id, wait=2.0)
                self._journal.note(end=accepted.turn_id, card=end.card_id)
                self.counts["ends over HTTP"] += 1

    # --- model calls ---------------------------------------------------------------------------------------------

    async def _call_models(self) -> None:
        while not self.over.is_set():
            status = await self._call("caller")
            self.counts[f"calls answered {status}" if status else "calls without an answer"] += 1
            if status == SPENT:
                return

    async def _call(self, name: str) -> int | None:
        url = next(self._urls) + "/openai/v1/chat/completions"
        try:
            async with httpx2.AsyncClient(timeout=20, trust_env=False) as http:
                answer = await http.post(url, json=CHAT, headers={"authorization": f"Bearer {self._keys[name]}"})
        except httpx2.HTTPError:
            await asyncio.sleep(0.05)
            return None
        return answer.status_code

    # --- an operator ---------------------------------------------------------------------------------------------

    async def _isolate_and_release(self) -> None:
        """From the moment a quarantine was acknowledged until a release is asked for, no call is answered."""
        while not self.over.is_set():
            if await self._insist(lambda client: client.post_json("/v1/agents/patient/quarantine", BECAUSE)) is None:
                return
            self.counts["quarantines"] += 1
            until = self._clock.monotonic() + self._chance.uniform(0.5, 3.0)
            while self._clock.monotonic() < until:
                status = await self._call("patient")
                if status == BLOCKED:
                    self.counts["calls of an isolated agent refused"] += 1
                elif status is not None and status < 400:
                    self.violations.append("always_the_isolated_are_not_served: a call was answered")
                await asyncio.sleep(0.02)
            await self._release()

    async def _release(self) -> None:
        """Released means that calls are answered again, sooner or later."""
        until = self._clock.monotonic() + PATIENCE_SECONDS
        while not self.over.is_set():
            with suppress(HomeostatError, httpx2.HTTPError):
                async with self._client() as client:
                    await client.post_json("/v1/agents/patient/release", BECAUSE)
            status = await self._call("patient")
            if status is not None and status < 400:
                self.counts["releases"] += 1
                return
            if self._clock.monotonic() > until:
                self.violations.append(f"finally_the_released_are_served: still {status}")
                return
            await asyncio.sleep(0.1)

    # --- afterwards ----------------------------------------------------------------------------------------------

    async def audit(self) -> None:
        """When all has come to rest: nothing was spent above the cap, and nothing is still held."""
        until = self._clock.monotonic() + PATIENCE_SECONDS
        while True:
            account = await self._insist(lambda client: client.read_json("/v1/budgets/agent/caller"), always=True)
            assert account is not None
            if account["tokens_spent"] + account["tokens_held"] > TOKENS_CAP:
                self.violations.append(f"always_within_the_cap: {account}")
                return
            if not account["tokens_held"]:
                self.counts["tokens spent"] = account["tokens_spent"]
                return
            if self._clock.monotonic() > until:
                self.violations.append(f"finally_nothing_is_held: {account}")
                return
            await asyncio.sleep(0.5)

    # --- asking --------------------------------------------------------------------------------------------------

    def _client(self) -> Client:
        return Client(next(self._urls), project=PROJECT, retry_seconds=0.0)

    async def _put(self, client: Client, path: str, body: dict[str, Any]) -> object:
        answer = await client.transport.http.put(path, json=body)
        return answer.raise_for_status()

    async def _insist(self, ask: Callable[[Client], Awaitable[T]], *, always: bool = False) -> T | None:
        """Ask one server after the other until one answers; what got no answer is asked again under its key."""
        while always or not self.over.is_set():
            try:
                async with self._client() as client:
                    return await ask(client)
            except (Unavailable, httpx2.HTTPError):
                self.counts["questions without an answer"] += 1
                await asyncio.sleep(0.05)
        return None
