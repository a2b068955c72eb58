"""What a campaign demands of itself: a fault that was not tried, or did nothing, is no proof of anything."""

import asyncio
import itertools
import sys
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from homeostat.core.errors import IllegalTransition, InternalError, StoreUnavailable
from homeostat.core.ids import Chance
from homeostat.core.run_errors import RunFinished, TaskSettled
from homeostat.immune.errors import ApprovalSettled
from homeostat.testing.chaos import __main__ as chaos
from homeostat.testing.chaos import campaign as campaigns
from homeostat.testing.chaos import disk, plans, power, report, storage
from homeostat.testing.chaos.campaign import Ask, Verdict, campaign
from homeostat.testing.chaos.citizens import passed
from homeostat.testing.chaos.disk import Disk, Kind, Operation
from homeostat.testing.chaos.faults import WORLDLY
from homeostat.testing.chaos.installation import installation
from homeostat.testing.chaos.patients import Patients, Question
from homeostat.testing.chaos.people import People
from homeostat.testing.clock import ManualClock


def test_without_a_compiler_a_campaign_fails_unless_it_was_asked_to_do_without(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(disk, "compiler", lambda: None)
    monkeypatch.setattr(plans, "campaigns", lambda *_, **__: list[Ask]())
    monkeypatch.setattr(sys, "argv", ["chaos", "--seed", "1"])
    assert chaos.main() == 1
    assert "--without-compiler" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["chaos", "--seed", "1", "--without-compiler"])
    assert chaos.main() == 0


