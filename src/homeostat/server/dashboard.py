"""The dashboard's files: built by `make dashboard` or with the wheel, served from memory under a strict policy."""

import gzip
import mimetypes
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from homeostat.core.errors import RouteUnknown
from homeostat.core.ids import digest_of
from homeostat.server.answers import Answer
from homeostat.server.call import Call
from homeostat.server.endpoints import Routes

routes = Routes("dashboard")

BUNDLE: Final = "bundle"
INDEX: Final = "index.html"
HTML: Final = b"text/html; charset=utf-8"
FOREVER: Final = b"public, max-age=31536000, immutable"  # an asset's name is the digest of its content
POLICY: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    b"require-trusted-types-for 'script'; trusted-types svelte-trusted-html"
)
HEADERS: Final = (
    (b"content-security-policy", POLICY),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
NOT_BUILT: Final = (
    b"<!doctype html><html lang=en><meta charset=utf-8><title>Homeostat</title>"
    b"<h1>The dashboard has not been built</h1>"
    b"<p>Run <code>make dashboard</code> and start the server again. The API is described in <a href=docs>docs</a>."
)


@dataclass(frozen=True, slots=True)
class File:
    """One file, plain and compressed."""

    media_type: bytes
    plain: bytes
    packed: bytes
    etag: bytes


@cache
def bundle() -> dict[str, File]:
    """Every file of the bundle by its path; nothing where it was not built."""
    root = files("homeostat.server").joinpath(BUNDLE)
    return {path: _file(path, entry) for path, entry in _walk(root, "")} if root.is_dir() else {}


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _walk(entry, f"{prefix}{entry.name}/")
        elif not entry.name.startswith("."):
            found.append((f"{prefix}{entry.name}", entry))
    return found


def _file(path: str, entry: Traversable) -> File:
    content = entry.read_bytes()
    guessed = mimetypes.guess_type(path)[0] or "application/octet-stream"
    guessed = "text/javascript" if guessed.endswith("/javascript") else guessed
    media_type = f"{guessed}; charset=utf-8" if guessed.startswith("text/") else guessed
    etag = f'"{digest_of(content.decode("latin-1"))[:20]}"'
    return File(media_type.encode(), content, gzip.compress(content, 9, mtime=0), etag.encode())


@routes.plain("GET", "/", media_type="text/html")
async def read_dashboard(call: Call) -> Answer:
    """The dashboard."""
    found = bundle().get(INDEX)
    return Answer(200, NOT_BUILT, HTML, HEADERS) if found is None else _sent(call, found, b"no-cache")


@routes.plain("GET", "/assets/{name}", media_type="application/octet-stream", errors=(RouteUnknown,))
async def read_asset(call: Call) -> Answer:
    """A part of the dashboard. It never changes under its name."""
    found = bundle().get(f"assets/{call.parameters['name']}")
    if found is None:
        raise RouteUnknown(path=call.scope["path"])
    return _sent(call, found, FOREVER)


def _sent(call: Call, file: File, caching: bytes) -> Answer:
    asked = dict(call.scope["headers"])
    headers = (*HEADERS, (b"cache-control", caching), (b"etag", file.etag), (b"vary", b"accept-encoding"))
    if asked.get(b"if-none-match") == file.etag:
        return Answer(304, b"", file.media_type, headers)
    if b"gzip" in asked.get(b"accept-encoding", b""):
        return Answer(200, file.packed, file.media_type, (*headers, (b"content-encoding", b"gzip")))
    return Answer(200, file.plain, file.media_type, headers)
