"""What a campaign reads when all is over: each promise about answers, orders and accounts can be seen to be broken."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from homeostat.client.client import Client
from homeostat.core.errors import InvalidRequest, ServerUnreachable
from homeostat.core.ids import Chance
from homeostat.core.machines.run import RunStatus
from homeostat.core.records.provenance import EntryKind
from homeostat.core.run_errors import TaskSettled
from homeostat.immune.errors import ApprovalSettled
from homeostat.testing.chaos.citizens import Citizens
from homeostat.testing.chaos.operators import RISKY, Operators, Word
from homeostat.testing.chaos.patients import Patients, Question
from homeostat.testing.chaos.people import People
from homeostat.testing.clock import ManualClock

KEPT = "always_what_was_acknowledged_is_kept"
ONCE = "always_an_approval_is_executed_once"
ONE = "always_one_answer_stands"


def people() -> People:
    """Nobody to ask yet."""
    return People([], [], Chance(1))


def promises(who: People) -> list[str]:
    return [words.partition(":")[0] for words in who.violations]


class Server:
    """What is said for each path, or what is made of it."""

    def __init__(self, said: Mapping[str, Any] | None = None, **runs: Any) -> None:
        self.said = said or {}
        self.runs = SimpleNamespace(**runs)

    async def read_json(self, path: str) -> Any:
        found = self.said[path]
        return found() if callable(found) else found

    async def __aexit__(self, *_: object) -> None: ...


def asked(who: People, *servers: Any) -> None:
    who.clients.extend(servers)


# --- operators ---------------------------------------------------------------------------------------------------


def said(change: str, actor: str) -> dict[str, Any]:
    return {"kind": EntryKind.RUN_CHANGED, "payload": {"change": change, "task": RISKY, "actor": actor, "reason": ""}}


def done(turn_id: str | None, task: str = RISKY) -> dict[str, Any]:
    """The end of a task that succeeded, which is told with that of its turn."""
    return {
        "kind": EntryKind.TURN_ENDED,
        "payload": {"turn_id": turn_id, "task": {"name": task, "status": "succeeded"}},
    }


def failed(turn_id: str | None, task: str = RISKY) -> dict[str, Any]:
    return {"kind": EntryKind.TASK_ENDED, "payload": {"turn_id": turn_id, "task": task, "status": "failed"}}


YES, NO = said("approved", "ann"), said("rejected", "ann")
ANN, BOB = (Word("run", actor, approved=True) for actor in ("ann", "bob"))
ANN_NO = Word("run", "ann", approved=False)
OTHERS = [{"kind": EntryKind.RUN_MOVED, "payload": {"turn_id": None}}, done("t0", "first"), failed("t9", "last")]
AT_WORK = {"kind": EntryKind.TURN_ENDED, "payload": {"turn_id": "t7", "task": {"name": RISKY}}}


@pytest.mark.parametrize(
    ("entries", "words", "broken"),
    [
        pytest.param([*OTHERS, YES, done("t1")], [ANN], [], id="approved and carried out"),
        pytest.param([*OTHERS, YES, AT_WORK, failed("t1")], [ANN], [], id="approved, and it failed"),
        pytest.param([*OTHERS, YES, done("t1"), failed("t1")], [], [], id="approved by somebody who never heard"),
        pytest.param([*OTHERS, NO, failed(None)], [ANN_NO], [], id="rejected"),
        pytest.param(OTHERS, [], [], id="over before it was answered"),
        pytest.param([YES, said("rejected", "bob"), done("t1")], [ANN], [ONE], id="two answers"),
        pytest.param([YES, said("approved", "bob")], [ANN], [ONE], id="two that say the same"),
        pytest.param([YES, done("t1"), done("t2")], [ANN], [ONCE], id="carried out twice"),
        pytest.param([YES, failed("t1"), done("t2")], [], [ONCE], id="failed, and carried out again"),
        pytest.param([NO, done("t1")], [ANN_NO], [ONCE], id="rejected, and carried out"),
        pytest.param([done("t1")], [], [ONCE], id="carried out, and nobody approved"),
        pytest.param([], [ANN], [KEPT], id="an answer that was lost"),
        pytest.param([NO], [ANN], [KEPT], id="the other answer"),
        pytest.param([YES, done("t1")], [BOB], [KEPT], id="the answer of somebody else"),
        pytest.param([YES, done("t1")], [BOB, ANN], [KEPT], id="a lost answer that another one made up for"),
        pytest.param([YES, done("t1")], [ANN, BOB], [KEPT], id="an answer that was taken and dropped"),
    ],
)
async def test_a_ledger_tells_one_answer_that_was_acknowledged_and_carried_out_once(
    entries: list[dict[str, Any]], words: list[Word], broken: list[str]
) -> None:
    ledger = "/v1/runs/run/ledger?limit=500"
    pages: dict[str, Any] = {ledger: {"entries": [], "next_cursor": None}}
    numbered = [{"seq": number, **entry} for number, entry in enumerate(entries, 1)]
    for number, entry in enumerate(numbered):  # an entry a page
        after = f"&cursor={number}" if number else ""
        pages[ledger + after] = {"entries": [entry], "next_cursor": number + 1 if number + 1 < len(numbered) else None}
    async with people() as who:
        asked(who, Server({"/v1/runs/run/verify": {"valid": True}, **pages}))
        operators = Operators(who, 1)
        operators.runs["run"] = 1
        operators.words += [*words, Word("another run", "eve", approved=False)]
        await operators.audit()
        assert promises(who) == broken
        assert who.counts["ledger entries"] == len(entries)


async def test_a_ledger_that_does_not_verify_is_told() -> None:
    async with people() as who:
        page = {"entries": [], "next_cursor": None}
        asked(who, Server({"/v1/runs/run/verify": {"valid": False}, "/v1/runs/run/ledger?limit=500": page}))
        operators = Operators(who, 1)
        operators.runs["run"] = 1
        await operators.audit()
        assert promises(who) == ["always_a_ledger_without_gaps"]


def answering(*answers: Callable[[], object]) -> Callable[..., Any]:
    """Says one of these after the other to whoever asks, and then the last one for ever."""
    left = itertools.chain(answers, itertools.repeat(answers[-1]))

    async def say(*_: object, **__: object) -> object:
        return next(left)()

    return say


def settled() -> object:
    raise TaskSettled(run_id="run", task=RISKY, state="done", answered="")


def silent() -> object:
    raise ServerUnreachable(url="", problem="killed")


def run(status: RunStatus = RunStatus.APPLYING, held: int = 0) -> Callable[[], object]:
    return lambda: SimpleNamespace(status=status, tasks={"held": held})


@pytest.mark.parametrize(
    ("found", "answers", "broken"),
    [
        ([run(), run(held=1)], [str, settled], []),
        ([run(held=1)], [str, silent], []),
        ([run(held=1)], [str, str], [ONE]),
        ([run()] * 400 + [run(held=1)], [str, settled], []),
        ([run()], [str, settled], ["finally_a_run_asks"]),
    ],
    ids=["one is heard", "one never hears", "both are heard", "it asks after 80 s", "it never asks"],
)
async def test_a_run_comes_to_its_question_and_hears_one_of_two(
    found: Sequence[Callable[[], object]],
    answers: Sequence[Callable[[], object]],
    broken: list[str],
    clock: ManualClock,
) -> None:
    async with people() as who:
        one = Server(get=answering(*found), answer=answering(*answers))
        asked(who, one, one)
        await Operators(who, 1, clock)._answer("run")
        assert promises(who) == broken


@pytest.mark.parametrize("ends", [True, False])
async def test_every_run_ends_once_all_that_it_asks_is_answered(*, ends: bool, clock: ManualClock) -> None:
    told = {
        "/v1/runs/run": {"status": "applying", "moved": {}},
        "/v1/runs/run/tasks": {"tasks": [{"name": RISKY, "status": "held", "agent_id": "ann", "turn_id": None}]},
        "/v1/agents/ann": {"phase": "healthy"},
    }
    last = run(RunStatus.COMPLETED) if ends else run()
    async with people() as who:
        asked(who, Server(told, get=answering(run(held=1), run(), last), answer=answering(str)))
        operators = Operators(who, 1, clock)
        operators.runs["run"] = 1
        assert await operators.rest(5.0) is ends
        assert operators.words == [Word("run", "late", approved=True)]
        assert promises(who) == ([] if ends else ["finally_every_run_ends"])
        assert all("risky is held (ann, healthy, None)" in words for words in who.violations)


# --- patients ----------------------------------------------------------------------------------------------------

RESET = "reset_memory"


@pytest.mark.parametrize(
    ("status", "by", "heard", "orders", "broken"),
    [
        pytest.param("approved", "ann", ("ann", True), [RESET], [], id="approved and done"),
        pytest.param("approved", "bob", None, [RESET], [], id="approved by somebody who never heard"),
        pytest.param("rejected", "ann", ("ann", False), [], [], id="rejected"),
        pytest.param("expired", None, None, [], [], id="nobody answered"),
        pytest.param("pending", None, ("ann", True), [], [KEPT], id="an answer that was lost"),
        pytest.param("rejected", "ann", ("ann", True), [], [KEPT], id="the other answer"),
        pytest.param("approved", "bob", ("ann", True), [RESET], [KEPT], id="the answer of somebody else"),
        pytest.param("rejected", "ann", ("ann", False), [RESET], [ONCE], id="rejected, and done"),
        pytest.param("expired", None, None, [RESET], [ONCE], id="done, and nobody approved"),
        pytest.param("approved", "ann", ("ann", True), [RESET, RESET], [ONCE], id="done twice"),
        pytest.param("pending", None, ("ann", True), [RESET], [KEPT, ONCE], id="done by an answer that was lost"),
    ],
)
async def test_a_remedy_has_one_answer_that_was_acknowledged_and_is_given_once(
    status: str, by: str | None, heard: tuple[str, bool] | None, orders: list[str], broken: list[str]
) -> None:
    kept = {"status": status, "answered_by": by, "incident_id": "inc"}
    async with people() as who:
        asked(who, Server({"/v1/immune/approvals/apr": kept, "/v1/immune/incidents/inc": {"treatments": []}}))
        patients = Patients(who)
        patients.questions.append(Question("ill", "apr", RESET, *(heard or (None, None))))
        for agent_id in ("ill", "somebody else", "somebody else"):
            for action in orders if agent_id == "ill" else [RESET]:
                patients.desk.take(agent_id, action)
        await patients.audit()
        assert promises(who) == broken
        assert who.counts["remedies executed"] == len(orders)


@pytest.mark.parametrize("both", [True, False])
async def test_two_who_answer_about_a_patient_are_not_both_heard(*, both: bool) -> None:
    def late() -> object:
        raise ApprovalSettled(approval_id="apr", state="approved")

    async with people() as who:
        one = Server()
        one.post_json = answering(str, str if both else late)  # pyright: ignore[reportAttributeAccessIssue]
        asked(who, one, one)
        await Patients(who)._answer(Question("ill", "apr", RESET))
        assert promises(who) == ([ONE] if both else [])


@pytest.mark.parametrize("arrives", [True, False])
async def test_what_was_approved_reaches_its_patient(*, arrives: bool, clock: ManualClock) -> None:
    async with people() as who:
        asked(who, Server({"/v1/agents/ill/health": {"phase": "healing"}}))
        patients = Patients(who, clock)
        patients.questions.append(Question("ill", "apr", RESET, "ann", approved=True))
        patients.questions.append(Question("well", "apr", RESET, "ann", approved=False))
        patients.desk.take("ill", RESET if arrives else "rollback_prompt")
        assert await patients.rest(5.0) is arrives
        assert promises(who) == ([] if arrives else ["finally_what_was_approved_is_done"])


# --- citizens ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held_seconds", "answered", "broken"),
    [
        (0.0, 968, []),
        (50.0, 968, []),
        (float("inf"), 968, ["finally_nothing_is_held"]),
        (0.0, 969, ["always_what_was_answered_is_charged"]),
    ],
    ids=["at rest", "calls end", "one is never ended", "one was not charged"],
)
async def test_what_is_set_aside_for_a_call_is_not_held_for_ever(
    held_seconds: float, answered: int, broken: list[str], clock: ManualClock, tmp_path: Any
) -> None:
    def account() -> dict[str, int]:
        held = clock.monotonic() < held_seconds
        return {"tokens_spent": 968, "tokens_held": 22 * held}

    async with people() as who:
        asked(who, Server({"/v1/budgets/agent/ann": account}))
        citizens = Citizens(who, tmp_path, 1, clock)
        citizens.spenders["ann"] = answered
        citizens._unit["ann"] = "tokens"
        await citizens.audit()
        assert promises(who) == broken
        assert who.counts["tokens spent"] == (0 if broken else 968)


# --- everybody ---------------------------------------------------------------------------------------------------


async def test_who_asks_well_and_is_told_that_it_was_wrong_says_so_and_asks_again(clock: ManualClock) -> None:
    def refused() -> object:
        raise InvalidRequest(problem="something")

    async with people() as who:
        asked(who, Server())
        assert await who.insist(lambda _: answering(silent)() if not who.counts else answering(str)()) == ""
        assert promises(who) == []
        say = answering(refused, str)
        assert await who.insist(lambda _: say()) == ""
        assert promises(who) == ["always_a_good_question_is_answered"]


@pytest.mark.parametrize(
    ("status", "code", "broken"),
    [
        (204, "", []),
        (503, "unavailable", []),
        (422, "invalid_request", ["always_a_good_question_is_answered"]),
        (500, "internal_error", ["always_a_failure_has_a_name"]),
    ],
)
async def test_what_is_put_is_no_less_well_asked(status: int, code: str, broken: list[str], clock: ManualClock) -> None:
    answers = [httpx2.Response(status, json={"code": code, "detail": "words"}), httpx2.Response(204)]
    async with people() as who:
        client = Client("http://anywhere", project="p")
        client.transport._http = httpx2.AsyncClient(
            base_url=client.url, transport=httpx2.MockTransport(lambda _: answers.pop(0))
        )
        asked(who, client)
        assert await who.put("/v1/budgets/agent/ann", {"tokens": 1})
        assert len(answers) == (status == 204)
        assert promises(who) == broken
