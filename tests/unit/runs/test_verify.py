"""Whatever is done to a ledger after it was written is found, and the first entry it was done to is named."""

import base64
import gzip
import hashlib
import json
from pathlib import Path

import pytest

from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.ids import ProjectId, RunId, chance
from homeostat.core.records.provenance import (
    LEAF,
    START,
    Block,
    Chain,
    Entry,
    EntryKind,
    Tip,
    hash_of,
    hashed_text,
)
from homeostat.runs.bundle import Bundle, BundleUnreadable, Header, Packer, lines_of, read_bundle, unpack
from homeostat.runs.heads import MARKS_MAX, Ed25519Signer, Head, Marks, read_head, sign, signature_holds, write_head
from homeostat.runs.ledgers import Ledgers
from homeostat.runs.merkle import EMPTY, Tree, node
from homeostat.runs.verify import LedgerBroken, Verdict, verify
from homeostat.testing.clock import ManualClock

PROJECT, RUN = ProjectId("default"), RunId("run_1")
SIGNER = Ed25519Signer(b"\7" * 32)


class Rows:
    """A ledger that anybody can tamper with."""

    def __init__(self, entries: list[Entry]) -> None:
        self.rows = entries

    async def blocks(self, project: ProjectId, run_id: RunId, *, after: int, limit: int) -> list[Block]:
        del project, run_id
        lines = lines_of(self.rows, START.hash)
        numbered = zip(self.rows, lines, strict=True)
        return [Block(row.seq, row.seq, line.decode()) for row, line in numbered if row.seq > after][:limit]

    async def worked(self, *_: object) -> list[object]:
        return []


class Kept:
    def __init__(self) -> None:
        self.texts: list[bytes] = []

    async def heads(self, run_id: RunId) -> list[bytes]:
        del run_id
        return self.texts

    async def keep(self, run_id: RunId, head: bytes) -> None:
        del run_id
        self.texts.append(head)


def made(count: int, seed: object = 0) -> list[Entry]:
    rng, chain = chance("ledger", seed), Chain(PROJECT, RUN)
    for number in range(count):
        payload = {"n": number, "text": "x" * rng.randrange(60), "deep": [{"cost": rng.random()}]}
        chain.add(rng.choice(list(EntryKind)), payload, at_ms=Millis(1_000 + number))
    return chain.entries


def rehashed(entries: list[Entry], start: int, stop: int | None = None) -> list[Entry]:
    """The same entries with honest hashes from one place on, as somebody who knows the format would do it."""
    result = entries[:start]
    for entry in entries[start:stop]:
        previous = result[-1].hash if result else START.hash
        line = hashed_text(
            Tip(entry.seq, previous), project=entry.project, run_id=entry.run_id,
            kind=entry.kind, at_ms=entry.at_ms, payload=entry.payload,
        )  # fmt: skip
        result.append(
            Entry(entry.project, entry.run_id, entry.seq, entry.kind, entry.at_ms, entry.payload, hash_of(line))
        )
    return result + (entries[stop:] if stop is not None else [])


def with_payload(entry: Entry, payload: str) -> Entry:
    return Entry(entry.project, entry.run_id, entry.seq, entry.kind, entry.at_ms, Json(payload), entry.hash)


def numbered(entries: list[Entry]) -> list[Entry]:
    return [Entry(e.project, e.run_id, n, e.kind, e.at_ms, e.payload, e.hash) for n, e in enumerate(entries, 1)]


async def sealed(entries: list[Entry]) -> tuple[Ledgers, Rows, Kept]:
    rows, kept = Rows(list(entries)), Kept()
    ledgers = Ledgers(store=rows, keeper=kept, signer=lambda: SIGNER, clock=ManualClock())  # type: ignore[arg-type]
    await ledgers.seal(PROJECT, RUN)
    return ledgers, rows, kept


async def exported(ledgers: Ledgers) -> bytes:
    return b"".join([block async for block in ledgers.export(PROJECT, RUN)])


def checked(content: bytes, **named: object) -> Verdict:
    return verify(unpack(iter([content]), where="test"), **named)  # type: ignore[arg-type]


async def judged(entries: list[Entry], tampered: list[Entry]) -> Verdict:
    ledgers, rows, _ = await sealed(entries)
    rows.rows = tampered
    return checked(await exported(ledgers))


