"""Every page: reachable by anybody, quick with long lists, at home under any path, and deaf to hostile words."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import pytest
from playwright.async_api import Browser, BrowserContext, Route, WebSocketRoute, expect

from homeostat import Client
from homeostat.server import dashboard
from homeostat.server.application import create_app
from homeostat.server.serving import bind, serving_app, url_of
from homeostat.testing.clinic import Clinic
from homeostat.testing.servers import free_port
from tests.e2e.dashboard.browsers import ROOT
from tests.e2e.dashboard.conftest import PATIENCE_MS, Visit

expect.set_options(timeout=PATIENCE_MS)

PAGES = ("now", "fleet", "approvals", "incidents", "runs", "turns", "gateway", "policies", "audit", "settings")
AXE = ROOT / "ui" / "node_modules" / "axe-core" / "axe.min.js"
SHOTS = ROOT / "build" / "screenshots"


def corpus() -> list[str]:
    """Two hundred words that would like to be more than words."""
    payloads = [
        "<script>{x}</script>",
        "<img src=x onerror={x}>",
        "<svg onload={x}>",
        "<svg><script>{x}</script></svg>",
        "<iframe src=javascript:{x}></iframe>",
        "<a href=javascript:{x}>a</a>",
        "javascript:{x}",
        "data:text/html,<script>{x}</script>",
        "</textarea><script>{x}</script>",
        "</title><img src=x onerror={x}>",
        '"onmouseover={x} a="',
        "'onfocus={x} autofocus='",
        "`onload={x}`",
        "<body onload={x}>",
        "<math><mtext><img src=x onerror={x}>",
        "<details open ontoggle={x}>",
        "<input autofocus onfocus={x}>",
        "<video><source onerror={x}>",
        "<object data=javascript:{x}>",
        "<base href=//evil.test/>",
        "<link rel=stylesheet href=//evil.test/a.css>",
        "<meta http-equiv=refresh content=0;url=//evil.test>",
        "<style>@import '//evil.test/a.css'</style>",
        "<img src=//evil.test/pixel>",
        "{{constructor.constructor('{x}')()}}",
    ]
    actions = ["pwned=1", "window.pwned=1", "alert(1)", "fetch('//evil.test')"]
    dressings = ["{}", "a{}b"]
    return [dress.format(payload.replace("{x}", act)) for payload in payloads for act in actions for dress in dressings]


async def plant(ward: Clinic, url: str) -> str:
    """Hostile words wherever somebody may put words."""
    words = corpus()
    assert len(words) == 200
    async with Client(url) as client, httpx2.AsyncClient(base_url=url, trust_env=False, timeout=60) as http:
        for number, word in enumerate(words):
            name = f"agent-{number:03d}"
            enrolled = await client.register(
                "word", agent_id=name, tags=["word"], hostname=word[:255], version=word[:100]
            )
            beat: dict[str, Any] = {
                "agent_id": name,
                "agent_type": "word",
                "tags": ["word"],
                "timestamp": "2026-01-28T12:00:00Z",
                "started_at": "2026-01-28T12:00:00Z",
                "uptime_seconds": 1.0,
                "status": "running",
                "last_action": word,
                "last_action_at": None,
                "items_processed": 1,
                "queue_depth": 1,
                "processing_time_avg_ms": 1.0,
                "error_count": 0,
                "memory_mb": 1.0,
                "push_interval_seconds": 5.0,
            }
            said = {"authorization": f"Bearer {enrolled.api_key}"}
            assert (await http.post("/v1/agents/status", json=beat, headers=said)).status_code == 200
            body = {"action": "alert", "agent_id": name, "reason": word}
            assert (await http.put("/v1/policies", json=body)).status_code == 200
            message = {"type": "turn", "payload": {word: word}, "correlation_id": word[:60]}
            assert (await http.post(f"/v1/agents/{name}/inbox", json=message)).status_code == 202
        for number in range(12):
            order = {"reason": words[number * 16], "actor": words[number * 16 + 1][:60]}
            held = await http.post(f"/v1/agents/agent-{number:03d}/quarantine", json=order)
            assert held.status_code == 200, held.text
        for number, action in enumerate(("reset_memory", "reset_agent")):
            veto = {"diagnosis": "unknown", "action": action, "reason": words[number + 40], "actor": words[number][:60]}
            assert (await http.post("/v1/immune/memory/veto", json=veto)).status_code == 200
        await http.post("/v1/agents/agent-005/heal", json={"reason": "its incident says what was passed over"})
        # The audit log names what was asked by its route, refused or not; a budget is shown by its run's goal.
        await http.put(f"/v1/policies/{quote(words[8], safe='')}", json={"action": "alert", "reason": words[31]})
        await http.post(f"/v1/agents/{quote(words[16], safe='')}/cordon", json={"reason": words[33]})
        task = {"name": words[9][:60], "agent": "agent-199", "input": {"a": words[8]}}
        goal = {"goal": words[7], "tasks": [task], "budget": {"usd": 1.0}}
        begun = await http.post("/v1/runs", json=goal)
        assert begun.status_code == 201, begun.text
        for name in ("agent-000", "agent-001"):
            model = "<img src=x onerror=pwned=1>"
            asked = {"model": model, "messages": [{"role": "user", "content": model}]}
            await http.post("/openai/v1/chat/completions", json=asked, headers={"x-agent-id": name})
        return str(begun.json()["run_id"])


HARMLESS = """() => [
    window.pwned === undefined,
    document.querySelectorAll('body :is(img, iframe, object, embed, video, script:not([src]), style)').length,
    [...document.querySelectorAll('a')].filter((a) => !a.href.startsWith(location.origin)).length,
    [...document.querySelectorAll('*')].filter((e) => [...e.attributes].some((a) => /^on/i.test(a.name))).length,
]"""


async def test_hostile_words_stay_words(ward: Clinic, visit: Visit, url: str) -> None:
    run = await plant(ward, url)
    page = visit.page
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    places = [*PAGES, "fleet?view=list", "fleet?view=list&group=tag", "fleet?view=list&q=<script>&peek=agent-003"]
    places += [f"agents/agent-{number:03d}" for number in (0, 5, 11)] + ["turns?agent=agent-000", "agents/<img src=x>"]
    places += [f"runs/{run}", f"replay/{run}?mode=what-if", "replay/<img src=x>", "runs?q=<script>", "audit?q=by:<svg>"]
    for place in places:
        await visit.go(place)
        await visit.settle()
        window = page.get_by_role("table").last
        if await window.count():
            await window.evaluate("(element) => { element.scrollTop = element.scrollHeight }")
        assert await page.evaluate(HARMLESS) == [True, 0, 0, 0], place
    assert dialogs == []
    await visit.go("fleet?view=list")
    await expect(page.get_by_text("<script>pwned=1</script>").first).to_be_visible()
    words = corpus()
    for place, shown in (
        ("policies", words[7]),
        ("now", words[7]),
        (f"runs/{run}", words[9][:60]),
        ("audit", words[32]),
    ):
        await visit.go(place)
        await expect(page.get_by_text(shown).first).to_be_attached()
        assert await page.evaluate(HARMLESS) == [True, 0, 0, 0], place


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: run make dashboard")
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_everybody_can_use_every_page(ward: Clinic, url: str, browser: Browser, scheme: Any) -> None:
    await ward.train("ann", "bob", samples=40)
    await ward.enrol("cid", tags=("gpu",))
    async with httpx2.AsyncClient(base_url=url, trust_env=False) as http:
        await http.post("/v1/agents/cid/quarantine", json={"reason": "a drill"})
        await http.put("/v1/budgets/agent/ann", json={"usd": 2})
        tasks = [{"name": "one", "agent": "ann"}, {"name": "two", "agent": "bob", "after": ["one"], "approval": True}]
        run = (await http.post("/v1/runs", json={"goal": "count the stars", "tasks": tasks})).json()["run_id"]
    SHOTS.mkdir(parents=True, exist_ok=True)
    # The checker is put into the page by the browser itself, which the page's own policy would refuse.
    context = await browser.new_context(color_scheme=scheme, bypass_csp=True, viewport={"width": 1280, "height": 900})
    visit = Visit(await context.new_page(), url)
    visit.watch()
    found: dict[str, list[str]] = {}
    for place in (*PAGES, "agents/ann", "fleet?peek=cid", "fleet?view=heat", f"runs/{run}", f"replay/{run}"):
        await visit.go(place)
        await visit.settle()
        await expect(visit.page.locator("main")).not_to_contain_text("Reading")
        name = re.sub(r"run_\w+", "one", re.sub(r"[/?=]", "-", place))
        await visit.page.screenshot(path=SHOTS / f"{name}-{scheme}.png")
        await visit.page.evaluate(AXE.read_text())
        # Only colours differ between the schemes.
        rules = {"resultTypes": ["violations"]} | ({"runOnly": ["color-contrast"]} if scheme == "dark" else {})
        told = await visit.page.evaluate("(rules) => axe.run(document, rules)", rules)
        grave = [
            f"{one['id']}: {one['nodes'][0]['html'][:160]}"
            for one in told["violations"]
            if one["impact"] in ("serious", "critical")
        ]
        if grave:
            found[place] = grave
    await context.close()
    assert found == {}


async def test_pages_fit_a_telephone(ward: Clinic, url: str, browser: Browser) -> None:
    await ward.enrol("ann", "bob")
    context = await browser.new_context(viewport={"width": 390, "height": 844})
    visit = Visit(await context.new_page(), url)
    visit.watch()
    for place in (*PAGES, "agents/ann"):
        await visit.go(place)
        wide = await visit.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 390, place
        await visit.settle()
    await context.close()
    assert visit.absent == [], "a browser logs an error for whatever is not there"


OPENED = """(main) => {
    for (const box of main.querySelectorAll('details')) box.open = true
    const drawn = () => new Promise((shown) => requestAnimationFrame(shown))
    return drawn().then(drawn).then(() => [main.scrollWidth - main.clientWidth,
        Math.min(0, ...[...main.querySelectorAll('details > *')].map((part) => part.getBoundingClientRect().left)),
        [...main.querySelectorAll('[role=table]')].filter((table) => table.scrollWidth > table.clientWidth).length])
}"""


@pytest.mark.parametrize("width", [390, 800, 1024, 1440])
async def test_long_words_push_nothing_off_a_page(ward: Clinic, url: str, browser: Browser, width: int) -> None:
    word, name = "W" * 900, "n" * 60
    async with httpx2.AsyncClient(base_url=url, trust_env=False) as http:
        enrolled = {"agent_type": name, "agent_id": name, "tags": ["t" * 60, "u"]}
        assert (await http.post("/v1/agents/register", json=enrolled)).is_success
        held = await http.post(f"/v1/agents/{name}/quarantine", json={"reason": word, "actor": "a" * 60})
        assert held.is_success, held.text
        await http.put("/v1/policies", json={"action": "alert", "agent_id": name, "reason": word})
        tasks = [{"name": name, "agent": name}, {"name": "next", "agent": name, "after": [name], "approval": True}]
        run = (await http.post("/v1/runs", json={"goal": word, "tasks": tasks})).json()["run_id"]
    context = await browser.new_context(viewport={"width": width, "height": 844})
    visit = Visit(await context.new_page(), url)
    visit.watch()
    page = visit.page
    own = (f"agents/{name}", f"fleet?peek={name}", f"runs/{run}", f"replay/{run}", f"turns?agent={name}")
    for place in (*PAGES, *own):
        await visit.go(place)
        await visit.settle()
        assert await page.locator("main").evaluate(OPENED) == [0, 0, 0], place
    await visit.go(f"runs/{run}")
    kill = page.get_by_role("button", name="Kill…")
    await expect(kill).to_be_in_viewport()
    await kill.focus()
    await page.keyboard.press("Enter")
    await page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    await expect(kill).to_be_focused()
    await visit.go(f"agents/{name}")
    await page.get_by_role("button", name="Release…").click()
    act = page.get_by_role("dialog").get_by_role("button").last
    assert await act.evaluate(
        "(button) => button.getBoundingClientRect().left >= button.closest('dialog').getBoundingClientRect().left"
    )
    await page.keyboard.press("Escape")
    await page.keyboard.press("Control+k")
    await page.get_by_role("dialog").get_by_role("combobox").fill(name[:9])
    place = page.get_by_role("option", name=name).first
    assert await place.evaluate("(option) => option.firstChild.getBoundingClientRect().width > option.clientWidth / 2")
    await context.close()
    assert visit.errors == []


async def test_an_agent_is_listed_with_each_of_its_tags(ward: Clinic, visit: Visit) -> None:
    await ward.enrol("ann", tags=("gpu", "night"))
    await ward.enrol("bob", tags=("gpu",))
    await visit.go("fleet?view=list&group=tag")
    rows = visit.page.get_by_role("table", name="Agents").get_by_role("row")
    await expect(rows).to_have_count(6)
    await expect(visit.page.locator('[data-agent="ann"]')).to_have_count(2)


async def test_who_is_not_there_is_said_once_and_offers_nothing(visit: Visit) -> None:
    main = visit.page.locator("main")
    await visit.go("agents/nobody")
    await expect(main).to_contain_text("There is no agent of this name.")
    await expect(main.get_by_role("button")).to_have_count(0)
    await visit.go("replay/run_none")
    await expect(main).to_contain_text("There is no run 'run_none'.")
    await expect(main.get_by_role("button", name="Replay")).to_have_count(0)


def rows(first: int, count: int) -> list[dict[str, Any]]:
    return [
        {
            "agent_id": f"agent-{number:05d}",
            "agent_type": "t",
            "tags": [],
            "hostname": None,
            "version": None,
            "pid": None,
            "registered_at": "2026-01-01T00:00:00.000Z",
            "presence": "alive",
            "presence_since": "2026-01-01T00:00:00.000Z",
            "phase": "healthy",
            "status": "running",
            "reported_status": "running",
            "last_seen_at": "2026-01-01T00:00:00.000Z",
            "queue_depth": 0,
            "error_count": 0,
        }
        for number in range(first, first + count)
    ]


async def test_ten_thousand_agents_are_listed_and_only_those_on_screen_exist(visit: Visit) -> None:
    def feed(socket: WebSocketRoute) -> None:
        for part in range(20):
            told = {"type": "snapshot", "stream": "s", "seq": 1, "part": part + 1, "parts": 20}
            socket.send(json.dumps({**told, "agents": rows(part * 500, 500)}))

    page = visit.page
    await page.route_web_socket("**/v1/ws/status**", feed)
    await visit.go("fleet?view=list&sort=name")
    await expect(page.get_by_role("heading", level=1)).to_contain_text("10,000 agents")
    shown = page.locator("[data-agent]")
    assert await shown.count() < 80
    await page.get_by_role("table", name="Agents").evaluate("(element) => { element.scrollTop = element.scrollHeight }")
    await expect(page.locator('[data-agent="agent-09999"]')).to_be_visible()
    assert await shown.count() < 80
    await page.get_by_label("Filter").fill("name:agent-0777*")
    await expect(shown).to_have_count(10)
    await page.get_by_role("button", name="Heat-map").click()
    await expect(page.locator("canvas")).to_be_visible()


RUN = {
    "run_id": "run_1",
    "goal": "count",
    "status": "completed",
    "moved": {"actor": "ann", "reason": "", "at": "2026-01-01T00:00:00Z"},
    "version": 1,
    "trace_id": "",
    "seed": 1,
    "planner": "given",
    "planner_name": "",
    "paused_by": None,
    "at_rest": True,
    "tasks": {},
    "waits_for": [],
    "parallel": 1,
    "budget": {
        "tokens_max": None,
        "tokens_spent": 0,
        "tokens_held": 0,
        "usd_max": None,
        "usd_spent": 0,
        "usd_held": 0,
        "seconds_max": None,
        "seconds_spent": 0,
        "warned": False,
        "forecast": None,
        "reached_in_seconds": None,
    },
    "created_at": "2026-01-01T00:00:00Z",
    "created_by": "ann",
    "ledger_entries": 100_000,
    "ledger_hash": "0" * 64,
    "error": None,
}


HAS_COME = "(rows) => document.querySelector('[aria-label=Ledger]').scrollHeight >= rows * 30"


async def test_a_ledger_of_a_hundred_thousand_entries_is_read_as_one_scrolls(visit: Visit) -> None:
    """Newest first, page by page; what is written meanwhile comes in on top and moves nobody who reads further down."""
    asked: list[str] = []
    last = 100_000

    def told(seq: int) -> dict[str, Any]:
        return {"seq": seq, "payload": {"seq": seq}, "kind": "step", "at": "2026-01-01T00:00:00Z", "hash": "0"}

    async def ledger(route: Route) -> None:
        query = httpx2.URL(route.request.url).params
        cursor, limit = int(query.get("cursor") or 0), int(query["limit"])
        if query.get("order") != "newest":
            await route.fulfill(json={"entries": [told(cursor + 1)], "next_cursor": None})
            return
        asked.append(route.request.url)
        top = cursor - 1 if cursor else last
        numbers = range(top, max(top - limit, 0), -1)
        await route.fulfill(json={"entries": [told(seq) for seq in numbers], "next_cursor": numbers[-1]})

    def events(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        socket.send(json.dumps({"id": "s.1", "event": "hello", "data": {}}))

    sockets: list[WebSocketRoute] = []
    page = visit.page
    await page.route_web_socket("**/v1/ws/events**", events)
    await page.route("**/v1/runs/run_1/ledger**", ledger)
    await page.route("**/v1/runs/run_1/tasks**", lambda route: route.fulfill(json={"tasks": [], "next_cursor": None}))
    await page.route("**/v1/runs/run_1", lambda route: route.fulfill(json=RUN))
    await visit.go("runs/run_1")
    table = page.get_by_role("table", name="Ledger")
    await expect(table.get_by_role("row").first).to_contain_text("100000")
    assert len(asked) == 1
    for row in (100, 600, 1100, 1600):
        await page.wait_for_function(HAS_COME, arg=row)
        await table.evaluate("(element) => { element.scrollTop = element.scrollHeight }")
        await expect(table.locator(f'[aria-rowindex="{row}"]')).to_be_visible()
    assert len(asked) >= 4
    assert await table.get_by_role("row").count() < 80
    assert await table.get_attribute("aria-rowcount") == "100001"

    top = await table.evaluate("(element) => element.scrollTop")
    last += 250
    event = {"seq": 2, "kind": "run", "at_ms": 1, "target": "run_1"}
    sockets[-1].send(json.dumps({"id": "s.2", "event": "run", "data": event}))
    scrolled = "(top) => document.querySelector('[aria-label=Ledger]').scrollTop === top + 250 * 30"
    await page.wait_for_function(scrolled, arg=top)
    await table.evaluate("(element) => { element.scrollTop = 0 }")
    await expect(table.get_by_role("row").first).to_contain_text("100250")
    for seq in (100_151, 100_150, 100_001, 100_000):  # more came than fit a page, and none is missing
        await table.evaluate("(element, row) => { element.scrollTop = row * 30 }", 100_250 - seq)
        await expect(table.get_by_text(f'{{"seq":{seq}}}')).to_be_visible()

    await page.get_by_label("from entry").fill("99990")
    await page.get_by_label("from entry").press("Enter")
    await expect(table.get_by_role("row").first).to_contain_text("99990")
    await visit.go("runs/run_1?entry=7")
    await expect(page.get_by_text("7 step")).to_be_visible()
    async with page.expect_request(re.compile(r"/ledger\?.*q=kind%3Astep")):
        await page.get_by_label("Filter the ledger").fill("kind:step")
    await expect(page).to_have_url(re.compile(r"q=kind%3Astep"))


async def test_what_is_changed_for_a_replay_is_asked_for_and_both_sides_are_shown(visit: Visit) -> None:
    divergence = {"seq": 7, "message": "the model was asked something else", "recorded": "<b>a</b>", "now": "<b>c</b>"}
    answer = {
        "run_id": "run_1",
        "mode": "what-if",
        "verdict": "diverged",
        "turns": 1,
        "entries": 9,
        "live_calls": 0,
        "divergence": divergence,
        "changed_code": ["module:Agent"],
        "skipped": [],
    }
    asked: list[Any] = []

    async def replay(route: Route) -> None:
        asked.append(route.request.post_data_json)
        await route.fulfill(json=answer)

    told = {"at": "2026-01-01T00:00:00Z", "hash": "0", "payload": {"said": "<img src=x onerror=pwned=1>"}}
    entries = [{"seq": seq, "kind": "model.asked", **told} for seq in range(1, 10)]
    page = visit.page
    await page.route("**/v1/runs/run_1/replay", replay)
    ledger = {"entries": entries, "next_cursor": None}
    await page.route("**/v1/runs/run_1/ledger**", lambda route: route.fulfill(json=ledger))
    await page.route("**/v1/runs/run_1", lambda route: route.fulfill(json=RUN))
    await visit.go("replay/run_1")
    await page.get_by_role("radio", name="what-if").check()
    await expect(page).to_have_url(re.compile(r"mode=what-if"))
    await page.get_by_label("System prompt").fill("Be brief.")
    await page.get_by_label("Refuse tools").fill("delete_*, drop")
    await page.get_by_role("button", name="Replay", exact=True).click()
    outcome = page.get_by_role("region", name="Outcome")
    await expect(outcome).to_contain_text("First divergence, at entry 7: the model was asked something else")
    denied = {"models": {"deny": []}, "tools": {"deny": ["delete_*", "drop"]}}
    assert asked == [{"mode": "what-if", "prompt": "Be brief.", "policy": denied}]
    sides = page.get_by_role("table", name="Recorded and replayed")
    await expect(sides.get_by_text("<b>a</b>")).to_be_visible()
    await expect(sides.get_by_text("<b>c</b>")).to_be_visible()
    await expect(sides.get_by_text("the same")).to_have_count(6)
    await expect(sides.get_by_text("not reached")).to_have_count(2)
    assert await page.evaluate(HARMLESS) == [True, 0, 0, 0]


class Under:
    """A server behind a proxy that gives it a path of its own."""

    def __init__(self, app: Any, prefix: str) -> None:
        self._app = app
        self._prefix = prefix
        self.patience = app.patience

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path: str = scope["path"]
        if path.startswith(self._prefix):
            rest = path.removeprefix(self._prefix)
            raw = scope["raw_path"].removeprefix(self._prefix.encode())
            await self._app({**scope, "path": rest, "raw_path": raw}, receive, send)
        elif scope["type"] == "http":
            await send({"type": "http.response.start", "status": 418, "headers": []})
            await send({"type": "http.response.body", "body": b"not under the path"})


@pytest.fixture
async def under(ward: Clinic) -> AsyncIterator[str]:
    listener = bind("127.0.0.1", free_port())
    async with serving_app(Under(create_app(ward.system), "/ops/homeostat"), listener):
        yield f"{url_of(listener)}/ops/homeostat"


async def test_it_works_under_a_path_of_a_proxy(ward: Clinic, context: BrowserContext, under: str) -> None:
    await ward.enrol("ann")
    visit = Visit(await context.new_page(), under)
    visit.watch()
    await visit.go("fleet")
    await expect(visit.page.locator('[data-agent="ann"]')).to_be_visible()
    await visit.go("agents/ann")
    await expect(visit.page.get_by_role("heading", name="ann")).to_be_visible()
    assert visit.foreign == []
    assert visit.errors == []


async def test_a_page_of_another_origin_can_neither_order_nor_listen(
    ward: Clinic, context: BrowserContext, url: str
) -> None:
    await ward.enrol("ann")
    page = await context.new_page()
    await page.route("http://evil.test/", lambda route: route.fulfill(body="<h1>hello</h1>", content_type="text/html"))
    await page.goto("http://evil.test/")
    attempt = """async (url) => {
        const order = fetch(`${url}/v1/agents/ann/quarantine`, {
            method: 'POST', mode: 'no-cors', body: '{"reason":"mine now"}', headers: {'content-type': 'text/plain'},
        }).then(() => 'sent', () => 'failed')
        const listening = new Promise((told) => {
            const socket = new WebSocket(url.replace('http', 'ws') + '/v1/ws/status')
            socket.onmessage = () => told('heard')
            socket.onclose = socket.onerror = () => told('refused')
        })
        const reading = fetch(`${url}/v1/overview`).then(() => 'read', () => 'refused')
        return [await listening, await reading, await order]
    }"""
    assert (await page.evaluate(attempt, url))[:2] == ["refused", "refused"]
    assert await ward.steps("ann") == []


def test_the_bundle_is_small() -> None:
    files = dashboard.bundle()
    if not files:
        pytest.skip("the dashboard has not been built: run make dashboard")
    assert sum(len(file.packed) for file in files.values()) <= 120_000
    first = [file for name, file in files.items() if Path(name).name.startswith("index")]
    assert sum(len(file.packed) for file in first) <= 50_000
    assert not any(b"//" in line and b"https://" in line for line in files["index.html"].plain.splitlines())
