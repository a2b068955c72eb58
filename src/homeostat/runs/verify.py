"""Finds what was done to a ledger after it was written, and names the first entry it was done to."""

import base64
import hashlib
from binascii import hexlify
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from homeostat.core.errors import Conflict
from homeostat.core.records.provenance import LEAF, START, read_line, whose
from homeostat.runs.bundle import Bundle, Page
from homeostat.runs.heads import MARK_BYTES, Head, Marks, fingerprint, signature_holds
from homeostat.runs.merkle import Tree


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong. `seq` is the first bad entry; with `until` it is one of those from `seq` to there."""

    code: str
    message: str
    seq: int | None = None
    until: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of a check."""

    run_id: str
    project: str
    entries: int
    root: str
    heads: tuple[int, ...] = ()
    signed_by: tuple[str, ...] = ()
    unsigned: int = 0
    finding: Finding | None = None

    @property
    def ok(self) -> bool:
        return self.finding is None


class LedgerBroken(Conflict):
    """The ledger of run {run_id} is not as it was written: {problem}."""

    code = "ledger_broken"
    hint = "`homeostat verify` says more; compare with a bundle that was exported before."


class Found(Exception):
    """What a walk came upon; there is no use in going on."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


def verify(
    bundle: Bundle, *, heads: Iterable[Head] = (), public_key: str | None = None, complete: bool = True
) -> Verdict:
    """Check a ledger against the heads it comes with and those the caller has kept.

    With `complete` the last head has to cover all of it; without, the ledger may have gone on since. A key that is
    given is the only one that may have signed.
    """
    header = bundle.header
    known = sorted({*header.heads, *heads}, key=lambda head: (head.size, head.at_ms))
    walk = Walk(header.project, header.run_id, known)
    finding: Finding | None = None
    try:
        check_heads(known, header.project, header.run_id, public_key)
        assert isinstance(bundle.pages, Iterator), "a ledger that is read from a store is verified there"
        for page in bundle.pages:
            walk.take(page)
        walk.close(complete=complete)
    except Found as found:
        finding = found.finding
    return walk.verdict(finding)


def check_heads(heads: Sequence[Head], project: str, run_id: str, public_key: str | None) -> None:
    for head in heads:
        if (head.project, head.run_id) != (project, run_id):
            raise Found(Finding("head_foreign", f"the head of {head.size} entries is that of run {head.run_id}"))
        if public_key is not None and head.public_key != public_key:
            raise Found(Finding("key_foreign", f"the head of {head.size} entries was signed by another key"))
        if not signature_holds(head):
            raise Found(Finding("signature_bad", f"the signature of the head of {head.size} entries does not hold"))


_MARKED: Final = "it was changed since"


@dataclass(slots=True)
class Walk:
    """Goes through a ledger once, page by page. Heads are compared as their sizes are come by."""

    project: str
    run_id: str
    heads: list[Head]
    size: int = 0
    last: str = START.hash
    tree: Tree = field(default_factory=Tree)
    collected: Marks | None = None
    _marks: list[bytes] = field(default_factory=list[bytes])
    _doubt: tuple[bytes, str] | None = None
    _middle: bytes = b""

    def __post_init__(self) -> None:
        self._marks = [base64.b64decode(head.marks) for head in self.heads]
        self._middle = whose(self.project, self.run_id).encode()

    def take(self, page: Page) -> None:
        """Check lines that follow."""
        start = 0
        if self._doubt is not None and page:
            self._settle(page[0])
        for boundary in sorted({head.size for head in self.heads if head.size > self.size}):
            stop = min(len(page), start + boundary - self.size)
            self._take(page, start, stop)
            start = stop
            if self.size == boundary:
                self._compare(boundary)
        self._take(page, start, len(page))

    def verdict(self, finding: Finding | None) -> Verdict:
        """What came of it."""
        known = self.heads if finding is None else []
        return Verdict(
            run_id=self.run_id,
            project=self.project,
            entries=self.size,
            root=self.tree.root().hex(),
            heads=tuple(head.size for head in self.heads),
            signed_by=tuple(sorted({fingerprint(head.public_key) for head in known})),
            unsigned=max(0, self.size - max((head.size for head in known), default=0)) if finding is None else 0,
            finding=finding,
        )

    def _take(self, page: Page, start: int, stop: int) -> None:
        """The hot loop: one formatted suffix and one hash for each line."""
        sha256, middle = hashlib.sha256, self._middle
        previous, seq = self.last.encode(), self.size
        hashes: list[bytes] = []
        for line in page[start:stop] if stop - start < len(page) else page:
            if not line.endswith(b',"previous":"%b%b%d}' % (previous, middle, seq + 1)):
                break
            seq += 1
            digest = sha256(LEAF + line).digest()
            previous = hexlify(digest)
            hashes.append(digest)
        self._compare_marks(hashes)
        self.tree.extend(hashes)
        if self.collected is not None:
            self.collected.extend(hashes)
        broken = start + seq - self.size
        self.size, self.last = seq, previous.decode()
        if broken < stop:
            self._diagnose(page[broken], page[broken + 1] if broken + 1 < len(page) else None)

    def _compare_marks(self, hashes: list[bytes]) -> None:
        for head, marks in zip(self.heads, self._marks, strict=True):
            stride = head.stride
            first = -(self.size + 1) % stride
            place = (self.size + 1 + first) // stride - 1
            seen = b"".join([one[:MARK_BYTES] for one in hashes[first::stride]])
            kept = marks[place * MARK_BYTES : place * MARK_BYTES + len(seen)]
            if seen[: len(kept)] != kept:
                bad = next(n for n in range(len(kept)) if seen[n] != kept[n]) // MARK_BYTES
                until = (place + bad + 1) * stride
                if stride == 1:
                    raise Found(
                        Finding("entry_changed", f"entry {until} is not the one that was signed: {_MARKED}", until)
                    )
                words = f"one of the entries {until - stride + 1} to {until} is not the one that was signed: {_MARKED}"
                raise Found(Finding("entry_changed", words, until - stride + 1, until))

    def _compare(self, size: int) -> None:
        """The ledger is as long as a head says."""
        for head in self.heads:
            if head.size == size and (head.root, head.last) != (self.tree.root().hex(), self.last):
                first = size // head.stride * head.stride + 1 if head.stride > 1 else size
                raise Found(
                    Finding(
                        "root_differs",
                        f"the first {size} entries do not have the root that was signed",
                        min(first, size),
                        size,
                    )
                )

    def _diagnose(self, line: bytes, following: bytes | None) -> None:
        """Say what is wrong with the line that should be the next entry."""
        seq = self.size + 1
        try:
            entry = read_line(line)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise Found(Finding("entry_unreadable", f"entry {seq} cannot be read", seq)) from None
        if entry.seq > seq:
            raise Found(Finding("entry_missing", f"entry {seq} is missing: entry {entry.seq} stands in its place", seq))
        if entry.seq < seq:
            raise Found(Finding("entry_out_of_place", f"entry {entry.seq} stands where entry {seq} should", seq))
        if (entry.project, entry.run_id) != (self.project, self.run_id):
            raise Found(Finding("entry_foreign", f"entry {seq} belongs to run {entry.run_id}", seq))
        if entry.previous == self.last or seq == 1:
            raise Found(Finding("entry_changed", f"entry {seq} was changed: it is not written as entries are", seq))
        hashed = hashlib.sha256(LEAF + line).hexdigest()
        if following is not None:
            self._blame(seq, hashed, following)
        at_end = next((head.last for head in self.heads if head.size == seq), None)
        if at_end is not None:
            self._judge(seq, confirmed=at_end == hashed)
        self._doubt = (line, hashed)

    def _settle(self, following: bytes) -> None:
        assert self._doubt is not None
        self._blame(self.size + 1, self._doubt[1], following)

    def _blame(self, seq: int, hashed: str, following: bytes) -> None:
        """Entry `seq` names another hash than the entry before it has. Whose fault it is, the entry behind it knows."""
        try:
            confirmed = read_line(following).previous == hashed
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            confirmed = False
        self._judge(seq, confirmed=confirmed)

    def _judge(self, seq: int, *, confirmed: bool) -> None:
        if confirmed:
            raise Found(
                Finding(
                    "entry_changed", f"entry {seq - 1} was changed: entry {seq} was chained to another content", seq - 1
                )
            )
        raise Found(Finding("entry_changed", f"entry {seq} was changed: it is chained to another entry before it", seq))

    def close(self, *, complete: bool) -> None:
        """There are no more lines."""
        if self._doubt is not None:
            self._judge(self.size + 1, confirmed=True)
        largest = self.heads[-1].size if self.heads else 0
        if self.size < largest:
            missing = f"entry {largest} is" if largest == self.size + 1 else f"entries {self.size + 1} to {largest} are"
            raise Found(Finding("entries_missing", f"{missing} missing: the ledger was cut short", self.size + 1))
        if complete and self.size > largest:
            words = f"entry {largest + 1} was added after the head was signed" if self.heads else "no head was signed"
            raise Found(Finding("entries_unsigned", words, largest + 1 if self.heads else None))


class whole:  # noqa: N801 — read as a word: `with whole(run_id): …`
    """Turns what a walk finds into `LedgerBroken`, for those who want to go on only with a whole ledger."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, problem: BaseException | None, *_: object) -> None:
        if isinstance(problem, Found):
            raise LedgerBroken(run_id=self._run_id, problem=problem.finding.message) from problem
