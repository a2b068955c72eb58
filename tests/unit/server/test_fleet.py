"""The fleet's routes: what they answer, what they refuse, and that a refusal changes nothing."""

import asyncio
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from homeostat.adapters.statuses.local import LocalStatuses
from homeostat.app.assemble import System, assemble
from homeostat.app.settings import Settings
from homeostat.core.ids import AgentId
from homeostat.core.machines.liveness import Liveness
from homeostat.core.records.fleet import Mark
from homeostat.server.serving import bind, serving, url_of
from homeostat.testing.servers import free_port

Json = dict[str, Any]

HEARTBEAT: Json = {
    "agent_id": "abc-123",
    "agent_type": "inference",
    "tags": ["gpu", "primary"],
    "timestamp": "2026-01-28T12:00:00Z",
    "started_at": "2026-01-28T11:00:00Z",
    "uptime_seconds": 3600.0,
    "status": "running",
    "last_action": "Processed observation obs-456",
    "last_action_at": "2026-01-28T11:59:55Z",
    "items_processed": 142,
    "queue_depth": 3,
    "processing_time_avg_ms": 250.5,
    "error_count": 2,
    "memory_mb": 156.3,
    "push_interval_seconds": 5.0,
}
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.fixture(params=["local", "redis"])
async def system(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[System]:
    status_url = request.getfixturevalue("redis_url") if request.param == "redis" else None
    async with assemble(Settings(data_dir=tmp_path, status_url=status_url)) as system:
        yield system


@pytest.fixture
async def http(system: System) -> AsyncGenerator[httpx2.AsyncClient]:
    listener = bind("127.0.0.1", free_port())
    async with serving(system, listener), httpx2.AsyncClient(base_url=url_of(listener), trust_env=False) as http:
        yield http


async def register(http: httpx2.AsyncClient, agent_id: str = "abc-123", **body: object) -> str:
    """Register an agent; returns its key."""
    said = {"agent_type": "inference", "tags": ["gpu", "primary"], "agent_id": agent_id, **body}
    answer = await http.post("/v1/agents/register", json=said)
    assert answer.status_code == 200, answer.text
    return answer.json()["api_key"]


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def push(http: httpx2.AsyncClient, key: str, **changes: object) -> httpx2.Response:
    return await http.post("/v1/agents/status", json=HEARTBEAT | changes, headers=bearer(key))


def refused(answer: httpx2.Response, status: int, code: str) -> None:
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert answer.headers["content-type"] == "application/problem+json"


# --- coming and going ------------------------------------------------------------------------------------------


async def test_registration_as_it_was_promised(http: httpx2.AsyncClient) -> None:
    body = {"agent_type": "inference", "tags": ["gpu"], "hostname": "worker-1", "pid": 12345, "version": "1.4.0"}
    answer = await http.post("/v1/agents/register", json=body)
    assert answer.status_code == 200
    given = answer.json()
    assert set(given) == {"agent_id", "push_interval_seconds", "api_key"}
    assert given["push_interval_seconds"] == 30.0
    row = (await http.get(f"/v1/agents/{given['agent_id']}")).json()
    assert {name: row[name] for name in body} == body
    assert (row["presence"], row["status"], row["phase"]) == ("alive", "registered", "initializing")


async def test_a_new_release_of_an_agent_is_written_down(http: httpx2.AsyncClient) -> None:
    body = {"agent_type": "writer", "agent_id": "ann", "version": "1.0", "tags": ["gpu"]}
    key = (await http.post("/v1/agents/register", json=body)).json()["api_key"]
    own = {"authorization": f"Bearer {key}"}

    async def acts() -> list[Any]:
        found = (await http.get("/v1/audit", params={"q": "object:agent/ann verb:register"})).json()["items"]
        return [(act["actor"], act["outcome"], act["changes"]) for act in found]

    await http.post("/v1/agents/register", json=body, headers=own)
    assert await acts() == [], "it came back as it was"
    await http.post("/v1/agents/register", json=body | {"version": "1.1", "hostname": "b"}, headers=own)
    assert await acts() == [("ann", "done", {"version": ["1.0", "1.1"]})]
    assert (await http.get("/v1/audit/verify")).json()["valid"]


async def test_an_agent_that_comes_back_is_who_it_was(http: httpx2.AsyncClient) -> None:
    key = await register(http)
    again = {"agent_type": "inference", "agent_id": "abc-123", "pid": 7}
    by_header = await http.post("/v1/agents/register", json=again, headers=bearer(key))
    by_body = await http.post("/v1/agents/register", json=again | {"api_key": key})
    assert by_header.json() == by_body.json()
    assert by_header.json()["api_key"] == key
    assert (await http.get("/v1/agents/abc-123")).json()["tags"] == ["gpu", "primary"]
    assert len((await http.get("/v1/agents")).json()) == 1


async def test_an_id_that_is_taken_needs_its_key(http: httpx2.AsyncClient) -> None:
    await register(http)
    other = await register(http, "other")
    taken = {"agent_type": "cli", "agent_id": "abc-123"}
    refused(await http.post("/v1/agents/register", json=taken), 409, "agent_exists")
    refused(await http.post("/v1/agents/register", json=taken, headers=bearer(other)), 403, "forbidden")
    refused(await http.post("/v1/agents/register", json=taken | {"api_key": "hs_nonsense"}), 403, "forbidden")
    assert (await http.get("/v1/agents/abc-123")).json()["agent_type"] == "inference"


async def test_a_registration_whose_answer_was_lost_is_asked_for_again(http: httpx2.AsyncClient) -> None:
    body, once = {"agent_type": "inference", "tags": ["gpu"]}, {"idempotency-key": "k" * 20}
    first = (await http.post("/v1/agents/register", json=body, headers=once)).json()
    second = (await http.post("/v1/agents/register", json=body, headers=once)).json()
    assert second["agent_id"] == first["agent_id"]
    assert (await push(http, second["api_key"], agent_id=first["agent_id"])).status_code == 200
    refused(await push(http, first["api_key"], agent_id=first["agent_id"]), 401, "unauthenticated")
    refused(
        await http.post("/v1/agents/register", json=body | {"tags": []}, headers=once), 422, "idempotency_key_reused"
    )
    assert len((await http.get("/v1/agents")).json()) == 1


async def test_leaving_is_final_until_the_agent_registers_again(http: httpx2.AsyncClient) -> None:
    key = await register(http)
    await push(http, key)
    assert (await http.post("/v1/agents/abc-123/deregister", headers=bearer(key))).json() == {
        "agent_id": "abc-123",
        "deregistered": True,
    }
    refused(await push(http, key), 410, "agent_gone")
    refused(await http.get("/v1/agents/abc-123"), 404, "agent_unknown")
    assert (await http.get("/v1/agents")).json() == []
    assert not (await http.post("/v1/agents/abc-123/deregister")).json()["deregistered"]
    await http.post("/v1/agents/register", json={"agent_type": "inference", "agent_id": "abc-123", "api_key": key})
    assert (await push(http, key)).status_code == 200


async def test_an_agent_deregisters_itself_and_nobody_else(http: httpx2.AsyncClient) -> None:
    await register(http)
    other = await register(http, "other")
    refused(await http.post("/v1/agents/abc-123/deregister", headers=bearer(other)), 403, "forbidden")
    refused(await http.post("/v1/agents/nobody/deregister"), 404, "agent_unknown")
    assert len((await http.get("/v1/agents")).json()) == 2


async def test_a_registered_agent_has_an_inbox(http: httpx2.AsyncClient) -> None:
    await register(http)
    sent = await http.post("/v1/agents/abc-123/inbox", json={"type": "turn", "payload": 1})
    assert sent.status_code == 202
    row = (await http.get("/v1/agents/abc-123")).json()
    assert (row["presence"], row["head"]["status"], row["head"]["turn_id"]) == (
        "alive",
        "dispatched",
        sent.json()["turn_id"],
    )


async def test_an_agent_sends_messages_in_its_own_name_only(http: httpx2.AsyncClient) -> None:
    key = await register(http)
    await register(http, "other")
    message: Json = {"type": "turn", "payload": 1}
    sent = await http.post("/v1/agents/other/inbox", json=message, headers=bearer(key))
    assert sent.status_code == 202, sent.text
    turn = (await http.get(f"/v1/turns/{sent.json()['turn_id']}")).json()
    assert turn["source_agent_id"] == "abc-123"
    forged = message | {"source_agent_id": "other"}
    refused(await http.post("/v1/agents/other/inbox", json=forged, headers=bearer(key)), 403, "forbidden")
    assert (await http.get("/v1/agents/other/head")).json()["queued"] == 0


async def test_a_key_that_is_nobodys_opens_nothing(http: httpx2.AsyncClient) -> None:
    key = await register(http)
    sent = (await http.post("/v1/agents/abc-123/inbox", json={"type": "turn", "payload": 1})).json()
    for method, path in (
        ("POST", "/v1/agents/abc-123/inbox"),
        ("GET", "/v1/agents/abc-123"),
        ("GET", "/v1/agents"),
        ("GET", f"/v1/turns/{sent['turn_id']}"),
        ("POST", f"/v1/turns/{sent['turn_id']}/stop"),
        ("POST", "/v1/workers"),
    ):
        body = {"type": "turn", "payload": 1} if path.endswith("inbox") else {}
        answer = await http.request(method, path, json=body, headers=bearer("hs_nonsense"))
        refused(answer, 401, "unauthenticated")
    await http.post("/v1/agents/abc-123/deregister")
    refused(await http.get("/v1/agents", headers=bearer(key)), 410, "agent_gone")
    assert (await http.get("/metrics", headers=bearer("scraper"))).status_code == 200


async def test_a_key_takes_turns_of_its_own_agent_only(http: httpx2.AsyncClient) -> None:
    key = await register(http)
    other = await register(http, agent_id="other")

    def hosting(*agents: str) -> Json:
        return {"agents": [{"agent_id": agent} for agent in agents]}

    refused(await http.post("/v1/workers", json=hosting("other"), headers=bearer(key)), 403, "forbidden")
    refused(await http.post("/v1/workers", json=hosting("abc-123", "other"), headers=bearer(key)), 403, "forbidden")
    opened = await http.post("/v1/workers", json=hosting("abc-123"), headers=bearer(key))
    assert opened.status_code == 201, opened.text
    worker = f"/v1/workers/{opened.json()['worker_id']}"
    await http.post("/v1/agents/abc-123/inbox", json={"type": "turn", "payload": 1})
    for method, path, body in (
        ("POST", f"{worker}/claim", {"limit": 1, "wait": 0.0, "holding": []}),
        ("POST", f"{worker}/renew", {"wait": 0.0, "holding": []}),
        ("POST", f"{worker}/agents", hosting("other")),
        ("POST", "/v1/workers", hosting("other") | {"worker_id": opened.json()["worker_id"]}),
        ("DELETE", worker, None),
    ):
        refused(await http.request(method, path, json=body, headers=bearer(other)), 403, "forbidden")
    refused(await http.post(f"{worker}/agents", json=hosting("other"), headers=bearer(key)), 403, "forbidden")
    claim = {"limit": 1, "wait": 0.0, "holding": []}
    granted = (await http.post(f"{worker}/claim", json=claim, headers=bearer(key))).json()["grants"]
    assert len(granted) == 1
    assert (await http.delete(worker, headers=bearer(key))).status_code == 204


# --- heartbeats ------------------------------------------------------------------------------------------------


async def test_a_heartbeat_as_it_was_promised(http: httpx2.AsyncClient) -> None:
    key = await register(http)
    answer = await push(http, key)
    assert answer.status_code == 200
    body = answer.json()
    assert list(body) == ["received", "push_interval_seconds", "server_time"]
    assert body["received"] is True
    assert body["push_interval_seconds"] == 30.0
    assert INSTANT.fullmatch(body["server_time"])
    row = (await http.get("/v1/agents/abc-123")).json()
    kept = {name: value for name, value in HEARTBEAT.items() if name != "push_interval_seconds"}
    assert {name: row[name] for name in kept} == kept
    assert row["last_seen_at"] == body["server_time"]


async def test_a_heartbeat_that_is_in_order_takes_no_task_unless_its_keeper_has_to_be_waited_for(
    system: System, http: httpx2.AsyncClient
) -> None:
    key = await register(http)
    waits = not isinstance(system.fleet.heartbeats._keeper, LocalStatuses)
    tasks = 0
    loop = asyncio.get_running_loop()

    def counted(loop: asyncio.AbstractEventLoop, work: Any, **named: Any) -> "asyncio.Task[Any]":
        nonlocal tasks
        tasks += getattr(work, "__qualname__", "") == "Cycle.run"
        return asyncio.Task(work, loop=loop, **named)

    await push(http, key)
    loop.set_task_factory(counted)
    try:
        for _ in range(3):
            assert (await push(http, key)).status_code == 200
        assert (tasks, system.fleet.heartbeats.taken) == (3 * waits, 4)
        refused(await push(http, key, status="asleep"), 422, "malformed_payload")
        assert (tasks, system.fleet.heartbeats.taken) == (3 * waits + 1, 4)
    finally:
        loop.set_task_factory(None)


@pytest.mark.parametrize(
    "headers",
    [
        {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
        {"x-homeostat-project": "default"},
        {},
    ],
)
async def test_the_long_way_answers_as_the_short_one(http: httpx2.AsyncClient, headers: dict[str, str]) -> None:
    key = await register(http)
    for _ in range(2):
        answer = await http.post("/v1/agents/status", json=HEARTBEAT, headers=bearer(key) | headers)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert list(answer.json()) == ["received", "push_interval_seconds", "server_time"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"status": "asleep"}, "status"),
        ({"status": None}, "status"),
        ({"agent_id": 7}, "agent_id"),
        ({"agent_id": ""}, "agent_id"),
        ({"tags": "gpu"}, "tags"),
        ({"tags": ["t"] * 10_000}, "tags"),
        ({"tags": ["t" * 101]}, "tags"),
        ({"tags": [1]}, "tags"),
        ({"timestamp": "yesterday"}, "timestamp"),
        ({"timestamp": 1_700_000_000}, "timestamp"),
        ({"started_at": None}, "started_at"),
        ({"uptime_seconds": -1}, "uptime_seconds"),
        ({"uptime_seconds": "1"}, "uptime_seconds"),
        ({"uptime_seconds": True}, "uptime_seconds"),
        ({"items_processed": 1.5}, "items_processed"),
        ({"items_processed": -1}, "items_processed"),
        ({"items_processed": 10**30}, "items_processed"),
        ({"queue_depth": None}, "queue_depth"),
        ({"memory_mb": 1e300}, "memory_mb"),
        ({"error_count": "2"}, "error_count"),
        ({"last_action": None}, "last_action"),
        ({"push_interval_seconds": -5}, "push_interval_seconds"),
    ],
    ids=str,
)
async def test_a_heartbeat_that_makes_no_sense(http: httpx2.AsyncClient, changes: Json, field: str) -> None:
    key = await register(http)
    before = (await http.get("/v1/agents/abc-123")).json()
    answer = await push(http, key, **changes)
    refused(answer, 422, "malformed_payload")
    assert answer.json()["field"].startswith(field)
    assert (await http.get("/v1/agents/abc-123")).json() == before


