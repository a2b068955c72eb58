"""A short history in little memory: the last heartbeats of an agent, packed into one ring of bytes."""

from struct import Struct

from homeostat.core.clock import Millis
from homeostat.core.limits import HISTORY_SAMPLES_MAX
from homeostat.core.records.fleet import Beat, ReportedStatus, Sample

# Received, status, items, queue, errors, processing time, memory. Six digits of a measure are enough for a graph.
_LAYOUT = Struct("<qBqIIff")
_WORDS = tuple(ReportedStatus)
_NUMBERS = {word: number for number, word in enumerate(_WORDS)}
_SMALL_MAX = (1 << 32) - 1


class Samples:
    """The last heartbeats of one agent, oldest overwritten first."""

    __slots__ = ("_packed", "_written")

    def __init__(self) -> None:
        self._packed = bytearray()
        self._written = 0

    def add(self, beat: Beat) -> None:
        status = beat.status
        values = (
            beat.received_ms,
            _NUMBERS[status.status],
            status.items_processed,
            min(status.queue_depth, _SMALL_MAX),
            min(status.error_count, _SMALL_MAX),
            status.processing_time_avg_ms,
            status.memory_mb,
        )
        if self._written < HISTORY_SAMPLES_MAX:
            self._packed += _LAYOUT.pack(*values)
            if self._written == HISTORY_SAMPLES_MAX - 1:
                self._packed = self._packed.copy()  # it has grown for the last time, and lets go of room to grow
        else:
            _LAYOUT.pack_into(self._packed, (self._written % HISTORY_SAMPLES_MAX) * _LAYOUT.size, *values)
        self._written += 1

    def newest(self, since: Millis, limit: int) -> list[Sample]:
        """The newest from an instant on, oldest first."""
        held = min(self._written, HISTORY_SAMPLES_MAX)
        found: list[Sample] = []
        for number in range(self._written - 1, self._written - 1 - held, -1):
            sample = self._read(number % HISTORY_SAMPLES_MAX)
            if sample.received_ms < since or len(found) == limit:
                break
            found.append(sample)
        return found[::-1]

    def _read(self, place: int) -> Sample:
        packed: tuple[int, int, int, int, int, float, float] = _LAYOUT.unpack_from(self._packed, place * _LAYOUT.size)
        received, word, items, queue, errors, processing, memory = packed
        return Sample(
            received_ms=Millis(received),
            status=_WORDS[word],
            items_processed=items,
            queue_depth=queue,
            processing_time_avg_ms=float(f"{processing:.6g}"),
            error_count=errors,
            memory_mb=float(f"{memory:.6g}"),
        )
