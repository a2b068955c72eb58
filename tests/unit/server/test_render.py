"""What the server renders the client reads back, unchanged."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from homeostat.client import reading
from homeostat.core.clock import Millis, parse_rfc3339, rfc3339
from homeostat.core.codec import Json
from homeostat.core.machines.turn import HeadStatus, ItemStatus
from homeostat.core.records.card import Card
from homeostat.core.records.head import Gate, Head
from homeostat.core.records.turn import AfterExecution, Grant, MessageType, Turn, TurnStatus, Wait, WaitStatus
from homeostat.core.records.view import Deliverable, Edge, HeadView, Hydration, Outcome, TurnView
from homeostat.core.wire import answers as a
from homeostat.core.wire import workers as w
from homeostat.server import render

names: Any = st.text(min_size=1, max_size=12)
optional: Any = st.none() | names
instants: Any = st.integers(0, 253_402_300_799_999).map(Millis)
optional_instants: Any = st.none() | instants
numbers: Any = st.integers(0, 2**53)
documents: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
).map(lambda value: Json(msgspec.json.encode(value).decode()))
# An optional document that says null is as good as none.
some_documents: Any = st.none() | documents.filter(lambda text: text != "null")
turn_ids: Any = st.integers(0, 2**96 - 1).map(lambda n: f"turn_{n:024x}")

turns: Any = st.builds(
    Turn,
    turn_id=turn_ids,
    project=names,
    agent_id=names,
    seq=numbers,
    type=st.sampled_from(MessageType),
    payload=documents,
    correlation_id=optional,
    source=optional,
    parent_turn_id=optional,
    parent_step_id=optional,
    reply_call_id=optional,
    trace_id=names,
    depth=numbers,
    run_id=optional,
    context_box_id=optional,
    output_box_id=optional,
    result_fields=some_documents,
    previous_turn_id=optional,
    created_at_ms=instants,
)
deliverables: Any = st.builds(
    Deliverable,
    turn_id=names,
    agent_id=names,
    card_id=names,
    output_box_id=names,
    status=st.sampled_from(Outcome),
    result=documents,
    error=some_documents,
    epoch=numbers,
    finished_at_ms=instants,
)
cards: Any = st.builds(
    Card,
    project=names,
    scope=names,
    position=numbers,
    type=names,
    content=documents,
    digest=names,
    author=optional,
    created_at_ms=instants,
    reference=optional,
)


def waits_of(turn: Turn) -> Any:
    return st.lists(
        st.builds(
            Wait,
            turn_id=st.just(turn.turn_id),
            call_id=names,
            project=st.just(turn.project),
            agent_id=st.just(turn.agent_id),
            tool=names,
            status=st.sampled_from(WaitStatus),
            after_execution=st.sampled_from(AfterExecution),
            step_id=optional,
            call_card_id=optional,
            result_card_id=optional,
            created_at_ms=instants,
            deadline_ms=instants,
            answered_at_ms=optional_instants,
        ),
        max_size=2,
    ).map(tuple)


views: Any = turns.flatmap(
    lambda turn: st.builds(
        TurnView,
        turn=st.just(turn),
        status=st.sampled_from(TurnStatus),
        item_status=st.sampled_from(ItemStatus),
        epoch=st.none() | numbers,
        starts=numbers,
        losses=numbers,
        worker_id=optional,
        lease_expires_at_ms=optional_instants,
        waits=waits_of(turn),
        deliverable=st.none() | deliverables,
    )
)
grants: Any = turns.flatmap(
    lambda turn: st.builds(
        Grant, turn=st.just(turn), epoch=numbers, worker_id=names, fresh=st.booleans(), waits=waits_of(turn)
    )
)
heads: Any = st.builds(
    HeadView,
    st.builds(
        Head,
        project=names,
        agent_id=names,
        version=numbers,
        status=st.sampled_from(HeadStatus),
        epoch=numbers,
        turn_id=optional,
        worker_id=optional,
        starts=numbers,
        losses=numbers,
        cards=numbers,
        gate=st.sampled_from(Gate),
        gate_reason=optional,
        queued=numbers,
        tail_seq=numbers,
        last_turn_id=optional,
        waiting=numbers,
        deadline_ms=optional_instants,
        since_ms=instants,
    ),
    optional_instants,
)
edges: Any = st.builds(
    Edge,
    edge_id=names,
    project=names,
    primitive=names,
    phase=names,
    source_agent_id=optional,
    target_agent_id=names,
    turn_id=names,
    parent_turn_id=optional,
    call_id=optional,
    correlation_id=optional,
    trace_id=names,
    depth=numbers,
    created_at_ms=instants,
)
hydrations: Any = st.builds(
    Hydration,
    steps=st.dictionaries(names, documents, max_size=3),
    context=st.lists(cards, max_size=2).map(tuple),
    output=st.lists(cards, max_size=2).map(tuple),
)


def travelled(shape: Any, kind: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(shape), type=kind)


@given(views)
def test_a_turn(view: TurnView) -> None:
    assert reading.turn_view(travelled(render.turn(view), a.TurnShape)) == view


@given(grants)
def test_a_grant(grant: Grant) -> None:
    assert reading.grant(travelled(render.grant(grant), w.GrantShape)) == grant


@given(heads)
def test_a_head(view: HeadView) -> None:
    assert reading.head(travelled(render.head(view), a.HeadShape)) == view


@given(edges)
def test_an_edge(edge: Edge) -> None:
    assert reading.edge(travelled(render.edge(edge), a.EdgeShape)) == edge


@given(cards)
def test_a_card(card: Card) -> None:
    assert reading.card(travelled(render.card(card), a.CardShape)) == card


@given(hydrations)
def test_a_hydration(hydration: Hydration) -> None:
    assert reading.hydration(travelled(render.hydration(hydration), w.HydrationShape)) == hydration


@given(instants)
def test_an_instant(moment: Millis) -> None:
    assert parse_rfc3339(rfc3339(moment)) == moment
