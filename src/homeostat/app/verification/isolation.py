"""Agents that were held: they stayed held, and nothing of theirs was served meanwhile."""

from bisect import bisect_right
from collections.abc import AsyncGenerator, Sequence
from typing import Final, NamedTuple

from homeostat.app.verification import turns
from homeostat.app.verification.findings import Violation
from homeostat.core.clock import Millis, rfc3339
from homeostat.core.limits import PAGE_MAX
from homeostat.core.machines.phase import RUNS, Phase
from homeostat.core.ports.gateway import GatewayStore
from homeostat.core.ports.immune import EnforcementStore, ImmuneStore
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.call import CallFilter, CallId, Outcome
from homeostat.core.records.enforcement import Effect, Strategy
from homeostat.core.records.head import Gate
from homeostat.core.records.immune import Stance, Transition
from homeostat.core.records.turn import AgentKey
from homeostat.core.records.view import Outcome as Ended

CLOSES_MS: Final = 5_000
"""How long a gateway that cannot ask the store may serve by what it knew before an agent was held."""

CLOCKS_APART_MS: Final = 5_000
"""Who isolates and who answers may be on two machines; what lies closer than this to either end proves nothing."""

DRAINED_MS: Final = 2_000
"""On one machine: once an agent is drained, everybody was asked whether anything of it is under way, and knows."""

SPANS_MAX: Final = 1_000


class Span(NamedTuple):
    """A time in which an agent was held. It was drained within it, or that is not known."""

    closed: Millis
    opened: Millis
    drained: Millis | None = None

    def since(self, *, one_clock: bool) -> int:
        """From when on no call can honestly have begun."""
        if not one_clock:
            return self.closed + max(CLOSES_MS, CLOCKS_APART_MS)
        return min(self.closed + CLOSES_MS, self.shut(one_clock=True))

    def shut(self, *, one_clock: bool) -> int:
        """From when on no turn can honestly have begun. An agent is drained once its gate was seen shut, however long
        that takes; until then it is asked for turns by whoever has not heard of it.
        """
        if self.drained is None:
            return self.closed + CLOSES_MS
        return max(self.closed, self.drained) + (DRAINED_MS if one_clock else CLOCKS_APART_MS)

    def covers(self, began: Millis, ended: float, *, since: int, one_clock: bool) -> bool:
        """Whether something that began and ended at these times was let in while nobody should have.

        What was let in late may have waited for the end of it: on one clock it has to have ended before as well.
        """
        if began <= since or ended < began - CLOCKS_APART_MS:
            return False  # what ended before it began was written down by a clock that was wrong
        return began < self.opened - CLOCKS_APART_MS or (one_clock and ended < self.opened)


class Dated(NamedTuple):
    """A step, and between which times it was taken."""

    step: Transition
    earliest: Millis
    latest: Millis


def dated(steps: Sequence[Transition], after: Millis) -> list[Dated]:
    """When steps were taken that stand in their order, of which the last came before a certain time.

    As few as can be are held to have been written down by a clock that was wrong: the others are in order without them.
    """
    ends: list[Millis] = []
    last: list[int] = []
    before: dict[int, int | None] = {}
    for place, step in enumerate(steps):
        if step.at_ms <= after:
            length = bisect_right(ends, step.at_ms)
            before[place] = last[length - 1] if length else None
            ends[length : length + 1], last[length : length + 1] = [step.at_ms], [place]
    right: set[int] = set()
    known = last[-1] if last else None
    while known is not None:
        right.add(known)
        known = before[known]
    found = [Dated(step, step.at_ms, step.at_ms) for step in steps]
    earliest, latest = Millis(0), after
    for place, step in enumerate(steps):
        earliest = step.at_ms if place in right else earliest
        found[place] = found[place]._replace(earliest=earliest)
    for place, step in reversed([*enumerate(steps)]):
        latest = step.at_ms if place in right else latest
        found[place] = found[place]._replace(latest=latest)
    return found