@pytest.mark.parametrize("missing", [name for name in HEARTBEAT if name != "last_action_at"])
async def test_a_heartbeat_that_lacks_something(http: httpx2.AsyncClient, missing: str) -> None:
    key = await register(http)
    body = {name: value for name, value in HEARTBEAT.items() if name != missing}
    refused(await http.post("/v1/agents/status", json=body, headers=bearer(key)), 422, "malformed_payload")


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b'"text"', b"{}", b'{"agent_id":NaN}', b"[" * 60_000],
    ids=lambda body: repr(body[:12]),
)
async def test_a_body_that_is_no_heartbeat(http: httpx2.AsyncClient, body: bytes) -> None:
    key = await register(http)
    refused(await http.post("/v1/agents/status", content=body, headers=bearer(key)), 422, "malformed_payload")


async def test_absurd_times_are_kept_and_not_believed(http: httpx2.AsyncClient) -> None:
    key = await register(http)
    times = {"timestamp": "0001-01-01T00:00:00+00:00", "started_at": "9999-12-31T23:59:59Z", "last_action_at": None}
    assert (await push(http, key, **times)).status_code == 200
    row = (await http.get("/v1/agents/abc-123")).json()
    assert (row["timestamp"], row["started_at"]) == ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z")
    assert (row["presence"], row["last_action_at"]) == ("alive", None)


