"""Orders reach an agent signed, fresh and once; nobody else's are followed, and they go nowhere by surprise."""

import asyncio
from collections.abc import AsyncGenerator

import httpx2
import msgspec
import pytest

from homeostat import ManagedAgent, Profile, ReActAgent
from homeostat.adapters.remedies.chained import ChainedRemedies
from homeostat.adapters.remedies.control import ControlClient, Signer
from homeostat.adapters.remedies.simulated import SimulatedRemedies, SimulatedState
from homeostat.adapters.stores.sqlite import SqliteEnforcement, SqliteEngine
from homeostat.agent.orchestrator import Orchestrator
from homeostat.agent.treatment import treat
from homeostat.client.control import ControlDesk
from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, Ids, ProjectId
from homeostat.core.records.enforcement import Control
from homeostat.core.records.immune import Applied, RemedyAction
from homeostat.core.records.turn import AgentKey
from homeostat.core.wire.control import NONCE, PATHS, SIGNATURE, TIMESTAMP, OrderBody, signed_text
from homeostat.testing.clock import ManualClock

R = RemedyAction
ANN: AgentKey = (ProjectId("default"), AgentId("ann"))


class Clerk(ManagedAgent):
    """Remembers, and has a hook of its own."""

    memory_keys = frozenset({"names"})

    def _do_revoke_tools(self) -> str:  # pyright: ignore[reportIncompatibleMethodOverride] - an author may write it plainly
        return "its scissors were taken"


def tool(word: str) -> str:
    """Says it again."""
    return word


class Desk:
    """A desk with a hosted agent, and somebody who may give it orders."""

    def __init__(self, store: SqliteEnforcement) -> None:
        self.store = store
        self.signer = Signer(Ids().signing_seed())
        self.orchestrator = Orchestrator()
        self.orchestrator.host("ann", Clerk)
        profile = Profile(model="m", system_prompt="new", earlier_prompts=("old",), tools=(tool,), max_steps=8)
        self.orchestrator.host("bob", lambda: ReActAgent(profile))
        self.clock = ManualClock()
        self.desk = self.begin()
        self.client = ControlClient(store=store, signer=self.signer, clock=self.clock, ids=Ids())
        self.url = ""

    def begin(self) -> ControlDesk:
        return ControlDesk(
            public_key=self.signer.public,
            project="default",
            treat=lambda agent_id, action: treat(self.orchestrator, agent_id, action),
            clock=self.clock,
        )

    async def allow(self, url: str, *, private: bool = True, agent: str = "ann") -> AgentKey:
        key = (ANN[0], AgentId(agent))
        control = Control(project=key[0], agent_id=key[1], url=url, by="ann", at_ms=Millis(1), private=private)
        await self.store.put_control(control)
        return key

    def order(
        self, action: RemedyAction = R.REVOKE_TOOLS, signer: Signer | None = None
    ) -> tuple[str, bytes, dict[str, str]]:
        body = msgspec.json.encode(OrderBody(project="default", agent_id="ann"))
        stamp = str(self.clock.now_ms())
        signature = (signer or self.signer).sign(signed_text(PATHS[action], stamp, "once", body))
        return PATHS[action], body, {TIMESTAMP: stamp, NONCE: "once", SIGNATURE: signature}


@pytest.fixture
async def desk() -> AsyncGenerator[Desk]:
    engine = SqliteEngine(None)
    await engine.open()
    made = Desk(SqliteEnforcement(engine))
    made.url = await made.desk.open()
    yield made
    await made.desk.close()
    await engine.close()


async def test_hooks_and_their_defaults_are_reached_by_orders(desk: Desk) -> None:
    key = await desk.allow(desk.url)
    agent = desk.orchestrator.agent("ann")
    assert isinstance(agent, Clerk)
    await agent.memory.update("names", ["eve"])
    assert await desk.client.order(key, R.REVOKE_TOOLS, "why") == (Applied.APPLIED, "its scissors were taken")
    applied, note = await desk.client.order(key, R.RESET_MEMORY, "why")
    assert (applied, note) == (Applied.APPLIED, "1 remembered values were forgotten")
    assert await agent.memory.load("names") is None
    assert (await desk.client.order(key, R.ROLLBACK_PROMPT, "why"))[0] is Applied.NOT_APPLICABLE
    assert (await desk.client.order((ANN[0], AgentId("eve")), R.RESET_MEMORY, ""))[0] is Applied.NOT_APPLICABLE
    nobody = await desk.allow(desk.url, agent="nobody")
    assert (await desk.client.order(nobody, R.RESET_MEMORY, ""))[0] is Applied.NOT_APPLICABLE


