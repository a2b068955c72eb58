"""A real Chromium in front of a real server, in the test's own process where the test has to turn the clock."""

import os
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    Response,
    async_playwright,
    expect,
)

from homeostat.server import dashboard
from homeostat.server.serving import bind, serving, url_of
from homeostat.testing.clinic import Clinic, clinic
from homeostat.testing.servers import free_port
from tests.e2e.dashboard import browsers

PATIENCE_MS = 60_000  # what a busy machine may take for a thing to show


@pytest.fixture(scope="module")
async def browser() -> AsyncIterator[Browser]:
    if not dashboard.bundle():
        pytest.skip("the dashboard has not been built: run make dashboard")
    try:
        found = browsers.browser()
    except browsers.NoBrowser as problem:
        pytest.skip(f"no Chromium: {problem}; install one, or set HOMEOSTAT_TEST_CHROMIUM")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=found.path, args=list(browsers.FLAGS), env={**os.environ, **found.environment}
        )
        yield browser
        await browser.close()


@dataclass
class Visit:
    """A page, and whatever went wrong or went elsewhere while it was open."""

    page: Page
    url: str
    errors: list[str] = field(default_factory=list[str])
    foreign: list[str] = field(default_factory=list[str])
    absent: list[str] = field(default_factory=list[str])

    def watch(self) -> None:
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._heard)
        self.page.on("request", self._asked)
        self.page.on("response", self._answered)

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.errors.append(message.text)

    def _asked(self, request: Request) -> None:
        if not request.url.startswith(self.url):
            self.foreign.append(request.url)

    def _answered(self, response: Response) -> None:
        if response.status == 404:
            self.absent.append(response.url.removeprefix(self.url))

    async def go(self, place: str) -> None:
        """Open a page, and wait until it is there and live: one that was open before is left a moment later."""
        await self.page.goto(f"{self.url}/#/{place}")
        await self.page.locator("[data-live=live]").wait_for()
        await self.page.locator(f'main[data-page="{re.split("[/?]", place)[0]}"]').wait_for()
        await self.page.evaluate(
            "() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))"
        )

    async def settle(self) -> None:
        """Wait until everything that is read has been read."""
        await expect(self.page.locator("main [aria-busy=true]")).to_have_count(0)


@pytest.fixture
async def ward() -> AsyncIterator[Clinic]:
    async with clinic() as ward:
        yield ward


@pytest.fixture
async def url(ward: Clinic) -> AsyncIterator[str]:
    listener = bind("127.0.0.1", free_port())
    async with serving(ward.system, listener):
        yield url_of(listener)


@pytest.fixture
async def context(browser: Browser) -> AsyncIterator[BrowserContext]:
    context = await browser.new_context(viewport={"width": 1440, "height": 900})
    yield context
    await context.close()


@pytest.fixture
async def visit(context: BrowserContext, url: str) -> AsyncIterator[Visit]:
    """A visitor whose page stays without errors and asks nobody else for anything."""
    visit = Visit(await context.new_page(), url)
    visit.watch()
    yield visit
    assert visit.errors == []
    assert visit.foreign == []
