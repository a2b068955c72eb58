"""A gateway that is killed at any moment leaves no call free and no budget passed, and the log explains every token."""

import asyncio
import contextlib
import json
from dataclasses import dataclass
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from homeostat.adapters.stores.sqlite import SqliteEngine
from homeostat.adapters.stores.sqlite.gateway import SqliteGateway
from homeostat.core.errors import StoreUnavailable
from homeostat.core.ids import DEFAULT_PROJECT
from homeostat.core.limits import BUDGET_FLOAT_CALLS
from homeostat.core.ports.upstream import Headers, UpstreamRequest
from homeostat.core.records.budget import ZERO, Posted, Posting
from homeostat.core.records.call import Api, CallFilter, Outcome
from homeostat.testing.clock import ManualClock
from homeostat.testing.gateways import Booth, booth

USED = 12
CALL_TOKENS_MAX = 200  # the bytes of a request and its longest answer
ANSWER = json.dumps(
    {
        "model": "gpt-4o-mini",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": USED - 7, "total_tokens": USED},
    }
).encode()


class Fate:
    """Counts the moments at which a process can be killed, and stops everything at one of them."""

    def __init__(self, moment: int) -> None:
        self._left = moment
        self.struck = asyncio.Event()
        self.over = False
        self._never = asyncio.Event()

    async def moment(self) -> None:
        if self.over:
            raise StoreUnavailable(problem="the process was killed")
        self._left -= 1
        if self._left <= 0 or self.struck.is_set():
            self.struck.set()
            await self._never.wait()


class Mortal(SqliteGateway):
    """The store as a process sees it that may die before or behind each of its commits."""

    def __init__(self, engine: SqliteEngine, fate: Fate) -> None:
        super().__init__(engine)
        self._fate = fate

    async def post(self, posting: Posting) -> Posted:
        await self._fate.moment()
        posted = await super().post(posting)
        await self._fate.moment()
        return posted


class Witness:
    """An upstream that knows what it was asked, and which of its answers were on their way."""

    def __init__(self, fate: Fate) -> None:
        self._fate = fate
        self.asked: list[int] = []
        self.answered: list[int] = []

    async def send(self, request: UpstreamRequest) -> "WitnessedAnswer":
        assert isinstance(request.body, bytes)
        cap = json.loads(request.body)["max_tokens"]
        self.asked.append(cap)
        await self._fate.moment()
        self.answered.append(cap)
        return WitnessedAnswer(self._fate)

    async def close(self) -> None: ...


class WitnessedAnswer:
    status = 200

    def __init__(self, fate: Fate) -> None:
        self._fate = fate
        self.headers: Headers = [(b"content-type", b"application/json")]
        self.complete = False

    async def read(self) -> bytes:
        await self._fate.moment()
        self.complete = True
        return ANSWER

    def close(self) -> None: ...


@dataclass(frozen=True)
class Wave:
    """Calls that begin together, when those of the wave before are over."""

    caps: tuple[int, ...]


async def live(desk: Booth, waves: list[Wave]) -> None:
    for wave in waves:
        await asyncio.gather(*(desk.chat(max_tokens=cap) for cap in wave.caps))


async def scene(waves: list[Wave], moment: int, tokens: int) -> None:
    clock, fate = ManualClock(), Fate(moment)
    engine = SqliteEngine(None)
    await engine.open()
    store, witness = SqliteGateway(engine), Witness(fate)
    try:
        doomed = booth(store=Mortal(engine, fate), upstream=witness, clock=clock)
        desk = await doomed.__aenter__()
        await desk.grant(tokens_max=tokens)
        living = asyncio.create_task(live(desk, waves))
        struck = asyncio.create_task(fate.struck.wait())
        await asyncio.wait({living, struck}, return_when=asyncio.FIRST_COMPLETED)
        fate.struck.set()
        others: set[asyncio.Task[Any]] = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        fate.over = True
        with contextlib.suppress(StoreUnavailable):
            await doomed.__aexit__(None, None, None)
        clock.advance(60)
        async with booth(store=store, clock=clock) as heir:
            account = await heir.account()
            log = await store.calls(CallFilter(project=DEFAULT_PROJECT), 500)
        assert account.held == ZERO, "what nobody uses any more is nobody's"
        assert account.spent.tokens <= tokens, "no budget is passed"
        unknown = list(witness.asked)
        for cap in witness.answered:
            unknown.remove(cap)
        assert account.spent.tokens >= USED * len(witness.answered) + sum(unknown), "what was forwarded is never free"
        charged = sum(call.usage.tokens for call in log if call.outcome is not Outcome.REFUSED)
        assert account.spent.tokens == charged, "the log explains every token"
        (at_most,) = [call.usage.tokens for call in log if call.api is Api.UNKNOWN] or [0]
        together = max((len(wave.caps) for wave in waves), default=0)
        assert at_most <= (together + BUDGET_FLOAT_CALLS + 1) * CALL_TOKENS_MAX, "a kill costs no more than a moment"
    finally:
        await engine.close()


waves = st.lists(st.builds(Wave, st.lists(st.integers(20, 60), min_size=1, max_size=5).map(tuple)), max_size=4)


@example(waves=[Wave((50,))], moment=3, tokens=5_000)  # the upstream has just been asked, and nobody else knows
@settings(max_examples=60, deadline=None)
@given(waves=waves, moment=st.integers(1, 40), tokens=st.integers(200, 5_000))
def test_always_what_was_forwarded_is_charged(waves: list[Wave], moment: int, tokens: int) -> None:
    asyncio.run(scene(waves, moment, tokens))
