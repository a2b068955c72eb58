"""Heads that are said again: a client repeats the same lines with every request, and only the body is new.

What was read of a head holds for the same bytes said again at the same place of a connection. The digits of the body's
length may be others: they say where the body ends, and nothing else.
"""

from typing import Any, Final

import httptools

from homeostat.server.cycle import Cycle, HeaderLines, Wire
from homeostat.server.turnstile import is_control

END: Final = b"\r\n\r\n"
LENGTH: Final = b"\r\ncontent-length:"
LENGTH_DIGITS_MAX: Final = 9
HEAD_BYTES_KEPT_MAX: Final = 4 << 10  # of each connection, and no longer than it lasts
HEADS_LEARNT_MAX: Final = 8  # by then it is known whether a client repeats itself
ZERO: Final = ord("0")


class Head:
    """A head as it was read, until the next one. `length` is what it says of its body, the last time it was said.

    `reading` is whatever the application made of it and would make of it again.
    """

    __slots__ = (
        "_after",
        "_at",
        "_before",
        "_lines",
        "_method",
        "_query",
        "_raw_path",
        "_start",
        "is_control",
        "length",
        "reading",
    )

    def __init__(self, cycle: Cycle, *, at: int, before: bytes, after: bytes) -> None:
        self._method = cycle.method
        self._raw_path = cycle.raw_path
        self._query = cycle.query
        self.reading: Any = None
        self.is_control = is_control(cycle.raw_path)
        self.length = 0
        self._lines = cycle.headers.copy()
        self._at = at
        self._before = before
        self._start = len(before)
        self._after = after

    def again(self, data: bytes) -> bytes | None:
        """What follows the head, if a block of data begins with it."""
        if not data.startswith(self._before):
            return None
        start = self._start
        digits, end, _ = data[start : start + LENGTH_DIGITS_MAX + 1].partition(b"\r")
        stop = start + len(digits)
        if not end or not digits.isdigit() or digits[0] == ZERO or not data.startswith(self._after, stop):
            return None
        self.length = int(digits)
        return data[stop + len(self._after) :]

    def begin(self, wire: Wire) -> Cycle:
        """Another request with this head."""
        cycle = Cycle(wire, self._method, self._raw_path, self._query, None)
        cycle.head = self
        cycle.length = self.length
        return cycle

    def lines(self, length: int) -> HeaderLines:
        """The headers, of a request whose body has this length."""
        lines = self._lines.copy()
        lines[self._at] = (b"content-length", b"%d" % length)
        return lines


def learn(data: bytes, cycle: Cycle) -> Head | None:
    """What to know a head by, if it began a block of data in which nothing came behind its request.

    It has to be plain: of a body whose length it tells once, on a connection that stays open.
    """
    end = data.find(END) + len(END)
    if end + cycle.unread != len(data) or end > HEAD_BYTES_KEPT_MAX or not data[:1].isalpha():
        return None
    names = [name for name, _ in cycle.headers]
    if names.count(b"content-length") != 1 or b"transfer-encoding" in names or b"upgrade" in names:
        return None
    if not cycle.keep_alive or cycle.old or cycle.awaits_continue:
        return None
    head, at = data[:end], names.index(b"content-length")
    start = head.lower().find(LENGTH) + len(LENGTH)
    start += head[start : start + 1] == b" "
    value = cycle.headers[at][1]
    stop = start + len(value)
    if head[start:stop] != value or not value.isdigit() or head[stop : stop + 2] != b"\r\n":
        return None
    return Head(cycle, at=at, before=head[:start], after=head[stop:])


def target_of(url: bytes) -> tuple[bytes, bytes]:
    """The path and the query of a request; one in a longer form is taken apart by the parser."""
    if url.startswith(b"/") and b"#" not in url:
        path, _, query = url.partition(b"?")
        return path, query
    parsed = httptools.parse_url(url)
    return parsed.path or b"/", parsed.query or b""
