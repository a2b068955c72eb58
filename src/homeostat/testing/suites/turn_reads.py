"""What a turn store promises its readers: things as they stand, in order, page by page, and of one project only."""

from collections.abc import Awaitable

from msgspec.structs import replace

from homeostat.core.clock import Millis
from homeostat.core.ids import (
    AgentId,
    BoxId,
    CardId,
    ProjectId,
    ToolCallId,
    TraceId,
    TurnId,
    WorkerId,
    scope_of,
)
from homeostat.core.machines.turn import HeadStatus, ItemStatus
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.head import Gate
from homeostat.core.records.turn import MessageType, OpenTurn, Turn, TurnStatus, WaitStatus
from homeostat.core.records.view import Edge, HeadView, Outcome, TurnView
from homeostat.testing.suites import turn_records as a
from homeostat.testing.suites.turn_records import Check, OpenStore

GARBAGE = (
    "",
    "x",
    "turn_",
    "box_",
    "card_",
    "card_1_2",
    "card_1_2_3_4",
    "card_x_²_y",
    "box__",
    "nul\0",
    "turn_\0",
    "_",
)


async def a_turn_is_shown_as_it_stands(open_store: OpenStore) -> None:
    """In line, on its head in each state, and ended in each way."""
    store = await open_store()
    queued, held = a.turn(1), a.turn(2)
    await a.register(store, a.idle(queued=1))
    await a.put(
        store,
        turns=a.by_id([queued, held]),
        inbox_put=a.in_line(OpenTurn(queued, 2, 1)),
        new_waits=a.waits_of(a.wait(queued, "q"), a.wait(held, "b"), a.wait(held, "a")),
        leases={a.WORKER: a.NOW},
    )
    waiting = TurnView(
        queued, TurnStatus.QUEUED, ItemStatus.QUEUED, None, 2, 1, None, None, (a.wait(queued, "q"),), None
    )
    assert await store.turn(a.PROJECT, queued.turn_id) == waiting
    waits = (a.wait(held, "a"), a.wait(held, "b"))
    head = a.idle(queued=1)
    for status, word, item, worker in (
        (HeadStatus.DISPATCHED, TurnStatus.DISPATCHED, ItemStatus.PENDING, None),
        (HeadStatus.RUNNING, TurnStatus.RUNNING, ItemStatus.PROCESSING, a.WORKER),
        (HeadStatus.SUSPENDED, TurnStatus.SUSPENDED, ItemStatus.PROCESSING, None),
    ):
        head = a.holding(head, held, status, starts=3, losses=2)
        await a.put(store, heads=a.swap(head))
        lease = a.NOW if worker else None
        assert await store.turn(a.PROJECT, held.turn_id) == TurnView(
            held, word, item, head.epoch, 3, 2, worker, lease, waits, None
        )
    assert await store.turn(a.PROJECT, queued.turn_id) == waiting


async def an_ended_turn_is_shown_with_its_deliverable(open_store: OpenStore) -> None:
    store = await open_store()
    rolling = a.turn(4, output_box_id=BoxId("box_r"))
    ends = (
        (a.turn(1), "success", "null", ItemStatus.CONSUMED),
        (a.turn(2), "failed", '{"code":"attempts_exhausted"}', ItemStatus.DEAD),
        (a.turn(3), "failed", '{"code":"tool_error"}', ItemStatus.CONSUMED),
        (rolling, "stop", '{"code":"stopped"}', ItemStatus.CONSUMED),
    )
    for one, status, error, item in ends:
        assert await store.deliverables(a.PROJECT, [one.turn_id]) == {}
        ended = a.deliverable(one, status, epoch=7, error=error)
        await a.put(store, turns=a.by_id([one]), cards=[ended, a.card(scope_of(one.turn_id), 1)])
        end = (await store.deliverables(a.PROJECT, [one.turn_id]))[one.turn_id]
        assert (end.turn_id, end.agent_id, end.card_id) == (one.turn_id, one.agent_id, ended.card_id)
        assert (end.output_box_id, end.finished_at_ms) == (one.output_box, a.NOW)
        assert (end.status, end.epoch, end.result) == (Outcome(status), 7, '{"ok":true}')
        assert end.error == (None if error == "null" else error)
        view = await store.turn(a.PROJECT, one.turn_id)
        assert view == TurnView(one, TurnStatus(status), item, 7, 0, 0, None, None, (), end)


