"""The page of settings: keys that are made, rotated and ended, and places that hear of alerts."""

import threading
from collections.abc import Iterator

import httpx2
import pytest
from playwright.async_api import Page, expect

from homeostat.testing.clinic import Clinic
from tests.e2e.dashboard.conftest import PATIENCE_MS, Visit
from tests.unit.server.test_webhooks import Receiver

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as receiver:
        thread = threading.Thread(target=receiver.serve_forever, daemon=True)
        thread.start()
        yield receiver
        receiver.shutdown()
        thread.join()


async def confirm(page: Page, *, reason: str = "", word: str = "") -> None:
    dialog = page.get_by_role("dialog")
    if reason:
        await dialog.get_by_label("Reason").fill(reason)
    if word:
        await dialog.get_by_label("Type").fill(word)
    await dialog.get_by_role("button").last.click()
    await dialog.wait_for(state="detached")


async def test_a_place_that_hears_of_alerts_is_added_tried_and_removed(
    ward: Clinic, visit: Visit, receiver: Receiver
) -> None:
    page = visit.page
    await visit.go("settings")
    hooks = page.get_by_role("region", name="Webhooks")
    await hooks.get_by_label("Name").fill("on-call")
    await hooks.get_by_label("Address").fill(receiver.url)
    await hooks.get_by_label("in my own network").check()
    await hooks.get_by_role("button", name="Add webhook").click()
    await confirm(page)
    await expect(hooks.get_by_role("status")).to_contain_text("whsec_")
    await hooks.get_by_role("button", name="I have it").click()
    await expect(hooks.get_by_text("whsec_")).to_have_count(0)
    row = hooks.get_by_role("row").filter(has_text=receiver.url)
    await row.get_by_role("button", name="Test").click()
    log = hooks.get_by_role("table", name="Deliveries")
    await expect(log.get_by_role("row").nth(1)).to_contain_text("answered 200")
    await expect(page).to_have_url(f"{visit.url}/#/settings?webhook=on-call")
    assert len(receiver.got) == 1
    receiver.status = 500
    ward.clock.advance(1)
    await row.get_by_role("button", name="Test").click()
    await expect(log.get_by_role("row").nth(1)).to_contain_text("again in")
    await expect(log.get_by_role("row").nth(1)).to_contain_text("500")
    await row.get_by_role("button", name="Remove").click()
    await confirm(page)
    await expect(hooks.get_by_text("Alerts go nowhere yet.")).to_be_visible()


async def test_a_key_is_made_for_a_project_rotated_with_overlap_and_ended(visit: Visit) -> None:
    page = visit.page
    await visit.go("settings")
    keys = page.get_by_role("region", name="Keys")
    await keys.get_by_label("Name").fill("ci")
    await keys.get_by_label("Role").select_option("operator")
    await keys.get_by_label("Project").fill("blue")
    await keys.get_by_role("button", name="Make key").click()
    await confirm(page)
    await expect(keys.get_by_role("status")).to_contain_text("The secret, shown this once")
    first = await keys.get_by_role("status").locator("code").inner_text()
    row = keys.get_by_role("row").filter(has_text="ci")
    await expect(row).to_contain_text("blue")
    await keys.get_by_label("when rotated").fill("2")
    await row.get_by_role("button", name="Rotate").click()
    await expect(page.get_by_role("dialog")).to_contain_text("good for 2 hours")
    await confirm(page)
    await expect(keys.get_by_role("status").locator("code")).not_to_have_text(first)
    second = await keys.get_by_role("status").locator("code").inner_text()
    async with httpx2.AsyncClient(base_url=visit.url, trust_env=False) as http:
        for secret in (first, second):
            told = await http.get("/v1/runs", headers={"authorization": f"Bearer {secret}"})
            assert told.status_code == 200, "both are good for a while"
    await row.get_by_role("button", name="Revoke").click()
    await confirm(page, reason="it leaked", word="revoke")
    await expect(row).to_contain_text("revoked")
    async with httpx2.AsyncClient(base_url=visit.url, trust_env=False) as http:
        refused = await http.get("/v1/runs", headers={"authorization": f"Bearer {second}"})
        assert refused.status_code == 401
