"""Where vitals come in: what cannot be true is refused, what comes twice is dropped, a flood waits for nobody."""

from collections import Counter, deque
from typing import Final

from homeostat.core.clock import Clock
from homeostat.core.records.turn import AgentKey
from homeostat.core.records.vitals import Vitals

WAITING_PER_AGENT_MAX: Final = 64  # a tick; each is a round over the baselines, whoever else has sent nothing
WAITING_MAX: Final = 100_000
SAMPLES_REMEMBERED_MAX: Final = 65_536
FUTURE_MS_MAX: Final = 60_000
AGE_MS_MAX: Final = 3_600_000
COUNT_MAX: Final = 1e12
ORDERS_MAX: Final = 1e3

CALL: Final = "call"
TURN: Final = "turn"
GATEWAY: Final = "gateway"
DRILL: Final = "drill"  # what a fire drill pretends; nobody outside can send it
HEARSAY: Final = "hearsay"  # what tools told an agent, apart from any call or turn that was measured


class Intake:
    """Samples that wait for the next tick. `refused` counts those that did not come in, by why."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[AgentKey, deque[Vitals]] = {}
        self._size = 0
        self._seen: set[int] = set()
        self._seen_in_order: deque[int] = deque()
        self.accepted: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def take(self, sample: Vitals) -> str | None:
        """Let a sample in; returns why not."""
        problem = self.problem(sample) or self._admit(sample)
        if problem is None:
            self.accepted[sample.source] += 1
        else:
            self.refused[problem] += 1
        return problem

    def problem(self, sample: Vitals) -> str | None:
        """What makes a sample unbelievable."""
        measures = (
            sample.latency_ms,
            sample.first_token_ms,
            sample.tokens_in,
            sample.tokens_out,
            sample.tokens_cached,
            sample.tokens_reasoning,
            sample.cost_usd,
            sample.steps,
            sample.retries,
        )
        for measure in measures:
            if measure is not None and not 0 <= measure <= COUNT_MAX:  # false for NaN, and no number is too long for it
                return "implausible"
        if sample.hearsay is not None and not 0 <= sample.hearsay.orders <= ORDERS_MAX:  # false for NaN
            return "implausible"
        now = self._clock.now_ms()
        if sample.at_ms > now + FUTURE_MS_MAX:
            return "future"
        if sample.at_ms < now - AGE_MS_MAX:
            return "ancient"
        return None

    def _admit(self, sample: Vitals) -> str | None:
        """Only what is let in is remembered: what a flood kept out was never counted, and may come again."""
        key = (sample.project, sample.agent_id)
        name = hash((key, sample.sample_id))  # seeded anew in each process: nobody outside can aim at another's
        if name in self._seen:
            return "repeated"
        waiting = self._waiting.get(key)
        if self._size >= WAITING_MAX or (waiting is not None and len(waiting) >= WAITING_PER_AGENT_MAX):
            return "flood"
        if waiting is None:
            waiting = self._waiting[key] = deque()
        waiting.append(sample)
        self._size += 1
        self._seen.add(name)
        self._seen_in_order.append(name)
        if len(self._seen_in_order) > SAMPLES_REMEMBERED_MAX:
            self._seen.discard(self._seen_in_order.popleft())
        return None

    def floods(self, key: AgentKey) -> bool:
        """Whether an agent has sent as much as is looked at in a tick; more of it need not even be read."""
        waiting = self._waiting.get(key)
        if waiting is None or len(waiting) < WAITING_PER_AGENT_MAX:
            return False
        self.refused["flood"] += 1
        return True

    def withdraw(self, key: AgentKey, source: str) -> None:
        """Drop what waits of an agent from one source: it is not meant any more."""
        waiting = self._waiting.get(key, ())
        kept = deque(sample for sample in waiting if sample.source != source)
        self._size -= len(waiting) - len(kept)
        if waiting:
            self._waiting[key] = kept

    def drain(self) -> dict[AgentKey, deque[Vitals]]:
        """Everything that waits, by agent, in the order in which it came."""
        waiting, self._waiting, self._size = self._waiting, {}, 0
        return waiting
