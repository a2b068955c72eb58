"""A run in one file that opens anywhere: a header with signed heads, then the ledger as it was hashed, line by line.

The lines are compressed as one gzip stream. Each line behind the header is the very text whose hash the next line
names, so a bundle is checked by hashing lines; nothing has to be decoded and nothing but a page is ever in memory.
"""

import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from homeostat.core.errors import MalformedPayload, ProtocolViolation
from homeostat.core.limits import ENTRY_BYTES_MAX
from homeostat.core.records.provenance import Entry, Tip, hashed_text
from homeostat.runs.heads import Head, check_shape

FORMAT: Final = "homeostat.bundle/1"
SUFFIX: Final = ".homeostat"
PAGE_BYTES: Final = 1 << 18
LINE_BYTES_MAX: Final = 2 * ENTRY_BYTES_MAX

Page = list[bytes]
"""Some lines of a ledger, in order."""


Pages = Iterator[Page] | AsyncIterator[Page]


async def each(pages: Pages) -> AsyncGenerator[Page]:
    """Pages from wherever they come."""
    if isinstance(pages, AsyncIterator):
        async for page in pages:
            yield page
    else:
        for page in pages:
            yield page


class BundleUnreadable(ProtocolViolation):
    """{path} cannot be read as a bundle: {problem}."""

    code = "bundle_unreadable"
    hint = "Bundles are made by `homeostat export RUN`."


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """The first line: whose ledger it is, and every head that was ever signed for it, the smallest first."""

    format: str = FORMAT
    project: str
    run_id: str
    heads: tuple[Head, ...]


class Bundle(NamedTuple):
    """A bundle being read: its lines can be gone through once."""

    header: Header
    pages: Pages


def lines_of(entries: Iterable[Entry], previous: str) -> Page:
    """Entries as lines; `previous` is the stored hash of the one before the first."""
    page: Page = []
    for entry in entries:
        page.append(
            hashed_text(
                Tip(entry.seq, previous),
                project=entry.project,
                run_id=entry.run_id,
                kind=entry.kind,
                at_ms=entry.at_ms,
                payload=entry.payload,
            )
        )
        previous = entry.hash
    return page


class Packer:
    """Turns a header and lines into the bytes of a bundle."""

    def __init__(self) -> None:
        self._squeeze = zlib.compressobj(6, zlib.DEFLATED, 31)

    def begin(self, header: Header) -> bytes:
        return self._squeeze.compress(msgspec.json.encode(header) + b"\n")

    def add(self, page: Page) -> bytes:
        return self._squeeze.compress(b"\n".join(page) + b"\n") if page else b""

    def end(self) -> bytes:
        return self._squeeze.flush()


def read_bundle(path: Path) -> Bundle:
    """Open a bundle. A file that breaks off yields what there is of it: who counts will notice."""
    try:
        return unpack(_blocks(path), where=str(path))
    except OSError as problem:
        raise BundleUnreadable(path=path, problem=problem.strerror or str(problem)) from problem


def unpack(blocks: Iterable[bytes], *, where: str) -> Bundle:
    """A bundle from its bytes, however they come."""
    pages = _pages(_inflated(blocks))
    try:
        first = next(pages, Page())
        if not first:
            raise BundleUnreadable(path=where, problem="it is empty")
        header = msgspec.json.decode(first[0], type=Header)
        if header.format != FORMAT:
            raise BundleUnreadable(path=where, problem=f"its format is {header.format!r}, not {FORMAT!r}")
        for head in header.heads:
            check_shape(head)
    except MalformedPayload as problem:
        raise BundleUnreadable(
            path=where, problem=f"a signed head in it is damaged: {problem.facts['problem']}"
        ) from problem
    except (msgspec.MsgspecError, zlib.error, UnicodeDecodeError, RecursionError) as problem:
        raise BundleUnreadable(path=where, problem=str(problem)) from problem
    return Bundle(header, _rest(first[1:], pages))


def _rest(first: Page, pages: Iterator[Page]) -> Iterator[Page]:
    if first:
        yield first
    yield from pages


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while block := file.read(PAGE_BYTES):
            yield block


def _inflated(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Unpack a page at a time, however much a block would make; what is damaged in the middle ends there."""
    inflate = zlib.decompressobj(31)
    begun = False
    for block in blocks:
        rest = block
        while rest:
            try:
                page = inflate.decompress(rest, PAGE_BYTES)
            except zlib.error:
                if begun:
                    return
                raise
            begun = begun or bool(page)
            yield page
            rest = inflate.unconsumed_tail


def _pages(blocks: Iterator[bytes]) -> Iterator[Page]:
    held = b""
    for block in blocks:
        *page, held = (held + block).split(b"\n")
        if len(held) > LINE_BYTES_MAX:
            raise BundleUnreadable(path="the bundle", problem="it has a line that is longer than any entry")
        if page:
            yield page
    if held:
        yield [held]
