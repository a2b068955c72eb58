"""Keys, sessions, tokens, origins, and the log of what operators did, over real HTTP."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2
import pytest
import websockets
from websockets.exceptions import ConnectionClosedError, WebSocketException

from homeostat.access.keys import Keys
from homeostat.app.assemble import System, assemble
from homeostat.app.settings import Auth, Settings
from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.errors import Unauthenticated
from homeostat.core.ids import DEFAULT_PROJECT, Ids, digest_of
from homeostat.core.records.access import Request, Role
from homeostat.server import doorkeeper
from homeostat.testing.clock import ManualClock

FIRST_WORDS = {"/v1/ws/status": "snapshot", "/v1/ws/events": "hello"}


@pytest.fixture
async def system(tmp_path: Path) -> AsyncIterator[System]:
    async with assemble(Settings(data_dir=tmp_path, auth=Auth.KEYS, allowed_hosts=("fleet.example",))) as system:
        yield system


@pytest.fixture
async def admin(system: System) -> str:
    issued = await system.access.keys.create_first()
    assert issued is not None
    return issued.secret


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def _kept(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.glob("homeostat.db*"))


async def login(http: httpx2.AsyncClient, key: str) -> str:
    answer = await http.post("/v1/login", json={"key": key})
    assert answer.status_code == 200, answer.text
    return answer.json()["csrf_token"]


async def made(http: httpx2.AsyncClient, admin: str, role: str, **more: object) -> tuple[str, str]:
    answer = await http.post("/v1/keys", json={"name": role, "role": role} | more, headers=bearer(admin))
    assert answer.status_code == 201, answer.text
    return answer.json()["key"]["key_id"], answer.json()["secret"]


async def test_the_first_key_is_made_once_and_no_secret_is_kept(
    http: httpx2.AsyncClient, admin: str, system: System, tmp_path: Path
) -> None:
    assert await system.access.keys.create_first() is None
    _, secret = await made(http, admin, "viewer")
    listed = await http.get("/v1/keys", headers=bearer(admin))
    assert [key["role"] for key in listed.json()["keys"]] == ["admin", "viewer"]
    assert listed.json()["keys"][0]["last_used_at"] is not None
    files = _kept(tmp_path)
    for kept in (admin, secret):
        assert kept.encode() not in files
        assert kept not in listed.text


async def test_a_rotated_key_overlaps_and_a_revoked_one_ends_at_once(http: httpx2.AsyncClient, admin: str) -> None:
    key_id, old = await made(http, admin, "viewer")
    rotated = await http.post(f"/v1/keys/{key_id}/rotate", json={"overlap_seconds": 60}, headers=bearer(admin))
    new = rotated.json()["secret"]
    for secret in (old, new):
        assert (await http.get("/v1/agents", headers=bearer(secret))).status_code == 200
    at_once = await http.post(f"/v1/keys/{key_id}/rotate", json={"overlap_seconds": 0}, headers=bearer(admin))
    newest = at_once.json()["secret"]
    assert [(await http.get("/v1/agents", headers=bearer(one))).status_code for one in (old, new, newest)] == [
        401,
        401,
        200,
    ]
    await http.post(f"/v1/keys/{key_id}/revoke", json={"reason": "left"}, headers=bearer(admin))
    assert (await http.get("/v1/agents", headers=bearer(newest))).status_code == 401
    again = await http.post(f"/v1/keys/{key_id}/rotate", json={}, headers=bearer(admin))
    assert again.json()["code"] == "key_unknown", "what is revoked is not brought back"


async def test_a_key_expires_and_notes_its_use_now_and_then(system: System) -> None:
    clock = ManualClock()
    keys = Keys(store=system.access.store, clock=clock, ids=Ids(clock=clock))
    issued = await keys.create(name="x", role=Role.VIEWER, project=None, expires_in_seconds=100, by="test")
    assert (await keys.identify(issued.secret)).role is Role.VIEWER
    first = (await keys.get(issued.key.key_id)).last_used_ms
    clock.advance(30)
    await keys.identify(issued.secret)
    assert (await keys.get(issued.key.key_id)).last_used_ms == first
    clock.advance(40)
    await keys.identify(issued.secret)
    assert (await keys.get(issued.key.key_id)).last_used_ms != first
    clock.advance(30)
    with pytest.raises(Unauthenticated):
        await keys.identify(issued.secret)


async def test_a_key_of_one_project_stays_there(http: httpx2.AsyncClient, admin: str) -> None:
    _, secret = await made(http, admin, "admin", project="billing")
    own = await http.get("/v1/session", headers=bearer(secret))
    assert own.json()["project"] == "billing"
    assert (await http.get("/v1/agents", headers=bearer(secret))).status_code == 200
    for elsewhere in ({"x-homeostat-project": "default"}, {"x-homeostat-project": "search"}):
        answer = await http.get("/v1/agents", headers=bearer(secret) | elsewhere)
        assert answer.status_code == 403
    wider = await http.post(
        "/v1/keys", json={"name": "x", "role": "viewer", "project": "search"}, headers=bearer(secret)
    )
    assert wider.status_code == 403
    listed = await http.get("/v1/keys", headers=bearer(secret))
    assert {key["project"] for key in listed.json()["keys"]} == {"billing"}


async def test_a_session_needs_its_token_to_change_anything(http: httpx2.AsyncClient, admin: str) -> None:
    assert (await http.get("/v1/session")).json()["kind"] == "nobody"
    token = await login(http, admin)
    cookie = next(iter(http.cookies.jar))
    assert cookie.name == "homeostat_session"
    assert cookie.has_nonstandard_attr("HttpOnly")
    assert cookie.get_nonstandard_attr("SameSite") == "Strict"
    session = (await http.get("/v1/session")).json()
    assert (session["role"], session["csrf_token"]) == ("admin", token)
    body = {"name": "x", "role": "viewer"}
    bare = await http.post("/v1/keys", json=body)
    assert (bare.status_code, bare.json()["code"]) == (403, "csrf_token_missing")
    wrong = await http.post("/v1/keys", json=body, headers={"x-homeostat-csrf": "0" * 64})
    assert wrong.status_code == 403
    right = await http.post("/v1/keys", json=body, headers={"x-homeostat-csrf": token})
    assert right.status_code == 201
    assert (await http.post("/v1/logout", headers={"x-homeostat-csrf": token})).status_code == 204
    http.cookies.set("homeostat_session", str(cookie.value))
    assert (await http.get("/v1/agents")).status_code == 401


async def test_a_session_ends_with_its_key(http: httpx2.AsyncClient, admin: str) -> None:
    key_id, secret = await made(http, admin, "operator")
    await login(http, secret)
    assert (await http.get("/v1/agents")).status_code == 200
    await http.post(f"/v1/keys/{key_id}/revoke", json={"reason": "x"}, headers=bearer(admin))
    assert (await http.get("/v1/agents")).status_code == 401


async def heard_out(socket: websockets.ClientConnection) -> None:
    while True:
        await socket.recv()


async def test_who_reads_on_stops_when_the_key_is_revoked(
    http: httpx2.AsyncClient, url: str, admin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that was open already told everything for as long as it was kept open."""
    monkeypatch.setattr(doorkeeper, "ADMITTED_SECONDS", 0.01)
    key_id, secret = await made(http, admin, "viewer")
    await login(http, secret)
    cookie = {"cookie": f"homeostat_session={next(iter(http.cookies.jar)).value}", "origin": url}
    http.cookies.clear()
    places = [(url.replace("http:", "ws:") + place, head) for place in FIRST_WORDS for head in (bearer(secret), cookie)]
    async with AsyncExitStack() as open_ones:
        sockets = [
            await open_ones.enter_async_context(websockets.connect(place, additional_headers=head))
            for place, head in places
        ]
        reading = http.stream("GET", "/v1/events", headers=bearer(secret), timeout=10)
        lines = (await open_ones.enter_async_context(reading)).aiter_lines()
        kept = http.stream("GET", "/v1/events", headers=bearer(admin), timeout=10)
        others = (await open_ones.enter_async_context(kept)).aiter_lines()
        assert await anext(lines)
        await http.post(f"/v1/keys/{key_id}/revoke", json={"reason": "x"}, headers=bearer(admin))
        async with asyncio.timeout(10):
            assert all([line is not None async for line in lines]), "it comes to its end"
            for socket in sockets:
                with pytest.raises(ConnectionClosedError) as ended:
                    await heard_out(socket)
                assert ended.value.rcvd is not None
                assert ended.value.rcvd.code == 1008
        assert await anext(others), "whose key is good reads on"


