"""Server-sent events cut out of a byte stream, without holding it up and without copying what is whole."""

from collections.abc import Iterator

from homeostat.core.limits import EVENT_BYTES_MAX

LF_GAP = b"\n\n"
CRLF_GAP = b"\r\n\r\n"


class EventCutter:
    """Finds where events end. What is left of an unfinished one is kept until the rest of it arrives."""

    __slots__ = ("_held", "_held_bytes", "_tail", "gap", "lost")

    def __init__(self) -> None:
        self.gap = LF_GAP
        self.lost = False
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._tail = b""

    @property
    def between_events(self) -> bool:
        """Whether everything that came so far was whole events: a comment may be put here."""
        return not self._held and not self.lost

    def cut(self, block: bytes) -> tuple[bytes, int]:
        """Add a block; `data[:end]` is what it completed, the rest waits. An event without end is given up."""
        end = self._end_of(block)
        if self._held:
            if end < 0 and not self._completes(block):
                self._hold(block)
                return b"", 0
            data = b"".join((*self._held, block))
            self._held.clear()
            self._held_bytes = 0
            end = self._end_of(data)
        else:
            data = block
        end = max(end, 0)
        if end < len(data):
            self._hold(data[end:] if end else data)
        return data, end

    def rest(self) -> bytes:
        """What never became a whole event."""
        rest = b"".join(self._held)
        self._held.clear()
        self._held_bytes = 0
        return rest

    def _end_of(self, data: bytes) -> int:
        at = data.rfind(self.gap)
        if at < 0 and self.gap is LF_GAP and (at := data.rfind(CRLF_GAP)) >= 0:
            self.gap = CRLF_GAP
        return at + len(self.gap) if at >= 0 else -1

    def _completes(self, block: bytes) -> bool:
        """Whether the end of an event lies across the seam."""
        seam = self._tail + block[:3]
        return LF_GAP in seam or CRLF_GAP in seam

    def _hold(self, block: bytes) -> None:
        self._held.append(block)
        self._held_bytes += len(block)
        self._tail = (self._tail + block)[-3:] if len(self._held) > 1 else block[-3:]
        if self._held_bytes > EVENT_BYTES_MAX:
            self.lost = True
            self._held.clear()
            self._held_bytes = 0

    # --- looking into what was cut ----------------------------------------------------------------------------

    def events(self, data: bytes, end: int) -> Iterator[bytes]:
        """The whole events of a cut, each without the gap behind it."""
        gap = self.gap
        start = 0
        while start < end:
            stop = data.find(gap, start, end)
            if stop < 0:
                stop = end
            if stop > start:
                yield data[start:stop]
            start = stop + len(gap)

    def around(self, data: bytes, end: int, at: int) -> tuple[int, int]:
        """Where the event that covers a position begins, and where the next one does."""
        before = data.rfind(self.gap, 0, at)
        start = before + len(self.gap) if before >= 0 else 0
        after = data.find(self.gap, at, end)
        return start, after + len(self.gap) if after >= 0 else end


def payload(event: bytes) -> bytes:
    """What an event carries: its data lines, joined."""
    if event.startswith(b"data:") and b"\n" not in event:
        return event[5:].strip()
    lines = [line[5:].strip() for line in event.splitlines() if line.startswith(b"data:")]
    return lines[0] if len(lines) == 1 else b"\n".join(lines)


def is_event_stream(content_type: bytes) -> bool:
    return content_type.lower().startswith(b"text/event-stream")
