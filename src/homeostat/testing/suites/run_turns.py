"""What every keeper of runs promises of their turns: which may be made and begun, and which there are."""

from typing import Final

from msgspec.structs import replace

from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.ids import AgentId, ProjectId, RunId, ToolCallId, TraceId, TurnId, WorkerId
from homeostat.core.machines.run import RunStatus
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.fleet import Departure, Registration
from homeostat.core.records.head import Gate, Head
from homeostat.core.records.run import GateState, Run, Start, gate_of
from homeostat.core.records.turn import AfterExecution, MessageType, Turn, Wait, WaitStatus
from homeostat.core.records.writes import Saved, Writes
from homeostat.core.run_errors import TurnExists
from homeostat.testing.suites.run_store import (
    ANN,
    FAR,
    NOW,
    PROJECT,
    Check,
    Keepers,
    change_of,
    following,
    make,
    run_of,
)


async def move(keepers: Keepers, run: Run, **changes: object) -> Run:
    """Change a run, and its gate with it."""
    change = change_of(following(run, **changes))
    assert await keepers.runs.save(replace(change, gate=gate_of(change.run)))
    return change.run


def turn_of(number: int, run: Run, parent: TurnId | None = None) -> Turn:
    return Turn(
        turn_id=TurnId(f"turn_{number:024x}"),
        project=PROJECT,
        agent_id=ANN,
        seq=number,
        type=MessageType.TURN,
        payload=Json("{}"),
        correlation_id=None,
        source=None,
        parent_turn_id=parent,
        parent_step_id=None,
        reply_call_id=None,
        trace_id=TraceId("a" * 32),
        depth=0,
        run_id=run.run_id,
        context_box_id=None,
        output_box_id=None,
        result_fields=None,
        previous_turn_id=None,
        created_at_ms=NOW,
    )


async def enqueue(keepers: Keepers, turn: Turn) -> Saved:
    assert turn.run_id is not None
    runs = {turn.run_id: Start.TASK if turn.parent_turn_id is None else Start.CHILD}
    return await keepers.turns.save(Writes(turns={turn.turn_id: turn}, runs=runs))


async def passes(keepers: Keepers, run: Run) -> list[Start]:
    """What may be started of a run; a save that would start more says how the gate stands, and changes nothing."""
    passed: list[Start] = []
    for number, what in enumerate(Start):
        lease = {WorkerId(f"wrk_{run.version}_{number}"): FAR}
        saved = await keepers.turns.save(Writes(leases=lease, runs={run.run_id: what, RunId("run_77"): what}))
        assert saved.ok or saved.refused == ((run.run_id, gate_of(run)),)
        assert (await keepers.turns.lease(*lease) is not None) is saved.ok
        if saved.ok:
            passed.append(what)
    return passed


async def check_a_gate_holds_from_its_commit_on(keepers: Keepers) -> None:
    await keepers.turns.save(Writes(new_heads={(PROJECT, ANN): Head.new(PROJECT, ANN, NOW)}))
    made = await make(keepers, gate=GateState.OPEN)
    first = turn_of(1, made)
    assert (await enqueue(keepers, first)).ok
    assert await keepers.runs.open_turns(PROJECT, made.run_id, limit=10) == [(ANN, first.turn_id)]
    assert await keepers.runs.ended(made.run_id) is None
    await already_there(keepers, first)
    paused = await move(keepers, made, status=RunStatus.PAUSED)
    assert await passes(keepers, paused) == [Start.CHILD, Start.TURN]
    assert await keepers.runs.held() == []
    forced = await move(keepers, paused, forced=True)
    assert await passes(keepers, forced) == [Start.CHILD]
    assert await keepers.runs.held() == [made.run_id]
    assert await keepers.turns.runs_held() == {made.run_id}
    assert (await enqueue(keepers, turn_of(2, made))).refused == ((made.run_id, GateState.HELD),)
    assert (await enqueue(keepers, turn_of(3, made, first.turn_id))).ok
    assert (await enqueue(keepers, turn_of(7, made, turn_of(3, made).turn_id))).ok
    below = [(ANN, turn_of(number, made).turn_id) for number in (3, 7)]
    assert await keepers.runs.open_below(PROJECT, first.turn_id, limit=10) == below
    assert await keepers.runs.open_below(PROJECT, first.turn_id, after=below[0][1], limit=10) == below[1:]
    assert await keepers.runs.open_below(ProjectId("other"), first.turn_id, limit=10) == []
    resumed = await move(keepers, forced, status=RunStatus.APPLYING, forced=False)
    assert await passes(keepers, resumed) == [*Start]
    assert await keepers.turns.runs_held() == set()
    killed = await move(keepers, resumed, status=RunStatus.KILLED)
    assert await passes(keepers, killed) == []
    assert await keepers.runs.ended(made.run_id) is RunStatus.KILLED
    assert (await enqueue(keepers, turn_of(4, made))).refused == ((made.run_id, GateState.CLOSED),)
    assert (await enqueue(keepers, turn_of(5, made, first.turn_id))).refused == ((made.run_id, GateState.CLOSED),)
    head = replace(Head.new(PROJECT, ANN, NOW), version=1, tail_seq=9)
    moved = Writes(heads={(PROJECT, ANN): (0, head)}, runs={made.run_id: Start.TURN})
    assert (await keepers.turns.save(moved)).refused == ((made.run_id, GateState.CLOSED),)
    found = await keepers.turns.head(PROJECT, ANN)
    assert found is not None
    assert found.head.version == 0, "a save that would begin a turn of a run that is over moves no head"
    assert [turn_id for _, turn_id in await keepers.runs.open_turns(PROJECT, made.run_id, limit=10)] == [
        first.turn_id,
        *(turn_id for _, turn_id in below),
    ]
    assert (await enqueue(keepers, turn_of(6, run_of(77)))).ok  # a run that nobody knows holds nobody


