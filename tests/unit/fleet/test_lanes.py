"""Finding who is due costs what is found, however many others there are."""

from hypothesis import given
from hypothesis import strategies as st

from homeostat.adapters.statuses.lanes import Lanes
from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId

MOVES = st.lists(
    st.tuples(
        st.integers(0, 5),  # who
        st.sampled_from([30, 70, 110]),  # its wait
        st.integers(0, 40),  # how much time passes first
        st.booleans(),  # whether it leaves
    ),
    max_size=60,
)


@given(MOVES, st.integers(0, 300))
def test_lanes_agree_with_a_plain_list_of_dates(moves: list[tuple[int, int, int, bool]], later: int) -> None:
    lanes, plain, where, now = Lanes(), dict[AgentId, Millis](), dict[AgentId, tuple[str, int]](), 0
    for number, wait, passed, leaves in moves:
        now += passed
        agent_id, lane = AgentId(f"a{number}"), ("alive", wait)
        if agent_id in where and (leaves or where[agent_id] != lane):
            del lanes._lanes[where.pop(agent_id)][agent_id]
            plain.pop(agent_id)
        if not leaves:
            lanes.place(lane, agent_id, Millis(now + wait))
            where[agent_id], plain[agent_id] = lane, Millis(now + wait)
        expected = {agent_id for agent_id, date in plain.items() if date <= now}
        assert {found for found, _ in lanes.due(Millis(now), 100)} == expected
        following = lanes.next_ms()
        assert all(following is not None and following <= date for date in plain.values())
    now += later
    assert dict(lanes.due(Millis(now), 100)) == {a: date for a, date in plain.items() if date <= now}
    lanes.shift(1_000, frozenset({"alive"}))
    assert lanes.due(Millis(now), 100) == []
    assert dict(lanes.due(Millis(now + 1_000), 100)) == {a: Millis(d + 1_000) for a, d in plain.items() if d <= now}


def test_a_look_touches_only_who_is_due() -> None:
    lanes = Lanes()
    for number in range(1_000):
        lanes.place(("alive", 90), AgentId(f"a{number}"), Millis(90 + number))
    touched = 0

    class Counted(int):
        def __gt__(self, other: int) -> bool:
            nonlocal touched
            touched += 1
            return int(self) > other

    line = lanes._lanes["alive", 90]
    for agent_id, date in line.items():
        line[agent_id] = Counted(date)  # pyright: ignore[reportArgumentType]
    assert len(lanes.due(Millis(94), 256)) == 5
    assert touched == 6  # the five, and the one behind them
