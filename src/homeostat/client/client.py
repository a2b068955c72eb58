"""Homeostat from anywhere: send messages, follow turns, read what came of them."""

import os
from collections.abc import Sequence
from typing import Any, Final, Self
from urllib.parse import quote

import msgspec

from homeostat.client import reading
from homeostat.client.feed import FleetFeed
from homeostat.client.heartbeat import Heartbeat
from homeostat.client.pulse import Queue
from homeostat.client.runs import RunsClient
from homeostat.client.transport import RETRY_SECONDS, Received, Transport
from homeostat.core.codec import to_json
from homeostat.core.errors import SettingInvalid, TurnUnfinished
from homeostat.core.ids import DEFAULT_PROJECT, BoxId
from homeostat.core.limits import DELIVERABLE_WAIT_SECONDS_MAX, PAGE_MAX
from homeostat.core.records.card import Card
from homeostat.core.records.view import Deliverable, Edge, HeadView, TurnView
from homeostat.core.wire import answers as a
from homeostat.core.wire.fleet import AgentDetail, AgentRow, HistoryPage

URL_DEFAULT: Final = "http://127.0.0.1:7700"
URL_VARIABLE: Final = "HOMEOSTAT_URL"
KEY_VARIABLE: Final = "HOMEOSTAT_KEY"
PROJECT_VARIABLE: Final = "HOMEOSTAT_PROJECT"
ASK_SECONDS: Final = 60.0