async def test_an_honest_ledger_verifies() -> None:
    entries = made(300)
    verdict = await judged(entries, entries)
    assert verdict.ok
    assert (verdict.entries, verdict.heads, verdict.unsigned) == (300, (300,), 0)
    assert len(verdict.signed_by) == 1


def tampered(how: str, entries: list[Entry], place: int) -> tuple[list[Entry], int]:
    """What somebody with access to the store makes of a ledger, and the first entry that is bad then."""
    bad, entry = list(entries), entries[place]
    if how == "truncate":
        return bad[: place + 1], place + 2
    if how.startswith("delete"):
        del bad[place]
        return (bad if how == "delete" else rehashed(numbered(bad), place)), place + 1
    at_ms = Millis(entry.at_ms + 1) if how == "time" else entry.at_ms
    kind = "step2" if how == "kind" else entry.kind
    payload = Json('{"cost":1000000}') if how.startswith("edit") else entry.payload
    bad[place] = Entry(entry.project, entry.run_id, entry.seq, kind, at_ms, payload, entry.hash)
    if how == "edit_and_rehash_one":
        bad = rehashed(bad, place, place + 1)
    if how == "edit_and_rehash_all":
        bad = rehashed(bad, place)
    return bad, place + 1


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize(
    "how",
    ["edit", "edit_and_rehash_one", "edit_and_rehash_all", "delete", "delete_and_renumber", "truncate", "time", "kind"],
)
async def test_tampering_is_found_and_the_first_bad_entry_is_named(how: str, seed: int) -> None:
    rng = chance("tampering", how, seed)
    entries = made(rng.randrange(3, 90), seed)
    bad, expected = tampered(how, entries, rng.randrange(len(entries) - 1))
    verdict = await judged(entries, bad)
    assert verdict.finding is not None, how
    assert verdict.finding.seq == expected, (how, verdict.finding)
    assert str(expected) in verdict.finding.message


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("how", ["reorder", "repeat"])
async def test_lines_of_a_bundle_stay_in_their_places(how: str, seed: int) -> None:
    rng = chance("lines", how, seed)
    entries = made(rng.randrange(3, 90), seed)
    place = rng.randrange(len(entries) - 1)
    _, _, kept = await sealed(entries)
    lines = lines_of(entries, START.hash)
    if how == "reorder":
        lines[place], lines[place + 1] = lines[place + 1], lines[place]
    else:
        lines.insert(place, lines[place])
    header = Header(project=PROJECT, run_id=RUN, heads=(read_head(kept.texts[0]),))
    packer = Packer()
    verdict = checked(packer.begin(header) + packer.add(lines) + packer.end())
    assert verdict.finding is not None
    assert verdict.finding.seq == place + (1 if how == "reorder" else 2)


@pytest.mark.parametrize("seed", range(20))
async def test_an_edit_of_a_bundle_without_marks_is_named_by_its_neighbours(seed: int) -> None:
    rng = chance("neighbours", seed)
    entries = made(40, seed)
    place = rng.randrange(39)  # behind the last there is nobody to tell
    lines = lines_of(entries, START.hash)
    head = await _head_without_marks(entries)
    lines[place] = lines[place].replace(b'"cost":', b'"c0st":')
    for size in (1, 7, 40):
        pages = [lines[n : n + size] for n in range(0, 40, size)]
        verdict = verify(Bundle(Header(project=PROJECT, run_id=RUN, heads=(head,)), iter(pages)))
        assert verdict.finding is not None
        assert verdict.finding.seq == place + 1, (size, verdict.finding)


async def _head_without_marks(entries: list[Entry]) -> Head:
    _, _, kept = await sealed(entries)
    head = read_head(kept.texts[0])
    bare = Head(
        project=head.project, run_id=head.run_id, size=head.size, root=head.root, last=head.last, at_ms=head.at_ms,
        stride=1 << 20, marks="", public_key=head.public_key,
    )  # fmt: skip
    return sign(bare, SIGNER)


async def test_what_was_changed_is_not_signed_again() -> None:
    entries = made(20)
    ledgers, rows, kept = await sealed(entries)
    rows.rows = rehashed([*entries[:4], with_payload(entries[4], "{}"), *entries[5:]], 4)
    with pytest.raises(LedgerBroken, match="entry 5"):
        await ledgers.seal(PROJECT, RUN)
    assert len(kept.texts) == 1