async def test_a_body_that_is_too_large(http: httpx2.AsyncClient) -> None:
    key = await register(http)
    before = (await http.get("/v1/agents/abc-123")).json()
    large = HEARTBEAT | {"last_action": "x" * (64 << 10)}
    refused(await http.post("/v1/agents/status", json=large, headers=bearer(key)), 413, "payload_too_large")

    async def pieces() -> AsyncGenerator[bytes]:
        for _ in range(100):
            yield b" " * 1024

    refused(await http.post("/v1/agents/status", content=pieces(), headers=bearer(key)), 413, "payload_too_large")
    refused(
        await http.post("/v1/agents/register", json={"agent_type": "cli", "hostname": "x" * (64 << 10)}),
        413,
        "payload_too_large",
    )
    assert (await http.get("/v1/agents/abc-123")).json() == before


async def test_a_heartbeat_in_pieces_is_taken(http: httpx2.AsyncClient) -> None:
    import json

    key = await register(http)

    async def pieces() -> AsyncGenerator[bytes]:
        text = json.dumps(HEARTBEAT).encode()
        yield text[:40]
        yield text[40:]

    answer = await http.post("/v1/agents/status", content=pieces(), headers=bearer(key))
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("authorization", [None, "Bearer", "Bearer hs_wrong", "Basic YTpi", "hs_wrong", "\xfc"])
async def test_a_heartbeat_without_a_key(http: httpx2.AsyncClient, authorization: str | None) -> None:
    await register(http)
    headers = [] if authorization is None else [(b"authorization", authorization.encode("latin-1"))]
    refused(await http.post("/v1/agents/status", json=HEARTBEAT, headers=headers), 401, "unauthenticated")


