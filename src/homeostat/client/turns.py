"""Turns for a worker that runs elsewhere."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final

import msgspec

from homeostat.client import reading
from homeostat.client.client import Client, path_part
from homeostat.client.heartbeat import whereabouts
from homeostat.client.hosted import HOSTED_TYPE, HostedHeartbeats
from homeostat.client.keys import KeyRing
from homeostat.client.transport import ANSWER_SECONDS_MAX, BACKOFF_SECONDS_FIRST, BACKOFF_SECONDS_MAX, Received
from homeostat.core.codec import Json
from homeostat.core.errors import AgentExists, CardUnknown, ServerUnreachable, StaleEpoch, Unavailable, WorkerUnknown
from homeostat.core.holdings import Holdings
from homeostat.core.ids import BoxId, CardId, TurnId, WorkerId
from homeostat.core.limits import CLAIM_WAIT_SECONDS_MAX, LEASE_BEATS
from homeostat.core.ports.turns import OnRevoke
from homeostat.core.records.card import Card, CardDraft
from homeostat.core.records.turn import AgentKey, Grant, ToolCall
from homeostat.core.records.view import Hydration, Outcome
from homeostat.core.records.work import Ask, Delivered, Fence, Suspended
from homeostat.core.wire import answers as a
from homeostat.core.wire import workers as w

log = logging.getLogger(__name__)

WRITTEN_SECONDS: Final = 0.1  # a turn that is said to be lost while it is written for is asked about again after this


class HttpSession:
    """One worker's standing with a server; it outlives the server's restarts as long as the lease does."""

    def __init__(self, client: Client, hosted: Collection[AgentKey], on_revoke: OnRevoke, keys: KeyRing) -> None:
        self._client = client
        self._heartbeats = HostedHeartbeats(client, keys)
        self._hosted = dict.fromkeys(hosted)
        self._on_revoke = on_revoke
        self._worker_id: WorkerId | None = None
        self._lease_seconds = 0.0
        self._holdings: Holdings
        self._opening = asyncio.Lock()
        self._writing = Counter[TurnId]()

    # --- coming and going ----------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Open the session, or take it up again with a server that does not know it."""
        body = {
            "agents": [{"project": project, "agent_id": agent_id} for project, agent_id in self._hosted],
            "worker_id": self._worker_id,
            "holding": self._held() if self._worker_id is not None else [],
        }
        session = (await self._post("/v1/workers", body)).read(w.SessionShape)
        if self._worker_id is None:
            self._worker_id = WorkerId(session.worker_id)
            self._lease_seconds = session.lease_seconds
            self._holdings = Holdings(
                clock=self._client.transport.clock, lease_seconds=session.lease_seconds, on_revoke=self._revoked
            )
            self._heartbeats.host(self._hosted)
        self._take_away(session.revoked)

    def _take_away(self, lost: Collection[w.HeldTurn]) -> bool:
        """Let go of turns; False if one of them is written for at this moment, of which the answer to that tells.

        The turn may have ended by this very request, which another server may have got.
        """
        fences = [reading.fence(one, self.worker_id) for one in lost]
        left = [fence for fence in fences if fence.turn_id in self._writing and self._holdings.holds(fence)]
        for fence in fences:
            if fence not in left:
                self._holdings.revoke(fence)
        return not left

    def _revoked(self, fence: Fence) -> None:
        self._heartbeats.left(fence.key, fence.turn_id, "lost")
        self._on_revoke(fence)

    @property
    def worker_id(self) -> WorkerId:
        assert self._worker_id is not None
        return self._worker_id

    @property
    def lease_seconds(self) -> float:
        return self._lease_seconds

    async def host(self, agents: Collection[AgentKey]) -> None:
        self._hosted.update(dict.fromkeys(agents))
        body = {"agents": [{"project": project, "agent_id": agent_id} for project, agent_id in agents]}
        await self._mine("agents", body)
        self._heartbeats.host(agents)

    async def claim(self, limit: int, seconds: float) -> list[Grant]:
        held = min(seconds, CLAIM_WAIT_SECONDS_MAX)
        body = {"limit": limit, "wait": held, "holding": self._holding()}
        answer = (await self._mine("claim", body, held=held)).read(w.Grants)
        grants = [reading.grant(shape) for shape in answer.grants]
        return [grant for grant in grants if self._take(grant)]

    def _take(self, grant: Grant) -> bool:
        taken = self._holdings.take(grant)
        if taken:
            self._heartbeats.began(grant)
        return taken

    def _drop(self, grant: Grant, what: str) -> None:
        self._holdings.drop(grant)
        self._heartbeats.left(grant.turn.key, grant.turn.turn_id, what)

    async def renew(self, seconds: float = 0.0) -> None:
        try:
            async with asyncio.timeout(self._holdings.seconds_left):
                answer = await self._beat(min(seconds, CLAIM_WAIT_SECONDS_MAX))
        except TimeoutError as problem:
            self._holdings.let_go()
            raise ServerUnreachable(url=self._client.url, problem="no beat got through for a whole lease") from problem
        except Unavailable:
            self._holdings.missed()
            raise
        if not self._take_away(answer.revoked):
            await asyncio.sleep(min(seconds, WRITTEN_SECONDS))  # else the same would be answered at once

    async def _beat(self, held: float) -> w.Revoked:
        """Beat until it gets through. One that is repeated is not held open: the lease is what it is about."""
        transport = self._client.transport
        clock, seconds = transport.clock, min(self._lease_seconds / LEASE_BEATS, ANSWER_SECONDS_MAX)
        until, backoff = clock.monotonic() + transport.retry_seconds, BACKOFF_SECONDS_FIRST
        path = f"/v1/workers/{self.worker_id}/renew"
        while True:
            sent_at = clock.monotonic()
            try:
                answer = await self._introduced(
                    lambda held=held: transport.send(
                        "POST",
                        path,
                        body={"wait": held, "held": self._held()},
                        held_seconds=held,
                        answer_seconds=seconds,
                        retry_seconds=0.0,
                    )
                )
            except Unavailable as error:
                if error.http_status == 500 or clock.monotonic() + backoff > until:
                    raise
            else:
                self._holdings.beaten(sent_at)
                return answer.read(w.Revoked)
            await asyncio.sleep(transport.ids.uniform(backoff / 2, backoff))
            held, backoff = 0.0, min(backoff * 2, BACKOFF_SECONDS_MAX)

    async def close(self) -> None:
        await self._heartbeats.close()
        try:
            await self._client.transport.send("DELETE", f"/v1/workers/{self.worker_id}")
        except WorkerUnknown:
            return

    # --- working -------------------------------------------------------------------------------------------

    async def hydrate(self, grant: Grant) -> Hydration:
        if grant.fresh and grant.turn.context_box_id is None and grant.turn.output_box_id is None:
            return Hydration({}, (), ())
        path, query = self._path(grant, "hydration"), {"fresh": str(grant.fresh).lower()}
        try:
            answer = await self._introduced(
                lambda: self._client.transport.send("GET", path, project=grant.turn.project, query=query)
            )
        except StaleEpoch:
            self._drop(grant, "lost")
            raise
        return reading.hydration(answer.read(w.HydrationShape))

    async def card(self, grant: Grant, card_id: CardId) -> Card | None:
        path = f"/v1/cards/{path_part(card_id)}"
        try:
            answer = await self._client.transport.send("GET", path, project=grant.turn.project)
        except CardUnknown:
            return None
        return reading.card(answer.read(a.CardShape))

    async def step(self, grant: Grant, name: str, outcome: Json) -> None:
        await self._for(grant, "steps", {"name": name, "outcome": _raw(outcome)})

    async def write(self, grant: Grant, cards: tuple[CardDraft, ...]) -> tuple[CardId, ...]:
        answer = await self._for(grant, "cards", {"cards": _cards(cards)})
        return tuple(CardId(one) for one in answer.read(w.CardIds).card_ids)

    async def swap_boxes(
        self, grant: Grant, *, context_box_id: BoxId | None = None, output_box_id: BoxId | None = None
    ) -> None:
        await self._for(grant, "boxes", {"context_box_id": context_box_id, "output_box_id": output_box_id})

    async def suspend(
        self,
        grant: Grant,
        calls: tuple[ToolCall, ...] = (),
        *,
        asks: tuple[Ask, ...] = (),
        cards: tuple[CardDraft, ...] = (),
    ) -> Suspended:
        body = {"calls": list(map(_call, calls)), "asks": list(map(_ask, asks)), "cards": _cards(cards)}
        shape = (await self._for(grant, "suspend", body)).read(w.SuspendedShape)
        if not shape.ready:
            self._drop(grant, "suspended")
        waits = tuple(reading.wait(one, grant.turn.turn_id, grant.turn.key) for one in shape.waits)
        return Suspended(waits, shape.ready)

    async def deliver(
        self,
        grant: Grant,
        *,
        status: Outcome,
        result: Json,
        error: Json | None = None,
        cards: tuple[CardDraft, ...] = (),
        recording: Json | None = None,
        claim_next: bool = False,
    ) -> Delivered:
        body = {
            "status": status.value,
            "result": _raw(result),
            "error": None if error is None else _raw(error),
            "cards": _cards(cards),
            "recording": None if recording is None else _raw(recording),
            "claim_next": claim_next,
        }
        shape = (await self._for(grant, "deliver", body)).read(w.DeliveredShape)
        self._holdings.drop(grant)
        self._heartbeats.ended(grant, failed=status is not Outcome.SUCCESS)
        following = None if shape.next is None else reading.grant(shape.next)
        if following is not None and not self._take(following):
            following = None
        return Delivered(CardId(shape.card_id), following)

    async def release(self, grant: Grant) -> None:
        try:
            await self._for(grant, "release", {})
        finally:
            self._drop(grant, "handed back")  # also unheard: nobody works on it, and beats must not keep it

    async def emit(self, grant: Grant, chunk: Json) -> None:
        await self._for(grant, "chunks", {"chunk": _raw(chunk)})

    # --- inside --------------------------------------------------------------------------------------------

    def _holding(self) -> list[str]:
        return [fence.turn_id for fence in self._holdings.fences]

    def _held(self) -> list[dict[str, Any]]:
        return [
            {"project": fence.key[0], "agent_id": fence.key[1], "turn_id": fence.turn_id, "epoch": fence.epoch}
            for fence in self._holdings.fences
        ]

    def _path(self, grant: Grant, what: str) -> str:
        return f"/v1/workers/{self.worker_id}/turns/{grant.turn.turn_id}/{what}"

    async def _for(self, grant: Grant, what: str, body: dict[str, Any]) -> Received:
        """Write for a turn; one that is no longer held is forgotten."""
        fenced = {"agent_id": grant.turn.agent_id, "epoch": grant.epoch, **body}
        self._writing[grant.turn.turn_id] += 1
        try:
            return await self._known(self._path(grant, what), fenced, project=grant.turn.project)
        except StaleEpoch:
            self._drop(grant, "lost")
            raise
        finally:
            self._writing[grant.turn.turn_id] -= 1
            if not self._writing[grant.turn.turn_id]:
                del self._writing[grant.turn.turn_id]

    async def _mine(self, what: str, body: dict[str, Any], *, held: float = 0.0) -> Received:
        return await self._known(f"/v1/workers/{self.worker_id}/{what}", body, held=held)

    async def _known(
        self, path: str, body: dict[str, Any], *, project: str | None = None, held: float = 0.0
    ) -> Received:
        return await self._introduced(lambda: self._post(path, body, project=project, held=held))

    async def _introduced(self, ask: Callable[[], Awaitable[Received]]) -> Received:
        """Ask as a worker the server knows; to one that was restarted the worker is introduced first."""
        try:
            return await ask()
        except WorkerUnknown:
            async with self._opening:
                await self.begin()
            return await ask()

    async def _post(
        self, path: str, body: dict[str, Any], *, project: str | None = None, held: float = 0.0
    ) -> Received:
        said = {name: value for name, value in body.items() if value is not None}
        return await self._client.transport.send("POST", path, project=project, body=said, held_seconds=held)


