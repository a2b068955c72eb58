"""The ledgers of runs as others see them: read by pages, sealed with signed heads, and exported as bundles."""

from collections.abc import AsyncGenerator, Callable
from typing import Final

from homeostat.core.clock import Clock, SystemClock
from homeostat.core.codec import from_json
from homeostat.core.errors import MalformedPayload
from homeostat.core.ids import ProjectId, RunId
from homeostat.core.ports.heads import HeadKeeper
from homeostat.core.ports.ledger import LedgerStore
from homeostat.core.records.provenance import Entry, EntryKind
from homeostat.runs.bundle import Bundle, Header, Packer, Page, each
from homeostat.runs.heads import Head, Marks, Signer, read_head, sign, write_head
from homeostat.runs.verify import Finding, Found, LedgerBroken, Verdict, Walk, check_heads, whole

PAGE_ENTRIES: Final = 1_000


class Ledgers:
    """Reads and seals. It writes no entry: those are written with what they tell of."""

    def __init__(
        self, *, store: LedgerStore, keeper: HeadKeeper, signer: Callable[[], Signer], clock: Clock | None = None
    ) -> None:
        self._store = store
        self._keeper = keeper
        self._signer = signer
        self._clock = clock or SystemClock()

    @property
    def public_key(self) -> str:
        return self._signer().public_key

    async def entries(self, project: ProjectId, run_id: RunId, *, after: int, limit: int) -> list[Entry]:
        return await self._store.entries(project, run_id, after=after, limit=limit)

    async def newest(self, project: ProjectId, run_id: RunId, *, before: int, limit: int) -> list[Entry]:
        """The entries below number `before`, the last one first. Entries that are missing are passed over."""
        found: list[Entry] = []
        while before > 1 and len(found) < limit:
            after = max(0, before - 1 - (limit - len(found)))
            page = await self.entries(project, run_id, after=after, limit=before - 1 - after)
            found += [entry for entry in reversed(page) if entry.seq < before]
            before = after + 1
        return found

    async def calls(self, project: ProjectId, run_id: RunId) -> list[str]:
        """The model calls that a ledger tells of."""
        found: list[str] = []
        after = 0
        while page := await self.entries(project, run_id, after=after, limit=PAGE_ENTRIES):
            found += [from_json(entry.payload)["call_id"] for entry in page if entry.kind == EntryKind.GATEWAY_CALL]
            after = page[-1].seq
        return found

    async def heads(self, run_id: RunId) -> list[Head]:
        """Every head that was signed for a run, the smallest first. Raises `LedgerBroken` if one cannot be read."""
        try:
            return sorted(map(read_head, await self._keeper.heads(run_id)), key=lambda head: head.size)
        except MalformedPayload as problem:
            raise LedgerBroken(run_id=run_id, problem=_damaged(problem)) from problem

    async def last_head(self, run_id: RunId) -> Head | None:
        """The last head that was signed, whatever became of the ledger."""
        heads = await self.heads(run_id)
        return heads[-1] if heads else None

    async def seal(self, project: ProjectId, run_id: RunId) -> Head:
        """The head of a ledger as it is now: signed anew if it grew, and only if it agrees with every head before.

        Raises `LedgerBroken` if it does not: what was changed is not signed.
        """
        heads = await self.heads(run_id)
        walk = Walk(project, run_id, heads, collected=(marks := Marks()))
        with whole(run_id):
            async for page in self.pages(project, run_id):
                walk.take(page)
            walk.close(complete=False)
        if heads and heads[-1].size == walk.size:
            return heads[-1]
        signer = self._signer()
        head = Head(
            project=project,
            run_id=run_id,
            size=walk.size,
            root=walk.tree.root().hex(),
            last=walk.last,
            at_ms=self._clock.now_ms(),
            stride=marks.stride,
            marks=marks.text(),
            public_key=signer.public_key,
        )
        signed = sign(head, signer)
        await self._keeper.keep(run_id, write_head(signed))
        return signed

    async def verify(self, project: ProjectId, run_id: RunId) -> Verdict:
        """Check a ledger against every head that was signed for it."""
        try:
            heads = await self.heads(run_id)
        except LedgerBroken as problem:
            finding = Finding("head_damaged", str(problem.facts["problem"]))
            return Walk(project, run_id, []).verdict(finding)
        walk = Walk(project, run_id, heads)
        try:
            check_heads(heads, project, run_id, None)
            async for page in self.pages(project, run_id):
                walk.take(page)
            walk.close(complete=False)
        except Found as found:
            return walk.verdict(found.finding)
        return walk.verdict(None)

    async def bundle(self, project: ProjectId, run_id: RunId) -> Bundle:
        """A ledger with its heads, as far as they sign it: that is all there is now. One that is broken comes as it
        is, with the heads that tell.
        """
        broken = False
        try:
            await self.seal(project, run_id)
        except LedgerBroken:
            broken = True
        heads = tuple(await self.heads(run_id))
        size = None if broken else heads[-1].size  # somebody else may have signed more by now
        header = Header(project=project, run_id=run_id, heads=heads)
        return Bundle(header, self.pages(project, run_id, until=size))

    async def export(self, project: ProjectId, run_id: RunId) -> AsyncGenerator[bytes]:
        """A bundle as it is made."""
        header, pages = await self.bundle(project, run_id)
        packer = Packer()
        yield packer.begin(header)
        async for page in each(pages):
            if packed := packer.add(page):
                yield packed
        yield packer.end()

    async def pages(self, project: ProjectId, run_id: RunId, *, until: int | None = None) -> AsyncGenerator[Page]:
        """A ledger as lines, some at a time."""
        after = 0
        while until is None or after < until:
            blocks = await self._store.blocks(project, run_id, after=after, limit=PAGE_ENTRIES)
            if not blocks:
                return
            page = "\n".join([block.text for block in blocks]).encode().split(b"\n")
            last = blocks[-1].last_seq
            yield page if until is None or last <= until else page[: until - last]
            after = last


def _damaged(problem: MalformedPayload) -> str:
    return f"a signed head that is kept for it is damaged: {problem.facts['problem']}"
