"""What operators do in the dashboard: follow an incident, answer, isolate, filter, and sit out a restart."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.async_api import BrowserContext, Locator, Page, Route, expect

from homeostat import SyncClient
from homeostat.adapters.upstreams.simulated.faults import Faults
from homeostat.app.assemble import assemble
from homeostat.app.settings import Auth, Settings
from homeostat.core.codec import Json
from homeostat.core.ids import DEFAULT_PROJECT
from homeostat.core.machines.phase import Phase
from homeostat.core.records.immune import Applied, RemedyAction
from homeostat.core.records.turn import AgentKey, Grant
from homeostat.core.records.view import Outcome
from homeostat.server.serving import bind, serving, url_of
from homeostat.testing.clinic import Clinic, clinic
from homeostat.testing.crews import crew, eventually
from homeostat.testing.homeostat import HomeostatServer
from homeostat.testing.servers import free_port
from tests.e2e.dashboard.conftest import PATIENCE_MS, Visit

expect.set_options(timeout=PATIENCE_MS)


class Cure:
    """A remedy that helps: the fault goes."""

    def __init__(self) -> None:
        self.patients: list[Clinic] = []

    async def apply(self, key: AgentKey, action: RemedyAction, reason: str) -> tuple[Applied, str]:
        del reason
        self.patients[0].faults.pop(key[1], None)
        return Applied.APPLIED, f"{action} was done"

    async def undo(self, key: AgentKey) -> None:
        del key


def phase(page: Page, name: str) -> Locator:
    return page.locator(f"main [data-phase={name}]").first


async def answer(page: Page, reason: str) -> None:
    """The second step: a reason, then the button."""
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Reason").fill(reason)
    await dialog.get_by_role("button").last.click()
    await dialog.wait_for(state="detached")


async def fall_ill(ward: Clinic, name: str) -> None:
    """Give an agent a fault, and wait until it is isolated and somebody is asked."""
    ward.faults[name] = Faults(tokens=100)
    for _ in range(40):
        await ward.sample(name)
        if ward.phase(name) is Phase.QUARANTINED:
            break
    assert ward.phase(name) is Phase.QUARANTINED
    await ward.tick()


async def test_an_incident_is_followed_from_its_detection_to_its_end(context: BrowserContext) -> None:
    cure = Cure()
    async with clinic(remedies=cure) as ward:
        cure.patients.append(ward)
        listener = bind("127.0.0.1", free_port())
        async with serving(ward.system, listener):
            visit = Visit(await context.new_page(), url_of(listener))
            visit.watch()
            page = visit.page
            await ward.train("ann", "bob", "cid", "dan", samples=60)
            await visit.go("agents/ann")
            await expect(phase(page, "healthy")).to_be_visible()
            await fall_ill(ward, "ann")
            await expect(phase(page, "quarantined")).to_be_visible()
            await expect(page.get_by_role("heading", name="Open incident")).to_be_visible()
            await visit.go("now")
            await expect(page.get_by_test_id("sentence")).to_contain_text(
                "1 isolated, 1 approval waiting, 1 open incident"
            )
            await visit.go("approvals")
            await expect(page.get_by_role("region", name="The question")).to_contain_text("What will happen")
            await page.keyboard.press("a")
            await answer(page, "it is worth a try")
            for _ in range(60):
                await ward.sample("ann")
                if ward.phase("ann") is Phase.HEALTHY:
                    break
            await visit.go("agents/ann")
            await expect(phase(page, "healthy")).to_be_visible()
            await visit.go("incidents")
            await page.get_by_role("table", name="Incidents").get_by_role("link").first.click()
            await expect(page.locator("main")).to_contain_text("lost 0")
            await expect(page.locator("main")).to_contain_text("cured it")
            assert visit.errors == []
            assert visit.foreign == []


async def test_a_question_is_answered_with_no_only_with_a_reason(ward: Clinic, visit: Visit) -> None:
    await ward.train("ann", "bob", "cid", "dan", samples=60)
    await fall_ill(ward, "ann")
    page = visit.page
    await visit.go("approvals")
    await expect(page.get_by_role("region", name="The question")).to_be_visible()
    await page.keyboard.press("r")
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_role("button", name="Reject")).to_be_disabled()
    await answer(page, "not on a Friday")
    await expect(page.get_by_text("Nobody waits for an answer.")).to_be_visible()
    assert ward.phase("ann") is Phase.EXHAUSTED
    await page.get_by_role("button", name="rejected").click()
    await expect(page.locator("main")).to_contain_text("not on a Friday")


async def test_a_remedy_is_vetoed_and_allowed_again_on_the_page_of_an_agent(ward: Clinic, visit: Visit) -> None:
    page = visit.page
    await ward.enrol("ann")
    await visit.go("agents/ann")
    await page.get_by_role("button", name="all remedies").click()
    remedies = page.get_by_role("table", name="Remedies")
    await remedies.get_by_role("button", name="Veto reset agent against prompt drift").click()
    await page.get_by_role("dialog").get_by_label("for every agent").check()
    await answer(page, "it forgot a customer")
    await expect(remedies).to_contain_text("vetoed for every agent by dashboard: it forgot a customer")
    (veto,) = await ward.system.immune.store.vetoes()
    assert (veto.agent_id, veto.action) == (None, RemedyAction.RESET_AGENT)
    await remedies.get_by_role("button", name="Veto reset memory against unknown").click()
    await answer(page, "it has notes")
    await expect(remedies).to_contain_text("vetoed for ann by dashboard: it has notes")
    await page.get_by_role("button", name="fewer").click()
    await expect(remedies.get_by_role("button")).to_have_count(2)
    await remedies.get_by_role("button", name="Lift the veto on reset agent").click()
    await answer(page, "it keeps notes now")
    await expect(remedies.get_by_role("button")).to_have_count(1)
    assert [one.agent_id for one in await ward.system.immune.store.vetoes()] == ["ann"]
    assert visit.errors == []


async def test_agents_are_isolated_from_the_fleet_page(ward: Clinic, visit: Visit) -> None:
    await ward.enrol(*(f"agent-{number}" for number in range(6)))
    page = visit.page
    await visit.go("fleet")
    for name in ("agent-1", "agent-4"):
        await page.get_by_label(f"Select {name}").check()
    await page.get_by_role("button", name="Quarantine…").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("2 agents")
    await expect(dialog.get_by_role("button", name="quarantine 2 agents")).to_be_disabled()
    await answer(page, "they mail customers")
    await expect(page.locator('[data-agent="agent-1"] [data-phase=quarantined]')).to_be_visible()
    await expect(page.locator('[data-agent="agent-4"] [data-phase=quarantined]')).to_be_visible()
    await expect(page.locator('[data-agent="agent-2"] [data-phase=initializing]')).to_be_visible()
    told = await ward.steps("agent-4")
    assert told[0].cause == "they mail customers"


async def test_an_open_incident_is_shown_however_many_came_and_went_since(ward: Clinic, visit: Visit) -> None:
    async def busy(route: Route) -> None:
        if "closed%3Anone" in route.request.url:
            await route.continue_()
        else:  # the newest hundred, all of which are over
            await route.fulfill(json={"incidents": [], "next_cursor": "inc_1"})

    await ward.enrol("ann")
    async with httpx2.AsyncClient(base_url=visit.url, trust_env=False) as http:
        assert (await http.post("/v1/agents/ann/quarantine", json={"reason": "a drill"})).is_success
    await visit.page.route("**/v1/immune/incidents?*", busy)
    await visit.go("now")
    await expect(visit.page.get_by_test_id("sentence")).to_contain_text("1 isolated, 1 open incident")


async def test_the_filter_is_in_the_address(ward: Clinic, visit: Visit) -> None:
    await ward.enrol("one", "two", tags=("gpu", "eu"))
    await ward.enrol("three", tags=("cpu",))
    page = visit.page
    rows = page.locator("[data-agent]")
    await visit.go("fleet")
    await expect(rows).to_have_count(3)
    await page.locator('[data-agent="one"]').get_by_role("button", name="gpu").click()
    await expect(rows).to_have_count(2)
    await expect(page).to_have_url(re.compile(r"q=tag%3Agpu"))
    await page.reload()
    await expect(rows).to_have_count(2)
    await page.keyboard.press("/")
    await page.keyboard.type(" -two")
    await expect(rows).to_have_count(1)
    await page.keyboard.press("Escape")
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="one", exact=True)).to_be_visible()


async def test_the_fleet_says_what_each_agent_spent_and_filters_by_it(ward: Clinic, visit: Visit) -> None:
    await ward.enrol("ann", "bob")
    await ward.sample("ann", times=3)
    page = visit.page
    await visit.go("fleet")
    ann = page.locator('[data-agent="ann"]')
    await expect(ann.get_by_role("img", name="latency of the last 3 calls")).to_be_visible()
    await expect(ann).to_contain_text("$0.0")
    await page.get_by_label("Filter").fill("cost>0")
    await expect(page.locator("[data-agent]")).to_have_count(1)


async def test_the_same_filter_reaches_the_server_from_every_list(ward: Clinic, visit: Visit) -> None:
    await ward.enrol("ann", "bob")
    await ward.sample("ann", "bob", times=2)
    page = visit.page
    await visit.go("gateway")
    calls = page.get_by_role("table", name="Calls").get_by_role("row")
    await expect(calls).to_have_count(5)
    await page.get_by_label("Filter").fill("agent:ann status:200")
    await expect(calls).to_have_count(3)
    await page.get_by_label("Filter").fill("agnt:ann")
    await expect(page.get_by_role("alert")).to_contain_text("The fields are")


async def test_a_yes_can_be_given_for_some_hours(ward: Clinic, visit: Visit) -> None:
    await ward.train("ann", "bob", "cid", "dan", samples=60)
    await fall_ill(ward, "ann")
    page = visit.page
    await visit.go("approvals")
    await page.get_by_role("button", name="Approve…").click()
    await page.get_by_role("dialog").get_by_label("for 8 h").check()
    await answer(page, "known")
    await expect(page.get_by_text("and for 8 h whenever the same is found")).to_be_visible()
    (kept,) = await ward.system.immune.store.approvals(DEFAULT_PROJECT, status=None, before=None, limit=9)
    assert kept.stands_until_ms == (kept.answered_at_ms or 0) + 8 * 3_600_000


async def test_a_run_that_stands_still_says_so_and_why(context: BrowserContext, tmp_path: Path) -> None:
    """However many tasks it has, those of one kind are found, and the ledger below them too."""
    async with assemble(Settings(data_dir=tmp_path)) as system:
        listener = bind("127.0.0.1", free_port())
        async with serving(system, listener):
            visit = Visit(await context.new_page(), url_of(listener))
            visit.watch()
            page = visit.page
            said = {"reason": "it mails customers", "actor": "eve"}
            tasks = [{"name": f"page-{number:03d}", "agent": "ann"} for number in range(270)]
            async with httpx2.AsyncClient(base_url=visit.url, trust_env=False) as http:
                await http.post("/v1/agents/register", json={"agent_type": "t", "agent_id": "ann"})
                begun = await http.post("/v1/runs", json={"goal": "read it all", "tasks": tasks})
                assert begun.status_code == 201, begun.text
                await visit.go(f"runs/{begun.json()['run_id']}")
                await page.get_by_role("button", name="queued 64").click()
                table = page.get_by_role("table", name="Tasks")
                await expect(table.get_by_role("row")).to_have_count(65)
                alert = page.get_by_role("alert")
                await expect(alert).to_have_count(0)
                assert (await http.post("/v1/agents/ann/quarantine", json=said)).is_success
                await expect(alert).to_contain_text("It stands still until ann can work.")
                await expect(alert).to_contain_text("64 tasks wait at the gate of ann, which is closed (it mails")
                await page.get_by_role("button", name="waiting 206").click()
                await expect(table.get_by_role("row")).to_have_count(201)
                await page.get_by_role("button", name="Next").click()
                await expect(table.get_by_role("row")).to_have_count(7)
                await expect(table).to_contain_text("page-269")
                await page.get_by_role("button", name="waiting 206").click()
                height = await page.locator("main").evaluate("(main) => main.scrollHeight")
                assert height < 2200, "the ledger is not far"
                await alert.get_by_role("link", name="ann").click()
                await page.get_by_role("button", name="Release…").click()
                await answer(page, "it is mended")
                await page.go_back()
                await page.get_by_role("button", name="all", exact=True).click()
                await expect(alert).to_have_count(0)
            assert visit.errors == []


async def test_runs_that_stand_still_are_told_where_one_looks_first(context: BrowserContext, tmp_path: Path) -> None:
    """The first page and the list say which, and for whom; and no more once somebody can work again."""
    async with assemble(Settings(data_dir=tmp_path)) as system:
        listener = bind("127.0.0.1", free_port())
        async with serving(system, listener):
            visit = Visit(await context.new_page(), url_of(listener))
            visit.watch()
            page = visit.page
            said = {"reason": "it mails customers", "actor": "eve"}
            async with httpx2.AsyncClient(base_url=visit.url, trust_env=False) as http:
                for name in ("ann", "bob"):
                    await http.post("/v1/agents/register", json={"agent_type": "t", "agent_id": name})
                for goal, names in (("the report", ["ann"]), ("the digest", ["ann", "bob"])):
                    tasks = [{"name": name, "agent": name} for name in names]
                    begun = await http.post("/v1/runs", json={"goal": goal, "tasks": tasks})
                    assert begun.status_code == 201, begun.text
                await visit.go("now")
                sentence, alert = page.get_by_test_id("sentence"), page.get_by_role("alert")
                await expect(sentence).to_contain_text("agents")
                await expect(alert).to_have_count(0)
                assert (await http.post("/v1/agents/ann/quarantine", json=said)).is_success
                await expect(alert).to_have_text("the report stands still until ann can work.")
                await expect(sentence).to_contain_text("1 run stands still")
                await page.get_by_role("link", name="Runs", exact=True).click()
                rows = page.get_by_role("table", name="Runs").get_by_role("row")
                await expect(rows.filter(has_text="the report")).to_contain_text("applying, waits for ann")
                await expect(rows.filter(has_text="the digest")).not_to_contain_text("waits for")
                assert (await http.post("/v1/agents/bob/cordon", json=said)).is_success  # of which no event tells
                await expect(rows.filter(has_text="the digest")).to_contain_text("applying, waits for ann, bob")

                async def released() -> bool:
                    return (await http.post("/v1/agents/ann/release", json=said)).is_success

                await eventually(released)
                await expect(rows.filter(has_text="waits for")).to_have_count(0)
                await visit.go("now")
                await expect(sentence).to_contain_text("agents")
                await expect(alert).to_have_count(0)
            assert visit.errors == []


async def test_a_task_that_waits_for_a_yes_gets_it_wherever_approvals_are(
    context: BrowserContext, tmp_path: Path
) -> None:
    """One waits on the page of its run, one on that of approvals; the first page counts and shows both."""
    async with assemble(Settings(data_dir=tmp_path)) as system:
        listener = bind("127.0.0.1", free_port())
        async with serving(system, listener), crew(system.kernel, "ann"):
            visit = Visit(await context.new_page(), url_of(listener))
            visit.watch()
            page = visit.page
            async with httpx2.AsyncClient(base_url=visit.url, trust_env=False) as http:
                for name in ("publish", "print"):
                    tasks = [{"name": name, "agent": "ann", "approval": True}]
                    begun = await http.post("/v1/runs", json={"goal": "tell everybody", "tasks": tasks})
            await visit.go("now")
            await expect(page.get_by_role("main").get_by_role("link", name="Approvals waiting")).to_contain_text(
                "2 tasks"
            )
            await expect(page.get_by_role("navigation", name="Pages")).to_contain_text("2 waiting")
            await expect(page.get_by_role("button", name="Allow…")).to_have_count(2)
            await visit.go(f"runs/{begun.json()['run_id']}")
            await page.get_by_role("button", name="Allow…").click()
            await answer(page, "go on")
            await expect(page.get_by_test_id("run-status")).to_have_text("completed")
            await visit.go("approvals")
            await expect(page.get_by_role("heading", level=1)).to_contain_text("1 pending question")
            await page.get_by_role("button", name="Allow…").click()
            await answer(page, "go on")
            await expect(page.get_by_text("Nobody waits for an answer.")).to_be_visible()
            assert visit.errors == []


async def test_the_palette_leads_anywhere(ward: Clinic, visit: Visit) -> None:
    await ward.enrol("needle-7")
    page = visit.page
    await visit.go("now")
    await page.keyboard.press("Control+k")
    await page.get_by_role("combobox", name="Go to").fill("needle")
    await expect(page.get_by_role("option", name="needle-7")).to_be_visible()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="needle-7")).to_be_visible()
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keys")).to_contain_text("Ctrl K")


async def idle(grant: Grant) -> tuple[Outcome, Json]:
    """Never be done."""
    del grant
    await asyncio.Event().wait()
    raise AssertionError("nobody says that it is over")


async def test_a_run_is_held_resumed_and_killed(context: BrowserContext, tmp_path: Path) -> None:
    async with assemble(Settings(data_dir=tmp_path)) as system:
        listener = bind("127.0.0.1", free_port())
        async with serving(system, listener), crew(system.kernel, "ann", work=idle):
            visit = Visit(await context.new_page(), url_of(listener))
            visit.watch()
            page = visit.page
            tasks = [{"name": "one", "agent": "ann", "input": {}}, {"name": "two", "agent": "ann", "after": ["one"]}]
            async with httpx2.AsyncClient(base_url=visit.url, trust_env=False) as http:
                begun = await http.post("/v1/runs", json={"goal": "count the stars", "tasks": tasks})
            assert begun.status_code == 201, begun.text
            await visit.go("runs")
            await page.get_by_role("link", name="count the stars").click()
            status = page.get_by_test_id("run-status")
            await expect(status).to_have_text("applying")
            await page.get_by_role("button", name="Pause…", exact=True).click()
            await answer(page, "a look at it")
            await expect(status).to_have_text("paused")
            await page.get_by_role("button", name="Resume…", exact=True).click()
            await answer(page, "it is fine")
            await expect(status).to_have_text("applying")
            await page.get_by_role("button", name="Kill…").click()
            dialog = page.get_by_role("dialog")
            await dialog.get_by_label("Reason").fill("enough")
            await expect(dialog.get_by_role("button", name="kill run")).to_be_disabled()
            await dialog.get_by_label("Type kill").fill("kill")
            await dialog.get_by_role("button", name="kill run").click()
            await expect(status).to_have_text("killed")
            await expect(page.locator("main")).to_contain_text("enough")
            ledger = page.get_by_role("table", name="Ledger")
            await expect(ledger.get_by_text("run.created").first).to_be_visible()
            await expect(ledger.get_by_text("run.moved").first).to_be_visible()
            await page.get_by_role("button", name="Verify").click()
            await expect(page.get_by_text("entries are as they were written")).to_be_visible()
            assert visit.errors == []


async def test_a_turn_is_put_back_to_the_front_and_why_is_told_in_the_same_words(
    context: BrowserContext, tmp_path: Path
) -> None:
    async with assemble(Settings(data_dir=tmp_path)) as system:
        listener = bind("127.0.0.1", free_port())
        async with (
            serving(system, listener),
            crew(system.kernel, "ann", work=idle),
            httpx2.AsyncClient(base_url=url_of(listener), trust_env=False) as http,
        ):
            visit = Visit(await context.new_page(), url_of(listener))
            visit.watch()
            page = visit.page
            sent = (await http.post("/v1/agents/ann/inbox", json={"type": "turn", "payload": 1})).json()["turn_id"]
            await visit.go(f"turns/{sent}")
            facts = page.locator("main dl").first
            await expect(facts).to_contain_text("running")
            before = (await http.get(f"/v1/turns/{sent}")).json()["epoch"]
            await page.get_by_role("button", name="Requeue…").click()
            await expect(page.get_by_role("dialog").get_by_role("button", name="Requeue turn")).to_be_disabled()
            await answer(page, "it hangs")
            await expect(facts).to_contain_text("started 2 times")
            assert (await http.get(f"/v1/turns/{sent}")).json()["epoch"] > before
            acts = (await http.get("/v1/audit", params={"q": "verb:requeue_turn outcome:done"})).json()["items"]
            assert [act["reason"] for act in acts] == ["it hangs"]
            await page.get_by_text("Why?").click()
            told = (await http.get(f"/v1/why/turns/{sent}")).json()["text"].partition("its lease")[0]
            await expect(page.get_by_test_id("why")).to_contain_text(told)
            assert visit.errors == []


async def test_red_things_say_why_and_events_name_their_run(ward: Clinic, visit: Visit) -> None:
    await ward.train("ann", "bob", "cid", "dan", samples=60)
    await fall_ill(ward, "ann")
    page, why = visit.page, visit.page.get_by_test_id("why")
    await visit.go("now")
    async with httpx2.AsyncClient(base_url=visit.url, trust_env=False) as http:
        goal = {"goal": "count the <b>stars</b>", "tasks": [{"name": "one", "agent": "bob", "approval": True}]}
        run = (await http.post("/v1/runs", json=goal)).json()["run_id"]
        await expect(page.get_by_role("link", name="count the <b>stars</b>").first).to_be_visible()
        (incident,) = (await http.get("/v1/immune/incidents")).json()["incidents"]
        (asked,) = (await http.get("/v1/immune/approvals")).json()["approvals"]
        (made, *_) = (await http.get("/v1/calls", params={"limit": 1})).json()["calls"]
        for place, told in (
            ("agents/ann", "agents/ann"),
            (f"runs/{run}", f"runs/{run}"),
            (f"incidents/{incident['incident_id']}", f"incidents/{incident['incident_id']}"),
            ("approvals", f"approvals/{asked['approval_id']}"),
            (f"gateway?call={made['call_id']}", f"calls/{made['call_id']}"),
        ):
            await visit.go(place)
            summary = page.get_by_text("Why?", exact=True)
            await summary.wait_for()
            if not await why.or_(page.get_by_text("Asking…")).count():
                await summary.click()
            await expect(why).to_have_text((await http.get(f"/v1/why/{told}")).json()["text"])
    await visit.go("agents/ann")
    await expect(page.get_by_role("table", name="Prompts")).to_contain_text("gpt-4o-mini")


async def test_where_keys_are_asked_for_the_page_asks_for_one(context: BrowserContext, tmp_path: Path) -> None:
    async with assemble(Settings(data_dir=tmp_path, auth=Auth.KEYS)) as system:
        issued = await system.access.keys.create_first()
        assert issued is not None
        listener = bind("127.0.0.1", free_port())
        async with serving(system, listener):
            page = await context.new_page()
            page.set_default_timeout(PATIENCE_MS)
            await page.goto(f"{url_of(listener)}/#/settings")
            await page.get_by_label("Key", exact=True).fill("hk_" + "0" * 48)
            await page.get_by_role("button", name="Log in").click()
            await expect(page.get_by_role("alert")).to_be_visible()
            await page.get_by_label("Key", exact=True).fill(issued.secret)
            await page.get_by_role("button", name="Log in").click()
            await expect(page.locator("[data-live=live]")).to_be_visible()
            await page.get_by_role("region", name="Keys").get_by_label("Name").fill("bob")
            await page.get_by_role("button", name="Make key…").click()
            await page.get_by_role("dialog").get_by_role("button", name="Make key").click()
            await expect(page.get_by_text("shown this once")).to_be_visible()
            await page.get_by_role("button", name="Log out").click()
            await expect(page.get_by_role("heading", name="Log in")).to_be_visible()


@pytest.fixture
def server() -> Iterator[HomeostatServer]:
    with HomeostatServer() as server:
        yield server


async def test_a_restart_of_the_server_needs_no_reload(context: BrowserContext, server: HomeostatServer) -> None:
    with SyncClient(server.url) as client:
        client.register("echo", agent_id="echo-1")
    visit = Visit(await context.new_page(), server.url)
    visit.watch()
    page = visit.page
    await visit.go("fleet")
    await expect(page.locator('[data-agent="echo-1"]')).to_be_visible()
    await page.evaluate("window.unreloaded = true")
    server.stop()
    await expect(page.locator("[data-live=reconnecting], [data-live=stale]")).to_be_visible()
    server.start()
    await expect(page.locator("[data-live=live]")).to_be_visible()
    with SyncClient(server.url) as client:
        client.register("echo", agent_id="echo-2")
    await expect(page.locator('[data-agent="echo-2"]')).to_be_visible()
    assert await page.evaluate("window.unreloaded") is True