async def test_a_heartbeat_for_somebody_else(http: httpx2.AsyncClient) -> None:
    await register(http)
    mallory = await register(http, "mallory")
    refused(await push(http, mallory), 403, "forbidden")
    assert (await http.get("/v1/agents/abc-123")).json()["reported_status"] is None


async def test_the_scheme_of_a_key_may_be_written_in_any_case(http: httpx2.AsyncClient) -> None:
    key = await register(http)
    answer = await http.post("/v1/agents/status", json=HEARTBEAT, headers={"AUTHORIZATION": f"bearer {key}"})
    assert answer.status_code == 200


# --- intervals -------------------------------------------------------------------------------------------------


async def test_intervals_as_they_were_promised(http: httpx2.AsyncClient) -> None:
    key = await register(http)

    async def resolved() -> tuple[float, str]:
        config = (await http.get("/v1/agents/abc-123/config")).json()
        assert set(config) == {"push_interval_seconds", "source"}
        pushed = (await push(http, key)).json()["push_interval_seconds"]
        row = (await http.get("/v1/agents/abc-123")).json()
        assert config["push_interval_seconds"] == pushed == row["push_interval_seconds"]
        return pushed, config["source"]

    assert await resolved() == (30.0, "default")
    for path, seconds, source in (
        ("/v1/agents/config/default", 20, "default"),
        ("/v1/agents/config/type/inference", 10, "type:inference"),
        ("/v1/agents/config/tag/gpu", 5, "tag:gpu"),
        ("/v1/agents/config/tag/primary", 2.5, "tag:primary"),
        ("/v1/agents/abc-123/config", 60, "agent"),
    ):
        answer = await http.put(path, json={"push_interval_seconds": seconds})
        assert answer.status_code == 200, answer.text
        assert answer.json()["push_interval_seconds"] == seconds
        assert await resolved() == (seconds, source)
    for path, expected in (
        ("/v1/agents/abc-123/config", (2.5, "tag:primary")),
        ("/v1/agents/config/tag/primary", (5.0, "tag:gpu")),
        ("/v1/agents/config/tag/gpu", (10.0, "type:inference")),
        ("/v1/agents/config/type/inference", (20.0, "default")),
        ("/v1/agents/config/default", (30.0, "default")),
    ):
        assert (await http.delete(path)).status_code == 204
        assert await resolved() == expected


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ('{"push_interval_seconds":0}', "interval_invalid"),
        ('{"push_interval_seconds":-5}', "interval_invalid"),
        ('{"push_interval_seconds":1e-9}', "interval_invalid"),
        ('{"push_interval_seconds":0.0999}', "interval_invalid"),
        ('{"push_interval_seconds":3600.001}', "interval_invalid"),
        ('{"push_interval_seconds":1e308}', "interval_invalid"),
        ('{"push_interval_seconds":1e999}', "malformed_payload"),
        ('{"push_interval_seconds":NaN}', "malformed_payload"),
        ('{"push_interval_seconds":Infinity}', "malformed_payload"),
        ('{"push_interval_seconds":"5"}', "malformed_payload"),
        ('{"push_interval_seconds":true}', "malformed_payload"),
        ('{"push_interval_seconds":null}', "malformed_payload"),
        ('{"push_interval":5}', "malformed_payload"),
        ("{}", "malformed_payload"),
        ("", "malformed_payload"),
    ],
)
async def test_an_absurd_interval_changes_nothing(http: httpx2.AsyncClient, body: str, code: str) -> None:
    await register(http)
    for path in ("abc-123/config", "config/type/inference", "config/tag/gpu", "config/default"):
        refused(await http.put(f"/v1/agents/{path}", content=body), 422, code)
    assert (await http.get("/v1/agents/abc-123/config")).json() == {"push_interval_seconds": 30.0, "source": "default"}