async def closed_spans(store: ImmuneStore, agent: AgentKey, now: Millis) -> AsyncGenerator[Span]:
    """When an agent was held for sure: after the step that closed it and before the one that opened it, the latest
    first.
    """
    before: str | None = None
    opened: Millis | None = now
    drained: Millis | None = None
    after = now
    while page := await store.transitions(agent, before=before, limit=PAGE_MAX):
        for step, earliest, latest in reversed(dated(page[::-1], after)):
            if step.target in RUNS:
                opened, drained = earliest, None
            elif step.source in RUNS and opened is not None:
                later = drained is not None and drained > latest  # who is killed is drained in the same moment
                yield Span(latest, opened, drained if later else None)
                opened = None
            elif step.source is Phase.DRAINING:
                drained = Millis(max(latest, drained or latest))
            after = latest
        before = page[-1].transition_id


async def always_the_held_stay_held(store: ImmuneStore, agent: AgentKey) -> list[Violation]:
    """Who is held was closed by its last step, and whom that closed is held: every step is written down."""
    steps = await store.transitions(agent, before=None, limit=1)
    patient = await store.patient(agent)
    closed = bool(steps) and steps[0].target not in RUNS
    if closed == (patient is not None and patient.phase not in RUNS):
        return []
    said = "nobody knows of it" if patient is None else f"it is held to be {patient.phase.value}"
    step = f"{steps[0].transition_id} made it {steps[0].target.value}" if steps else "no step is written down"
    return [Violation("always_the_held_stay_held", agent[1], f"{step}, and {said}")]


async def always_a_closed_gate(enforcement: EnforcementStore, store: TurnStore, agent: AgentKey) -> list[Violation]:
    """Whom the kernel was seen to hold it holds."""
    for hold in await enforcement.holds_of(agent):
        wanted = hold.strategy is Strategy.KERNEL and hold.wanted is not Stance.OPEN
        if wanted and hold.effect is Effect.ENFORCED:
            view = await store.head(*agent)
            if view is not None and view.head.gate is Gate.OPEN:
                return [Violation("always_the_held_stay_held", agent[1], "its gate is open, and was seen closed")]
    return []


async def always_the_isolated_are_not_served(
    store: GatewayStore, agent: AgentKey, span: Span, *, one_clock: bool
) -> list[Violation]:
    """No call that began while an agent was held was answered."""
    before: CallId | None = None
    since = span.since(one_clock=one_clock)
    while since < span.opened:
        wanted = CallFilter(project=agent[0], agent_id=agent[1], since_ms=Millis(since), before=before)
        page = await store.calls(wanted, PAGE_MAX)
        for call in page:
            ended = call.started_at_ms + call.latency_ms
            served = call.outcome is Outcome.ANSWERED
            if served and span.covers(call.started_at_ms, ended, since=since, one_clock=one_clock):
                detail = f"{call.call_id} was answered at {rfc3339(call.started_at_ms)}"
                return [Violation("always_the_isolated_are_not_served", agent[1], detail)]
        if len(page) < PAGE_MAX:
            break
        before = page[-1].call_id
    return []


async def always_the_isolated_do_nothing(
    store: TurnStore, agent: AgentKey, spans: Sequence[Span], *, one_clock: bool
) -> list[Violation]:
    """No turn that was asked for while an agent was held succeeded before it was let out: nothing tells when a turn
    began, but this one began in between.

    An agent whose first turn came while it was held had no gate before, and it is shut as soon as it is seen.
    """
    view = await store.head(*agent)
    if view is None or not spans:
        return []
    found: dict[Span, str] = {}
    oldest = view.head.since_ms
    margin = 0 if one_clock else CLOCKS_APART_MS
    async for page in turns.history(store, view.head):
        for one in page:
            began, end = one.turn.created_at_ms, one.deliverable
            oldest = min(oldest, began)
            if end is None or end.status is not Ended.SUCCESS:
                continue
            ended = end.finished_at_ms
            for span in spans:
                since = span.shut(one_clock=one_clock)
                if ended < span.opened - margin and span.covers(began, ended, since=since, one_clock=one_clock):
                    found.setdefault(span, f"{one.turn.turn_id} was done at {rfc3339(ended)}")
    return [
        Violation("always_the_isolated_are_not_served", agent[1], detail)
        for span, detail in found.items()
        if oldest < span.closed
    ]