async def test_an_agents_key_opens_no_session(http: httpx2.AsyncClient, admin: str) -> None:
    body = {"agent_type": "t", "agent_id": "ann"}
    key = (await http.post("/v1/agents/register", json=body, headers=bearer(admin))).json()["api_key"]
    for wrong in (key, "hk_wrong", "\u00fc", "hk_\u00fc"):
        assert (await http.post("/v1/login", json={"key": wrong})).status_code == 401


async def test_a_ticket_logs_one_browser_in(http: httpx2.AsyncClient, admin: str) -> None:
    path = (await http.post("/v1/login/tickets", headers=bearer(admin))).json()["path"]
    first = await http.get(path)
    assert (first.status_code, first.headers["location"]) == (303, "/")
    assert (await http.get("/v1/session")).json()["role"] == "admin"
    http.cookies.clear()
    assert (await http.get(path)).status_code == 401


@pytest.mark.parametrize("place", FIRST_WORDS)
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://fleet.example.evil"])
async def test_a_page_of_another_origin_neither_posts_nor_listens(
    http: httpx2.AsyncClient, url: str, admin: str, origin: str, place: str
) -> None:
    token = await login(http, admin)
    headers = {"origin": origin, "x-homeostat-csrf": token}
    posted = await http.post("/v1/keys", json={"name": "x", "role": "admin"}, headers=headers)
    assert posted.json()["code"] == "origin_refused"
    cookie = f"homeostat_session={next(iter(http.cookies.jar)).value}"
    socket = url.replace("http:", "ws:") + place
    with pytest.raises((WebSocketException, OSError)):
        async with websockets.connect(socket, additional_headers={"cookie": cookie, "origin": origin}) as open_socket:
            await open_socket.recv()
    with pytest.raises((WebSocketException, OSError)):
        async with websockets.connect(socket, additional_headers={"cookie": cookie}) as open_socket:
            await open_socket.recv()
    with pytest.raises((WebSocketException, OSError)):
        async with websockets.connect(socket, additional_headers={"origin": url}) as open_socket:
            await open_socket.recv()
    async with websockets.connect(socket, additional_headers={"cookie": cookie, "origin": url}) as open_socket:
        assert FIRST_WORDS[place] in str(await open_socket.recv())
    async with websockets.connect(socket, additional_headers=bearer(admin)) as open_socket:
        assert FIRST_WORDS[place] in str(await open_socket.recv())


