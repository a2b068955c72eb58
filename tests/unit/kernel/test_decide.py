"""Deciding a batch: first answers, doubts about memory, and what one command may not do to another."""

from homeostat.core.errors import IdempotencyKeyReused
from homeostat.kernel.commands import Enqueued, Idempotency, Reported
from homeostat.testing.desk import Desk, call


def test_a_key_with_another_request_in_the_same_batch_is_refused() -> None:
    desk = Desk("a", "b")
    known = {mailbox.head.key: mailbox for mailbox in (desk.mailbox("a"), desk.mailbox("b"))}
    first = desk.message("a", idempotency=Idempotency("k", "to a"))
    second = desk.message("b", idempotency=Idempotency("k", "to b"))
    accepted, refused = desk.decide(first, second, known=known)
    assert isinstance(accepted, Enqueued)
    assert isinstance(refused, IdempotencyKeyReused)
    assert [answer.fingerprint for answer in desk.writes.answers.values()] == ["to a"]
    assert len(desk.writes.turns) == 1


def test_a_repeated_key_in_one_batch_gets_the_first_answer_even_if_that_was_reconsidered() -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    before = {grant.turn.key: desk.mailbox("a")}
    desk.suspend(grant, call("one"))
    report = desk.result(grant, "one", idempotency=Idempotency("k", "same"))
    first, second = desk.decide(report, report, known=before)  # memory says that nobody waits for it
    assert isinstance(first, Reported)
    assert first.accepted
    assert second == first
    (answer,) = desk.writes.answers.values()
    assert '"accepted":true' in answer.answer
