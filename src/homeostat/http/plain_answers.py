"""Answers that come in one piece and say nothing unusual, read at a glance; whatever else comes is the parser's.

A server puts the same lines into all its answers, but for a few: what a line says is remembered.
"""

import re
from typing import Final, TypeVar

from homeostat.core.limits import UPSTREAM_HEADER_BYTES_MAX
from homeostat.core.ports.upstream import Headers

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


PlainAnswer = tuple[int, Headers, bytes]
"""All of an answer, on a connection that stays open: status, headers, body."""


class Lines:
    """What the lines of one upstream's heads say."""

    __slots__ = ("_headers", "_statuses")

    def __init__(self) -> None:
        self._statuses: dict[bytes, int] = {}
        self._headers: dict[bytes, tuple[bytes, bytes]] = {}

    def read(self, data: bytes) -> PlainAnswer | None:
        """The answer in a block of data, if that is plain and all there is in it."""
        end = data.find(END)
        if not 0 < end <= UPSTREAM_HEADER_BYTES_MAX:
            return None
        lines = data[:end].split(b"\r\n")
        first = lines.pop(0)
        status = self._statuses.get(first) or self._status(first)
        headers: Headers = []
        known, length = self._headers, b""
        for line in lines:
            header = known.get(line) or self._header(line)
            if header is None:
                return None
            if header[0] == b"content-length":
                if length:
                    return None
                length = header[1]
            headers.append(header)
        body = data[end + len(END) :]
        if not status or not length or len(body) != int(length):
            return None
        return status, headers, body

    def _status(self, line: bytes) -> int:
        """The status in a first line; 0 where it is unusual."""
        found = _STATUS.fullmatch(line)
        status = int(found[1]) if found is not None else 0
        if status in _BODILESS:
            return 0
        if status:
            _keep(self._statuses, line, status)
        return status

    def _header(self, line: bytes) -> tuple[bytes, bytes] | None:
        """The header in a line; None where it is unusual, or has to do with where the answer ends."""
        name, colon, value = line.partition(b":")
        name, value = name.lower(), value.lstrip(b" \t")
        if not colon or name in _FRAMING or _NAME.fullmatch(name) is None or _VALUE.fullmatch(value) is None:
            return None
        if name == b"content-length" and not (value.isdigit() and len(value) <= LENGTH_DIGITS_MAX):
            return None
        if name == b"connection" and value.lower() != b"keep-alive":
            return None
        header = (name, value)
        _keep(self._headers, line, header)
        return header


def _keep(known: dict[bytes, Said], line: bytes, said: Said) -> None:
    """Remember a line, unless it is long; what changes with each answer must not fill the memory."""
    if len(line) > LINE_BYTES_KEPT_MAX:
        return
    if len(known) >= LINES_KEPT_MAX:
        known.clear()
    known[line] = said
