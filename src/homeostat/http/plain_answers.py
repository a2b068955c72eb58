"""Answers that come in one piece and say nothing unusual, read at a glance; whatever else comes is the parser's.

A server puts the same lines into all its answers, but for a few: what a line says is remembered.
"""

import re
from enum import Enum, auto
from typing import Final, TypeVar

from homeostat.core.limits import UPSTREAM_HEADER_BYTES_MAX
from homeostat.core.ports.upstream import UNSHARED

LINES_KEPT_MAX: Final = 256
LINE_BYTES_KEPT_MAX: Final = 256
LENGTH_DIGITS_MAX: Final = 9
END: Final = b"\r\n\r\n"

_STATUS = re.compile(rb"HTTP/1\.1 ([2-5]\d\d) [ -~]*")
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(rb"(?:[\t -~\x80-\xff]*[!-~\x80-\xff])?")  # which blanks may follow it is the parser's to say
Said = TypeVar("Said")

_BODILESS = frozenset({204, 304})
_FRAMING = frozenset({b"transfer-encoding", b"proxy-connection", b"upgrade", b"trailer"})  # they say how to read on


class Kind(Enum):
    """What a line of a head does, if it does not say how long the body is."""

    PASSED = auto()  # it says nothing that has to be known
    PRIVATE = auto()  # it is not shared
    TELLING = auto()  # how the body is to be read
    UNUSUAL = auto()


PASSED: Final = Kind.PASSED
PRIVATE: Final = Kind.PRIVATE
TELLING: Final = Kind.TELLING
UNUSUAL: Final = Kind.UNUSUAL

PlainAnswer = tuple[int, list[bytes], bytes, bytes]
"""All of an answer, on a connection that stays open: status, lines, those of them that are `written`, body."""


class Lines:
    """What the lines of one upstream's heads say."""

    __slots__ = ("_known", "_statuses")

    def __init__(self) -> None:
        self._statuses: dict[bytes, int] = {}
        self._known: dict[bytes, Kind | int] = {}

    def read(self, data: bytes) -> PlainAnswer | None:
        """The answer in a block of data, if that is plain and all there is in it."""
        head, end, body = data.partition(END)
        if not end or len(head) > UPSTREAM_HEADER_BYTES_MAX:
            return None
        lines = head.split(b"\r\n")
        first = lines.pop(0)
        status = self._statuses.get(first) or self._status(first)
        known, length, telling = self._known, -1, False
        private: list[bytes] = []
        for line in lines:
            said = known.get(line) or self._learn(line)
            if said is PASSED:
                continue
            if said is PRIVATE:
                private.append(line)
            elif said is TELLING:
                telling = True
            elif said is UNUSUAL or length >= 0:
                return None
            else:
                length = said
        if not status or len(body) != length:
            return None
        if telling:
            written = b""
        elif private:
            written = b"".join([line + b"\r\n" for line in lines if line not in private])
        else:
            written = data[len(first) + 2 : len(head) + 2]
        return status, lines, written, body

    def _status(self, line: bytes) -> int:
        """The status in a first line; 0 where it is unusual."""
        found = _STATUS.fullmatch(line)
        status = int(found[1]) if found is not None else 0
        if status in _BODILESS:
            return 0
        if status:
            _keep(self._statuses, line, status)
        return status

    def _learn(self, line: bytes) -> Kind | int:
        """What a line says, or the length that it tells; unusual is also what has to do with where the answer ends."""
        name, value = header_of(line)
        if b":" not in line or name in _FRAMING or _NAME.fullmatch(name) is None or _VALUE.fullmatch(value) is None:
            return UNUSUAL
        said: Kind | int = PRIVATE if name in UNSHARED else PASSED
        if name == b"content-length":
            if not value.isdigit() or len(value) > LENGTH_DIGITS_MAX:
                return UNUSUAL
            said = int(value)
        elif name == b"connection":
            if value.lower() != b"keep-alive":
                return UNUSUAL
        elif name == b"content-encoding" or (name == b"content-type" and value.startswith(b"text/event-stream")):
            said = TELLING
        _keep(self._known, line, said)
        return said


def header_of(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.partition(b":")
    return name.lower(), value.lstrip(b" \t")


def _keep(known: dict[bytes, Said], line: bytes, said: Said) -> None:
    """Remember a line, unless it is long; what changes with each answer must not fill the memory."""
    if len(line) > LINE_BYTES_KEPT_MAX:
        return
    if len(known) >= LINES_KEPT_MAX:
        known.clear()
    known[line] = said
