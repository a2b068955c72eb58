"""Several vitals of one agent share a message; nothing else does, and nobody hears the difference."""

import json

import pytest

from homeostat.adapters.doorbells.nats.wire import Foreign, pack, parcels, unpack
from homeostat.core.codec import Json
from homeostat.core.ids import ProjectId
from homeostat.core.limits import BUS_PARCEL_BYTES_MAX
from homeostat.core.records.event import Channel, Event


def said(event_id: str, target: str = "ann", suffix: str = "vitals", payload: str = '{"n":1}') -> Event:
    return Event(event_id, ProjectId("p"), Channel.EVT, "agent", target, suffix, Json(payload))


def ids(events: list[Event]) -> list[list[str]]:
    return [[event.event_id for event in parcel] for parcel in parcels(events)]


def test_neighbours_of_one_subject_share_a_message() -> None:
    assert ids([said("1"), said("2"), said("3", "bob"), said("4")]) == [["1", "2"], ["3"], ["4"]]
    assert ids([]) == []


def test_what_its_sender_may_repeat_goes_alone() -> None:
    events = [said("1", suffix="task"), said("2", suffix="task"), said("3"), said("4", suffix="task")]
    assert ids(events) == [["1"], ["2"], ["3"], ["4"]]


def test_a_message_stays_small() -> None:
    long = json.dumps("x" * (BUS_PARCEL_BYTES_MAX // 2))
    assert ids([said("1"), said("2", payload=long), said("3", payload=long), said("4")]) == [["1", "2"], ["3", "4"]]
    whole = json.dumps("x" * BUS_PARCEL_BYTES_MAX)
    assert ids([said("1"), said("2", payload=whole), said("3")]) == [["1"], ["2"], ["3"]]


@pytest.mark.parametrize("count", [1, 2, 40])
def test_what_was_packed_is_read_back(count: int) -> None:
    events = [said(str(number), payload=f'{{"n": [{number}, "ü"]}}') for number in range(count)]
    assert unpack(events[0].subject, pack(events)) == events


def test_who_knows_of_no_parcels_still_reads_the_first() -> None:
    packed = json.loads(pack([said("1"), said("2")]))
    assert packed.pop("more") == [["2", {"n": 1}]]
    assert packed == json.loads(pack([said("1")]))


def test_nobody_hides_other_kinds_in_a_parcel() -> None:
    one = said("1", suffix="task")
    with pytest.raises(Foreign):
        unpack(one.subject, pack([one, one]))
    with pytest.raises(Foreign):
        unpack(said("1", "bob").subject, pack([said("1"), said("2")]))