async def check_the_open_turns_of_a_run_are_those_of_its_project_page_by_page(keepers: Keepers) -> None:
    made, other = await make(keepers, gate=GateState.OPEN), ProjectId("other")
    turns = [turn_of(number, made) for number in range(1, 6)]
    for turn in (*turns, replace(turn_of(9, made), project=other)):
        assert (await enqueue(keepers, turn)).ok
    found: list[TurnId] = []
    while page := await keepers.runs.open_turns(PROJECT, made.run_id, after=found[-1] if found else None, limit=2):
        assert len(page) <= 2
        assert page[0][1] not in found
        found += [turn_id for _, turn_id in page]
    assert found == [turn.turn_id for turn in turns], "what another project says is of a run is none of it"


def wait_of(turn: Turn, at_ms: int) -> Wait:
    return Wait(
        turn_id=turn.turn_id,
        call_id=ToolCallId(f"call_{at_ms}"),
        project=PROJECT,
        agent_id=turn.agent_id,
        tool="search",
        status=WaitStatus.PENDING,
        after_execution=AfterExecution.SUSPEND,
        step_id=None,
        call_card_id=None,
        result_card_id=None,
        created_at_ms=Millis(at_ms),
        deadline_ms=FAR,
        answered_at_ms=None,
    )


async def check_a_turn_is_under_way_since_somebody_took_it(keepers: Keepers) -> None:
    made = await make(keepers, gate=GateState.OPEN)
    first, second = turn_of(1, made), turn_of(2, made)
    both = [(ANN, first.turn_id), (ANN, second.turn_id)]
    idle = Head.new(PROJECT, ANN, NOW)
    await keepers.turns.save(Writes(new_heads={(PROJECT, ANN): idle}))
    assert (await enqueue(keepers, first)).ok
    assert (await enqueue(keepers, second)).ok
    assert await keepers.runs.working(PROJECT, both, after=NOW) == {}

    async def move(status: HeadStatus, since: int, *waits: Wait) -> None:
        nonlocal idle
        version, worker = idle.version, WorkerId("wrk_1") if status is HeadStatus.RUNNING else None
        idle = replace(
            idle,
            version=version + 1,
            status=status,
            turn_id=first.turn_id,
            worker_id=worker,
            since_ms=Millis(since),
            tail_seq=2,
        )
        new_waits = {(wait.turn_id, str(wait.call_id)): wait for wait in waits}
        assert (await keepers.turns.save(Writes(heads={(PROJECT, ANN): (version, idle)}, new_waits=new_waits))).ok

    waiting = {turn_id for _, turn_id in both}
    assert await keepers.runs.in_line(PROJECT, both) == waiting
    await move(HeadStatus.DISPATCHED, NOW + 1)
    assert await keepers.runs.working(PROJECT, both, after=NOW) == {}, "nobody has come for it yet"
    assert await keepers.runs.in_line(PROJECT, both) == waiting
    await move(HeadStatus.RUNNING, NOW + 2)
    assert await keepers.runs.in_line(PROJECT, both) == {second.turn_id}
    assert await keepers.runs.in_line(PROJECT, []) == set()
    assert await keepers.runs.working(PROJECT, both, after=NOW) == {first.turn_id: NOW + 2}
    assert await keepers.runs.working(ProjectId("other"), both, after=NOW) == {}
    assert await keepers.runs.working(PROJECT, both[1:], after=NOW) == {}
    await move(HeadStatus.SUSPENDED, NOW + 3, wait_of(first, NOW + 3))
    await move(HeadStatus.RUNNING, NOW + 5)
    assert await keepers.runs.working(PROJECT, both, after=NOW) == {first.turn_id: NOW + 3}, "it only waited meanwhile"
    assert await keepers.runs.working(PROJECT, both, after=Millis(NOW + 4)) == {first.turn_id: NOW + 5}
    await move(HeadStatus.DISPATCHED, NOW + 6)
    assert await keepers.runs.working(PROJECT, both, after=NOW) == {first.turn_id: NOW + 3}
    assert await keepers.runs.working(PROJECT, both, after=Millis(NOW + 4)) == {}