class Client:
    """A connection to a Homeostat server. Close it, or use it as `async with Client() as client`.

    Where the server is and who is speaking come from HOMEOSTAT_URL and HOMEOSTAT_KEY unless they are passed. Errors
    are those of `homeostat.core.errors`; a server that cannot be reached is tried again for `retry_seconds`.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        key: str | None = None,
        project: str | None = None,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        environment = os.environ
        self.url = url or environment.get(URL_VARIABLE) or URL_DEFAULT
        if not self.url.startswith(("http://", "https://")):
            named = URL_VARIABLE if self.url == environment.get(URL_VARIABLE) else "--url"
            raise SettingInvalid(setting=named, problem=f"{self.url!r} does not begin with http:// or https://")
        self.project = project or environment.get(PROJECT_VARIABLE) or DEFAULT_PROJECT
        self.transport = Transport(url=self.url, key=key or environment.get(KEY_VARIABLE), retry_seconds=retry_seconds)
        self.runs = RunsClient(self.transport, self.project)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self.transport.close()

    # --- agents --------------------------------------------------------------------------------------------

    async def register(
        self,
        agent_type: str,
        *,
        agent_id: str | None = None,
        tags: Sequence[str] = (),
        hostname: str | None = None,
        pid: int | None = None,
        version: str | None = None,
    ) -> a.Registered:
        """Make an agent known, so that it can be sent messages."""
        body = {
            "agent_type": agent_type,
            "agent_id": agent_id,
            "tags": list(tags),
            "hostname": hostname,
            "pid": pid,
            "version": version,
        }
        return (await self._post("/v1/agents/register", body)).read(a.Registered)

    def heartbeat(
        self,
        agent_type: str,
        *,
        tags: Sequence[str] | None = None,
        agent_id: str | None = None,
        api_key: str | None = None,
        queue: Queue | None = None,
        version: str | None = None,
        deregister: bool = True,
    ) -> Heartbeat:
        """Register an agent and beat for it while a block runs: `async with client.heartbeat("inference") as heart:`.

        With `agent_id` and `api_key` it comes back as who it was. `queue` is what its queue depth is read from,
        `version` what it says it is a version of, else HOMEOSTAT_AGENT_VERSION.
        `deregister=False` leaves it listed when the block ends.
        """
        return Heartbeat(
            self,
            agent_type,
            tags=None if tags is None else tuple(tags),
            agent_id=agent_id,
            api_key=api_key,
            queue=queue,
            version=version,
            deregister=deregister,
        )

    async def agents(
        self,
        *,
        agent_type: str | None = None,
        tag: str | None = None,
        status: str | None = None,
        query: str | None = None,
    ) -> list[AgentRow]:
        """Who is registered, in order of ids; every page of it. `query` is a filter, as in `phase:healthy tag:gpu`."""
        answer = await self._get("/v1/agents", type=agent_type, tag=tag, status=status, q=query)
        found = answer.read(list[AgentRow])
        while answer.next_path is not None:
            answer = await self._get(answer.next_path)
            found += answer.read(list[AgentRow])
        return found

    async def agent(self, agent_id: str) -> AgentDetail:
        """An agent: whether it is heard, how healthy it is, what it says of itself, and the turn it works on."""
        return (await self._get(f"/v1/agents/{path_part(agent_id)}")).read(AgentDetail)

    async def history(self, agent_id: str) -> HistoryPage:
        """An agent's last heartbeats, oldest first."""
        return (await self._get(f"/v1/agents/{path_part(agent_id)}/history")).read(HistoryPage)

    def follow(self, *, agent_type: str | None = None, tag: str | None = None) -> FleetFeed:
        """The fleet, live: `async for change in client.follow():`, with its `agents` always current."""
        return FleetFeed(
            self.url,
            project=self.project,
            key=self.transport.key,
            agent_type=agent_type,
            tag=tag,
            ids=self.transport.ids,
        )

    async def head(self, agent_id: str) -> HeadView:
        """An agent's active turn, its gate, and how much waits."""
        return reading.head((await self._get(f"/v1/agents/{path_part(agent_id)}/head")).read(a.HeadShape))

    async def inbox(self, agent_id: str, *, limit: int = PAGE_MAX, cursor: str | None = None) -> a.InboxPage:
        """What an agent has before it: the active item, then the line in order."""
        return (await self._get(f"/v1/agents/{path_part(agent_id)}/inbox", limit=limit, cursor=cursor)).read(
            a.InboxPage
        )

    async def turns(
        self, agent_id: str, *, limit: int = 50, cursor: str | None = None
    ) -> tuple[list[TurnView], str | None]:
        """An agent's turns, newest first, and where the next page begins."""
        page = (await self._get(f"/v1/agents/{path_part(agent_id)}/turns", limit=limit, cursor=cursor)).read(
            a.TurnsPage
        )
        return [reading.turn_view(one) for one in page.items], page.next_cursor

    # --- messages and turns --------------------------------------------------------------------------------

    async def enqueue(
        self,
        agent_id: str,
        payload: object,
        *,
        type: str = "turn",  # noqa: A002 — it is called so in the protocol
        correlation_id: str | None = None,
        context_box_id: str | None = None,
        output_box_id: str | None = None,
        result_fields: Sequence[str | dict[str, Any]] | None = None,
        run_id: str | None = None,
        parent_turn_id: str | None = None,
        parent_step_id: str | None = None,
        depth: int = 0,
        trace_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> a.Accepted:
        """Put a message into an agent's inbox; it is durable when this returns."""
        body = {
            "type": type,
            "payload": _raw(payload, "payload"),
            "correlation_id": correlation_id,
            "context_box_id": context_box_id,
            "output_box_id": output_box_id,
            "result_fields": None if result_fields is None else [_field(one) for one in result_fields],
            "run_id": run_id,
            "parent_turn_id": parent_turn_id,
            "parent_step_id": parent_step_id,
            "depth": depth,
            "trace_id": trace_id,
        }
        answer = await self._post(f"/v1/agents/{path_part(agent_id)}/inbox", body, key=idempotency_key)
        return answer.read(a.Accepted)

    async def ask(self, agent_id: str, payload: object, *, wait: float = ASK_SECONDS, **message: Any) -> Deliverable:
        """Send a message and wait for what comes of it; raises `TurnUnfinished` when the time is over."""
        accepted = await self.enqueue(agent_id, payload, **message)
        return await self.deliverable(accepted.turn_id, wait=wait)

    async def turn(self, turn_id: str) -> TurnView:
        """A turn as it stands now."""
        return reading.turn_view((await self._get(f"/v1/turns/{path_part(turn_id)}")).read(a.TurnShape))

    async def deliverable(self, turn_id: str, *, wait: float = 0.0) -> Deliverable:
        """How a turn ended, waiting up to `wait` seconds for it; raises `TurnUnfinished` when the time is over."""
        until = self.transport.clock.monotonic() + wait
        left = wait
        while True:
            held = min(max(left, 0.0), DELIVERABLE_WAIT_SECONDS_MAX)
            try:
                answer = await self._get(f"/v1/turns/{path_part(turn_id)}/deliverable", held=held, wait=held or None)
                return reading.deliverable(answer.read(a.DeliverableShape))
            except TurnUnfinished:
                left = until - self.transport.clock.monotonic()
                if left <= 0:
                    raise

    async def report(
        self,
        turn_id: str,
        tool_call_id: str,
        result: object,
        *,
        status: str = "success",
        after_execution: str | None = None,
        idempotency_key: str | None = None,
    ) -> a.ReportedShape:
        """Bring a tool's result to the turn that waits for it."""
        body = {
            "tool_call_id": tool_call_id,
            "status": status,
            "result": _raw(result, "result"),
            "after_execution": after_execution,
        }
        answer = await self._post(f"/v1/turns/{path_part(turn_id)}/results", body, key=idempotency_key)
        return answer.read(a.ReportedShape)

    async def stop(self, turn_id: str, *, reason: str = "stopped by a caller", actor: str = "api") -> a.StoppedShape:
        """End a turn at once."""
        answer = await self._post(f"/v1/turns/{path_part(turn_id)}/stop", {"reason": reason, "actor": actor})
        return answer.read(a.StoppedShape)

    async def edges(
        self, *, trace_id: str | None = None, turn_id: str | None = None, limit: int = PAGE_MAX
    ) -> list[Edge]:
        """Who caused what, within a trace or around a turn; every page of it."""
        found: list[Edge] = []
        cursor: str | None = None
        while True:
            answer = await self._get("/v1/edges", trace_id=trace_id, turn_id=turn_id, limit=limit, cursor=cursor)
            page = answer.read(a.EdgesPage)
            found += [reading.edge(one) for one in page.items]
            if (cursor := page.next_cursor) is None:
                return found

    # --- cards and boxes -----------------------------------------------------------------------------------

    async def card(self, card_id: str) -> Card:
        return reading.card((await self._get(f"/v1/cards/{path_part(card_id)}")).read(a.CardShape))

    async def box(self, box_id: str) -> list[Card]:
        """All cards of a box, in order."""
        found: list[Card] = []
        cursor: str | None = None
        while True:
            answer = await self._get(f"/v1/boxes/{path_part(box_id)}", limit=PAGE_MAX, cursor=cursor)
            page = answer.read(a.BoxPage)
            found += [reading.card(one) for one in page.items]
            if (cursor := page.next_cursor) is None:
                return found

    async def create_box(self, cards: Sequence[tuple[str, object]] = (), *, author: str | None = None) -> BoxId:
        """Make a box of (type, content) pairs, for use as context or as rolling memory."""
        body = {
            "cards": [{"type": kind, "content": _raw(content, "content")} for kind, content in cards],
            "author": author,
        }
        return BoxId((await self._post("/v1/boxes", body)).read(a.BoxMade).box_id)

    async def fork_box(self, box_id: str) -> BoxId:
        """Copy a box."""
        return BoxId((await self._post(f"/v1/boxes/{path_part(box_id)}/fork", {})).read(a.BoxMade).box_id)

    async def delete_box(self, box_id: str) -> None:
        """End a box that nothing needs: its cards leave the store."""
        await self.transport.send("DELETE", f"/v1/boxes/{path_part(box_id)}", project=self.project)

    # --- inside --------------------------------------------------------------------------------------------

    async def read_json(self, path: str) -> Any:
        """Any route's answer as it is, for those who pass it on."""
        return msgspec.json.decode((await self._get(path)).content)

    async def post_json(self, path: str, body: dict[str, Any]) -> Any:
        """Ask something of any route; its answer as it is."""
        return msgspec.json.decode((await self._post(path, body)).content)

    async def put_json(self, path: str, body: dict[str, Any]) -> Any:
        """Set something at any route; its answer as it is."""
        received = await self.transport.send("PUT", path, project=self.project, body=body)
        return msgspec.json.decode(received.content)

    async def delete(self, path: str) -> None:
        """Take away what any route shows."""
        await self.transport.send("DELETE", path, project=self.project)

    async def _get(self, path: str, *, held: float = 0.0, **query: Any) -> Received:
        asked = {name: value for name, value in query.items() if value is not None}
        return await self.transport.send("GET", path, project=self.project, query=asked, held_seconds=held)

    async def _post(self, path: str, body: dict[str, Any], *, key: str | None = None) -> Received:
        said = {name: value for name, value in body.items() if value is not None}
        return await self.transport.send("POST", path, project=self.project, body=said, key=key)


def path_part(name: str) -> str:
    """A name as one part of a path, whatever is in it."""
    return quote(name, safe="")


def _raw(value: object, what: str) -> msgspec.Raw:
    """A value as JSON, checked here so that the mistake is found where it was made."""
    return msgspec.Raw(to_json(value, what=what).encode())


def _field(wanted: str | dict[str, Any]) -> dict[str, Any]:
    return {"name": wanted} if isinstance(wanted, str) else wanted
