"""Where vitals come in: what cannot be true is refused, what comes twice is dropped, a flood waits for nobody."""

from collections import Counter, OrderedDict, deque
from typing import Final

from homeostat.core.clock import Clock
from homeostat.core.records.turn import AgentKey
from homeostat.core.records.vitals import Vitals

WAITING_PER_AGENT_MAX: Final = 64
WAITING_MAX: Final = 100_000
SAMPLES_REMEMBERED_MAX: Final = 65_536
FUTURE_MS_MAX: Final = 60_000
AGE_MS_MAX: Final = 3_600_000
COUNT_MAX: Final = 1e12
ORDERS_MAX: Final = 1e3

CALL: Final = "call"
TURN: Final = "turn"
GATEWAY: Final = "gateway"
HEARSAY: Final = "hearsay"  # what tools told an agent, apart from any call or turn that was measured


class Intake:
    """Samples that wait for the next tick. `refused` counts those that did not come in, by why."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[AgentKey, deque[Vitals]] = {}
        self._size = 0
        self._seen: OrderedDict[tuple[AgentKey, str], None] = OrderedDict()
        self.accepted: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def take(self, sample: Vitals) -> str | None:
        """Let a sample in; returns why not."""
        problem = self.problem(sample)
        if problem is None and not self._remember(sample):
            problem = "repeated"
        if problem is None:
            key = (sample.project, sample.agent_id)
            waiting = self._waiting.setdefault(key, deque())
            if len(waiting) >= WAITING_PER_AGENT_MAX or self._size >= WAITING_MAX:
                problem = "flood"
            else:
                waiting.append(sample)
                self._size += 1
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

    def _remember(self, sample: Vitals) -> bool:
        place = ((sample.project, sample.agent_id), sample.sample_id)
        if place in self._seen:
            return False
        self._seen[place] = None
        if len(self._seen) > SAMPLES_REMEMBERED_MAX:
            self._seen.popitem(last=False)
        return True

    def drain(self) -> dict[AgentKey, deque[Vitals]]:
        """Everything that waits, by agent, in the order in which it came."""
        waiting, self._waiting, self._size = self._waiting, {}, 0
        return waiting
