"""Events are found wherever the network cuts the stream, and nothing is held that is whole."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homeostat.core.limits import EVENT_BYTES_MAX
from homeostat.core.wire.sse import EventCutter, payload

STREAM = b'data: {"a":1}\n\n: comment\n\nevent: x\ndata: {"b":2}\n\ndata: [DONE]\n\n'


def cut_at(stream: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(set(places)), len(stream)]
    return [stream[a:b] for a, b in pairwise(edges) if a < b]


def events_of(blocks: list[bytes]) -> tuple[list[bytes], bytes]:
    cutter = EventCutter()
    found: list[bytes] = []
    for block in blocks:
        data, end = cutter.cut(block)
        found += cutter.events(data, end)
    return found, cutter.rest()


@pytest.mark.parametrize("stream", [STREAM, STREAM.replace(b"\n", b"\r\n")], ids=["lf", "crlf"])
@given(places=st.lists(st.integers(1, len(STREAM) - 1), max_size=12))
def test_cuts_anywhere_give_the_same_events(stream: bytes, places: list[int]) -> None:
    found, rest = events_of(cut_at(stream, places))
    assert found == events_of([stream])[0]
    assert len(found) == 4
    assert rest == b""


def test_what_is_not_whole_waits() -> None:
    cutter = EventCutter()
    assert cutter.cut(b"data: 1\n\ndata: 2") == (b"data: 1\n\ndata: 2", 9)
    assert not cutter.between_events
    data, end = cutter.cut(b"\n\n")
    assert data[:end] == b"data: 2\n\n"
    assert cutter.between_events


def test_a_whole_block_is_not_copied() -> None:
    block = b"data: 1\n\n"
    data, end = EventCutter().cut(block)
    assert data is block
    assert end == len(block)


def test_an_event_without_end_is_given_up() -> None:
    cutter = EventCutter()
    for _ in range(9):
        cutter.cut(b"x" * (EVENT_BYTES_MAX // 8))
    assert cutter.lost
    assert not cutter.between_events


def test_around_finds_the_event_that_covers_a_place() -> None:
    cutter = EventCutter()
    data, end = cutter.cut(STREAM)
    start, stop = cutter.around(data, end, data.find(b'"b"'))
    assert data[start:stop] == b'event: x\ndata: {"b":2}\n\n'
    assert cutter.around(data, end, 3) == (0, 15)


@pytest.mark.parametrize(
    ("event", "carried"),
    [
        (b"data: x", b"x"),
        (b"data:x", b"x"),
        (b"event: a\ndata: x", b"x"),
        (b"data: x\ndata: y", b"x\ny"),
        (b": comment", b""),
        (b"event: a\r\ndata: x", b"x"),
    ],
)
def test_payload(event: bytes, carried: bytes) -> None:
    assert payload(event) == carried
