"""A budget is never passed, nothing is charged twice, and what is not used comes back."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from homeostat.adapters.stores.sqlite import SqliteEngine
from homeostat.adapters.stores.sqlite.gateway import SqliteGateway
from homeostat.adapters.upstreams.simulated import Pace, Reply, SimulatedUpstream
from homeostat.core.clock import Millis
from homeostat.core.errors import StoreUnavailable
from homeostat.core.ids import DEFAULT_PROJECT
from homeostat.core.limits import FLIGHT_SECONDS, POLICY_OUTAGE_SECONDS
from homeostat.core.ports.upstream import UpstreamRequest
from homeostat.core.records.budget import (
    ZERO,
    Amount,
    Budget,
    BudgetKey,
    BudgetKind,
    Draw,
    Drawn,
    GatewayId,
    Posted,
    Posting,
)
from homeostat.core.records.call import CallId, Metered, Outcome, Priced, Usage
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.policy import Action, PolicyId
from homeostat.gateway.budgets import Answered, Budgets, Reservation
from homeostat.gateway.dialects.openai_chat import OpenAICompletions
from homeostat.gateway.metering import Bound, UnknownModel, bound
from homeostat.gateway.office import Manners
from homeostat.testing.clock import ManualClock
from homeostat.testing.gateways import ANN, INSTANT, booth, until

RUN = {"X-Homeostat-Run-Id": "run_1"}


def bound_of(content: str, max_tokens: int) -> int:
    body = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": content}], "max_tokens": max_tokens}
    return len(json.dumps(body).encode()) + max_tokens


async def test_of_a_thousand_calls_with_room_for_one_exactly_one_passes() -> None:
    gate = asyncio.Event()

    async def pause(_: float) -> None:
        await gate.wait()

    upstream = SimulatedUpstream(pace=Pace(1.0, 0.0), pause=pause)
    async with booth(upstream=upstream) as desk:
        await desk.grant(tokens_max=bound_of("Hello", 40))
        calls = [asyncio.create_task(desk.chat("Hello", max_tokens=40)) for _ in range(1000)]
        done, _ = await asyncio.wait(calls, return_when=asyncio.ALL_COMPLETED, timeout=0.0)
        while len(done) < 999:
            done = {call for call in calls if call.done()}
            await asyncio.sleep(0)
        gate.set()
        heard = await asyncio.gather(*calls)
        assert sorted(answer.status for answer in heard) == [200] + [402] * 999
        assert upstream.calls == 1
        refused = next(answer for answer in heard if answer.status == 402)
        assert refused.json["error"]["code"] == "budget_held"  # the one that passed may return most of it
        assert refused.json["error"]["type"] == "insufficient_quota"
        assert (refused.headers["x-should-retry"], refused.headers["retry-after"]) == ("true", "1")
        account = await desk.account()
        assert account.spent.tokens <= (account.tokens_max or 0)
        spent_up = await desk.chat("Hello", max_tokens=40)
        assert (spent_up.status, spent_up.json["error"]["code"]) == (402, "budget_exceeded")
        assert spent_up.headers["x-should-retry"] == "false"


async def test_what_was_not_used_comes_back() -> None:
    async with booth() as desk:
        await desk.grant(tokens_max=10_000, micros_max=10_000)
        for _ in range(20):
            assert (await desk.chat(max_tokens=500)).status == 200
        account = await desk.account()
        calls = await desk.log()
        assert account.spent.tokens == sum(call.usage.tokens for call in calls)
        assert account.spent.micros == sum(call.cost_micros or 0 for call in calls)
    assert len(calls) == 20


async def test_money_is_counted_in_whole_micro_dollars_rounded_up() -> None:
    async with booth(upstream=SimulatedUpstream(pace=INSTANT, script=lambda _: Reply("one"))) as desk:
        await desk.grant(micros_max=1_000)
        assert (await desk.chat(max_tokens=10)).status == 200
        (call,) = await desk.log()
        exact = call.usage.tokens_in * 0.15 + call.usage.tokens_out * 0.6
        assert call.cost_micros == -(-int(exact * 100) // 100)
        assert exact <= (call.cost_micros or 0) < exact + 1


async def test_a_run_and_its_agent_are_charged_both_or_neither() -> None:
    async with booth(manners=Manners(believes_runs=True)) as desk:
        await desk.grant("run_1", kind=BudgetKind.RUN, tokens_max=100_000)
        await desk.grant(tokens_max=50)
        refused = await desk.chat(headers=RUN, max_tokens=100)
        assert refused.status == 402
        assert "agent 'ann'" in refused.json["error"]["message"]
        assert (await desk.account("run_1", BudgetKind.RUN)).spent == ZERO
        await desk.grant(tokens_max=50_000)
        assert (await desk.chat(headers=RUN, max_tokens=100)).status == 200
        run, agent = await desk.account("run_1", BudgetKind.RUN), await desk.account()
        assert run.spent == agent.spent != ZERO
        assert (await desk.chat(max_tokens=100)).status == 200
        assert (await desk.account("run_1", BudgetKind.RUN)).spent == run.spent


async def test_an_answer_nobody_capped_is_made_to_fit_what_is_left() -> None:
    upstream = SimulatedUpstream(pace=INSTANT, script=lambda _: Reply("word " * 5000))
    async with booth(upstream=upstream) as desk:
        await desk.grant(tokens_max=1_000)
        heard = await desk.chat()
        assert heard.status == 200
        account = await desk.account()
        assert 800 < account.spent.tokens <= 1_000
        assert (await desk.chat()).status == 402


async def test_a_call_without_a_cap_is_given_one() -> None:
    seen: list[int | None] = []

    def script(prompt: Any) -> Reply:
        seen.append(prompt.max_tokens)
        return Reply("ok")

    async with booth(upstream=SimulatedUpstream(pace=INSTANT, script=script)) as desk:
        await desk.chat()
        await desk.grant(tokens_max=10_000_000)
        await desk.chat()
        await desk.chat(max_tokens=7)
        assert seen == [None, 16_384, 7]


@pytest.mark.parametrize(
    "bounds", [{"max_tokens": -1}, {"max_tokens": -1, "max_completion_tokens": 9}, {"max_completion_tokens": -1}]
)
async def test_less_than_no_tokens_is_no_bound(bounds: dict[str, Any]) -> None:
    """Ollama, llama.cpp and others take -1 for as many as there is room for."""
    words = SimulatedUpstream(pace=INSTANT, script=lambda prompt: Reply("word " * min(prompt.max_tokens or 99, 5_000)))
    async with booth(upstream=words) as desk:
        await desk.grant(tokens_max=1_000)
        assert (await desk.chat(**bounds)).status == 200
        assert 800 < (await desk.account()).spent.tokens <= 1_000
    async with booth(upstream=words) as desk:
        await desk.put(Action.TOKEN_CAP, policy_id="cap", max_tokens=20)
        assert (await desk.chat(**bounds)).json["usage"]["completion_tokens"] <= 20
        await desk.gateway.drop_policy(DEFAULT_PROJECT, PolicyId("cap"))
        await desk.put(Action.RATE_LIMIT, tokens_per_minute=500)
        assert (await desk.chat(**bounds)).json["usage"]["completion_tokens"] <= 500


@pytest.mark.parametrize(
    ("prompt", "several"),
    [("a", 1), (["a"] * 50, 50), ([[1, 2], [3]], 2), ([1, 2, 3], 1), (None, 1), ([], 1)],
)
async def test_each_prompt_has_answers_of_its_own(prompt: Any, several: int) -> None:
    asked = {"model": "gpt-3.5-turbo-instruct", "prompt": prompt, "max_tokens": 100, "n": 2}
    ask = OpenAICompletions().ask(json.dumps(asked).encode())
    assert ask.answers == 2 * several
    assert bound(ask, None).amount.tokens >= 200 * several


def test_no_more_is_read_from_a_cache_than_is_read() -> None:
    """An upstream that says otherwise cannot be believed: 99,999,999 of 10 tokens cost more than any cap."""
    assert Usage(10, 5, 6, 4).plausible()
    assert not Usage(10, 5, 99_999_999).plausible()
    assert not Usage(10, 5, 0, 11).plausible()
    assert not Usage(10, 5, 6, 5).plausible()


class Queued:
    """An answer that comes before anything was done."""

    status = 200
    headers = ((b"content-type", b"application/json"),)
    complete = True

    async def read(self) -> bytes:
        return b'{"id":"resp_1","status":"queued","output":[],"usage":null}'

    def close(self) -> None: ...


class Queue:
    """An upstream that answers like this."""

    async def send(self, request: UpstreamRequest) -> Any:
        del request
        return Queued()

    async def close(self) -> None: ...


@pytest.mark.parametrize(("background", "charged"), [(True, 5_000), (False, 0), (None, 0)])
async def test_what_is_done_in_the_background_costs_what_was_set_aside(background: object, charged: int) -> None:
    """Nobody hears what it used: it is fetched later, or never."""
    async with booth(upstream=Queue()) as desk:
        await desk.grant(tokens_max=6_000)
        asked = {"model": "gpt-4o-mini", "input": "hi", "background": background, "max_output_tokens": 5_000}
        assert (await desk.call("/openai/v1/responses", asked)).status == 200
        assert charged <= (await desk.account()).spent.tokens < charged + 200
        (call,) = await desk.log()
        assert call.metered is (Metered.RESERVED if background else Metered.ESTIMATED)


async def test_a_name_that_is_no_text_stops_no_settling() -> None:
    async with booth(upstream=Queue()) as desk:
        await desk.grant(tokens_max=6_000)
        asked = b'{"model":"gpt-4o-mini","input":"hi","\xff":1,"max_output_tokens":9}'
        assert (await desk.call("/openai/v1/responses", asked)).status == 200
        assert 0 < (await desk.account()).spent.tokens < 200


async def test_a_budget_of_time_ends() -> None:
    clock = ManualClock()
    async with booth(clock=clock) as desk:
        await desk.grant(seconds_max=30)
        assert (await desk.chat()).status == 200
        clock.advance(31)
        refused = await desk.chat()
        assert refused.status == 402
        assert "seconds budget" in refused.json["error"]["message"]


async def test_at_four_fifths_somebody_is_told_once() -> None:
    heard: list[Event] = []

    async def hear(event: Event) -> None:
        heard.append(event)

    upstream = SimulatedUpstream(pace=INSTANT, script=lambda _: Reply("word " * 88))
    async with booth(upstream=upstream) as desk:
        await desk.bus.subscribe(subject("*", Channel.EVT, "*", "*", "budget_warning"), hear)
        await desk.grant(tokens_max=1_000)
        told_after = 0
        number = 0
        for number in range(1, 20):  # noqa: B007 - it is asked for afterwards
            if (await desk.chat(max_tokens=100)).status != 200:
                break
            spent = (await desk.account()).spent.tokens
            if heard and not told_after:
                told_after = spent
            assert bool(heard) == (spent >= 800)
        assert 800 <= told_after < 1_000
        assert len(heard) == 1
        assert json.loads(heard[0].payload)["holder"] == "ann"
        assert number > 5


async def test_raising_a_budget_lets_the_agent_go_on() -> None:
    async with booth() as desk:
        await desk.grant(tokens_max=1)
        assert (await desk.chat(max_tokens=50)).status == 402
        await desk.grant(tokens_max=10_000)
        assert (await desk.chat(max_tokens=50)).status == 200
        assert await desk.gateway.drop_budget((DEFAULT_PROJECT, BudgetKind.AGENT, "ann"))
        assert (await desk.chat(max_tokens=50_000)).status == 200


async def test_requests_that_are_not_read_need_something_left() -> None:
    async with booth() as desk:
        await desk.grant(tokens_max=10)
        assert (await desk.call("/openai/v1/files", b"x")).status == 404
        await desk.grant(tokens_max=0)
        assert (await desk.call("/openai/v1/files", b"x")).status == 402


async def test_a_budget_in_dollars_lets_an_agent_look_and_not_do_what_cannot_be_priced() -> None:
    async with booth() as desk:
        await desk.grant(micros_max=1_000_000)
        assert (await desk.call("/openai/v1/models", method="GET")).status == 200
        assert (await desk.call("/openai/v1/files", b"x")).json["error"]["code"] == "model_unpriced"


# --- prices nobody knows ---------------------------------------------------------------------------------------


async def test_an_unknown_model_is_counted_in_tokens_and_flagged() -> None:
    async with booth() as desk:
        assert (await desk.chat(model="in-house-7b")).status == 200
        (call,) = await desk.log()
        assert (call.cost_micros, call.priced) == (None, Priced.UNKNOWN)
        assert call.usage.tokens > 0
        await desk.grant(micros_max=1_000_000)
        refused = await desk.chat(model="in-house-7b")
        assert (refused.status, refused.json["error"]["code"]) == (402, "model_unpriced")
        assert (await desk.chat()).status == 200


async def test_an_unknown_model_is_refused_or_capped_by_setting() -> None:
    async with booth(manners=Manners(unknown_model=UnknownModel.REFUSE)) as desk:
        assert (await desk.chat(model="in-house-7b")).status == 402
    async with booth(manners=Manners(unknown_model=UnknownModel.CAP)) as desk:
        await desk.grant(micros_max=100_000_000)
        assert (await desk.chat(model="in-house-7b", max_tokens=50)).status == 200
        (call,) = await desk.log()
        assert call.priced is Priced.CAPPED
        assert (call.cost_micros or 0) > 1_000


# --- when the store or a gateway fails -----------------------------------------------------------------------------


class Flaky(SqliteGateway):
    """Loses its tongue: before it has written, or after."""

    mode = ""

    async def post(self, posting: Posting) -> Posted:
        if self.mode == "before":
            raise StoreUnavailable(problem="gone")
        posted = await super().post(posting)
        if self.mode == "after":
            raise StoreUnavailable(problem="gone")
        return posted


class CutOff(SqliteGateway):
    """Does not say whether policies have changed."""

    away = False

    async def version(self) -> int:
        if self.away:
            raise StoreUnavailable(problem="gone")
        return await super().version()


@pytest.mark.parametrize("mode", ["before", "after"])
async def test_an_unknown_outcome_charges_nothing_twice(tmp_path: Path, mode: str) -> None:
    engine = SqliteEngine(tmp_path / "x.db")
    await engine.open()
    store = Flaky(engine)
    async with booth(store=store) as desk:
        await desk.grant(tokens_max=1_000_000)
        assert (await desk.chat(max_tokens=100)).status == 200
        store.mode = mode
        answers = [await desk.chat(max_tokens=100_000) for _ in range(3)]  # more than is at hand: the ledger is asked
        assert {answer.status for answer in answers} == {503}
        store.mode = ""
        assert (await desk.chat(max_tokens=100_000)).status == 200
        account = await desk.account()
        calls = await desk.log(outcome=Outcome.ANSWERED)
        assert account.spent.tokens == sum(call.usage.tokens for call in calls)
    assert (await store.budget(account.key)) == replace(account, held=ZERO)
    await engine.close()


async def test_an_unbudgeted_agent_goes_on_without_a_store(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path / "x.db")
    await engine.open()
    store = Flaky(engine)
    async with booth(store=store) as desk:
        assert (await desk.chat()).status == 200
        store.mode = "before"
        assert (await desk.chat()).status == 200
        store.mode = ""
        assert len(await desk.log()) == 2
    await engine.close()


async def test_policies_that_nobody_vouches_for_are_believed_for_a_while_only(tmp_path: Path) -> None:
    """A gateway that is cut off would serve an agent for ever that was isolated meanwhile."""
    clock = ManualClock()
    engine = SqliteEngine(tmp_path / "x.db")
    await engine.open()
    store = CutOff(engine)
    async with booth(store=store, clock=clock) as desk:
        assert (await desk.chat()).status == 200
        store.away = True
        clock.advance(POLICY_OUTAGE_SECONDS - 1)
        assert (await desk.chat()).status == 200
        clock.advance(2)
        refused = await desk.chat()
        assert (refused.status, b"store_unavailable" in refused.body) == (503, True)
        assert (await desk.chat()).status == 503
        store.away = False
        assert (await desk.chat()).status == 200
    await engine.close()


async def test_a_gateway_that_died_is_settled_at_what_it_had_reserved(tmp_path: Path) -> None:
    """Fifty streams are open when the process is killed: the ledger holds each of them once."""
    clock = ManualClock()
    engine = SqliteEngine(tmp_path / "x.db")
    await engine.open()
    store = SqliteGateway(engine)
    never = asyncio.Event()

    async def pause(_: float) -> None:
        await never.wait()

    async def doomed() -> tuple[list[asyncio.Task[Any]], Any]:
        context = booth(store=store, clock=clock, upstream=SimulatedUpstream(pace=Pace(0.0, 1.0), pause=pause))
        desk = await context.__aenter__()
        await desk.grant(tokens_max=1_000_000)
        for _ in range(3):
            talk = desk.open("/openai/v1/embeddings", {"model": "text-embedding-3-small", "input": "x"})
            assert (await desk.talk(talk)).status == 200
        streams = [asyncio.create_task(desk.chat(f"{n}", stream=True, max_tokens=1000)) for n in range(50)]
        await until(lambda: desk.gateway.in_flight_here(ANN) == 50)
        clock.advance(FLIGHT_SECONDS)
        while len(await store.flights(*ANN, 100)) < 50:
            pass
        assert await desk.gateway.in_flight(ANN) == 50
        return streams, context

    streams, context = await doomed()
    clock.advance(60)
    async with booth(store=store, clock=clock) as desk:
        account = await desk.account()
        assert account.held == ZERO
        lost = await desk.log(outcome=Outcome.LOST)
        whole = await desk.log()
        assert len([call for call in lost if call.model]) == 50
        assert len(lost) == 51, "one line more tells of what it held for calls that were not written down yet"
        assert {call.metered for call in lost} == {Metered.RESERVED}
        assert account.spent.tokens == sum(call.usage.tokens for call in whole)
        assert account.spent.tokens > 50 * 1000
        assert await desk.gateway.in_flight(ANN) == 0
        # The old one was only asleep: it is told, and charges nothing again.
        never.set()
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
        await context.__aexit__(None, None, None)
        assert (await desk.account()).spent == account.spent
        assert (await desk.account()).held == ZERO
    await engine.close()


async def test_a_call_that_lives_through_two_burials_is_charged_once(tmp_path: Path) -> None:
    clock = ManualClock()
    engine = SqliteEngine(tmp_path / "x.db")
    await engine.open()
    store = SqliteGateway(engine)
    never = asyncio.Event()

    async def pause(_: float) -> None:
        await never.wait()

    async with booth(store=store, clock=clock, upstream=SimulatedUpstream(pace=Pace(0.0, 1.0), pause=pause)) as desk:
        await desk.grant(tokens_max=10_000)
        stream = asyncio.create_task(desk.chat(stream=True, max_tokens=1000))
        await until(lambda: desk.gateway.in_flight_here(ANN) == 1)
        clock.advance(FLIGHT_SECONDS)
        charged: list[int] = []
        for _ in range(2):
            while not await store.flights(*ANN, 9):
                pass
            ahead = Millis(clock.now_ms() + 3_600_000)  # the clock of whoever buries
            assert await store.bury(ahead, latest=Millis(2 * ahead), sparing=GatewayId("gw_ahead"), limit=9)
            account = await store.budget(AGENT)
            assert account is not None
            charged.append(account.spent.tokens)
        assert charged[0] == charged[1] > 1000
        stream.cancel()
        await asyncio.gather(stream, return_exceptions=True)
    await engine.close()


async def test_gateways_share_one_budget(tmp_path: Path) -> None:
    engines = [SqliteEngine(tmp_path / "x.db") for _ in range(2)]
    for engine in engines:
        await engine.open()
    one_store, other_store = (SqliteGateway(engine) for engine in engines)
    async with booth(store=one_store) as one, booth(store=other_store) as other:
        await one.grant(tokens_max=20_000)
        asked = [desk.chat(f"{n}", max_tokens=300) for n in range(120) for desk in (one, other)]
        heard = await asyncio.gather(*asked)
        await one.log()
        await other.log()
        account = await one.account()
        assert account.spent.tokens <= 20_000
        assert {answer.status for answer in heard} <= {200, 402}
        calls = await one.log(outcome=Outcome.ANSWERED)
        assert account.spent.tokens == sum(call.usage.tokens for call in calls)
        assert account.spent.plus(account.held).tokens <= 20_000
    for engine in engines:
        await engine.close()


class Counter:
    """A ledger that answers when it is told to."""

    def __init__(self) -> None:
        self.budgets = Budgets(ledger=self, clock=ManualClock())
        self.asked: list[tuple[Draw, asyncio.Future[Answered]]] = []

    def draw(self, draw: Draw) -> "asyncio.Future[Answered]":
        self.asked.append((draw, asyncio.get_running_loop().create_future()))
        return self.asked[-1][1]

    def wake(self) -> None: ...

    def catch_up(self) -> bool:
        return False

    def grant(self) -> Amount:
        """As much as the last one needs, and nothing to spare."""
        draw, future = self.asked[-1]
        _, kind, holder = draw.key
        budget = Budget(project=DEFAULT_PROJECT, kind=kind, holder=holder, tokens_max=1_000, started_at_ms=Millis(0))
        future.set_result((self.budgets.era, Drawn(draw.need, None, budget)))
        return draw.need

    async def begin(self, call_id: str, *keys: BudgetKey, tokens: int) -> "asyncio.Task[Reservation | None]":
        bound = Bound(tokens - 10, 10, answers=1, explicit=True, price=None)
        task = asyncio.create_task(self.budgets.reserve(CallId(call_id), keys, bound, "m"))
        await asyncio.sleep(0)
        return task


AGENT: BudgetKey = (DEFAULT_PROJECT, BudgetKind.AGENT, "ann")
OF_RUN: BudgetKey = (DEFAULT_PROJECT, BudgetKind.RUN, "run_1")


async def test_what_is_promised_to_one_who_waits_is_not_found_at_hand_again() -> None:
    counter = Counter()
    small = await counter.begin("c1", AGENT, tokens=100)
    counter.grant()
    reservation = await small
    assert reservation is not None
    counter.budgets.settle(reservation, Amount(0, 0))
    large = await counter.begin("c2", AGENT, tokens=300)
    counter.budgets.hold({AGENT: Amount(100, 0)})  # after a posting whose outcome was not heard
    assert counter.grant() == Amount(200, 0)
    await large
    assert counter.budgets.at_hand is False, "more is at hand than the ledger holds for this gateway"


async def test_a_grant_of_an_era_that_is_over_is_not_spent() -> None:
    counter = Counter()
    waiting = await counter.begin("c1", AGENT, tokens=100)
    counter.grant()
    counter.budgets.bury()  # before whoever waits for the grant has heard of it
    for _ in range(3):
        await asyncio.sleep(0)
    assert not waiting.done()
    assert len(counter.asked) == 2, "it asks again, for what was granted was charged"
    counter.grant()
    assert await waiting is not None


async def test_what_was_set_aside_in_an_era_that_is_over_is_not_charged_again() -> None:
    counter = Counter()
    waiting = await counter.begin("c1", AGENT, OF_RUN, tokens=100)
    counter.grant()
    for _ in range(3):
        await asyncio.sleep(0)
    assert counter.asked[-1][0].key == OF_RUN
    counter.budgets.bury()
    for _ in range(3):
        counter.grant()
        for _ in range(3):
            await asyncio.sleep(0)
        if waiting.done():
            break
    reservation = await waiting
    assert reservation is not None
    counter.budgets.settle(reservation, Amount(100, 0))
    assert [(one.key, one.spent.tokens, one.released.tokens) for one in counter.budgets.spends()] == [
        (AGENT, 100, 100),
        (OF_RUN, 100, 100),
    ]
    assert [draw.key for draw, _ in counter.asked].count(AGENT) == 2


def test_amounts() -> None:
    assert Amount(3, 4).minus(Amount(1, 1)).plus(Amount(0, 1)) == Amount(2, 4)
    assert not Amount(3, 0).covers(Amount(3, 1))
