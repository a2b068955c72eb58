"""The fleet as it changes: a connection that comes back by itself and a table of agents that is always current."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import msgspec

from homeostat.core.errors import ServerUnreachable
from homeostat.core.ids import Ids
from homeostat.core.machines.liveness import Liveness

MESSAGE_BYTES_MAX: Final = 64 << 20  # a snapshot's part of a large fleet
BACKOFF_SECONDS: Final = (0.1, 2.0)
OPEN_SECONDS_MAX: Final = 5.0
PING_SECONDS: Final = 10.0  # a server that is silent for twice as long is gone

Row = dict[str, Any]

_decode = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(frozen=True, slots=True)
class Change:
    """What one message brought: agents that are new or different, and those that left. `snapshot`: all were told."""

    changed: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    snapshot: bool = False
    connected: bool = True
    events: tuple[Row, ...] = field(default=(), repr=False)


class FleetFeed:
    """Follows the live feed of one server. Iterate over it; each step has brought `agents` up to date.

    A connection that breaks is made anew, and goes on where it was if the server still knows: a step whose change is
    not `connected` says that what `agents` shows may be old.
    """

    def __init__(
        self,
        url: str,
        *,
        project: str | None = None,
        key: str | None = None,
        agent_type: str | None = None,
        tag: str | None = None,
        ids: Ids | None = None,
    ) -> None:
        self._url = url
        self._wanted = {"type": agent_type, "tag": tag, "project": project}
        self._key = key
        self._ids = ids or Ids()
        self._incoming: dict[str, Row] = {}
        self.agents: dict[str, Row] = {}
        self.stream: str | None = None
        self.seq = 0
        self.connected = False
        self.problem = ""

    async def __aiter__(self) -> AsyncGenerator[Change, None]:
        pause = BACKOFF_SECONDS[0]
        while True:
            try:
                async with contextlib.aclosing(self._messages()) as messages:
                    async for message in messages:
                        pause = BACKOFF_SECONDS[0]
                        self.connected = True
                        if (change := self._take(_decode(message))) is not None:
                            yield change
            except ServerUnreachable as problem:
                self.problem = str(problem.facts.get("problem", problem))
            self.connected = False
            yield Change(connected=False)
            await asyncio.sleep(self._ids.uniform(pause / 2, pause))
            pause = min(pause * 2, BACKOFF_SECONDS[1])

    async def _messages(self) -> AsyncGenerator[str | bytes, None]:
        """The messages of one connection; its end, whatever the reason, is `ServerUnreachable`."""
        from websockets.asyncio.client import connect  # noqa: PLC0415 - only followers need it
        from websockets.exceptions import WebSocketException  # noqa: PLC0415

        headers = {"authorization": f"Bearer {self._key}"} if self._key else None
        try:
            async with connect(
                self.address,
                additional_headers=headers,
                max_size=MESSAGE_BYTES_MAX,
                open_timeout=OPEN_SECONDS_MAX,
                ping_interval=PING_SECONDS,
                ping_timeout=PING_SECONDS,
                close_timeout=1,
                proxy=None,
            ) as socket:
                async for message in socket:
                    yield message
            raise ServerUnreachable(url=self._url, problem="it closed the connection")
        except (OSError, TimeoutError, WebSocketException, ssl.SSLError) as problem:
            words = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
            raise ServerUnreachable(url=self._url, problem=words) from problem

    @property
    def address(self) -> str:
        """Where to connect next: behind what is known, if anything is."""
        parts = urlsplit(self._url)
        query: dict[str, object] = {name: value for name, value in self._wanted.items() if value is not None}
        if self.stream is not None:
            query |= {"stream": self.stream, "since": self.seq}
        scheme = "wss" if parts.scheme == "https" else "ws"
        return f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}/v1/ws/status?{urlencode(query)}"

    # --- putting it together -------------------------------------------------------------------------------

    def _take(self, message: Row) -> Change | None:
        if message["type"] == "snapshot":
            return self._take_snapshot(message)
        if message["stream"] != self.stream or message["since"] > self.seq:
            self.stream = None  # something is missing: begin with a snapshot
            raise ServerUnreachable(url=self._url, problem="messages were lost on the way")
        self.seq = message["seq"]
        changed: dict[str, None] = {}
        gone: dict[str, None] = {}
        for update in message["updates"]:
            agent_id = update["agent_id"]
            if self._apply(update):
                changed[agent_id] = None
                gone.pop(agent_id, None)
            else:
                gone[agent_id] = None
                changed.pop(agent_id, None)
        return Change(tuple(changed), tuple(gone), events=tuple(message["updates"]))

    def _take_snapshot(self, message: Row) -> Change | None:
        if message["part"] == 1:
            self._incoming = {}
        self._incoming |= {agent["agent_id"]: agent for agent in message["agents"]}
        if message["part"] < message["parts"]:
            return None
        gone = tuple(agent_id for agent_id in self.agents if agent_id not in self._incoming)
        self.agents, self._incoming = self._incoming, {}
        self.stream, self.seq = message["stream"], message["seq"]
        return Change(tuple(self.agents), gone, snapshot=True)

    def _apply(self, update: Row) -> bool:
        """Bring one row up to date; False if its agent has left."""
        agent_id = update["agent_id"]
        if "agent" in update:
            if not self._fits(update["agent"]):  # it came back as somebody else
                self.agents.pop(agent_id, None)
                return False
            self.agents[agent_id] = update["agent"]
            return True
        if update["presence"] == Liveness.GONE:
            self.agents.pop(agent_id, None)
            return False
        row = self.agents.get(agent_id)
        if row is None:  # it began to fit the filter; its row comes with a registration
            return False
        if row["presence"] != update["presence"] and "presence_since" not in update:
            row["presence_since"] = update.get("last_seen_at", row["presence_since"])
        row |= {name: value for name, value in update.items() if name not in ("seq", "event")}
        return True

    def _fits(self, agent: Row) -> bool:
        agent_type, tag = self._wanted["type"], self._wanted["tag"]
        return (agent_type is None or agent["agent_type"] == agent_type) and (tag is None or tag in agent["tags"])
