"""The audit log is a chain: whoever changes an entry has to change every one behind it, and is found out."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec

from homeostat.core.records.access import Act, AuditEntry

FIRST: Final = "0" * 64
_encode = msgspec.json.Encoder(order="sorted").encode


def sealed(act: Act, *, seq: int, previous: str) -> AuditEntry:
    """An act as the next link."""
    return AuditEntry(seq=seq, act=act, previous=previous, digest=digest_of(act, seq=seq, previous=previous))


def digest_of(act: Act, *, seq: int, previous: str) -> str:
    return hashlib.sha256(b"%d\n%b\n%b" % (seq, previous.encode(), _encode(act))).hexdigest()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a chain holds, and where it does not."""

    entries: int
    head: str
    broken_at: int | None = None
    problem: str = ""


class Verifier:
    """Checks a chain link by link, as far as it is given it."""

    def __init__(self) -> None:
        self._seq = 0
        self._head: str = FIRST
        self._broken: tuple[int, str] | None = None

    def add(self, entries: Iterable[AuditEntry]) -> None:
        for entry in entries:
            if self._broken is not None:
                return
            if entry.seq != self._seq + 1:
                self._broken = (entry.seq, f"entry {self._seq + 1} is missing")
            elif entry.previous != self._head:
                self._broken = (entry.seq, "it does not stand behind the entry before it")
            elif entry.digest != digest_of(entry.act, seq=entry.seq, previous=entry.previous):
                self._broken = (entry.seq, "what it says is not what was written")
            else:
                self._seq, self._head = entry.seq, entry.digest

    @property
    def verdict(self) -> Verdict:
        if self._broken is None:
            return Verdict(self._seq, self._head)
        return Verdict(self._seq, self._head, *self._broken)