async def test_a_name_that_was_rebound_reaches_nothing(http: httpx2.AsyncClient, url: str, admin: str) -> None:
    rebound = await http.get("/v1/agents", headers=bearer(admin) | {"host": "evil.example"})
    assert rebound.json()["code"] == "origin_refused"
    with pytest.raises((WebSocketException, OSError)):
        async with websockets.connect(
            url.replace("http:", "ws:") + "/v1/ws/status", additional_headers=bearer(admin) | {"host": "evil.example"}
        ) as socket:
            await socket.recv()
    named = await http.get("/v1/agents", headers=bearer(admin) | {"host": "fleet.example"})
    assert named.status_code == 200, "a name that was allowed is ours"


async def test_what_operators_do_is_written_down_with_before_and_after(http: httpx2.AsyncClient, admin: str) -> None:
    _, operator = await made(http, admin, "operator")
    body = {"agent_type": "t", "agent_id": "ann"}
    await http.post("/v1/agents/register", json=body, headers=bearer(operator))
    said = {"reason": "it mails customers", "actor": "somebody else"}
    answer = await http.post("/v1/agents/ann/quarantine", json=said, headers=bearer(operator))
    assert answer.status_code == 200, answer.text
    assert answer.json()["actor"] == "operator", "who did it is who showed the key, not who the body names"
    page = (await http.get("/v1/audit", headers=bearer(operator))).json()
    done, requested = page["items"][:2]
    assert (requested["outcome"], done["outcome"], done["of_seq"]) == ("requested", "done", requested["seq"])
    assert (done["actor"], done["verb"], done["reason"]) == ("operator", "quarantine_agent", "it mails customers")
    assert done["object"] == "agent/ann"
    before, after = done["changes"]["phase"]
    assert before in {"initializing", "healthy"}
    assert after in {"draining", "quarantined"}
    killed = await http.post("/v1/agents/ann/kill", json=said, headers=bearer(operator))
    assert killed.json()["actor"] == "operator", "nobody kills in the name of somebody else"
    await http.post("/v1/agents/nobody/quarantine", json=said, headers=bearer(operator))
    failed = (await http.get("/v1/audit?limit=1", headers=bearer(operator))).json()["items"][0]
    assert (failed["outcome"], failed["changes"]) == ("failed", {"error": "agent_unknown"})


