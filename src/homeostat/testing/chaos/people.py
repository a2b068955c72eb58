"""Somebody who asks several servers, one after the other until one answers, and knows what that means."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

import httpx2

from homeostat.client.client import Client
from homeostat.client.transport import error_of
from homeostat.core.clock import Clock
from homeostat.core.enforcement_errors import ReceiptUnknown
from homeostat.core.errors import AgentExists, HomeostatError, IllegalTransition, InternalError, Unavailable
from homeostat.core.ids import Chance
from homeostat.testing.parties import PROJECT

T = TypeVar("T")

ANSWER_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 0.05
OK_BELOW: Final = 400
WORDS: Final = b"quarantined by immune system"
EXPECTED: Final = (AgentExists, IllegalTransition, ReceiptUnknown)
"""What those are told who ask again, as they never heard that it was done, or ask what is only being done."""
SETTLED: Final = frozenset({"task_settled", "approval_settled"})
OVER: Final = "run_finished"  # it ended before it came to its question


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of a model call: its status, or nothing; and whether it was refused as its agent is isolated.

    `tokens` is what the provider says in its answer that it took.
    """

    status: int | None
    blocked: bool = False
    gateway: str = ""
    tokens: int = 0

    @property
    def ok(self) -> bool:
        return self.status is not None and self.status < OK_BELOW


class Patience:
    """Runs out after so many seconds in which there was a store: without one nobody can do what is waited for."""

    def __init__(self, seconds: float, clock: Clock, store_in_trouble: Callable[[], bool]) -> None:
        self._left = seconds
        self._clock = clock
        self._store_in_trouble = store_in_trouble
        self._looked = clock.monotonic()

    @property
    def over(self) -> bool:
        before, self._looked = self._looked, self._clock.monotonic()
        if not self._store_in_trouble():
            self._left -= self._looked - before
        return self._left < 0


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
        self.store_in_trouble: Callable[[], bool] = lambda: False

    async def __aenter__(self) -> Self:
        for client in self.clients:
            await client.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self.clients:
            await client.__aexit__(None, None, None)
        await self._http.aclose()

    def patience(self, seconds: float, clock: Clock) -> Patience:
        return Patience(seconds, clock, self.store_in_trouble)

    async def insist(self, ask: Callable[[Client], Awaitable[T]], *, always: bool = False) -> T | None:
        """Ask until somebody answers, or it is over; what got no answer is asked again under its key."""
        while always or not self.over.is_set():
            try:
                return await ask(next(self._next))
            except (Unavailable, httpx2.HTTPError) as problem:
                self.unanswered("questions", problem)
                await asyncio.sleep(PAUSE_SECONDS)
            except EXPECTED:
                raise
            except HomeostatError as problem:
                self.violations.append(f"always_a_good_question_is_answered: {problem.code}: {problem}")
                await asyncio.sleep(PAUSE_SECONDS * 10)
        return None

    def unanswered(self, what: str, problem: Exception) -> None:
        """Nobody knows what became of it. Whoever is hurt says so or nothing; who fell over himself is broken."""
        self.counts[f"{what} without an answer"] += 1
        if isinstance(problem, InternalError):
            self.violations.append(f"always_a_failure_has_a_name: {problem} {problem.facts}")

    def second(self, actor: str, about: str, problem: HomeostatError) -> str:
        """What became of an answer that was refused: somebody else was first, and whoever was not has to learn that."""
        if problem.code in SETTLED:
            return "late"
        if problem.code != OVER:
            words = f"{actor} was told {problem.code} about {about}"
            self.violations.append(f"always_the_second_learns_who_was_first: {words}")
        return problem.code

    async def put(self, path: str, body: dict[str, Any]) -> bool:
        """Whether it was put before all was over."""

        async def ask(client: Client) -> bool:
            answer = await client.transport.http.put(path, json=body)
            if answer.status_code >= OK_BELOW:
                raise error_of(answer.status_code, answer.content)
            return True

        return await self.insist(ask) or False

    async def call(self, key: str, body: dict[str, Any]) -> Answered:
        """A model call through the next gateway."""
        gateway = next(self._gateways)
        url = gateway + "/openai/v1/chat/completions"
        try:
            answer = await self._http.post(url, json=body, headers={"authorization": f"Bearer {key}"})
        except httpx2.HTTPError:
            await asyncio.sleep(PAUSE_SECONDS)
            return Answered(None, gateway=gateway)
        status = answer.status_code
        tokens = int(answer.json()["usage"]["total_tokens"]) if status < OK_BELOW else 0
        return Answered(status, blocked=WORDS in answer.content, gateway=gateway, tokens=tokens)