class HttpTurns:
    """A server as a source of turns."""

    def __init__(self, client: Client, keys: KeyRing | None = None) -> None:
        self._client = client
        self._keys = keys or KeyRing(None, url=client.url)

    async def register(self, agents: Collection[AgentKey]) -> None:
        """Make agents known; one that is known already, under a key that is not here, is taken as it is."""
        for agent in agents:
            known = self._keys.get(agent)
            body = {"agent_type": HOSTED_TYPE, "agent_id": agent[1], "api_key": known, **whereabouts()}
            said = {name: value for name, value in body.items() if value is not None}
            try:
                answer = await self._client.transport.send("POST", "/v1/agents/register", project=agent[0], body=said)
            except AgentExists:
                log.warning("agent %s is known to the server under another key, or in another project", agent[1])
                continue
            if key := answer.read(a.Registered).api_key:
                self._keys.keep(agent, key)

    async def open(self, hosted: Collection[AgentKey], on_revoke: OnRevoke) -> HttpSession:
        session = HttpSession(self._client, hosted, on_revoke, self._keys)
        await session.begin()
        return session


def _raw(text: Json) -> msgspec.Raw:
    return msgspec.Raw(text.encode())


def _cards(drafts: tuple[CardDraft, ...]) -> list[dict[str, Any]]:
    return [{"type": draft.type, "content": _raw(draft.content)} for draft in drafts]


def _call(call: ToolCall) -> dict[str, Any]:
    return {
        "tool_call_id": call.call_id,
        "tool": call.tool,
        "args": _raw(call.args),
        "timeout_seconds": call.timeout_seconds,
        "after_execution": call.after_execution.value,
        "step_id": call.step_id,
    }


def _ask(ask: Ask) -> dict[str, Any]:
    return {
        "tool_call_id": ask.call_id,
        "agent_id": ask.agent_id,
        "payload": _raw(ask.payload),
        "timeout_seconds": ask.timeout_seconds,
        "step_id": ask.step_id,
        "context_box_id": ask.context_box_id,
        "result_fields": None if ask.result_fields is None else _raw(ask.result_fields),
    }
