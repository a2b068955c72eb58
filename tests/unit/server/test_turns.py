"""What the routes promise: durable messages, deliverables that arrive at once, answers that repeat."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec.structs import replace

from homeostat import Client, SyncClient
from homeostat.app.assemble import System, assemble
from homeostat.app.settings import Settings
from homeostat.client.turns import HttpTurns
from homeostat.core.codec import to_json
from homeostat.core.errors import (
    AgentBusy,
    AgentUnknown,
    BoxUnknown,
    DepthExceeded,
    IdempotencyKeyReused,
    StaleEpoch,
    TurnUnfinished,
    TurnUnknown,
)
from homeostat.core.ids import AgentId, BoxId, ProjectId, ToolCallId, scope_floor, scope_of
from homeostat.core.limits import DEPTH_MAX
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.ports.turns import WorkerSession
from homeostat.core.records.access import Role
from homeostat.core.records.card import CardDraft
from homeostat.core.records.turn import Grant, ToolCall, TurnStatus
from homeostat.core.records.view import Outcome
from homeostat.server.serving import bind, serving, url_of
from homeostat.testing.servers import free_port
from homeostat.testing.suites import turn_records as a

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


async def working(client: Client, *names: str) -> WorkerSession:
    keys = [(ProjectId("default"), AgentId(name)) for name in names or ("ann",)]
    source = HttpTurns(client)
    await source.register(keys)
    return await source.open(keys, lambda fence: None)  # noqa: ARG005


@asynccontextmanager
async def served(data: Path) -> AsyncGenerator[httpx2.AsyncClient]:
    """Another server process, as far as one can tell from outside: nothing but the store is shared."""
    async with assemble(Settings(data_dir=data)) as system:
        listener = bind("127.0.0.1", free_port())
        async with serving(system, listener), httpx2.AsyncClient(base_url=url_of(listener), trust_env=False) as http:
            yield http


async def one(session: WorkerSession) -> Grant:
    (grant,) = await session.claim(1, 10)
    return grant


async def test_a_message_is_answered_with_where_to_find_it(client: Client, http: httpx2.AsyncClient) -> None:
    await client.register("tester", agent_id="ann")
    response = await http.post("/v1/agents/ann/inbox", json={"type": "turn", "payload": {"a": [1, None, "ü"]}})
    assert response.status_code == 202
    body = response.json()
    assert body["inbox_id"][4:] == body["turn_id"][5:]
    assert body["trace_id"] in response.headers["traceparent"]
    turn = (await http.get(f"/v1/turns/{body['turn_id']}")).json()
    assert turn["payload"] == {"a": [1, None, "ü"]}
    assert (turn["status"], turn["item_status"], turn["epoch"]) == ("dispatched", "pending", 1)
    assert turn["created_at"].endswith("Z")
    assert len(turn["created_at"]) == len("2026-01-31T12:00:00.000Z")


async def test_a_trace_goes_through(client: Client, http: httpx2.AsyncClient) -> None:
    await client.register("tester", agent_id="ann")
    headers = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
    response = await http.post("/v1/agents/ann/inbox", json={"type": "turn"}, headers=headers)
    assert response.json()["trace_id"] == TRACE
    assert response.headers["traceparent"].startswith(f"00-{TRACE}-")
    assert response.headers["traceparent"] != headers["traceparent"]
    for nonsense in ("", "00-x", f"00-{'0' * 32}-00f067aa0ba902b7-01", f"ff-{TRACE}-00f067aa0ba902b7-01"):
        other = await http.post("/v1/agents/ann/inbox", json={"type": "turn"}, headers={"traceparent": nonsense})
        assert other.status_code == 202
        assert other.json()["trace_id"] != TRACE


async def test_what_a_turn_causes_is_a_step_deeper_in_its_trace(client: Client, http: httpx2.AsyncClient) -> None:
    await client.register("tester", agent_id="ann")
    parent = await client.enqueue("ann", 1, depth=DEPTH_MAX - 1)
    caused = await client.enqueue("ann", 2, parent_turn_id=parent.turn_id)
    child = (await client.turn(caused.turn_id)).turn
    assert (child.depth, child.trace_id) == (DEPTH_MAX, parent.trace_id)
    with pytest.raises(DepthExceeded):
        await client.enqueue("ann", 3, parent_turn_id=child.turn_id)
    unknown = {"type": "turn", "parent_turn_id": "turn_" + "0" * 24}
    assert (await http.post("/v1/agents/ann/inbox", json=unknown)).json()["code"] == "turn_unknown"
    elsewhere = {"x-homeostat-project": "elsewhere"}
    await http.post("/v1/agents/register", json={"agent_type": "t", "agent_id": "eve"}, headers=elsewhere)
    foreign = {"type": "turn", "parent_turn_id": parent.turn_id}
    assert (await http.post("/v1/agents/eve/inbox", json=foreign, headers=elsewhere)).json()["code"] == "turn_unknown"
    assert (await client.head("ann")).head.tail_seq == 2


async def test_a_repeated_key_returns_the_first_answer(client: Client, http: httpx2.AsyncClient) -> None:
    await client.register("tester", agent_id="ann")
    first = await client.enqueue("ann", {"n": 1}, idempotency_key="k1")
    answers = await asyncio.gather(*(client.enqueue("ann", {"n": 1}, idempotency_key="k1") for _ in range(20)))
    assert set(answers) == {first}
    head = await client.head("ann")
    assert (head.head.queued, head.head.tail_seq) == (0, 1)
    with pytest.raises(IdempotencyKeyReused):
        await client.enqueue("ann", {"n": 2}, idempotency_key="k1")
    await client.register("tester", agent_id="ben")
    assert (await client.enqueue("ben", {"n": 2}, idempotency_key="k1")).turn_id != first.turn_id, (
        "a key is one agent's"
    )
    stop = f"/v1/turns/{first.turn_id}/stop", {"idempotency-key": "k1"}
    stopped = [await http.post(stop[0], json={}, headers=stop[1]) for _ in range(2)]
    assert [answer.json() for answer in stopped] == [stopped[0].json()] * 2
    other = await http.post(stop[0], json={"reason": "another"}, headers=stop[1])
    assert other.json()["code"] == "idempotency_key_reused"


async def test_a_repeated_key_returns_the_first_answer_although_what_the_message_names_is_gone(
    client: Client, system: System, http: httpx2.AsyncClient
) -> None:
    await client.register("tester", agent_id="ann")
    old, store = a.turn(project="default", agent_id="ann"), system.kernel.store
    await a.finished(store, old)
    messages: dict[str, dict[str, Any]] = {
        "k1": {"parent_turn_id": old.turn_id},
        "k2": {"context_box_id": a.own_box(old)},
    }
    for key, named in messages.items():
        first = await client.enqueue("ann", 1, **named, idempotency_key=key)
        await store.expire(scope_floor(a.NOW + 1), 9)
        assert await client.enqueue("ann", 1, **named, idempotency_key=key) == first
        with pytest.raises(IdempotencyKeyReused):
            await client.enqueue("ann", 2, **named, idempotency_key=key)
        with pytest.raises((TurnUnknown, BoxUnknown)):
            await client.enqueue("ann", 1, **named, idempotency_key="new")
        with pytest.raises((TurnUnknown, BoxUnknown)):
            await client.enqueue("ann", 1, **named)
        await a.finished(store, old)
    assert (await client.head("ann")).head.tail_seq == 2


async def test_a_key_is_its_senders_wherever_it_is_shown(
    client: Client, http: httpx2.AsyncClient, tmp_path: Path
) -> None:
    """Models count their calls from one: what two agents say under `call_1` are two messages to a third."""
    keys = {name: (await client.register("tester", agent_id=name)).api_key for name in ("ann", "bob", "cyd")}

    async def say(http: httpx2.AsyncClient, who: str | None, path: str, body: Any) -> httpx2.Response:
        shown = {} if who is None else {"authorization": f"Bearer {keys[who]}"}
        return await http.post(path, json=body, headers={"idempotency-key": "call_1"} | shown)

    for path, made, body, other in (
        ("/v1/agents/cyd/inbox", "turn_id", {"type": "turn", "payload": 1}, {"type": "turn", "payload": 2}),
        ("/v1/boxes", "box_id", {"cards": [{"type": "note", "content": 1}]}, {"cards": []}),
    ):
        first = {who: (await say(http, who, path, body)).json()[made] for who in ("ann", "bob", None)}
        assert len(set(first.values())) == 3, first
        async with served(tmp_path) as elsewhere:
            for who, known in first.items():
                assert (await say(elsewhere, who, path, body)).json()[made] == known
                refused = (await say(elsewhere, who, path, other)).json()
                assert refused["code"] == "idempotency_key_reused"
                assert "'call_1'" in refused["detail"], "a key is told of as it was sent"


async def test_where_nobody_logs_in_a_key_is_the_agents_that_the_request_names(
    client: Client, http: httpx2.AsyncClient
) -> None:
    await client.register("tester", agent_id="cyd")
    for path, made, name in (("/v1/agents/cyd/inbox", "turn_id", "source_agent_id"), ("/v1/boxes", "box_id", "author")):
        body = {"type": "turn"} if made == "turn_id" else {"cards": [{"type": "note", "content": 1}]}
        first, again, other = [
            (await http.post(path, json=body | {name: who}, headers={"idempotency-key": "call_1"})).json()
            for who in ("ann", "ann", "bob")
        ]
        assert first[made] == again[made] != other[made]


async def test_operators_who_use_the_same_key_make_two_runs(
    client: Client, system: System, http: httpx2.AsyncClient
) -> None:
    await client.register("tester", agent_id="ann")
    body = {"goal": "x", "tasks": [{"name": "a", "agent": "ann", "input": 1}]}
    made = {}
    for name in ("kim", "lee"):
        issued = await system.access.keys.create(
            name=name, role=Role.OPERATOR, project=None, expires_in_seconds=100, by="test"
        )
        headers = {"idempotency-key": "k1", "authorization": f"Bearer {issued.secret}"}
        answers = [await http.post("/v1/runs", json=body, headers=headers) for _ in range(2)]
        (made[name],) = {answer.json()["run_id"] for answer in answers}
    assert made["kim"] != made["lee"]


async def _twice(http: httpx2.AsyncClient, path: str, body: Any) -> tuple[Any, Any]:
    headers = {"idempotency-key": f"key of {path}"}
    first = await http.post(path, json=body, headers=headers)
    second = await http.post(path, json=body, headers=headers)
    assert first.is_success, first.text
    assert second.status_code == first.status_code
    return first.json(), second.json()


async def test_every_post_can_be_repeated_under_its_key(client: Client, http: httpx2.AsyncClient) -> None:
    first, second = await _twice(http, "/v1/agents/register", {"agent_type": "tester"})
    assert first["agent_id"] == second["agent_id"]
    first, second = await _twice(http, "/v1/boxes", {"cards": [{"type": "note", "content": 1}]})
    assert first == second
    forked, again = await _twice(http, f"/v1/boxes/{first['box_id']}/fork", {})
    assert forked == again
    session = await working(client)
    accepted = await client.enqueue("ann", "hello")
    grant = await one(session)
    fence = {"agent_id": "ann", "epoch": grant.epoch}
    path = f"/v1/workers/{session.worker_id}/turns/{accepted.turn_id}"
    first, second = await _twice(http, f"{path}/cards", {**fence, "cards": [{"type": "note", "content": 1}]})
    assert first == second
    assert len((await http.get(f"/v1/boxes/{grant.turn.output_box}")).json()["items"]) == 1
    waiting = {**fence, "calls": [{"tool_call_id": "c1", "tool": "search"}], "cards": [{"type": "note", "content": 2}]}
    first, second = await _twice(http, f"{path}/suspend", waiting)
    assert first == second
    assert [(wait["tool_call_id"], wait["status"]) for wait in first["waits"]] == [("c1", "pending")]
    first, second = await _twice(http, f"/v1/turns/{accepted.turn_id}/results", {"tool_call_id": "c1", "result": 1})
    assert first == second
    assert first["accepted"] is True
    grant = await one(session)
    late = await http.post(f"{path}/suspend", json=waiting, headers={"idempotency-key": f"key of {path}/suspend"})
    assert late.json()["waits"][0]["status"] == "pending", "as it was then"
    late = await http.post(
        f"{path}/cards", json={**fence, "cards": waiting["cards"]}, headers={"idempotency-key": "new"}
    )
    assert late.json()["code"] == "stale_epoch"
    released = [
        await http.post(f"{path}/release", json=fence | {"epoch": grant.epoch}, headers={"idempotency-key": "r"})
        for _ in range(2)
    ]
    assert [answer.status_code for answer in released] == [204, 204]
    head = await client.head("ann")
    assert (head.head.epoch, head.head.status) == (grant.epoch + 1, HeadStatus.DISPATCHED), "it was released once"
    first, second = await _twice(http, f"/v1/turns/{accepted.turn_id}/stop", {"reason": "enough"})
    assert first == second
    assert first["stopped"] is True


async def test_a_suspension_whose_results_are_in_is_repeated_as_well(client: Client, http: httpx2.AsyncClient) -> None:
    """The turn runs on after it, so that no fence would stop what comes along from being written twice."""
    session = await working(client)
    accepted = await client.enqueue("ann", "hello")
    grant = await one(session)
    await session.suspend(grant, (ToolCall(ToolCallId("c1"), "search", to_json({})),))
    await client.report(accepted.turn_id, "c1", 1)
    grant = await one(session)
    before = len((await http.get(f"/v1/boxes/{grant.turn.output_box}")).json()["items"])
    body = {"agent_id": "ann", "epoch": grant.epoch, "calls": [{"tool_call_id": "c1", "tool": "search"}]}
    body |= {"cards": [{"type": "note", "content": 2}]}
    first, second = await _twice(http, f"/v1/workers/{session.worker_id}/turns/{accepted.turn_id}/suspend", body)
    assert first == second
    assert first["ready"] is True
    assert len((await http.get(f"/v1/boxes/{grant.turn.output_box}")).json()["items"]) == before + 1


async def test_what_an_old_request_says_takes_nothing_from_a_worker(client: Client, http: httpx2.AsyncClient) -> None:
    """A turn that was given again, in an answer that got lost, is given once more though the worker repeats itself."""
    session = await working(client)
    accepted = await client.enqueue("ann", "hello")
    grant = await one(session)
    path = f"/v1/workers/{session.worker_id}"
    body = {"agent_id": "ann", "epoch": grant.epoch, "calls": [{"tool_call_id": "c1", "tool": "search"}]}
    once = {"idempotency-key": "s"}
    assert (await http.post(f"{path}/turns/{accepted.turn_id}/suspend", json=body, headers=once)).is_success
    await client.report(accepted.turn_id, "c1", 1)
    claim = {"limit": 1, "wait": 5}
    lost = (await http.post(f"{path}/claim", json=claim)).json()["grants"]
    again = await http.post(f"{path}/turns/{accepted.turn_id}/suspend", json=body, headers=once)
    assert again.is_success, again.text
    stale = {"agent_id": "ann", "epoch": grant.epoch, "name": "s", "outcome": 1}
    assert (await http.post(f"{path}/turns/{accepted.turn_id}/steps", json=stale)).json()["code"] == "stale_epoch"
    assert (await http.post(f"{path}/claim", json=claim)).json()["grants"] == lost != []


async def test_a_deliverable_arrives_the_moment_it_exists(client: Client, system: System) -> None:
    session = await working(client)
    accepted = await client.enqueue("ann", "hello")
    with pytest.raises(TurnUnfinished):
        await client.deliverable(accepted.turn_id)
    waiting = asyncio.create_task(client.deliverable(accepted.turn_id, wait=60))
    grant = await one(session)
    began = system.clock.monotonic()
    await session.deliver(grant, status=Outcome.SUCCESS, result=to_json({"answer": 42}))
    found = await waiting
    assert system.clock.monotonic() - began < 5, "it came with the safety poll and not with the doorbell"
    assert (found.succeeded, found.value) == (True, {"answer": 42})
    assert await client.deliverable(accepted.turn_id) == found
    assert (await client.turn(accepted.turn_id)).deliverable == found


async def test_a_turn_is_read_by_whoever_holds_it(client: Client, system: System) -> None:
    session = await working(client)
    await client.enqueue("ann", "hello")
    grant = await one(session)
    await session.step(grant, "before", to_json(1))
    await system.workers.leave()  # as when the server is started anew between the claim and the reading
    begun = replace(grant, fresh=False)
    assert list((await session.hydrate(begun)).steps) == ["before"]
    await system.kernel.preempt(grant.turn.key)
    with pytest.raises(StaleEpoch):
        await session.hydrate(begun)
    again = await one(session)
    assert again.epoch > grant.epoch
    assert list((await session.hydrate(again)).steps) == ["before"]


async def test_asking_is_sending_and_waiting(client: Client) -> None:
    session = await working(client)

    async def answer() -> None:
        grant = await one(session)
        await session.deliver(grant, status=Outcome.SUCCESS, result=grant.turn.payload)

    answering = asyncio.create_task(answer())
    found = await client.ask("ann", {"echo": "this"}, result_fields=["echo"])
    await answering
    assert found.value == {"echo": "this"}
    with pytest.raises(TurnUnfinished):
        await client.ask("ann", "nobody works on this", wait=0.05)


async def test_results_are_acknowledged_whether_or_not_they_are_news(client: Client) -> None:
    session = await working(client)
    accepted = await client.enqueue("ann", "hello")
    grant = await one(session)
    await session.suspend(grant, (ToolCall(ToolCallId("c1"), "search", to_json({"q": 1})),))
    assert (await client.turn(accepted.turn_id)).status is TurnStatus.SUSPENDED
    assert not (await client.report(accepted.turn_id, "foreign", 1)).accepted
    assert (await client.report(accepted.turn_id, "c1", {"found": 3})).accepted
    assert not (await client.report(accepted.turn_id, "c1", {"found": 4})).accepted
    with pytest.raises(TurnUnknown):
        await client.report("turn_" + "0" * 24, "c1", 1)


@pytest.mark.parametrize("named", ["turn_id", "agent_turn_id"])
async def test_a_result_may_also_be_posted_to_the_inbox(client: Client, http: httpx2.AsyncClient, named: str) -> None:
    session = await working(client)
    accepted = await client.enqueue("ann", "hello")
    grant = await one(session)
    calls = tuple(ToolCall(ToolCallId(f"c{n}"), "search", to_json({})) for n in range(3))
    await session.suspend(grant, calls)

    async def post(kind: str, correlation_id: str | None = None, **payload: Any) -> dict[str, Any]:
        body = {"type": kind, "payload": {named: accepted.turn_id, **payload}, "correlation_id": correlation_id}
        response = await http.post("/v1/agents/ann/inbox", json=body)
        assert response.status_code == 202, response.text
        assert response.json()["turn_id"] == accepted.turn_id
        return response.json()

    assert (await post("tool_result", tool_call_id="c0", result={"n": 0}, turn_epoch=1, extra="ignored"))["accepted"]
    assert not (await post("tool_result", tool_call_id="c0", result={"n": 9}))["accepted"]
    assert (await post("timeout", correlation_id="c1"))["accepted"]
    assert (await post("join_response", tool_call_id="c2", status="error", result="no"))["accepted"]
    again = await one(session)
    assert [wait.status.value for wait in again.waits] == ["success", "timeout", "error"]
    assert (await post("stop", reason="enough"))["accepted"]
    ended = await client.deliverable(accepted.turn_id)
    assert (ended.status, "enough" in (ended.error or "")) == (Outcome.STOP, True)
    other = await http.post("/v1/agents/bob/inbox", json={"type": "stop", "payload": {named: accepted.turn_id}})
    assert other.json()["code"] == "turn_unknown"


async def test_a_busy_agent_refuses_a_direct_action(client: Client) -> None:
    await client.register("tester", agent_id="ann")
    first = await client.enqueue("ann", 1, type="ui_action")
    with pytest.raises(AgentBusy) as refused:
        await client.enqueue("ann", 2, type="ui_action")
    assert refused.value.facts["turn_id"] == first.turn_id
    assert first.turn_id in str(refused.value)


async def test_the_inbox_shows_the_active_item_and_the_line(client: Client, http: httpx2.AsyncClient) -> None:
    session = await working(client)
    sent = [(await client.enqueue("ann", number)).turn_id for number in range(7)]
    page = await client.inbox("ann", limit=4)
    assert page.active is not None
    assert (page.active.turn_id, page.active.status.value, page.queued) == (sent[0], "pending", 6)
    assert [item.turn_id for item in page.items] == sent[1:5]
    rest = await client.inbox("ann", limit=4, cursor=page.next_cursor)
    assert [item.turn_id for item in rest.items] == sent[5:]
    assert rest.next_cursor is None
    assert {item.status.value for item in (*page.items, *rest.items)} == {"queued"}
    await one(session)
    page = await client.inbox("ann")
    assert page.active is not None
    assert page.active.status.value == "processing"
    assert (await client.head("ann")).lease_expires_at_ms is not None


async def test_history_is_newest_first_and_paged(client: Client) -> None:
    session = await working(client)
    sent: list[str] = []
    for number in range(5):
        sent.append((await client.enqueue("ann", number)).turn_id)
        await session.deliver(await one(session), status=Outcome.SUCCESS, result=to_json(number))
    first, cursor = await client.turns("ann", limit=3)
    rest, end = await client.turns("ann", limit=3, cursor=cursor)
    assert [view.turn.turn_id for view in (*first, *rest)] == sent[::-1]
    assert end is None
    assert [view.deliverable.value for view in first if view.deliverable] == [4, 3, 2]


async def test_edges_tell_who_caused_what(client: Client) -> None:
    session = await working(client)
    accepted = await client.enqueue("ann", "hello", trace_id=TRACE, correlation_id="corr")
    grant = await one(session)
    await session.suspend(grant, (ToolCall(ToolCallId("c1"), "search", to_json({})),))
    await client.report(accepted.turn_id, "c1", 1)
    by_turn = await client.edges(turn_id=accepted.turn_id)
    assert [(edge.primitive, edge.phase) for edge in by_turn] == [("enqueue", "request"), ("report", "response")]
    assert await client.edges(trace_id=TRACE, limit=1) == by_turn


async def test_a_box_without_cards_has_none_and_neither_has_its_copy(client: Client, http: httpx2.AsyncClient) -> None:
    await client.register("tester", agent_id="ann")
    box_id = await client.create_box([])
    forked = (await http.post(f"/v1/boxes/{box_id}/fork", json={})).json()["box_id"]
    for one in (box_id, forked):
        page = (await http.get(f"/v1/boxes/{one}")).json()
        assert (page["items"], page["next_cursor"]) == ([], None)
        assert (await client.enqueue("ann", 1, context_box_id=one)).turn_id


async def test_boxes_are_paged_and_forked(client: Client, http: httpx2.AsyncClient) -> None:
    box_id = await client.create_box([("note", number) for number in range(7)], author="ann")
    page = (await http.get(f"/v1/boxes/{box_id}?limit=5")).json()
    assert [card["content"] for card in page["items"]] == [0, 1, 2, 3, 4]
    rest = (await http.get(f"/v1/boxes/{box_id}?limit=5&cursor={page['next_cursor']}")).json()
    assert ([card["content"] for card in rest["items"]], rest["next_cursor"]) == ([5, 6], None)
    cards = await client.box(box_id)
    assert [(card.value, card.author) for card in cards] == [(number, "ann") for number in range(7)]
    assert await client.card(cards[3].card_id) == cards[3]
    forked = await client.box(await client.fork_box(box_id))
    assert [card.card_id for card in forked] == [card.card_id for card in cards]


async def test_a_box_ends_when_nothing_needs_it(client: Client, http: httpx2.AsyncClient) -> None:
    session = await working(client)
    context, memory = await client.create_box([("note", 1)]), await client.create_box([])
    accepted = await client.enqueue("ann", "hello", context_box_id=context, output_box_id=memory)
    grant = await one(session)
    own = BoxId("box_" + scope_of(accepted.turn_id))
    for box_id in (context, memory, own):
        refused = (await http.delete(f"/v1/boxes/{box_id}")).json()
        assert (refused["status"], refused["code"], refused["turn_id"]) == (409, "box_in_use", accepted.turn_id)
    await session.deliver(grant, status=Outcome.SUCCESS, result=to_json("done"))
    refused = (await http.delete(f"/v1/boxes/{own}")).json()
    assert (refused["status"], refused["code"], refused["turn_id"]) == (409, "box_of_turn", accepted.turn_id)
    forked = await client.fork_box(context)
    refused = (await http.delete(f"/v1/boxes/{context}")).json()
    assert (refused["status"], refused["code"], refused["referred_by"]) == (409, "box_referred", forked)
    assert len(await client.box(context)) == 1
    for box_id in (forked, context, memory):
        answer = await http.delete(f"/v1/boxes/{box_id}", params={"reason": "the customer has left"})
        assert (answer.status_code, answer.content) == (204, b"")
        for gone in (
            await http.delete(f"/v1/boxes/{box_id}"),
            await http.get(f"/v1/boxes/{box_id}"),
            await http.post(f"/v1/boxes/{box_id}/fork", json={}),
            await http.post("/v1/agents/ann/inbox", json={"type": "turn", "payload": 1, "context_box_id": box_id}),
            await http.post("/v1/agents/ann/inbox", json={"type": "turn", "payload": 1, "output_box_id": box_id}),
        ):
            assert (gone.status_code, gone.json()["code"]) == (404, "box_unknown")
    assert (await client.turn(accepted.turn_id)).deliverable is not None


async def test_a_client_ends_a_box(url: str, client: Client) -> None:
    box_id, other = await client.create_box([("note", 1)]), await client.create_box([("note", 2)])
    await client.delete_box(box_id)
    for late in (client.box(box_id), client.delete_box(box_id), client.delete_box("nothing/../else")):
        with pytest.raises(BoxUnknown):
            await late

    def end_other() -> None:
        with SyncClient(url) as blocking:
            blocking.delete_box(other)

    await asyncio.to_thread(end_other)
    with pytest.raises(BoxUnknown):
        await client.box(other)


async def test_projects_do_not_see_each_other(url: str, client: Client) -> None:
    session = await working(client)
    accepted = await client.enqueue("ann", "hello")
    (card_id,) = await session.write(await one(session), (CardDraft("note", to_json("secret")),))
    box_id = await client.create_box([("note", "secret")])
    async with Client(url, project="other", retry_seconds=0) as other:
        for reading in (
            other.turn(accepted.turn_id),
            other.head("ann"),
            other.card(card_id),
            other.box(box_id),
            other.delete_box(box_id),
            other.enqueue("ann", 1),
            other.stop(accepted.turn_id),
            other.report(accepted.turn_id, "c", 1),
            other.deliverable(accepted.turn_id, wait=5),
        ):
            with pytest.raises(Exception, match="There is no"):
                await reading
        assert await other.edges(turn_id=accepted.turn_id) == []
    assert len(await client.box(box_id)) == 1


async def test_names_may_hold_whatever_can_be_printed(client: Client, system: System) -> None:
    for name in ("a/b", "register", "x%2Fy", "ü 東京", "?&#", "a.b>*"):
        await system.kernel.register((ProjectId("default"), AgentId(name)))
        accepted = await client.enqueue(name, 1)
        assert (await client.head(name)).head.turn_id == accepted.turn_id
    with pytest.raises(AgentUnknown):
        await client.head("nobody")


async def test_the_description_covers_every_route_and_is_consistent(http: httpx2.AsyncClient) -> None:
    api = (await http.get("/openapi.json")).json()
    assert api["openapi"].startswith("3.1")
    assert {"/v1/agents/{agent_id}/inbox", "/v1/turns/{turn_id}/deliverable", "/v1/workers", "/livez"} <= set(
        api["paths"]
    )
    operations = [op for methods in api["paths"].values() for op in methods.values()]
    ids = [operation["operationId"] for operation in operations]
    assert len(ids) == len(set(ids))
    assert all(operation["summary"] for operation in operations)

    def references(node: Any) -> set[str]:
        if isinstance(node, dict):
            own = {node["$ref"]} if "$ref" in node else set[str]()
            return own.union(*(references(value) for value in node.values()))
        return set[str]().union(*(references(value) for value in node)) if isinstance(node, list) else set()

    assert {ref.rsplit("/", 1)[1] for ref in references(api)} <= set(api["components"]["schemas"])
    inbox = api["paths"]["/v1/agents/{agent_id}/inbox"]["post"]
    assert inbox["requestBody"]["content"]["application/json"]["examples"]
    assert "application/problem+json" in inbox["responses"]["404"]["content"]
    assert any(parameter["name"] == "Idempotency-Key" for parameter in inbox["parameters"])


async def test_the_examples_in_the_description_are_accepted(client: Client, http: httpx2.AsyncClient) -> None:
    api = (await http.get("/openapi.json")).json()
    await client.register("tester", agent_id="ann")
    for path, methods in api["paths"].items():
        body = methods.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json", {})
        for example in body.get("examples", {}).values():
            filled = path.replace("{agent_id}", "ann").replace("{turn_id}", "turn_" + "0" * 24)
            response = await http.post(filled, json=example["value"])
            assert not response.content or response.json().get("code") != "malformed_payload", (path, response.text)


async def test_the_docs_page_needs_nobody_else(http: httpx2.AsyncClient) -> None:
    page = await http.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for name in ("docs.js", "docs.css"):
        assert f"/docs/{name}" in page.text
        assert (await http.get(f"/docs/{name}")).status_code == 200
    assert "http://" not in page.text
    assert "https://" not in page.text


async def test_metrics_have_bounded_labels(client: Client, http: httpx2.AsyncClient) -> None:
    await client.register("tester", agent_id="ann")
    for number in range(5):
        await http.get(f"/v1/agents/nobody-{number}/head")
        await http.get(f"/nowhere/{number}")
        await http.request(f"ODD{number}", "/nowhere")
    text = (await http.get("/metrics")).text
    assert 'route="/v1/agents/{agent_id}/head",status="404"} 5.0' in text
    assert "nobody-" not in text
    assert "nowhere" not in text
    assert "ODD" not in text
    assert "homeostat_flush_commits_total" in text


async def test_head_answers_like_get_without_a_body(http: httpx2.AsyncClient) -> None:
    response = await http.head("/livez")
    assert (response.status_code, response.content, response.headers["content-length"]) == (200, b"", "3")
