"""A recorded run does the same again; where its code does not, the first entry that differs is named in words."""

from homeostat.core.ids import chance
from homeostat.core.records.provenance import Entry, EntryKind
from homeostat.runs.replaying.replay import replay
from homeostat.testing.recorded_runs import Act, acts_of, altered, bundle_of, finding, record, studio

RUNS = 200


async def recorded(programs: list[tuple[Act, ...]]) -> list[list[Entry]]:
    async with studio() as bench:
        return await record(bench, programs)


def programs(what: str, count: int = RUNS) -> list[tuple[Act, ...]]:
    return [acts_of(rng, rng.randrange(1, 9)) for rng in (chance(what, number) for number in range(count))]


async def test_two_hundred_random_runs_are_identical_again() -> None:
    made = programs("identical")
    for acts, entries in zip(made, await recorded(made), strict=True):
        report = await replay(bundle_of(entries), finding(acts))
        assert report.identical, (acts, report)
        assert report.turns >= 1
        assert report.entries == len(entries)


async def test_two_hundred_changes_of_code_are_found_where_they_are() -> None:
    made = programs("altered")
    found = 0
    for number, (acts, entries) in enumerate(zip(made, await recorded(made), strict=True)):
        changed, place = altered(chance("alter", number), acts)
        report = await replay(bundle_of(entries), finding(changed))
        assert report.divergence is not None, (acts, changed)
        expected = entry_of(entries, acts, place, changed[place])
        assert report.divergence.seq == expected, (number, acts, place, changed[place], report.divergence)
        assert "task 0 (task0)" in report.divergence.message
        found += 1
    assert found == RUNS


LEAVES = {"step": 1, "model": 1, "tool": 1, "agent": 1, "card": 1, "time": 1, "both": 2, "failing": 1}
"""How many entries an act leaves; chance and memory leave none."""


def entry_of(entries: list[Entry], acts: tuple[Act, ...], place: int, new: Act) -> int:
    """The entry in which a change of an act has to show: its own, or where it leaves none, the one that comes next."""
    first = 2 + sum(LEAVES.get(act.kind, 0) for act in acts[:place])  # the first entry is the run's
    end = next(entry.seq for entry in entries if entry.kind == EntryKind.TURN_ENDED)
    if new.kind == acts[place].kind and new.kind in {"chance", "time", "memory"}:
        return end  # what it came to shows in what was delivered
    return min(first, end)
