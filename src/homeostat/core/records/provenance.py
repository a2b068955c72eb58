"""The ledger of a run: entries that are chained by hash, so that none can be changed, left out or moved unseen.

An entry is hashed as one canonical JSON object (RFC 8785) of all it holds and the hash of the entry before it:
`{"at_ms":…,"kind":…,"payload":…,"previous":…,"project":…,"run_id":…,"seq":…}`, behind a zero byte: so it is the hash of
a leaf in the Merkle tree of RFC 6962 as well. Anybody with SHA-256 can check it. Payloads are freed of secrets before.
"""

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from msgspec import Struct

from homeostat.core.canonical import canonical_of, canonical_plain
from homeostat.core.clock import Millis
from homeostat.core.codec import Json, to_json
from homeostat.core.ids import ProjectId, RunId
from homeostat.core.limits import ENTRY_BYTES_MAX
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


class Tip(NamedTuple):
    """Where a ledger goes on: the sequence number of its next entry, and the hash of its last."""

    next_seq: int
    hash: str


LEAF: Final = b"\0"
"""What is hashed before a leaf, so that no inner node of a tree can be taken for one."""

START: Final = Tip(1, "0" * 64)
"""The tip of a ledger without entries."""


class Entry(Struct, frozen=True, gc=False):
    """One row of a ledger. `payload` is canonical JSON, `hash` what the next entry is chained to."""

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


@lru_cache(maxsize=4_096)
def _quoted(name: str) -> str:
    return to_json(name)


def hashed_text(tip: Tip, *, project: str, run_id: str, kind: str, at_ms: int, payload: str) -> bytes:
    """The bytes an entry's hash is taken over; a bundle holds them as a line."""
    return (
        f'{{"at_ms":{at_ms},"kind":{_quoted(kind)},"payload":{payload},"previous":"{tip.hash}",'
        f'"project":{_quoted(project)},"run_id":{_quoted(run_id)},"seq":{tip.next_seq}}}'
    ).encode()


def hash_of(line: bytes) -> str:
    return hashlib.sha256(LEAF + line).hexdigest()


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
    """The entry that follows the tip. The payload is any value that JSON can hold; its secrets are taken out.

    One that is `plain` has no numbers but whole ones, so that it is encoded once and need not be read again. `said` is
    all of it that others wrote and nobody has looked through yet: most of an entry is names that were made here, and
    looking for secrets costs more than everything else about it.
    """
    if plain:
        text = canonical_plain(payload)
        if len(text) > ENTRY_BYTES_MAX // 4 or suspicious(text if said is None else said):
            text = canonical_of(redact_json(to_json(payload, limit=ENTRY_BYTES_MAX)))
    else:
        text = canonical_of(redact_json(to_json(payload, limit=ENTRY_BYTES_MAX)))
    line = hashed_text(tip, project=project, run_id=run_id, kind=kind.value, at_ms=at_ms, payload=text)
    return Entry(project, run_id, tip.next_seq, kind.value, at_ms, text, hash_of(line))


@dataclass(slots=True)
class Chain:
    """Entries of one run on their way into a transaction: `tip` is what the run's row has to be swapped to."""

    project: ProjectId
    run_id: RunId
    tip: Tip = START
    entries: list[Entry] = field(default_factory=list[Entry])

    def add(
        self, kind: EntryKind, payload: object, *, at_ms: Millis, plain: bool = False, said: str | None = None
    ) -> Entry:
        entry = next_entry(
            self.tip,
            project=self.project,
            run_id=self.run_id,
            kind=kind,
            at_ms=at_ms,
            payload=payload,
            plain=plain,
            said=said,
        )
        self.entries.append(entry)
        self.tip = entry.tip
        return entry