async def test_a_react_agent_knows_every_remedy(desk: Desk) -> None:
    key = await desk.allow(desk.url, agent="bob")
    notes = [
        await desk.client.order(key, action, "why") for action in (R.ROLLBACK_PROMPT, R.REDUCE_AUTONOMY, R.REVOKE_TOOLS)
    ]
    assert [applied for applied, _ in notes] == [Applied.APPLIED] * 3
    assert [note for _, note in notes] == [
        "it works with the prompt before",
        "it takes 4 steps at most",
        "1 tools were revoked",
    ]
    assert (await desk.client.order(key, R.ROLLBACK_PROMPT, "why"))[0] is Applied.NOT_APPLICABLE, (
        "there is none before it"
    )


async def test_orders_that_are_forged_old_or_repeated_are_refused(desk: Desk) -> None:
    async with httpx2.AsyncClient(base_url=desk.url, trust_env=False) as http:
        path, body, headers = desk.order(signer=Signer(Ids().signing_seed()))
        assert (await http.post(path, content=body, headers=headers)).status_code == 401
        path, body, headers = desk.order()
        assert (await http.post(PATHS[R.RESET_MEMORY], content=body, headers=headers)).status_code == 401, (
            "another order"
        )
        assert (await http.post(path, content=body + b" ", headers=headers)).status_code == 401, "another body"
        assert (await http.post(path, content=body)).status_code == 401
        assert (await http.post("/control/explode", content=body, headers=headers)).status_code == 404
        assert (await http.get(path)).status_code == 405
        assert desk.desk.followed == 0
        assert (await http.post(path, content=body, headers=headers)).status_code == 200
        assert (await http.post(path, content=body, headers=headers)).status_code == 401, "once is once"
        path, body, headers = desk.order()
        desk.clock.advance(61)
        assert (await http.post(path, content=body, headers={**headers, NONCE: "twice"})).status_code == 401, "too old"
        assert desk.desk.followed == 1


async def test_an_order_to_the_worker_before_is_not_followed_by_the_next(desk: Desk) -> None:
    path, body, headers = desk.order()
    desk.clock.advance(1)
    following = desk.begin()
    url = await following.open()
    async with httpx2.AsyncClient(base_url=url, trust_env=False) as http:
        assert (await http.post(path, content=body, headers=headers)).status_code == 401
    await following.close()


async def test_orders_go_nowhere_by_surprise(desk: Desk) -> None:
    for url in (desk.url, "http://localhost:1", "http://169.254.169.254", "http://10.0.0.7:80"):
        key = await desk.allow(url, private=False)
        applied, note = await desk.client.order(key, R.REVOKE_TOOLS, "")
        assert (applied, "private network" in note) == (Applied.FAILED, True), url
    assert desk.desk.followed == 0

    async def elsewhere(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            f"HTTP/1.1 307 Go\r\nlocation: {desk.url}/control/revoke-tools\r\ncontent-length: 0\r\n\r\n".encode()
        )
        writer.close()

    server = await asyncio.start_server(elsewhere, "127.0.0.1", 0)
    key = await desk.allow(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    applied, note = await desk.client.order(key, R.REVOKE_TOOLS, "")
    assert (applied, "not followed" in note) == (Applied.FAILED, True)
    assert desk.desk.followed == 0
    server.close()
    await desk.allow("http://127.0.0.1:1")
    applied, note = await desk.client.order(key, R.REVOKE_TOOLS, "")
    assert (applied, "cannot be given orders" in note) == (Applied.FAILED, True)


async def test_a_simulated_agent_is_treated_in_its_state() -> None:
    state = SimulatedState(memory={"a": 1}, prompt_version=2)
    remedies = SimulatedRemedies({ANN: state})
    for action in R:
        assert (await remedies.apply(ANN, action, ""))[0] is Applied.APPLIED
        if action is R.REVOKE_TOOLS:
            assert (state.memory, state.prompt_version, state.temperature, state.tools) == ({}, 1, 0.5, 2)
            assert state.tools_revoked
    assert state == SimulatedState()
    assert (await remedies.apply(ANN, R.ROLLBACK_PROMPT, ""))[0] is Applied.NOT_APPLICABLE


async def test_what_nobody_can_do_operators_are_told() -> None:
    told: list[dict[str, object]] = []

    async def tell(key: AgentKey, what: str, said: dict[str, object]) -> None:
        assert (key, what) == (ANN, "remedy")
        told.append(said)

    chain = ChainedRemedies([SimulatedRemedies({})], tell=tell)
    applied, note = await chain.apply(ANN, R.RESET_AGENT, "")
    assert (applied, "operators were alerted" in note) == (Applied.NOT_APPLICABLE, True)
    assert told[0]["action"] is R.RESET_AGENT