async def what_is_no_turn_has_no_end(open_store: OpenStore) -> None:
    """A box may have a card where a turn has its deliverable."""
    store = await open_store()
    scope = a.scope_at(a.NOW, 5)
    await a.put(store, cards=[a.card(scope, 0, "null", type="box.empty")])
    assert await store.deliverables(a.PROJECT, [TurnId("turn_" + scope)]) == {}
    assert await store.box(a.PROJECT, BoxId("box_" + scope), after=-1, limit=5) == [
        a.card(scope, 0, "null", type="box.empty")
    ]


async def garbage_finds_nothing(open_store: OpenStore) -> None:
    store = await open_store()
    await a.register(store, a.idle())
    await a.finished(store, a.turn())
    garbage = [TurnId(text) for text in GARBAGE]
    ends = await store.deliverables(
        a.PROJECT, [*garbage, a.turn().turn_id, *(TurnId("turn_" + text) for text in GARBAGE)]
    )
    assert ends.keys() == {a.turn().turn_id}, "whoever asks together with garbage is answered"
    for text in GARBAGE:
        assert await store.turn(a.PROJECT, TurnId(text)) is None
        assert await store.card(a.PROJECT, CardId(text)) is None
        assert await store.box(a.PROJECT, BoxId(text), after=-1, limit=9) is None
        assert await store.box_length(a.PROJECT, BoxId(text)) is None
        assert await store.box_until(a.PROJECT, BoxId(text)) is None
        assert await store.box_owner(a.PROJECT, BoxId(text)) is None
        assert await store.head(a.PROJECT, AgentId(text)) is None
        assert await store.lease(WorkerId(text)) is None
        assert await store.inbox(a.PROJECT, AgentId(text), after_seq=-1, limit=9) == []
        assert await store.history(a.PROJECT, AgentId(text), before=None, limit=9) == []
        assert await store.history(a.PROJECT, a.AGENT, before=TurnId(text), limit=9) == []
        assert await store.heads(ProjectId(text), after=None, limit=9) == []
        assert await store.recall([(a.PROJECT, text)]) == {}
        assert await store.load([(a.PROJECT, AgentId(text))]) == {}
        assert await store.dispatched([(a.PROJECT, AgentId(text))], 9) == []
        assert await store.registered([(a.PROJECT, AgentId(text))]) == set()
        assert await store.edges(a.PROJECT, trace_id=None, turn_id=TurnId(text), after=None, limit=9) == []
        assert await store.edges(a.PROJECT, trace_id=TraceId(text), turn_id=None, after=None, limit=9) == []
    assert await store.edges(a.PROJECT, trace_id=None, turn_id=None, after=None, limit=9) == []


async def heads_are_listed_page_by_page(open_store: OpenStore) -> None:
    store = await open_store()
    names = ["B", "a", "a1", "b", "é"]
    heads = [a.idle(name) for name in names]
    active = a.turn(1, agent_id="a")
    heads[1] = a.holding(heads[1], active)
    await a.register(store, *(a.idle(name) for name in reversed(names)), a.idle("a2", a.ELSEWHERE))
    await a.put(store, heads=a.swap(heads[1]), turns=a.by_id([active]), leases={a.WORKER: a.NOW})
    views = [HeadView(head, a.NOW if head is heads[1] else None) for head in heads]
    assert await store.turns_counted(TurnId("")) == {a.PROJECT: 1, a.ELSEWHERE: 0}
    assert await store.turns_counted(TurnId(active.turn_id + "0")) == {a.PROJECT: 0, a.ELSEWHERE: 0}
    assert await store.headless() == {}
    assert await store.heads(a.PROJECT, after=None, limit=2) == views[:2]
    assert await store.heads(a.PROJECT, after=AgentId("a"), limit=2) == views[2:4]
    assert await store.heads(a.PROJECT, after=AgentId("b"), limit=2) == views[4:]
    assert await store.head(a.PROJECT, AgentId("a")) == views[1]
    assert await store.head(a.PROJECT, AgentId("A")) is None
    keys = [head.key for head in heads]
    absent = [(a.PROJECT, AgentId("A")), (a.PROJECT, AgentId("a2")), (a.ELSEWHERE, AgentId("a"))]
    assert await store.registered([*keys, *absent, *keys]) == set(keys)
    assert await store.registered([]) == set()