async def test_a_changed_log_is_found_out(http: httpx2.AsyncClient, admin: str, tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        await made(http, admin, "viewer", name=name)
    assert (await http.get("/v1/audit/verify", headers=bearer(admin))).json()["valid"]
    exported = await http.get("/v1/audit/export", headers=bearer(admin))
    assert len(exported.text.splitlines()) == 6
    with sqlite3.connect(tmp_path / "homeostat.db") as store:
        store.execute("UPDATE audit SET act = replace(act, 'create_key', 'list_keys') WHERE seq = 3")
    store.close()
    verdict = (await http.get("/v1/audit/verify", headers=bearer(admin))).json()
    assert (verdict["valid"], verdict["broken_at"]) == (False, 3)


async def test_nobody_is_logged_in_without_a_key(http: httpx2.AsyncClient) -> None:
    for path in ("/livez", "/readyz", "/docs", "/openapi.json", "/v1/session"):
        assert (await http.get(path)).status_code == 200
    for path in ("/metrics", "/v1/agents", "/v1/audit", "/v1/keys"):
        answer = await http.get(path)
        assert answer.status_code == 401, path
        assert answer.headers["content-type"] == "application/problem+json"
    assert (await http.post("/nowhere")).status_code == 401


async def test_an_agents_key_is_an_agents_wherever_it_is_shown(http: httpx2.AsyncClient, url: str, admin: str) -> None:
    body = {"agent_type": "t", "agent_id": "ann"}
    key = (await http.post("/v1/agents/register", json=body, headers=bearer(admin))).json()["api_key"]
    said = {"agent_id": "ann", "actual_cause": "false_positive"}
    assert (await http.post("/api/feedback", json=said, headers=bearer(key))).status_code == 403
    other = {"type": "stop", "payload": {"turn_id": "turn_" + "0" * 24}}
    await http.post("/v1/agents/register", json=body | {"agent_id": "bob"}, headers=bearer(admin))
    assert (await http.post("/v1/agents/bob/inbox", json=other, headers=bearer(key))).status_code == 403
    with pytest.raises((WebSocketException, OSError)):
        async with websockets.connect(
            url.replace("http:", "ws:") + "/v1/ws/events", additional_headers=bearer(key)
        ) as socket:
            await socket.recv()


async def test_an_answer_is_repeated_to_whoever_asked_and_for_what_was_asked(
    http: httpx2.AsyncClient, admin: str, system: System
) -> None:
    body = {"agent_type": "t", "agent_id": "ann"}
    agent = (await http.post("/v1/agents/register", json=body, headers=bearer(admin))).json()["api_key"]
    _, operator = await made(http, admin, "operator", name="ann")
    asked = b'{"agent_id":"ann","samples":[{"latency_ms":900}]}'

    async def post(key: str, idempotency: str = "k1", query: str = "") -> tuple[int, bool]:
        headers = bearer(key) | {"Idempotency-Key": idempotency, "content-type": "application/json"}
        answer = await http.post(f"/v1/vitals{query}", content=asked, headers=headers)
        return answer.status_code, "idempotency-replayed" in answer.headers

    first, _ = await post(operator)
    assert first < 300
    assert await post(operator) == (first, True)
    assert await post(operator, query="?x=1") == (422, False)
    assert await post(agent) == (422, False), "an agent whose name is that of a key"
    # As an earlier version kept it: the same request is not done again over an upgrade.
    before = digest_of("POST /v1/vitals\n" + asked.decode())
    claim = Request(project=DEFAULT_PROJECT, actor="ann", key="k2", fingerprint=before)
    assert await system.access.store.claim(claim, system.clock.now_ms(), Millis(0)) is None
    await system.access.store.keep_answer(claim, Json('{"status":202,"body":"","media_type":"application/json"}'))
    assert await post(operator, "k2") == (202, True)


async def test_a_refusal_says_what_may_not_be_done_to_what(http: httpx2.AsyncClient, admin: str) -> None:
    _, viewer = await made(http, admin, "viewer")
    for path, words in (
        ("/v1/agents/ann/quarantine", "This key may not quarantine agent/ann."),
        ("/v1/agents/ann/treatments/lift", "This key may not lift treatments of agent/ann."),
        ("/v1/immune/approvals/apr_1/approve", "This key may not approve approval/apr_1."),
    ):
        told = (await http.post(path, json={"reason": "x"}, headers=bearer(viewer))).json()
        assert (told["code"], told["detail"]) == ("forbidden", words)
        assert "key create" in told["hint"]
