"""The ledger of a run: entries that are chained by hash, so that none can be changed, left out or moved unseen.

An entry is hashed as one canonical JSON object (RFC 8785) of all it holds and the hash of the entry before it:
`{"at_ms":…,"kind":…,"payload":…,"previous":…,"project":…,"run_id":…,"seq":…}`, behind a zero byte: so it is the hash of
a leaf in the Merkle tree of RFC 6962 as well. Anybody with SHA-256 can check it. Payloads are freed of secrets before.
"""

import hashlib
from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from homeostat.core.canonical import Ordered, canonical_of, canonical_plain
from homeostat.core.clock import Millis
from homeostat.core.codec import Json, to_json
from homeostat.core.ids import ProjectId, RunId
from homeostat.core.limits import ENTRY_BYTES_MAX, LEDGER_BLOCK_CHARS
from homeostat.core.redaction import redact_json, suspicious


class EntryKind(StrEnum):
    """What an entry tells of."""

    RUN_CREATED = "run.created"  # the whole configuration: goal, seed, budgets, policy
    RUN_MOVED = "run.moved"  # a transition, with actor and reason
    RUN_CHANGED = "run.changed"  # an operator's act that is no transition: a raised budget, an approval
    PLAN_MADE = "plan.made"
    TASK_STARTED = "task.started"
    TASK_ENDED = "task.ended"  # the outcome
    TURN_BEGUN = "turn.begun"  # who works on what: the agent, its code, and the message as it was sent
    MODEL_CALL = "model.call"  # what was asked of a model, and the answer
    TOOL_RESULT = "tool.result"  # a tool or another agent was called, and the answer
    STEP = "step"  # a durable step of the author's own
    CARD = "card"  # a card that was written
    TURN_ENDED = "turn.ended"  # the deliverable
    GATEWAY_CALL = "gateway.call"  # a model call as the gateway metered it


KINDS: Final = {kind: kind.value for kind in EntryKind}
"""How each is written: looking it up is quicker than asking a member for its value."""


class Tip(NamedTuple):
    """Where a ledger goes on: the sequence number of its next entry, and the hash of its last."""

    next_seq: int
    hash: str


LEAF: Final = b"\0"
"""What is hashed before a leaf, so that no inner node of a tree can be taken for one."""

START: Final = Tip(1, "0" * 64)
"""The tip of a ledger without entries."""

UNREADABLE: Final = "unreadable"
"""The kind that is shown of an entry which somebody has made illegible."""


class Entry(Struct, frozen=True, gc=False):
    """One entry of a ledger. `payload` is canonical JSON, `hash` what the next entry is chained to."""

    project: ProjectId
    run_id: RunId
    seq: int
    kind: str
    at_ms: Millis
    payload: Json
    hash: str

    @property
    def tip(self) -> Tip:
        return Tip(self.seq + 1, self.hash)


class Line(Struct, frozen=True, kw_only=True, gc=False):
    """An entry as it is hashed, kept and exported."""

    seq: int
    kind: str
    at_ms: int
    payload: msgspec.Raw
    previous: str
    project: str
    run_id: str


class Block(NamedTuple):
    """Entries that were written together, from one number to another, a line each: what a store keeps as a row."""

    first_seq: int
    last_seq: int
    text: str


class Written(Ordered, frozen=True, gc=False):
    """An entry on its way into a line: all of it has its one spelling already, and is encoded in one go."""

    at_ms: int
    kind: str
    payload: Ordered | msgspec.Raw
    previous: str
    project: str
    run_id: str
    seq: int


_line = msgspec.json.Decoder(Line)
_encoder = msgspec.json.Encoder()


def read_line(line: bytes | str) -> Line:
    return _line.decode(line)


@lru_cache(maxsize=4_096)
def _quoted(name: str) -> str:
    return to_json(name)


@lru_cache(maxsize=4_096)
def whose(project: str, run_id: str) -> str:
    """How a line goes on behind the hash of the one before, up to its number: the same throughout a ledger."""
    return f'","project":{to_json(project)},"run_id":{to_json(run_id)},"seq":'


def hashed_text(tip: Tip, *, project: str, run_id: str, kind: str, at_ms: int, payload: str) -> bytes:
    """The bytes an entry's hash is taken over; a bundle holds them as a line."""
    return _text(tip, whose(project, run_id), kind, at_ms, payload).encode()


def _text(tip: Tip, owner: str, kind: str, at_ms: int, payload: str) -> str:
    return f'{{"at_ms":{at_ms},"kind":{_quoted(kind)},"payload":{payload},"previous":"{tip.hash}{owner}{tip.next_seq}}}'


_leaf = hashlib.sha256(LEAF)


def hash_of(line: bytes) -> str:
    leaf = _leaf.copy()  # OpenSSL takes longer to find and set up an algorithm than to hash a line by it
    leaf.update(line)
    return leaf.hexdigest()