async def a_line_is_read_in_order_page_by_page(open_store: OpenStore) -> None:
    store = await open_store()
    turns = [a.turn(seq) for seq in (2, 3, 10, 11, 100)]
    entries = [OpenTurn(one, starts=one.seq) for one in turns]
    await a.put(store, turns=a.by_id(turns), inbox_put=a.in_line(*reversed(entries)))
    assert await store.inbox(a.PROJECT, a.AGENT, after_seq=-1, limit=3) == entries[:3]
    assert await store.inbox(a.PROJECT, a.AGENT, after_seq=10, limit=3) == entries[3:]
    assert await store.inbox(a.PROJECT, a.AGENT, after_seq=9, limit=1) == [entries[2]]
    assert await store.headless() == {(a.PROJECT, a.AGENT): 5}, "nobody was registered"
    assert await store.turns_counted(TurnId("")) == {a.PROJECT: 5}


async def history_goes_back_turn_by_turn(open_store: OpenStore) -> None:
    store = await open_store()
    turns: list[Turn] = []
    for seq in range(1, 6):
        turns.append(a.turn(seq, at=a.NOW + seq, previous_turn_id=turns[-1].turn_id if turns else None))
    other = a.turn(1, agent_id="other")
    head = a.moved(a.idle(), last_turn_id=turns[-1].turn_id)
    await a.register(store, a.idle(), a.idle("other"))
    await a.put(store, heads=a.swap(head), turns=a.by_id([*turns, other]), cards=[a.deliverable(turns[2])])

    async def ids(before: Turn | None, limit: int) -> list[int]:
        before_id = before.turn_id if before else None
        return [view.turn.seq for view in await store.history(a.PROJECT, a.AGENT, before=before_id, limit=limit)]

    assert await ids(None, 2) == [5, 4]
    assert await ids(turns[3], 2) == [3, 2]
    assert await ids(turns[1], 9) == [1]
    assert await ids(turns[0], 9) == []
    assert await ids(None, 99) == [5, 4, 3, 2, 1]
    assert await ids(other, 9) == [], "another agent's turn has no place in this history"
    theirs = [a.turn(seq, at=a.NOW + seq, project=a.ELSEWHERE) for seq in (4, 2)]
    await a.put(store, turns=a.by_id(theirs))
    assert [view.turn for view in await store.recent(a.ELSEWHERE, before=None, limit=3)] == theirs
    views = await store.history(a.PROJECT, a.AGENT, before=None, limit=3)
    assert await store.recent(a.PROJECT, before=None, limit=3) == views, "of one agent alone it is the same"
    assert await store.recent(a.PROJECT, before=views[0].turn.turn_id, limit=2) == views[1:]
    assert await store.recent(ProjectId("nobody's"), before=None, limit=3) == []
    assert [view.status for view in views] == [TurnStatus.QUEUED, TurnStatus.QUEUED, TurnStatus.SUCCESS]
    assert views == [await store.turn(a.PROJECT, view.turn.turn_id) for view in views]


