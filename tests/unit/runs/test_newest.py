"""The end of a ledger first, whatever is missing from it."""

from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.ids import DEFAULT_PROJECT, ProjectId, RunId
from homeostat.core.records.provenance import Entry
from homeostat.runs.ledgers import Ledgers

RUN = RunId("run_1")


class Holed:
    """A ledger of which only some entries are left; where some are missing, what comes next is given."""

    def __init__(self, left: set[int]) -> None:
        self._left = sorted(left)

    async def entries(self, project: ProjectId, run_id: RunId, *, after: int, limit: int) -> list[Entry]:
        found = [seq for seq in self._left if seq > after][:limit]
        return [cast("Entry", _Told(project, run_id, seq)) for seq in found]


class _Told:
    def __init__(self, project: ProjectId, run_id: RunId, seq: int) -> None:
        self.project, self.run_id, self.seq, self.at_ms, self.payload = project, run_id, seq, Millis(0), Json("{}")


@given(left=st.sets(st.integers(1, 60)), limit=st.integers(1, 20))
async def test_every_entry_that_is_left_comes_once_the_last_one_first(left: set[int], limit: int) -> None:
    ledgers = Ledgers(store=cast("Any", Holed(left)), keeper=cast("Any", None), signer=cast("Any", None))
    before, found = 61, list[int]()
    while page := await ledgers.newest(DEFAULT_PROJECT, RUN, before=before, limit=limit):
        assert len(page) <= limit
        found += [entry.seq for entry in page]
        before = page[-1].seq
    assert found == sorted(left, reverse=True)
