"""A gateway without a network: requests go in as ASGI, answers come out as they were sent, piece by piece."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.adapters.prices.listed import ListedPrices
from homeostat.adapters.stores.sqlite import SqliteEngine
from homeostat.adapters.stores.sqlite.gateway import SqliteGateway
from homeostat.adapters.upstreams.simulated import Pace, SimulatedUpstream
from homeostat.core.clock import Clock, Millis
from homeostat.core.ids import DEFAULT_PROJECT, AgentId
from homeostat.core.ports.bus import Bus
from homeostat.core.ports.gateway import Assignments, GatewayStore, Listener
from homeostat.core.ports.upstream import Upstream
from homeostat.core.records.budget import Budget, BudgetKind
from homeostat.core.records.call import Call, CallFilter
from homeostat.core.records.policy import Action, Policy, PolicyId
from homeostat.core.records.turn import AgentKey
from homeostat.gateway.gateway import Gateway
from homeostat.gateway.office import Manners
from homeostat.gateway.routes import Family, Outlet

INSTANT = Pace(0.0, 0.0)
KEY = "hs_key_of_ann"
ANN: AgentKey = (DEFAULT_PROJECT, AgentId("ann"))


class Keys:
    """A keyring that is filled by hand."""

    def __init__(self, keys: Mapping[str, AgentKey]) -> None:
        self._holders = {sha256(key.encode()).hexdigest(): agent for key, agent in keys.items()}
        self.asked = 0

    def add(self, key: str, agent: AgentKey) -> None:
        self._holders[sha256(key.encode()).hexdigest()] = agent

    def drop(self, key: str) -> None:
        del self._holders[sha256(key.encode()).hexdigest()]

    def left(self, agent: AgentKey) -> bool:
        del agent
        return False

    async def holder(self, key_digest: str) -> AgentKey | None:
        self.asked += 1
        return self._holders.get(key_digest)


@dataclass(slots=True)
class Heard:
    """What a client heard: the head, and the pieces of the body in the order in which they were sent."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict[str, str])
    pieces: list[bytes] = field(default_factory=list[bytes])
    ended: bool = False

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Conversation:
    """One request under way. A test may hang up, stop reading, and wait for what it hears."""

    def __init__(self, scope: dict[str, Any], body: bytes) -> None:
        self.scope = scope
        self.heard = Heard()
        self.reading = asyncio.Event()
        self.reading.set()
        self._body: bytes | None = body
        self._gone = asyncio.Event()
        self._progress = asyncio.Event()

    def hang_up(self) -> None:
        self._gone.set()

    async def until(self, pieces: int) -> None:
        """Wait for so many pieces."""
        while len(self.heard.pieces) < pieces and not self.heard.ended:
            self._progress.clear()
            await self._progress.wait()

    async def receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        await self.reading.wait()
        if message["type"] == "http.response.start":
            self.heard.status = message["status"]
            self.heard.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            if message.get("body"):
                self.heard.pieces.append(message["body"])
            self.heard.ended = not message.get("more_body", False)
        self._progress.set()


@dataclass(slots=True)
class Booth:
    """A gateway and those who call it."""

    gateway: Gateway
    keys: Keys
    bus: Bus
    store: GatewayStore
    upstream: Upstream

    def open(
        self,
        path: str,
        body: object = None,
        *,
        key: str | None = KEY,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
    ) -> Conversation:
        """Prepare a request; `talk` sends it."""
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        lines = {
            "host": "gateway",
            "content-type": "application/json",
            "content-length": str(len(raw)),
            **(headers or {}),
        }
        if key is not None:
            lines["authorization"] = f"Bearer {key}"
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in lines.items()],
        }
        return Conversation(scope, raw)

    async def talk(self, conversation: Conversation) -> Heard:
        await self.gateway.application(conversation.scope, conversation.receive, conversation.send)
        return conversation.heard

    async def call(self, path: str, body: object = None, **options: Any) -> Heard:
        """Send a request and hear its whole answer."""
        return await self.talk(self.open(path, body, **options))

    async def chat(self, content: str = "Hello", *, key: str | None = KEY, headers: Any = None, **fields: Any) -> Heard:
        body = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": content}], **fields}
        return await self.call("/openai/v1/chat/completions", body, key=key, headers=headers)

    async def log(self, **wanted: Any) -> list[Call]:
        """The call log, newest first."""
        return await self.gateway.calls(CallFilter(project=DEFAULT_PROJECT, **wanted), 500)

    async def put(self, action: Action, *, agent: str | None = "ann", policy_id: str = "", **terms: Any) -> Policy:
        policy = Policy(
            policy_id=PolicyId(policy_id or action.value),
            project=DEFAULT_PROJECT,
            agent_id=None if agent is None else AgentId(agent),
            action=action,
            created_at_ms=self.gateway.clock.now_ms(),
            **terms,
        )
        return await self.gateway.put_policy(policy)

    async def grant(self, holder: str = "ann", *, kind: BudgetKind = BudgetKind.AGENT, **bounds: Any) -> Budget:
        budget = Budget(
            project=DEFAULT_PROJECT, kind=kind, holder=holder, started_at_ms=self.gateway.clock.now_ms(), **bounds
        )
        return await self.gateway.put_budget(budget)

    async def account(self, holder: str = "ann", kind: BudgetKind = BudgetKind.AGENT) -> Budget:
        found = await self.gateway.budget((DEFAULT_PROJECT, kind, holder))
        assert found is not None
        return found


@asynccontextmanager
async def booth(
    *,
    upstream: Upstream | None = None,
    path: Path | None = None,
    store: GatewayStore | None = None,
    bus: Bus | None = None,
    clock: Clock | None = None,
    keys: Keys | None = None,
    manners: Manners | None = None,
    development: bool = False,
    assignments: Assignments | None = None,
    listener: Listener | None = None,
    lease_seconds: float = 10.0,
) -> AsyncGenerator[Booth, None]:
    """A gateway that runs within the block, on a store of its own unless one is given."""
    engine: SqliteEngine | None = None
    if store is None:
        engine = SqliteEngine(path)
        await engine.open()
        store = SqliteGateway(engine)
    bus = bus or LocalBus()
    keys = keys or Keys({KEY: ANN})
    upstream = upstream or SimulatedUpstream(pace=INSTANT)
    gateway = Gateway(
        store=store,
        bus=bus,
        keyring=keys,
        prices=ListedPrices(),
        outlets=[
            Outlet(name="openai", family=Family.OPENAI, upstream=upstream, provider="openai"),
            Outlet(name="anthropic", family=Family.ANTHROPIC, upstream=upstream, provider="anthropic"),
        ],
        clock=clock,
        manners=manners,
        development=development,
        assignments=assignments,
        listener=listener,
        lease_seconds=lease_seconds,
    )
    await gateway.open()
    loops = [asyncio.create_task(run(), name=title) for title, run in gateway.loops]
    try:
        yield Booth(gateway, keys, bus, store, upstream)
    finally:
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await gateway.close()
        if engine is not None:
            await engine.close()


async def until(holds: Callable[[], bool]) -> None:
    """Let everybody else go on until something holds."""
    while not holds():  # noqa: ASYNC110 - what it waits for has no signal of its own
        await asyncio.sleep(0)


def later(clock: Clock, seconds: float) -> Millis:
    """An instant from now."""
    return Millis(clock.now_ms() + int(seconds * 1000))