async def test_an_installation_is_not_opened_without_the_worlds_it_should_have(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(disk, "compiler", lambda: None)
    (ask, *_) = plans.campaigns(["sqlite"], seed=1, seconds=1.0, full=False)
    with pytest.raises(AssertionError, match="C compiler"):
        async with installation(ask.engine, tmp_path, seed=1, size=ask.size):
            pass


@pytest.mark.parametrize("full", [True, False])
def test_what_takes_a_compiler_is_in_every_plan_unless_it_is_left_out(*, full: bool) -> None:
    whole = plans.campaigns(plans.ENGINES, seed=1, seconds=60.0, full=full)
    less = plans.campaigns(plans.ENGINES, seed=1, seconds=60.0, full=full, worlds=False)
    assert all(ask.size.worlds for ask in whole)
    assert not any(ask.size.worlds for ask in less)
    assert not {name for ask in less for name in ask.goals or ()} & {*WORLDLY}
    if full:
        assert {name for ask in whole for name in ask.goals or ()} >= {*WORLDLY}


def test_every_engine_is_run_without_redis_and_nats_too() -> None:
    asks = plans.campaigns(plans.ENGINES, seed=1, seconds=60.0, full=False)
    assert [ask.engine for ask in asks if ask.size.absent] == [*plans.ENGINES]
    assert [ask.engine for ask in asks if not ask.size.absent] == [*plans.ENGINES]


def test_power_cuts_before_which_nobody_was_told_anything_show_nothing() -> None:
    enough = power.Verdict(cuts=50, acknowledged=200, happened=Counter({"the file was torn and mended": 40}))
    assert power.too_seldom(enough, recordings=2, cuts=25) == []
    assert report.sound([], enough)
    for poor in (
        power.Verdict(cuts=50, acknowledged=19, happened=enough.happened),
        power.Verdict(cuts=20, acknowledged=200, happened=enough.happened),
        power.Verdict(cuts=50, acknowledged=200),
    ):
        poor.unseen = power.too_seldom(poor, recordings=2, cuts=25)
        assert len(poor.unseen) == 1
        assert not report.sound([], poor)


async def test_a_campaign_that_hangs_is_given_up_and_not_called_sound(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    @asynccontextmanager
    async def stuck(*_: object, **__: object) -> AsyncGenerator[None]:
        await asyncio.Event().wait()
        yield

    monkeypatch.setattr(campaigns, "installation", stuck)
    monkeypatch.setattr(campaigns, "END_SECONDS", 0.0)
    verdict = await campaign(Ask("sqlite", 1, 0.0), tmp_path)
    assert [words.partition(":")[0] for words in verdict.violations] == ["finally_it_comes_to_an_end"]
    assert not report.sound([verdict], None)


async def test_whoever_answers_second_has_to_learn_that_somebody_was_first() -> None:
    async with People([], [], Chance(1)) as people:
        settled = (
            TaskSettled(run_id="r", task="t", state="done", answered=""),
            ApprovalSettled(approval_id="a", state=""),
        )
        assert {people.second("bob", "it", problem) for problem in settled} == {"late"}
        assert people.second("bob", "it", RunFinished(run_id="r", state="failed", moved="", verb="be answered"))
        assert people.violations == []
        people.second("bob", "it", IllegalTransition(machine="task", state="waiting", event="approve"))
        assert [words.partition(":")[0] for words in people.violations] == ["always_the_second_learns_who_was_first"]


async def test_an_order_that_came_twice_is_told_with_what_is_written_down_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The store is gone by the time somebody asks how that came."""
    kept = {
        "/v1/immune/approvals/apr": {"status": "approved", "answered_by": "ann", "incident_id": "inc"},
        "/v1/immune/incidents/inc": {"treatments": [{"action": "reset_memory", "applied": "failed"}]},
    }
    async with People([], [], Chance(1)) as people:
        clock = ManualClock()
        patients = Patients(people, clock)

        async def read(path: str) -> object:
            return kept[path]

        monkeypatch.setattr(patients, "_read", read)
        patients.questions.append(Question("ill", "apr", "reset_memory"))
        patients.desk.take("ill", "reset_memory")
        await patients.audit()
        assert people.violations == []
        first = clock.now_ms()
        clock.advance(2.0)
        patients.desk.take("ill", "reset_memory")
        await patients.audit()
        (violation,) = people.violations
        assert violation.startswith("always_an_approval_is_executed_once: approved ")
        for words in (f"reset_memory at {first}", f"reset_memory at {first + 2_000}", "'applied': 'failed'"):
            assert words in violation


async def test_a_server_that_falls_over_itself_is_broken_and_not_only_hurt() -> None:
    async with People([], [], Chance(1)) as people:
        for problem in (StoreUnavailable(problem="killed"), httpx2.ConnectError("gone"), InternalError()):
            people.unanswered("questions", problem)
        assert people.counts["questions without an answer"] == 3
        assert [words.partition(":")[0] for words in people.violations] == ["always_a_failure_has_a_name"]


def test_a_run_that_saw_too_little_does_not_say_that_something_is_broken() -> None:
    def word(**found: Any) -> str:
        return report.in_a_word([Verdict(Ask("sqlite", 1, 1.0), **found)], None)

    assert word(rest_seconds=1.0) == "nothing was lost"
    assert "NOT ENOUGH" in word(rest_seconds=1.0, unseen=["remedies executed: 0 of 1"])
    for broken in ({"rest_seconds": 1.0, "violations": ["x"], "unseen": ["y"]}, {"rest_seconds": None}):
        assert word(**broken) == "SOMETHING DOES NOT HOLD"


def test_what_callers_were_answered_is_held_against_the_cap_and_the_account() -> None:
    assert passed({"tokens_spent": 990, "tokens_held": 0}, 968, "tokens") == [], "a call without an answer was charged"
    assert passed({"tokens_spent": 900, "tokens_held": 90}, 968, "tokens") == [], "some are being charged"
    for spent, held, answered, promises in (
        (1_010, 0, 968, ["always_within_the_cap"]),
        (960, 44, 960, ["always_within_the_cap"]),
        (330, 0, 990, ["always_what_was_answered_is_charged"]),
        (330, 0, 1_320, ["always_within_the_cap", "always_what_was_answered_is_charged"]),
    ):
        found = passed({"tokens_spent": spent, "tokens_held": held}, answered, "tokens")
        assert [words.partition(":")[0] for words in found] == promises


@pytest.mark.parametrize(
    ("spent", "held", "tokens", "promises"),
    [
        (0.000_352, 0.0, 44 * 22, []),
        (0.000_300, 0.000_052, 44 * 22, []),
        (0.000_368, 0.0, 44 * 22, ["always_within_the_cap"]),
        (0.000_176, 0.0, 44 * 22, ["always_what_was_answered_is_charged"]),
        (0.000_184, 0.0, 47 * 22, ["always_within_the_cap", "always_what_was_answered_is_charged"]),
    ],
)
def test_a_cap_in_dollars_is_held_as_one_in_tokens(spent: float, held: float, tokens: int, promises: list[str]) -> None:
    found = passed({"usd_spent": spent, "usd_held": held}, tokens, "usd")
    assert [words.partition(":")[0] for words in found] == promises


def test_a_history_in_which_hardly_a_write_could_fail_shows_nothing() -> None:
    enough = power.Verdict(acknowledged=4, failures=Counter({"write": 30, "sync": 9}))
    assert storage.too_seldom(enough) == []
    for poor in (
        power.Verdict(acknowledged=4, failures=Counter({"write": 30})),
        power.Verdict(acknowledged=4, failures=Counter({"sync": 9})),
        power.Verdict(failures=enough.failures),
    ):
        poor.unseen = storage.too_seldom(poor)
        cuts = power.Verdict(cuts=50)
        cuts.take(poor)
        assert not report.sound([], cuts)


def test_every_write_is_tried_in_the_large_run_and_fewer_of_the_later_ones_otherwise() -> None:
    assert list(itertools.islice(storage.numbers(plans.FAILURE_GROWTH[True]), 9)) == [*range(1, 10)]
    assert list(itertools.islice(storage.numbers(0.5), 6)) == [1, 2, 3, 4, 6, 9]


def test_what_a_sync_failed_to_keep_is_gone_though_the_next_one_succeeds(tmp_path: Path) -> None:
    platter = Disk()
    platter.follow([Operation(Kind.WRITE, "a.db", 0, b"old"), Operation(Kind.SYNC, "a.db", 0, b"")])
    platter.follow([Operation(Kind.WRITE, "a.db", 0, b"new"), Operation(Kind.FAILED_SYNC, "a.db", 0, b"")])
    platter.follow([Operation(Kind.FAILED_WRITE, "a.db", 0, b""), Operation(Kind.SYNC, "a.db", 0, b"")])
    platter.cut(tmp_path, Chance(1))
    assert (tmp_path / "a.db").read_bytes() == b"old"