async def test_a_ledger_that_grew_is_signed_again_and_keeps_its_old_heads() -> None:
    entries = made(50)
    ledgers, rows, kept = await sealed(entries[:20])
    assert (await ledgers.seal(PROJECT, RUN)).size == 20
    rows.rows = entries
    content = await exported(ledgers)
    assert [read_head(text).size for text in kept.texts] == [20, 50]
    assert checked(content).heads == (20, 50)
    rows.rows = rehashed([with_payload(entries[0], "{}"), *entries[1:]], 0)
    verdict = checked(await exported(ledgers))
    assert verdict.finding is not None
    assert verdict.finding.seq == 1


async def test_a_bundle_is_measured_by_a_head_that_somebody_else_kept() -> None:
    entries = made(30)
    _, _, kept = await sealed(entries)
    forged = rehashed([*entries[:9], with_payload(entries[9], "{}"), *entries[10:]], 9)
    forger = Ed25519Signer(b"\x08" * 32)
    rows = Rows(forged)
    other = Ledgers(store=rows, keeper=Kept(), signer=lambda: forger, clock=ManualClock())  # type: ignore[arg-type]
    content = await exported(other)
    assert checked(content).ok  # by itself it is whole
    against = checked(content, heads=[read_head(kept.texts[0])])
    assert against.finding is not None
    assert against.finding.seq == 10
    pinned = checked(content, public_key=SIGNER.public_key)
    assert pinned.finding is not None
    assert pinned.finding.code == "key_foreign"


async def test_a_head_that_was_changed_is_not_believed() -> None:
    _, _, kept = await sealed(made(5))
    head = read_head(kept.texts[0])
    assert signature_holds(head)
    for field, value in (("size", 4), ("root", "0" * 64), ("at_ms", 5), ("run_id", "run_2"), ("last", "1" * 64)):
        changed = json.loads(write_head(head)) | {field: value}
        if field == "size":
            changed["marks"] = ""
            changed["stride"] = 100
        assert not signature_holds(read_head(json.dumps(changed)))


async def test_a_file_that_breaks_off_is_called_so(tmp_path: Path) -> None:
    ledgers, _, _ = await sealed(made(2_000))
    content = await exported(ledgers)
    path = tmp_path / "run.homeostat"
    path.write_bytes(content)
    assert verify(read_bundle(path)).ok
    path.write_bytes(content[: len(content) // 2])
    verdict = verify(read_bundle(path))
    assert verdict.finding is not None
    assert verdict.finding.seq == verdict.entries + 1
    path.write_bytes(b"no bundle at all")
    with pytest.raises(BundleUnreadable):
        read_bundle(path)
    path.write_bytes(gzip.compress(b'{"format":"other"}\n'))
    with pytest.raises(BundleUnreadable):
        read_bundle(path)
    with pytest.raises(BundleUnreadable):
        read_bundle(tmp_path / "nowhere")
    lines = gzip.decompress(content)
    path.write_bytes(gzip.compress(lines.replace(b'"marks":"', b'"marks":"!', 1)))
    with pytest.raises(BundleUnreadable, match="a signed head in it is damaged: its marks are not Base64") as damaged:
        read_bundle(path)
    assert "homeostat export" in damaged.value.hint


def test_the_tree_is_that_of_rfc_6962() -> None:
    def reference(leaves: list[bytes]) -> bytes:
        if not leaves:
            return EMPTY
        if len(leaves) == 1:
            return leaves[0]
        split = 1 << (len(leaves) - 1).bit_length() - 1
        return node(reference(leaves[:split]), reference(leaves[split:]))

    leaves = [hashlib.sha256(LEAF + bytes([n % 251])).digest() for n in range(3_000)]
    for size in [*range(40), 1_023, 1_024, 1_025, 2_047, 2_049, 3_000]:
        whole, steps = Tree(), Tree()
        whole.extend(leaves[:size])
        for start in range(0, size, 7):
            steps.extend(leaves[start : min(size, start + 7)])
        assert whole.root() == steps.root() == reference(leaves[:size])


def test_marks_are_thinned_out_and_stay_at_their_places() -> None:
    hashes = [number.to_bytes(8, "big") + b"\0" * 24 for number in range(1, 3 * MARKS_MAX + 5)]
    marks = Marks()
    for start in range(0, len(hashes), 999):
        marks.extend(hashes[start : start + 999])
    read = base64.b64decode(marks.text())
    assert marks.stride == 4
    assert [int.from_bytes(read[n : n + 8], "big") for n in range(0, len(read), 8)] == list(
        range(4, len(hashes) + 1, 4)
    )