async def test_who_may_set_intervals_and_of_whom(http: httpx2.AsyncClient) -> None:
    key = await register(http)
    body = {"push_interval_seconds": 5}
    for path in ("abc-123/config", "config/type/inference", "config/tag/gpu", "config/default"):
        refused(await http.put(f"/v1/agents/{path}", json=body, headers=bearer(key)), 403, "forbidden")
        refused(await http.delete(f"/v1/agents/{path}", headers=bearer("hs_nonsense")), 401, "unauthenticated")
    refused(await http.put("/v1/agents/nobody/config", json=body), 404, "agent_unknown")
    refused(await http.get("/v1/agents/nobody/config"), 404, "agent_unknown")
    refused(await http.put("/v1/agents/config/tag/%20", json=body), 422, "malformed_payload")
    refused(await http.put("/v1/agents/config/type/" + "x" * 500, json=body), 422, "malformed_payload")


# --- who is there ----------------------------------------------------------------------------------------------


async def test_a_bare_list_with_links(http: httpx2.AsyncClient) -> None:
    for number in range(5):
        await register(http, f"agent-{number}", agent_type="cli" if number == 4 else "inference")
    listed = await http.get("/v1/agents")
    assert [row["agent_id"] for row in listed.json()] == [f"agent-{number}" for number in range(5)]
    assert "link" not in listed.headers
    seen: list[str] = []
    path = "/v1/agents?type=inference&tag=gpu&limit=3"
    while path:
        page = await http.get(path)
        seen += [row["agent_id"] for row in page.json()]
        found = re.fullmatch(r'<(\S+)>; rel="next"', page.headers.get("link", ""))
        path = found[1] if found else ""
    assert seen == [f"agent-{number}" for number in range(4)]