async def edges_tell_who_caused_what(open_store: OpenStore) -> None:
    store = await open_store()
    root = a.turn(1, correlation_id="c")
    child = a.turn(
        1,
        agent_id="child",
        type=MessageType.JOIN_REQUEST,
        source=a.AGENT,
        parent_turn_id=root.turn_id,
        reply_call_id=ToolCallId("join"),
        trace_id=root.trace_id,
        depth=1,
    )
    grandchild = a.turn(1, agent_id="grand", parent_turn_id=child.turn_id, trace_id=root.trace_id, depth=2)
    foreign = a.turn(7, trace_id=TraceId("1" * 8 + scope_of(root.turn_id)))
    answered = Millis(a.NOW + 9)
    waits = [
        a.wait(root, "join", status=WaitStatus.SUCCESS, answered_at_ms=answered),
        a.wait(root, "tool", status=WaitStatus.TIMEOUT, answered_at_ms=answered),
        a.wait(root, "open"),
        a.wait(root, "gone", status=WaitStatus.CANCELLED, answered_at_ms=answered),
        a.wait(child, "own", status=WaitStatus.ERROR, answered_at_ms=answered),
    ]
    await a.put(store, turns=a.by_id([grandchild, root, child, foreign]), new_waits=a.waits_of(*waits))
    requests = [
        _request(root, "enqueue"),
        _request(child, "join"),
        _request(grandchild, "enqueue"),
    ]
    joined = _response(root, "join", "join", child.agent_id, answered)
    reported = _response(root, "tool", "report", None, answered)
    childs = _response(child, "own", "report", None, answered)

    async def of(turn: Turn, after: str | None = None, limit: int = 50) -> list[Edge]:
        return await store.edges(a.PROJECT, trace_id=None, turn_id=turn.turn_id, after=after, limit=limit)

    async def traced(trace_id: TraceId, after: str | None = None, limit: int = 50) -> list[Edge]:
        return await store.edges(a.PROJECT, trace_id=trace_id, turn_id=None, after=after, limit=limit)

    assert await of(root) == _sorted(requests[0], requests[1], joined, reported)
    assert await of(child) == _sorted(requests[1], requests[2], childs)
    everything = _sorted(*requests, joined, reported, childs)
    assert await traced(root.trace_id) == everything
    assert await traced(foreign.trace_id) == [_request(foreign, "enqueue")]
    paged = [*(await traced(root.trace_id, None, 4)), *(await traced(root.trace_id, everything[3].edge_id, 4))]
    assert paged == everything
    first = await of(root, None, 3)
    assert [*first, *(await of(root, first[-1].edge_id, 3))] == await of(root)


def _request(of: Turn, primitive: str) -> Edge:
    return Edge(
        edge_id=f"{of.turn_id}:request",
        project=of.project,
        primitive=primitive,
        phase="request",
        source_agent_id=of.source,
        target_agent_id=of.agent_id,
        turn_id=of.turn_id,
        parent_turn_id=of.parent_turn_id,
        call_id=of.reply_call_id,
        correlation_id=of.correlation_id,
        trace_id=of.trace_id,
        depth=of.depth,
        created_at_ms=of.created_at_ms,
    )


def _response(to: Turn, call_id: str, primitive: str, source: AgentId | None, at: Millis) -> Edge:
    return replace(
        _request(to, primitive),
        edge_id=f"{to.turn_id}:response:{call_id}",
        phase="response",
        source_agent_id=source,
        call_id=ToolCallId(call_id),
        correlation_id=call_id,
        created_at_ms=at,
    )


def _sorted(*edges: Edge) -> list[Edge]:
    return sorted(edges, key=lambda edge: edge.edge_id)


async def only_what_waits_for_a_worker_is_dispatched(open_store: OpenStore) -> None:
    store = await open_store()
    states = (HeadStatus.DISPATCHED, HeadStatus.RUNNING, HeadStatus.SUSPENDED)
    gates = (Gate.OPEN, Gate.DRAINING, Gate.CLOSED)
    heads = [a.idle("idle")]
    turns: list[Turn] = []
    for status in states:
        for gate in gates:
            turns.append(a.turn(1, agent_id=f"{status}-{gate}"))
            heads.append(a.holding(a.idle(turns[-1].agent_id, gate=gate), turns[-1], status))
    await a.put(store, new_heads={head.key: head for head in heads}, turns=a.by_id(turns))
    keys = [head.key for head in heads]
    assert sorted(await store.dispatched(keys, 9)) == [
        (a.PROJECT, "dispatched-draining"),
        (a.PROJECT, "dispatched-open"),
    ]
    assert len(await store.dispatched(keys, 1)) == 1
    assert await store.dispatched(keys[:1], 9) == await store.dispatched([], 9) == []


