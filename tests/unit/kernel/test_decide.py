"""Deciding a batch: first answers, doubts about memory, and what one command may not do to another."""

import pytest
from msgspec.structs import replace

from homeostat.core.codec import NULL, Json
from homeostat.core.errors import IdempotencyKeyReused, StoreUnavailable
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, BoxId, ProjectId, Scope, ToolCallId, digest_of
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.card import Card
from homeostat.core.records.turn import MessageType
from homeostat.core.records.view import Outcome
from homeostat.core.records.work import fence_of
from homeostat.kernel.commands import Deliver, Enqueue, Enqueued, Idempotency, PutCards, Reported
from homeostat.testing.desk import Desk, call, key_of
from homeostat.testing.memory import MemoryTurns


def test_a_key_with_another_request_in_the_same_batch_is_refused() -> None:
    desk = Desk("a")
    first = desk.message("a", idempotency=Idempotency("k", "one thing"))
    second = desk.message("a", idempotency=Idempotency("k", "another"))
    accepted, refused = desk.decide(first, second, known={key_of("a"): desk.mailbox("a")})
    assert isinstance(accepted, Enqueued)
    assert isinstance(refused, IdempotencyKeyReused)
    assert refused.facts["key"] == "k"
    assert [answer.fingerprint for answer in desk.writes.answers.values()] == ["one thing"]
    assert len(desk.writes.turns) == 1


def test_agents_and_turns_whose_models_count_from_one_do_not_answer_for_each_other() -> None:
    desk = Desk("a", "b")
    for agent in ("a", "b", "a"):
        grant = desk.begin(agent, idempotency=Idempotency(f"of {desk.head(agent).tail_seq}", "the same words"))
        desk.suspend(grant, call("call_1"))
        assert desk.do(desk.result(grant, "call_1", idempotency=Idempotency("call_1", "the same words"))).accepted
        desk.deliver(desk.claim(agent))


def test_a_key_is_its_senders() -> None:
    desk = Desk("cyd")
    call_1 = Idempotency("call_1", "the same words")
    sent = [desk.message("cyd", source=AgentId(source), idempotency=call_1) for source in ("ann", "bob", "ann")]
    outside = desk.message("cyd", idempotency=call_1)
    first, of_another, again, of_nobody = [desk.do(message).turn_id for message in (*sent, outside)]
    assert again == first
    assert len({first, of_another, of_nobody}) == 3
    other = desk.message("cyd", source=AgentId("bob"), idempotency=Idempotency("call_1", "other words"))
    with pytest.raises(IdempotencyKeyReused) as refused:
        desk.do(other)
    assert refused.value.facts["key"] == "call_1"


def test_a_repeated_key_in_one_batch_gets_the_first_answer_even_if_that_was_reconsidered() -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    before = {grant.turn.key: desk.mailbox("a")}
    desk.suspend(grant, call("one"))
    report = desk.result(grant, "one", idempotency=Idempotency("k", "same"))
    first, second = desk.decide(report, report, known=before)  # memory says that nobody waits for it
    assert isinstance(first, Reported)
    assert first.accepted
    assert second == replace(first, repeated=True)
    (answer,) = desk.writes.answers.values()
    assert '"accepted":true' in answer.answer


class Forgetful(MemoryTurns):
    """Fails to say how long a box is."""

    unlucky = False

    async def box_length(self, project: ProjectId, box_id: BoxId) -> int | None:
        if self.unlucky:
            raise StoreUnavailable(problem="a hiccup")
        return await super().box_length(project, box_id)


def test_a_store_that_fails_while_a_reply_is_brought_home_fails_the_whole_batch() -> None:
    store = Forgetful()
    desk = Desk("parent", "child", store=store)
    card = Card(DEFAULT_PROJECT, Scope("1"), 1, "note", NULL, digest_of(NULL), None, desk.clock.now_ms())
    memory = desk.do(PutCards(project=DEFAULT_PROJECT, box_id=BoxId("box_1"), cards=(card,)))
    parent = desk.begin("parent", output_box_id=memory)
    child = Enqueue(
        key=key_of("child"),
        type=MessageType.JOIN_REQUEST,
        payload=Json("{}"),
        source=parent.turn.agent_id,
        parent_turn_id=parent.turn.turn_id,
        reply_call_id=ToolCallId("ask"),
    )
    desk.suspend(parent, call("ask"), children=(child,))
    grant = desk.claim("child")
    store.unlucky = True
    with pytest.raises(StoreUnavailable):
        desk.decide(Deliver(fence=fence_of(grant), status=Outcome.SUCCESS, result=NULL))
    store.unlucky = False
    desk.deliver(grant)
    assert desk.head("parent").status is HeadStatus.DISPATCHED, "the reply came with the end"