async def test_lists_by_status(http: httpx2.AsyncClient, system: System) -> None:
    key = await register(http)
    await register(http, "silent")
    await push(http, key)
    now = system.clock.now_ms()
    roll = await system.fleet.sweeper._keeper.roll(now + 10**9, 10)  # pyright: ignore[reportArgumentType]
    silent = [silence for silence in roll.silent if silence.agent_id == "silent"]
    await system.fleet.sweeper._keeper.mark([Mark(silence, Liveness.DEAD, now) for silence in silent])

    async def listed(word: str) -> list[str]:
        return [row["agent_id"] for row in (await http.get(f"/v1/agents?status={word}")).json()]

    assert await listed("running") == ["abc-123"]
    assert await listed("dead") == ["silent"]
    assert await listed("alive") == ["abc-123"]
    assert await listed("idle") == []
    refused(await http.get("/v1/agents?status=sleepy"), 422, "malformed_payload")
    dead = (await http.get("/v1/agents/silent")).json()
    assert (dead["presence"], dead["status"]) == ("dead", "dead")
    assert "silent" in [row["agent_id"] for row in (await http.get("/v1/agents")).json()]


async def test_lists_have_one_word_for_each_agent(http: httpx2.AsyncClient) -> None:
    for name in ("ann", "bob", "cyd", "dan", "eve"):
        key = await register(http, name)
        if name != "eve":
            await push(http, key, agent_id=name, status="running")
    why = {"reason": "a look", "actor": "olga"}
    assert (await http.post("/v1/agents/bob/quarantine", json=why)).status_code == 200
    assert (await http.post("/v1/agents/cyd/cordon", json=why)).status_code == 200
    await http.post("/v1/agents/dan/inbox", json={"type": "turn", "payload": {}})
    words = {"ann": "idle", "bob": "quarantined", "cyd": "paused", "dan": "dispatched", "eve": "registered"}
    listed = (await http.get("/v1/agents")).json()
    assert {one["agent_id"]: one["headline"] for one in listed} == words
    rest = (await http.get("/v1/agents", params={"cursor": "cyd", "limit": 1})).json()
    assert [(one["agent_id"], one["headline"]) for one in rest] == [("dan", "dispatched")]
    one = (await http.get("/v1/agents/cyd")).json()
    assert (one["headline"], one["cost_usd_today"]) == ("paused", 0.0)


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=501", "limit=x", "type=" + "x" * 101, "tag=" + "x" * 101, "cursor=" + "x" * 401]
)
async def test_a_list_asked_for_in_the_wrong_way(http: httpx2.AsyncClient, query: str) -> None:
    refused(await http.get(f"/v1/agents?{query}"), 422, "malformed_payload")