def entry_of(line: str, project: ProjectId, run_id: RunId, seq: int) -> Entry:
    """An entry from the line that stands at its place. One that cannot be read is shown as it is: checks name it."""
    try:
        read = read_line(line)
    except (msgspec.MsgspecError, RecursionError):
        return Entry(project, run_id, seq, UNREADABLE, Millis(0), to_json({"line": line}), hash_of(line.encode()))
    payload = Json(bytes(read.payload).decode())
    return Entry(project, run_id, seq, read.kind, Millis(read.at_ms), payload, hash_of(line.encode()))


def blocks_of(first_seq: int, lines: Sequence[str]) -> list[Block]:
    """Lines that follow each other as rows of a bounded size."""
    if sum(map(len, lines)) + len(lines) <= LEDGER_BLOCK_CHARS:
        return [Block(first_seq, first_seq + len(lines) - 1, "\n".join(lines))]
    blocks: list[Block] = []
    start, size = 0, 0
    for place, line in enumerate(lines):
        if size and size + len(line) > LEDGER_BLOCK_CHARS:
            blocks.append(Block(first_seq + start, first_seq + place - 1, "\n".join(lines[start:place])))
            start, size = place, 0
        size += len(line) + 1
    blocks.append(Block(first_seq + start, first_seq + len(lines) - 1, "\n".join(lines[start:])))
    return blocks


def next_entry(
    tip: Tip,
    *,
    project: ProjectId,
    run_id: RunId,
    kind: EntryKind,
    at_ms: Millis,
    payload: object,
    plain: bool = False,
    said: str | None = None,
) -> Entry:
    """The entry that follows the tip; what it takes is told at `told`."""
    text = told(payload, plain=plain, said=said)
    line = hashed_text(tip, project=project, run_id=run_id, kind=kind.value, at_ms=at_ms, payload=text)
    return Entry(project, run_id, tip.next_seq, kind.value, at_ms, text, hash_of(line))


def told(payload: object, *, plain: bool = False, said: str | None = None) -> Json:
    """What an entry says, in its one spelling. The payload is any value that JSON can hold; its secrets are taken out.

    One that is `plain` has no numbers but whole ones, so that it is encoded once and need not be read again. `said` is
    all of it that others wrote and nobody has looked through yet: most of an entry is names that were made here, and
    looking for secrets costs more than everything else about it.
    """
    if plain:
        text = canonical_plain(payload)
        if len(text) <= ENTRY_BYTES_MAX // 4 and not suspicious(text if said is None else said):
            return text
    return canonical_of(redact_json(to_json(payload, limit=ENTRY_BYTES_MAX)))


class Chain:
    """Entries of one run on their way into a transaction: `tip` is what the run's row has to be swapped to.

    They are spelled and hashed when somebody asks for the tip or the lines, all that wait for it in one go.
    """

    __slots__ = ("_lines", "_tip", "_waiting", "project", "run_id")

    def __init__(self, project: ProjectId, run_id: RunId, tip: Tip = START) -> None:
        self.project = project
        self.run_id = run_id
        self._tip = tip
        self._lines: list[str] = []
        self._waiting: list[tuple[int, str, Ordered | msgspec.Raw]] = []

    def add(
        self, kind: EntryKind, payload: object, *, at_ms: Millis, plain: bool = False, said: str | None = None
    ) -> None:
        """Go on with an entry; what it takes is told at `told`."""
        if plain and said is not None and isinstance(payload, Ordered) and not suspicious(said):
            # Nothing in it has to be sorted, or to be taken out.
            self._waiting.append((at_ms, KINDS[kind], payload))
        else:
            text = told(payload, plain=plain, said=said)
            self._waiting.append((at_ms, KINDS[kind], msgspec.Raw(text.encode())))

    def _settle(self) -> None:
        project, run_id, lines, encode = self.project, self.run_id, self._lines, _encoder.encode
        keep, fresh = lines.append, _leaf.copy
        waiting, self._waiting = self._waiting, []
        seq, previous = self._tip
        for at_ms, kind, payload in waiting:
            line = encode(Written(at_ms, kind, payload, previous, project, run_id, seq))
            if len(line) > ENTRY_BYTES_MAX // 4 and isinstance(payload, Ordered):
                text = msgspec.Raw(told(payload).encode())
                line = encode(Written(at_ms, kind, text, previous, project, run_id, seq))
            keep(line.decode())
            leaf = fresh()  # as `hash_of` does it
            leaf.update(line)
            previous = leaf.hexdigest()
            seq += 1
        self._tip = Tip(seq, previous)

    @property
    def tip(self) -> Tip:
        if self._waiting:
            self._settle()
        return self._tip

    @property
    def lines(self) -> list[str]:
        if self._waiting:
            self._settle()
        return self._lines

    @property
    def entries(self) -> list[Entry]:
        """What was added, as it is read again."""
        first = self.tip.next_seq - len(self.lines)
        return [entry_of(line, self.project, self.run_id, first + place) for place, line in enumerate(self.lines)]
