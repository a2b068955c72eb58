"""Somebody who asks several servers, one after the other until one answers, and knows what that means."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Self, TypeVar

import httpx2

from homeostat.client.client import Client
from homeostat.core.errors import Unavailable
from homeostat.core.ids import Chance
from homeostat.testing.parties import PROJECT

T = TypeVar("T")

ANSWER_SECONDS: Final = 20.0
PAUSE_SECONDS: Final = 0.05


class People:
    """Their connections, what they met, and what should not have been. What got no answer is unknown."""

    def __init__(self, urls: Sequence[str], gateways: Sequence[str], chance: Chance) -> None:
        self.clients: Final = [Client(url, project=PROJECT, retry_seconds=0.0) for url in urls]
        self._next = itertools.cycle(self.clients)
        self._gateways = itertools.cycle(gateways)
        self._http = httpx2.AsyncClient(timeout=ANSWER_SECONDS, trust_env=False)
        self.chance: Final = chance
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self.over = asyncio.Event()

    async def __aenter__(self) -> Self:
        for client in self.clients:
            await client.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self.clients:
            await client.__aexit__(None, None, None)
        await self._http.aclose()

    async def insist(self, ask: Callable[[Client], Awaitable[T]], *, always: bool = False) -> T | None:
        """Ask until somebody answers, or it is over; what got no answer is asked again under its key."""
        while always or not self.over.is_set():
            try:
                return await ask(next(self._next))
            except (Unavailable, httpx2.HTTPError):
                self.counts["questions without an answer"] += 1
                await asyncio.sleep(PAUSE_SECONDS)
        return None

    async def put(self, path: str, body: dict[str, Any]) -> None:
        async def ask(client: Client) -> None:
            (await client.transport.http.put(path, json=body)).raise_for_status()

        await self.insist(ask)

    async def call(self, key: str, body: dict[str, Any]) -> int | None:
        """A model call through the next gateway: its status, or nothing."""
        url = next(self._gateways) + "/openai/v1/chat/completions"
        try:
            answer = await self._http.post(url, json=body, headers={"authorization": f"Bearer {key}"})
        except httpx2.HTTPError:
            await asyncio.sleep(PAUSE_SECONDS)
            return None
        return answer.status_code