async def test_history(http: httpx2.AsyncClient) -> None:
    key = await register(http)
    times = [(await push(http, key, items_processed=number)).json()["server_time"] for number in range(4)]
    whole = (await http.get("/v1/agents/abc-123/history")).json()
    assert [(item["timestamp"], item["items_processed"]) for item in whole["items"]] == list(
        zip(times, range(4), strict=True)
    )
    assert set(whole["items"][0]) == {
        "timestamp",
        "status",
        "items_processed",
        "queue_depth",
        "processing_time_avg_ms",
        "error_count",
        "memory_mb",
    }
    newest = (await http.get("/v1/agents/abc-123/history?limit=2")).json()
    assert [item["items_processed"] for item in newest["items"]] == [2, 3]
    none = (await http.get("/v1/agents/abc-123/history?since=2999-01-01T00:00:00Z")).json()
    assert none["items"] == []
    refused(await http.get("/v1/agents/nobody/history"), 404, "agent_unknown")
    for query in ("since=yesterday", "since=2026-01-01T00:00:00", "limit=0", "limit=61"):
        refused(await http.get(f"/v1/agents/abc-123/history?{query}"), 422, "malformed_payload")


async def test_an_agent_of_another_project_is_not_there(http: httpx2.AsyncClient) -> None:
    await register(http)
    elsewhere = {"x-homeostat-project": "elsewhere"}
    assert (await http.get("/v1/agents", headers=elsewhere)).json() == []
    for path in ("", "/config", "/history"):
        refused(await http.get(f"/v1/agents/abc-123{path}", headers=elsewhere), 404, "agent_unknown")
    refused(await http.post("/v1/agents/abc-123/deregister", headers=elsewhere), 404, "agent_unknown")


async def test_an_agent_is_one_project_s_for_good(http: httpx2.AsyncClient) -> None:
    key = await register(http)
    elsewhere = {"x-homeostat-project": "elsewhere"}
    again = {"agent_type": "inference", "agent_id": "abc-123"}
    for proof in ({}, {"api_key": key}, {"api_key": "hs_nonsense"}):
        refused(await http.post("/v1/agents/register", json=again | proof, headers=elsewhere), 409, "agent_exists")
    for path in ("", "/head", "/inbox", "/turns"):
        refused(await http.get(f"/v1/agents/abc-123{path}", headers=elsewhere), 404, "agent_unknown")
    sent = await http.post("/v1/agents/abc-123/inbox", json={"type": "turn", "payload": 1}, headers=elsewhere)
    refused(sent, 404, "agent_unknown")


