"""Agents that fall ill, operators who answer what is asked about them, two at once, and where remedies arrive.

Whether an approval was carried out twice is not read from what the immune system wrote down: every order that reaches
an agent is counted where it arrives.
"""

import asyncio
import itertools
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import httpx2
import msgspec

from homeostat.client.client import Client
from homeostat.core.clock import Clock, SystemClock
from homeostat.core.errors import AgentExists, HomeostatError, Unavailable
from homeostat.core.machines.phase import Phase
from homeostat.core.records.immune import Applied, ApprovalStatus
from homeostat.core.wire.control import ACTIONS, OrderAnswer, OrderBody
from homeostat.testing.chaos.people import People
from homeostat.testing.servers import free_port

AT_ONCE: Final = 1  # more at once, and it were the trouble of a fleet, for which nobody is isolated
PATIENCE_SECONDS: Final = 90.0
LOOK_SECONDS: Final = 0.5
ILL_SECONDS: Final = 8.0  # who is not isolated by then is well known no more, as somebody died who knew it
NORMAL_SAMPLES: Final = 40
ILL_SAMPLES: Final = 4
FOLLOWING_SECONDS_MAX: Final = 1.0
APPROVE_SHARE: Final = 0.8


class OrderDesk:
    """Where agents take orders. Some take a while, so that whoever gave one may die before it hears the answer."""

    def __init__(self, people: People, clock: Clock) -> None:
        self._chance = people.chance
        self._clock = clock
        self._server: asyncio.Server | None = None
        self.url = ""
        self.orders: Counter[tuple[str, str]] = Counter()
        self._came: list[tuple[str, str, int]] = []

    async def open(self) -> None:
        port = free_port()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.url = f"http://127.0.0.1:{port}"

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    def take(self, agent_id: str, action: str) -> None:
        self.orders[agent_id, action] += 1
        self._came.append((agent_id, action, self._clock.now_ms()))

    def came(self, agent_id: str) -> list[str]:
        """What one agent was told, and when."""
        return [f"{action} at {at_ms}" for name, action, at_ms in self._came if name == agent_id]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            length = int(head.partition("content-length:")[2].partition("\r\n")[0])
            order = msgspec.json.decode(await reader.readexactly(length), type=OrderBody)
            self.take(order.agent_id, ACTIONS[head.split(" ")[1]])
            await asyncio.sleep(self._chance.uniform(0.0, FOLLOWING_SECONDS_MAX))
            body = msgspec.json.encode(OrderAnswer(applied=Applied.APPLIED, note="followed"))
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b" % (len(body), body))
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # whoever gave it is gone
        finally:
            writer.close()


@dataclass(slots=True)
class Question:
    """What was asked about an agent, and whose answer was heard."""

    agent_id: str
    approval_id: str
    action: str
    answered_by: str | None = None
    approved: bool | None = None