async def check_who_is_given_no_turns_is_told(keepers: Keepers) -> None:
    names = [AgentId(name) for name in ("open", "draining", "closed", "left", "stranger")]
    gates = zip(names, Gate, strict=False)
    heads = {
        (project, name): replace(Head.new(project, name, NOW), gate=gate if project == PROJECT else Gate.CLOSED)
        for name, gate in gates
        for project in (PROJECT, ProjectId("other"))
    }
    await keepers.turns.save(Writes(new_heads=heads))
    entries = [
        Registration(
            agent_id=name,
            project=PROJECT,
            agent_type="t",
            tags=(),
            hostname=None,
            pid=None,
            key_digest=name,
            registered_at_ms=NOW,
            gone_at_ms=NOW if name == "left" else None,
            gone_why=Departure.DEREGISTERED if name == "left" else None,
        )
        for name in names[:4]
    ]
    assert None not in await keepers.fleet.save([(entry, None) for entry in entries])
    assert await keepers.runs.barred(PROJECT, names, gates=True) == {"draining", "closed", "left"}
    assert await keepers.runs.barred(PROJECT, names, gates=False) == {"left"}
    assert await keepers.runs.barred(PROJECT, names[:2], gates=True) == {"draining"}, "of those that were asked for"
    assert await keepers.runs.barred(ProjectId("other"), names, gates=True) == {"open", "draining", "closed"}
    assert await keepers.runs.barred(PROJECT, [], gates=True) == set()


async def check_turns_of_one_attempt_are_told_from_others(keepers: Keepers) -> None:
    await keepers.turns.save(Writes(new_heads={(PROJECT, ANN): Head.new(PROJECT, ANN, NOW)}))
    made = await make(keepers)
    names = [f"{made.run_id}/1/1/7", f"{made.run_id}/1/2/7", f"{made.run_id}/1/2/7", "other", "other", None, None]
    for number, name in enumerate(names, start=1):
        assert (await enqueue(keepers, replace(turn_of(number, made), correlation_id=name))).ok
    child = replace(turn_of(8, made, turn_of(1, made).turn_id), correlation_id=names[0])
    assert (await enqueue(keepers, child)).ok
    repeated = [turn_of(2, made).turn_id, turn_of(3, made).turn_id]
    assert await keepers.runs.repeated_turns(made.run_id) == {names[1]: repeated}
    assert await keepers.runs.lost_ledgers() == []


async def already_there(keepers: Keepers, turn: Turn) -> None:
    try:
        await enqueue(keepers, turn)
    except TurnExists:
        return
    raise AssertionError(f"{turn.turn_id} was made twice")


CHECKS: Final[tuple[Check, ...]] = (
    check_a_gate_holds_from_its_commit_on,
    check_the_open_turns_of_a_run_are_those_of_its_project_page_by_page,
    check_a_turn_is_under_way_since_somebody_took_it,
    check_who_is_given_no_turns_is_told,
    check_turns_of_one_attempt_are_told_from_others,
)