async def test_a_refused_registration_leaves_its_idempotency_key_unused(http: httpx2.AsyncClient) -> None:
    key = await register(http)
    again, once = {"agent_type": "inference", "agent_id": "abc-123"}, {"idempotency-key": "k"}
    refused(await http.post("/v1/agents/register", json=again, headers=once), 409, "agent_exists")
    answer = await http.post("/v1/agents/register", json=again | {"api_key": key}, headers=once)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("chosen", [{}, {"agent_id": "abc-123"}])
async def test_an_idempotency_key_means_nothing_in_another_project(http: httpx2.AsyncClient, chosen: Json) -> None:
    body, once = {"agent_type": "inference", **chosen}, {"idempotency-key": "register-1"}
    ours = (await http.post("/v1/agents/register", json=body, headers=once)).json()
    theirs = await http.post("/v1/agents/register", json=body, headers=once | {"x-homeostat-project": "elsewhere"})
    if chosen:
        refused(theirs, 409, "agent_exists")
    else:
        assert theirs.status_code == 200, theirs.text
        assert theirs.json()["agent_id"] != ours["agent_id"]
    assert (await push(http, ours["api_key"], agent_id=ours["agent_id"])).status_code == 200, "nobody took its key"


async def test_metrics_count_the_fleet(http: httpx2.AsyncClient, system: System) -> None:
    key = await register(http)
    await register(http, "other")
    for _ in range(3):
        await push(http, key)
    lines = (await http.get("/metrics")).text.splitlines()
    assert 'homeostat_agents{presence="alive"} 2.0' in lines
    assert "homeostat_heartbeats_total 3.0" in lines
    assert 'homeostat_agents_marked_total{presence="dead"} 0.0' in lines
    assert "homeostat_feed_readers 0.0" in lines
    # The first one took the long way: this server had not seen its host name before.
    assert "homeostat_heartbeat_seconds_count 3.0" in lines or "homeostat_heartbeat_seconds_count 2.0" in lines
    assert await system.fleet.census() is not None
    assert system.fleet.registry.get(AgentId("other")) is not None


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"agent_type": 7},
        {"agent_type": ""},
        {"agent_type": "a/b"},
        {"agent_type": "cli", "tags": "gpu"},
        {"agent_type": "cli", "tags": [f"t{number}" for number in range(65)]},
        {"agent_type": "cli", "tags": ["t"] * 10_000},
        {"agent_type": "cli", "tags": ["a b"]},
        {"agent_type": "cli", "pid": -1},
        {"agent_type": "cli", "pid": "1"},
        {"agent_type": "cli", "hostname": 1},
        {"agent_type": "cli", "hostname": "h\n"},
        {"agent_type": "cli", "version": "1\n"},
        {"agent_type": "cli", "version": "1" * 101},
        {"agent_type": "cli", "agent_id": "config"},
        {"agent_type": "cli", "agent_id": "a/b"},
        {"agent_type": "cli", "colour": "red"},
    ],
    ids=lambda body: str(body)[:60],
)
async def test_a_registration_that_makes_no_sense(http: httpx2.AsyncClient, body: Json) -> None:
    refused(await http.post("/v1/agents/register", json=body), 422, "malformed_payload")
    assert (await http.get("/v1/agents")).json() == []


async def test_a_dead_agent_with_a_turn_shows_both(http: httpx2.AsyncClient, system: System) -> None:
    await register(http)
    sent = (await http.post("/v1/agents/abc-123/inbox", json={"type": "turn", "payload": 1})).json()
    keeper, now = system.fleet.sweeper._keeper, system.clock.now_ms()
    roll = await keeper.roll(now + 10**9, 10)  # pyright: ignore[reportArgumentType]
    await keeper.mark([Mark(silence, Liveness.DEAD, now) for silence in roll.silent])
    row = (await http.get("/v1/agents/abc-123")).json()
    assert (row["presence"], row["status"], row["headline"]) == ("dead", "dead", "dead")
    assert (row["head"]["status"], row["head"]["turn_id"]) == ("dispatched", sent["turn_id"])


async def test_the_dead_expire_when_the_settings_say_so(tmp_path: Path) -> None:
    async with assemble(Settings(data_dir=tmp_path, agent_expiry_seconds=5)) as system:
        assert isinstance(system.fleet._keeper, LocalStatuses)
        assert system.fleet._keeper._expiry_ms == 5_000