class Patients:
    """One agent after the other falls ill, is asked about, is treated or not, and is left alone."""

    def __init__(self, people: People, clock: Clock | None = None) -> None:
        self._people = people
        self._chance = people.chance
        self._clock = clock or SystemClock()
        self._number = itertools.count(1)
        self._samples = itertools.count(1)
        self.desk = OrderDesk(people, self._clock)
        self.questions: list[Question] = []

    async def live(self) -> None:
        """Until told that it is over."""
        await asyncio.gather(*(self._fall_ill() for _ in range(AT_ONCE)))

    async def _fall_ill(self) -> None:
        people = self._people
        while not people.over.is_set():
            name = f"patient-{next(self._number)}"
            try:
                if await people.insist(lambda client, name=name: client.register(name, agent_id=name)) is None:
                    return
            except AgentExists:
                people.counts["registrations without an answer"] += 1
            place = {"url": self.desk.url, "private": True}
            if not await people.put(f"/v1/agents/{name}/control", place):
                return
            question = await self._until_asked(name)
            if question is not None:
                self.questions.append(question)
                await self._answer(question)

    async def _until_asked(self, name: str) -> Question | None:
        """Be normal until that is known, then be far from it until somebody asks what to do."""
        people = self._people
        until = self._clock.monotonic() + PATIENCE_SECONDS
        ill_since: float | None = None
        while not people.over.is_set() and self._clock.monotonic() < until:
            health = await people.insist(lambda client: client.read_json(f"/v1/agents/{name}/health"))
            if health is None:
                return None
            now = self._clock.monotonic()
            if health["phase"] == Phase.QUARANTINED:
                if (question := await self._pending(name)) is not None:
                    return question
            elif health["phase"] == Phase.INITIALIZING or (ill_since is not None and now - ill_since > ILL_SECONDS):
                ill_since = None if health["phase"] == Phase.INITIALIZING else now
                await self._report(name, NORMAL_SAMPLES, tokens=100)
            else:
                ill_since = ill_since or now
                await self._report(name, ILL_SAMPLES, tokens=20_000)
            await asyncio.sleep(LOOK_SECONDS)
        people.counts["patients nobody asked about in time"] += not people.over.is_set()
        return None

    async def _report(self, name: str, count: int, *, tokens: int) -> None:
        samples = [
            {
                "sample_id": f"{name}-{next(self._samples)}",
                "latency_ms": self._chance.uniform(80.0, 120.0),
                "tokens_in": self._chance.randint(90, 110),
                "tokens_out": int(tokens * self._chance.uniform(0.9, 1.1)),
            }
            for _ in range(count)
        ]
        body = {"agent_id": name, "samples": samples}
        await self._people.insist(lambda client: client.post_json("/v1/vitals", body))

    async def _pending(self, name: str) -> Question | None:
        found = await self._people.insist(
            lambda client: client.read_json("/v1/immune/approvals?status=pending&limit=200"), always=True
        )
        assert found is not None
        for one in found["approvals"]:
            if one["agent_id"] == name:
                return Question(name, one["approval_id"], one["action"])
        return None

    async def _answer(self, question: Question) -> None:
        """Two people at the same time, each at another server."""
        people = self._people
        first, *others = self._chance.sample(people.clients, len(people.clients))
        second = others[0] if others else first
        said = await asyncio.gather(self._say(first, question, "ann"), self._say(second, question, "bob"))
        if said.count("heard") == 2:
            people.violations.append(f"always_one_answer_stands: both were heard about {question}")
        if sorted(said) == ["heard", "late"]:
            people.counts["remedies answered by two at once"] += 1

    async def _say(self, client: Client, question: Question, actor: str) -> str:
        """One word, said once: what became of it if there is no answer, nobody knows."""
        approve = self._chance.random() < APPROVE_SHARE
        path = f"/v1/immune/approvals/{question.approval_id}/{'approve' if approve else 'reject'}"
        try:
            await client.post_json(path, {"actor": actor, "reason": "a campaign"})
        except (Unavailable, httpx2.HTTPError) as problem:
            self._people.unanswered("remedies", problem)
            return "unknown"
        except HomeostatError as problem:
            return self._people.second(actor, question.agent_id, problem)
        question.answered_by, question.approved = actor, approve
        self._people.counts["remedies approved" if approve else "remedies rejected"] += 1
        return "heard"

    # --- afterwards ----------------------------------------------------------------------------------------------

    async def rest(self, seconds: float) -> bool:
        """Wait until whatever was approved has reached its agent."""
        until = self._clock.monotonic() + seconds
        late = [one for one in self.questions if one.approved]
        while late and self._clock.monotonic() < until:
            late = [one for one in late if not self.desk.orders[one.agent_id, one.action]]
            await asyncio.sleep(0.1)
        for question in late:
            health = await self._read(f"/v1/agents/{question.agent_id}/health")
            self._people.violations.append(f"finally_what_was_approved_is_done: {question}, and it is {health}")
        return not late

    async def audit(self) -> None:
        """Every question has one answer, the one that was acknowledged, and reached its agent at most once."""
        for question in self.questions:
            await self._audit(question)

    async def _audit(self, question: Question) -> None:
        people = self._people
        kept = await self._read(f"/v1/immune/approvals/{question.approval_id}")
        approved = kept["status"] == ApprovalStatus.APPROVED
        orders = {action: count for (name, action), count in self.desk.orders.items() if name == question.agent_id}
        if question.approved is not None and (kept["answered_by"], approved) != (
            question.answered_by,
            question.approved,
        ):
            people.violations.append(f"always_what_was_acknowledged_is_kept: {question}, and it says {kept}")
        if any(count > 1 for count in orders.values()) or (orders and not approved):
            incident = await self._read(f"/v1/immune/incidents/{kept['incident_id']}")
            told = f"{self.desk.came(question.agent_id)}, and written down is {incident['treatments']}"
            people.violations.append(f"always_an_approval_is_executed_once: {kept['status']} {question}: {told}")
        people.counts["remedies executed"] += sum(orders.values())

    async def _read(self, path: str) -> Any:
        return await self._people.insist(lambda client: client.read_json(path), always=True)
