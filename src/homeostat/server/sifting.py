"""Lists by filter and cursor: what the store cannot pick out is read through here, page after page, within a bound."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from homeostat.core.filter import Filter
from homeostat.core.filter_fields import READERS
from homeostat.core.limits import FILTER_SCAN_ROWS_MAX, PAGE_MAX
from homeostat.server.call import Call

RowT = TypeVar("RowT")
CursorT = TypeVar("CursorT")


def asked(call: Call, noun: str, text: str | None) -> Filter:
    """The filter that came along as `?q=`."""
    return READERS[noun].read(text, now_ms=call.system.clock.now_ms())


async def sifted(
    wanted: Filter,
    read: Callable[[CursorT | None, int], Awaitable[Sequence[RowT]]],
    place: Callable[[RowT], CursorT],
    *,
    cursor: CursorT | None,
    limit: int,
    visible: Callable[[RowT], bool] | None = None,
) -> tuple[list[RowT], CursorT | None]:
    """A page of what is meant, and where to go on.

    A filter that fits hardly anything ends its page at the bound, short or even empty but with a cursor: no request
    reads a whole table, and whoever follows the cursors misses nothing.

    What is not `visible` is passed over before the filter sees it: no page ends at it, so none tells whether it fits.
    """
    found: list[RowT] = []
    seen = 0
    size = PAGE_MAX if wanted or visible is not None else limit
    while True:
        rows = await read(cursor, size)
        for row in rows:
            cursor = place(row)
            if (visible is None or visible(row)) and wanted.covers(row):
                found.append(row)
                if len(found) == limit:
                    last = row is rows[-1] and len(rows) < size
                    return found, None if last else cursor
        seen += len(rows)
        if len(rows) < size:
            return found, None
        if seen >= FILTER_SCAN_ROWS_MAX:
            return found, cursor
