"""The browser that comes with an npm package, for machines that have none and people who are not root."""

import os

import pytest
from playwright.async_api import async_playwright

from tests.e2e.dashboard import browsers


async def test_the_browser_of_the_package_needs_no_installation() -> None:
    try:
        found = browsers.unpacked()
    except browsers.NoBrowser as problem:
        pytest.skip(f"it cannot be had here: {problem}")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=found.path, args=list(browsers.FLAGS), env={**os.environ, **found.environment}
        )
        page = await browser.new_page()
        await page.set_content("<h1>here</h1>")
        assert await page.get_by_role("heading").inner_text() == "here"
        await browser.close()
