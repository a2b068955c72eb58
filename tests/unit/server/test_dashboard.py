"""The dashboard's files: served under a strict policy, compressed, cached, and missed politely."""

import gzip

import httpx2
import pytest

from homeostat.server import dashboard


@pytest.fixture(autouse=True)
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, dashboard.File]:
    """A bundle of two files: what is built is not under test here, and need not have been."""
    index = dashboard.File(dashboard.HTML, b"<html>", gzip.compress(b"<html>"), b'"i"')
    script = dashboard.File(b"text/javascript", b"let a", gzip.compress(b"let a"), b'"s"')
    found = {"index.html": index, "assets/a-1.js": script}
    monkeypatch.setattr(dashboard, "bundle", lambda: found)
    return found


async def test_the_page_allows_nothing_inline_and_nobody_to_frame_it(http: httpx2.AsyncClient) -> None:
    page = await http.get("/")
    assert (page.status_code, page.text) == (200, "<html>")
    parts = [part.strip().partition(" ") for part in page.headers["content-security-policy"].split(";")]
    policy = {name: value for name, _, value in parts}
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert "unsafe" not in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-cache"
    assert page.headers["content-encoding"] == "gzip"


async def test_an_asset_is_kept_for_ever_and_is_not_sent_twice(http: httpx2.AsyncClient) -> None:
    asset = await http.get("/assets/a-1.js", headers={"accept-encoding": "identity"})
    assert (asset.status_code, asset.text, asset.headers["content-type"]) == (200, "let a", "text/javascript")
    assert "immutable" in asset.headers["cache-control"]
    again = await http.get("/assets/a-1.js", headers={"if-none-match": asset.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("path", ["/assets/none.js", "/assets/..%2Findex.html", "/assets/%2E%2E", "/assets"])
async def test_what_is_not_in_the_bundle_is_not_there(http: httpx2.AsyncClient, path: str) -> None:
    assert (await http.get(path)).status_code == 404


async def test_a_tree_without_a_bundle_says_how_to_build_it(
    http: httpx2.AsyncClient, files: dict[str, dashboard.File]
) -> None:
    files.clear()
    page = await http.get("/")
    assert page.status_code == 200
    assert "make dashboard" in page.text
