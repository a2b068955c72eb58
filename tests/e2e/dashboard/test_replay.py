"""A run that a real worker did is run again on the page, with the code as it was and with other code."""

import re
import sys
from pathlib import Path

import pytest
from playwright.async_api import BrowserContext, expect

from homeostat.app.assemble import assemble
from homeostat.app.settings import Settings
from homeostat.server.serving import bind, serving, url_of
from homeostat.testing.servers import free_port
from tests.e2e.dashboard.conftest import PATIENCE_MS, Visit
from tests.e2e.test_ledger_commands import AGENT, recorded

expect.set_options(timeout=PATIENCE_MS)

MODULE = "helpdesk_of_the_replay_page"
CITY = "<img src=x onerror=pwned=1>"


async def test_the_first_divergence_is_told_in_words(
    context: BrowserContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = tmp_path / f"{MODULE}.py"
    written.write_text(AGENT)
    monkeypatch.syspath_prepend(str(tmp_path))
    settings = Settings(data_dir=tmp_path / "data", replay_modules=(MODULE,))
    async with assemble(settings) as system:
        listener = bind("127.0.0.1", free_port())
        async with serving(system, listener):
            visit = Visit(await context.new_page(), url_of(listener))
            visit.watch()
            page = visit.page
            run_id = await recorded(visit.url, tmp_path, module=MODULE, city=CITY)
            await visit.go(f"runs/{run_id}")
            await page.get_by_role("link", name=re.compile("^Replay")).click()
            outcome = page.get_by_role("region", name="Outcome")
            await page.get_by_role("button", name="Replay", exact=True).click()
            await expect(outcome).to_contain_text("Identical: the code does what it did.")
            await expect(outcome).to_contain_text("1 turn and")
            await expect(outcome).to_contain_text("0 live calls")

            written.write_text(AGENT.replace('turn.input["city"])', 'turn.input["city"] + "!")'))
            monkeypatch.delitem(sys.modules, MODULE)  # as a server that was started again would not have it yet
            await page.get_by_role("button", name="Replay", exact=True).click()
            await expect(outcome).to_contain_text(f"Other code than then: {MODULE}:helper.")
            await expect(outcome).to_contain_text("took step `look up` with other arguments (args[0])")
            await expect(outcome).to_contain_text(f'recorded "{CITY}", now "{CITY}!"')
            sides = page.get_by_role("table", name="Recorded and replayed")
            await expect(sides.get_by_text(f"{CITY}!").first).to_be_visible()
            await outcome.get_by_role("link", name=re.compile(r"entry \d+")).click()
            await expect(page.get_by_role("table", name="Ledger")).to_contain_text(CITY)
            assert await page.evaluate("[window.pwned === undefined, document.querySelectorAll('img').length]") == [
                True,
                0,
            ]
            assert visit.errors == []
            assert visit.foreign == []
