"""Whatever calls are made at once, on however many gateways: no budget is passed and every token is charged once."""

import asyncio
from dataclasses import dataclass

from hypothesis import example, given, settings
from hypothesis import strategies as st

from homeostat.adapters.stores.sqlite import SqliteEngine
from homeostat.adapters.stores.sqlite.gateway import SqliteGateway
from homeostat.adapters.upstreams.simulated.faults import FaultyUpstream
from homeostat.core.ids import DEFAULT_PROJECT
from homeostat.core.records.budget import ZERO, BudgetKind
from homeostat.core.records.call import CallFilter, Outcome
from homeostat.gateway.office import Manners
from homeostat.testing.gateways import ANN, INSTANT, Booth, booth

BELIEVING = Manners(believes_runs=True)
FAULTS = ("", "error=500", "refuse=1", "cut=0", "cut=2", "garbage=1", "tokens=40")


@dataclass(frozen=True)
class Asked:
    """One call: how it is asked, which gateway is asked, and what goes wrong."""

    gateway: int
    words: int
    max_tokens: int | None
    stream: bool
    fault: str
    hangs_up: bool
    run: bool


calls = st.lists(
    st.builds(
        Asked,
        gateway=st.integers(0, 1),
        words=st.integers(0, 30),
        max_tokens=st.none() | st.integers(1, 400),
        stream=st.booleans(),
        fault=st.sampled_from(FAULTS),
        hangs_up=st.booleans(),
        run=st.booleans(),
    ),
    min_size=1,
    max_size=24,
)


# A whole answer that cannot be read: what it used is guessed, and a guess stays within what was set aside.
GARBLED = Asked(gateway=0, words=0, max_tokens=None, stream=False, fault="garbage=1", hangs_up=False, run=True)


async def make(desk: Booth, asked: Asked) -> int:
    body = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "word " * asked.words}]}
    body |= {"stream": asked.stream}
    if asked.max_tokens is not None:
        body |= {"max_tokens": asked.max_tokens}
    headers = {"x-simulate": asked.fault} if asked.fault else {}
    if asked.run:
        headers["x-homeostat-run-id"] = "run"
    conversation = desk.open("/openai/v1/chat/completions", body, headers=headers)
    if asked.hangs_up:
        conversation.hang_up()
    return (await desk.talk(conversation)).status


async def spend(asked: list[Asked], tokens: int, micros: int) -> None:
    engine = SqliteEngine(None)
    await engine.open()
    store = SqliteGateway(engine)
    try:
        async with (
            booth(store=store, upstream=FaultyUpstream(pace=INSTANT), manners=BELIEVING) as one,
            booth(store=store, upstream=FaultyUpstream(pace=INSTANT), bus=one.bus, manners=BELIEVING) as two,
        ):
            await one.grant(tokens_max=tokens)
            await one.grant("run", kind=BudgetKind.RUN, micros_max=micros)
            await asyncio.gather(*(make((one, two)[call.gateway], call) for call in asked))
            assert one.gateway.in_flight_here(ANN) == two.gateway.in_flight_here(ANN) == 0
        agent = await store.budget((DEFAULT_PROJECT, BudgetKind.AGENT, "ann"))
        run = await store.budget((DEFAULT_PROJECT, BudgetKind.RUN, "run"))
        made = await store.calls(CallFilter(project=DEFAULT_PROJECT), 500)
        assert agent is not None
        assert run is not None
        assert agent.held == run.held == ZERO, "what nobody uses any more is nobody's"
        assert agent.spent.tokens <= tokens, "no budget is passed"
        assert run.spent.micros <= micros
        assert agent.spent.tokens == sum(call.usage.tokens for call in made), "every token is charged once"
        assert run.spent.micros == sum(call.cost_micros or 0 for call in made if call.run_id)
        assert len(made) == sum(call.repeats for call in made) == len(asked), "every call has its row"
        assert all(call.usage.tokens == 0 for call in made if call.outcome is Outcome.REFUSED)
    finally:
        await engine.close()


@example(asked=[GARBLED], tokens=212, micros=23)
@settings(max_examples=40, deadline=None)
@given(asked=calls, tokens=st.integers(0, 4_000), micros=st.integers(0, 400))
def test_always_the_ledger_is_whole(asked: list[Asked], tokens: int, micros: int) -> None:
    asyncio.run(spend(asked, tokens, micros))