async def projects_see_nothing_of_each_other(open_store: OpenStore) -> None:
    """The same question finds it at home and nothing elsewhere, whatever is asked."""
    store = await open_store()
    context = a.scope_at(a.NOW, 1)
    one = a.turn(1, context_box_id=BoxId("box_" + context))
    child = a.turn(2, parent_turn_id=one.turn_id, trace_id=TraceId("a" * 32), previous_turn_id=one.turn_id)
    head = a.holding(a.idle(queued=1), child)
    note = a.card(scope_of(one.turn_id), 1)
    await a.register(store, a.idle(queued=1))
    await a.put(
        store,
        heads=a.swap(head),
        turns=a.by_id([one, child]),
        inbox_put=a.in_line(OpenTurn(child)),
        new_waits=a.waits_of(a.wait(one, "w", status=WaitStatus.SUCCESS, answered_at_ms=a.NOW)),
        cards=[a.deliverable(one), note, a.card(context, 1)],
        steps=[a.step(one, "s")],
        box_owners={BoxId("box_r"): head.key},
        answers={(a.PROJECT, "k"): a.answer("k")},
    )
    at_home, elsewhere = (
        await _ask(store, a.PROJECT, one, child, note.card_id),
        await _ask(store, a.ELSEWHERE, one, child, note.card_id),
    )
    for question, answer in at_home.items():
        assert answer, f"{question} finds nothing at home"
        assert not elsewhere[question], f"{question} finds what is another project's"
    pointer = a.card(a.scope_at(a.NOW, 2), 1, "", project=a.ELSEWHERE, digest=note.digest, reference=note.card_id)
    await a.put(store, cards=[pointer])
    assert await store.box(a.ELSEWHERE, BoxId("box_" + pointer.scope), after=-1, limit=9) == [pointer]


async def _ask(store: TurnStore, project: ProjectId, one: Turn, child: Turn, note: CardId) -> dict[str, object]:
    asked = replace(one, project=project)
    questions: dict[str, Awaitable[object]] = {
        "load": store.load([(project, a.AGENT)]),
        "turn": store.turn(project, one.turn_id),
        "deliverables": store.deliverables(project, [one.turn_id]),
        "head": store.head(project, a.AGENT),
        "heads": store.heads(project, after=None, limit=9),
        "inbox": store.inbox(project, a.AGENT, after_seq=-1, limit=9),
        "history": store.history(project, a.AGENT, before=None, limit=9),
        "history before": store.history(project, a.AGENT, before=child.turn_id, limit=9),
        "card": store.card(project, note),
        "box": store.box(project, a.own_box(one), after=-1, limit=9),
        "box length": store.box_length(project, a.own_box(one)),
        "box until": store.box_until(project, a.own_box(one)),
        "box owner": store.box_owner(project, BoxId("box_r")),
        "edges of a turn": store.edges(project, trace_id=None, turn_id=one.turn_id, after=None, limit=9),
        "edges of a trace": store.edges(project, trace_id=child.trace_id, turn_id=None, after=None, limit=9),
        "answers": store.recall([(project, "k")]),
    }
    answers = {question: await asked for question, asked in questions.items()}
    hydrated = await store.hydrate(asked, fresh=False)
    return {**answers, "steps": hydrated.steps, "context": hydrated.context, "output": hydrated.output}


async def the_same_names_may_be_used_in_two_projects(open_store: OpenStore) -> None:
    store = await open_store()
    for project in (a.PROJECT, a.ELSEWHERE):
        one = a.turn(1, project=project)
        head = a.holding(a.idle(project=project), one)
        await a.register(store, a.idle(project=project))
        await a.put(
            store,
            heads=a.swap(head),
            turns=a.by_id([one]),
            box_owners={BoxId("box_r"): head.key},
            answers={(project, "k"): a.answer("k", f'"{project}"', project=project)},
        )
    for project in (a.PROJECT, a.ELSEWHERE):
        key = (project, "k")
        assert await store.recall([key]) == {key: a.answer("k", f'"{project}"', project=project)}
        assert await store.box_owner(project, BoxId("box_r")) == (project, a.AGENT)
        view = await store.turn(project, a.turn(1, project=project).turn_id)
        assert view is not None
        assert view.turn.project == project


CHECKS: tuple[Check, ...] = (
    a_turn_is_shown_as_it_stands,
    an_ended_turn_is_shown_with_its_deliverable,
    what_is_no_turn_has_no_end,
    garbage_finds_nothing,
    heads_are_listed_page_by_page,
    a_line_is_read_in_order_page_by_page,
    history_goes_back_turn_by_turn,
    edges_tell_who_caused_what,
    only_what_waits_for_a_worker_is_dispatched,
    projects_see_nothing_of_each_other,
    the_same_names_may_be_used_in_two_projects,
)
