"""What a run may spend: its account in the gateway's ledger, its clock, and when both will be used up."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, ProjectId, RunId, scope_floor
from homeostat.core.limits import CALL_SETTLES_SECONDS, PAGE_MAX, RUN_CALLS_BATCH_MAX
from homeostat.core.records.budget import (
    WARNING_PERCENT,
    ZERO,
    Amount,
    Budget,
    BudgetKey,
    BudgetKind,
    BudgetLimit,
    Limits,
)
from homeostat.core.records.call import Call, CallFilter, CallId, Outcome, call_of
from homeostat.core.records.provenance import EntryKind
from homeostat.core.records.run import Bounds, PauseCause, Run
from homeostat.runs.draft import Draft

ALARMS_MAX = 10_000
LONG_AGO = Millis(0)
PACE_MS_MIN = 1000  # how fast money goes cannot be told from less
LIMITS = {"tokens": BudgetLimit.TOKENS, "usd": BudgetLimit.USD, "time": BudgetLimit.SECONDS}
"""The bounds, by what they are called in words."""


class Bank(Protocol):
    """Where accounts are kept: the gateway."""

    async def put_budget(self, budget: Budget) -> Budget: ...

    async def budget(self, key: BudgetKey) -> Budget | None: ...

    async def calls(self, wanted: CallFilter, limit: int) -> list[Call]: ...

    async def spent_for(self, project: ProjectId, run_id: RunId, *, after: str) -> Amount: ...

    async def open_for(self, project: ProjectId, run_id: RunId) -> list[CallId]: ...

    async def alone(self) -> bool: ...

    def warn(self, key: BudgetKey, limit: BudgetLimit) -> None:
        """Tell everybody that a bound of a budget ends, unless that was told."""
        ...


class Alarm(NamedTuple):
    """A call of a run was refused: when, why in words, and which bound it was."""

    at_ms: Millis
    why: str
    limit: BudgetLimit


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What a run has used, and how long the rest lasts at the pace so far."""

    spent: Amount
    held: Amount
    elapsed_ms: int
    ending: Limits
    used_up: str | None
    reason: str | None
    stuck: bool
    reached_in_seconds: float | None
    reached_first: str | None

    @property
    def forecast(self) -> str | None:
        if self.used_up is not None:
            return f"the {self.used_up} cap is reached"
        if self.stuck:
            return "no room is left for the next call"
        if self.reached_in_seconds is None:
            return None
        return f"{self.reached_first} cap reached in {_words(self.reached_in_seconds)}"


class Purse:
    """Opens and reads the account of a run."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank
        self._alarms: dict[RunId, Alarm] = {}

    def alarm(self, run_id: RunId, alarm: Alarm) -> None:
        """A call of a run was refused because there is no money left for it."""
        if len(self._alarms) < ALARMS_MAX:
            self._alarms[run_id] = max(alarm, self._alarms.get(run_id, alarm))

    def alarmed(self, run: Run, *, filled_ms: Millis = LONG_AGO) -> bool:
        """Whether a call was refused since the run goes on, with the account that it has since then: word of an earlier
        one may come late, and who asks again and again is refused until the account is filled.
        """
        alarm = self._alarms.get(run.run_id)
        return alarm is not None and alarm.at_ms > max(run.applying_since_ms or 0, filled_ms)

    def take_alarm(self, run: Run, *, filled_ms: Millis = LONG_AGO) -> Alarm | None:
        """The last call that was refused, if one was; that counts once."""
        alarmed, alarm = self.alarmed(run, filled_ms=filled_ms), self._alarms.pop(run.run_id, None)
        return alarm if alarmed else None

    def warn(self, run: Run, limits: Limits) -> None:
        """Have everybody know that bounds of a run end: who heard so of one is not told again."""
        for limit in limits:
            self.bank.warn(key_of(run.project, run.run_id), limit)

    async def refused(self, run: Run, agent_id: AgentId, *, since: Millis) -> Alarm | None:
        """The last call of an agent for a run that was turned away because the run's money is used up. What any other
        budget refuses is none of it: raising the run's own would not help.
        """
        mine = CallFilter(project=run.project, run_id=run.run_id, agent_id=agent_id, since_ms=since)
        for call in await self.bank.calls(replace(mine, outcome=Outcome.REFUSED), PAGE_MAX):
            kind, _, limit = call.bound.partition(".")
            if kind == BudgetKind.RUN:
                if await self._made_good(run, mine, call):
                    return None
                cap = next(words for words, named in LIMITS.items() if named == limit)
                return Alarm(call.started_at_ms, f"the {cap} cap leaves no room for a call", BudgetLimit(limit))
        return None

    async def _made_good(self, run: Run, mine: CallFilter, refused: Call) -> bool:
        """Whether its run was resumed meanwhile and the agent let through again: what came then is its own affair."""
        resumed = run.applying_since_ms
        if resumed is None or mine.since_ms is None or resumed <= mine.since_ms:
            return False
        later = await self.bank.calls(replace(mine, since_ms=max(resumed, refused.started_at_ms)), PAGE_MAX)
        return any(call.outcome is not Outcome.REFUSED and call.call_id > refused.call_id for call in later)

    async def account(self, draft: Draft, *, before: Millis) -> bool:
        """Bring model calls into a run's ledger, oldest first, that were begun before the tasks that run now: which
        those make, and whether they are over, is known when they end. Says whether there were any.
        """
        run = draft.run
        until = call_of(scope_floor(before - int(CALL_SETTLES_SECONDS * 1000)))
        found = [call for call in await self._calls(run, after=run.calls_after) if call.call_id < until]
        return self._write_down(draft, found)

    async def account_all(self, draft: Draft, known: Callable[[], Awaitable[Collection[str]]]) -> None:
        """Bring every model call of a run into its ledger that is not in it. `known` tells those that are; it is only
        asked should a call have come into the log later than anybody expected.
        """
        run = draft.run
        found = await self._calls(run, after="")
        fresh = [call for call in found if call.call_id > run.calls_after]
        if len(found) - len(fresh) != run.calls_noted:
            noted = set(await known())
            fresh = [call for call in found if call.call_id not in noted]
        self._write_down(draft, fresh)

    @staticmethod
    def _write_down(draft: Draft, calls: list[Call]) -> bool:
        for call in reversed(calls):
            draft.note(EntryKind.GATEWAY_CALL, call)
        if calls:
            run = draft.run
            summed = _summed(run)
            draft.set(
                calls_after=max(run.calls_after, calls[0].call_id),
                calls_noted=run.calls_noted + len(calls),
                tokens_noted=run.tokens_noted + sum(call.usage.tokens for call in calls) if summed else 0,
                micros_noted=run.micros_noted + sum(call.cost_micros or 0 for call in calls) if summed else 0,
            )
        return bool(calls)

    async def _calls(self, run: Run, *, after: str) -> list[Call]:
        """The calls of a run behind one, newest first."""
        wanted = CallFilter(project=run.project, run_id=run.run_id)
        found: list[Call] = []
        while page := await self.bank.calls(wanted, RUN_CALLS_BATCH_MAX):
            fresh = [call for call in page if call.call_id > after]
            found += fresh
            if len(fresh) < RUN_CALLS_BATCH_MAX:
                break
            wanted = replace(wanted, before=page[-1].call_id)
        return found

    async def fill(self, run: Run) -> None:
        """See that the account has the run's bounds, and that its clock counts only the time it was applied."""
        bounds = run.bounds
        if bounds == Bounds():
            return
        stopped = run.moved.at_ms if run.applying_since_ms is None else None
        started = Millis((stopped or run.applying_since_ms or 0) - run.applied_ms)
        budget = Budget(
            project=run.project,
            kind=BudgetKind.RUN,
            holder=run.run_id,
            tokens_max=bounds.tokens,
            micros_max=bounds.micros,
            seconds_max=bounds.seconds,
            started_at_ms=started,
            stopped_at_ms=stopped,
        )
        known = await self.bank.budget(budget.key)
        if known is None or _bounds(known) != _bounds(budget):
            # One that was bounded only now has spent before; an account keeps what it knows itself.
            before = ZERO if run.config.bounds != Bounds() or known is not None else await self._logged(run)
            await self.bank.put_budget(replace(budget.instead_of(known), spent=before))

    async def look(self, run: Run, now: Millis) -> Spending:
        """How much is used of what is bounded: whoever drives a run asks often, and for nothing else."""
        known = None
        if run.bounds.tokens is not None or run.bounds.micros is not None:
            known = await self.bank.budget(key_of(run.project, run.run_id))
        return judge(run, known, now)

    async def spending(self, run: Run, now: Millis) -> Spending:
        """How much is used, bounded or not. What is not bounded is summed when somebody asks for it: an account would
        cost a write for every call.
        """
        known = None if run.bounds == Bounds() else await self.bank.budget(key_of(run.project, run.run_id))
        if known is not None:
            return judge(run, known, now)
        return replace(judge(run, None, now), spent=await self._logged(run))

    async def _logged(self, run: Run) -> Amount:
        """What the ledger of a run knows, and behind that the call log. A run that is over has all of it in its ledger,
        where it stays when the log has forgotten.
        """
        if not _summed(run):
            return await self.bank.spent_for(run.project, run.run_id, after="")
        noted = Amount(run.tokens_noted, run.micros_noted)
        if run.final and not run.live:
            return noted
        return noted.plus(await self.bank.spent_for(run.project, run.run_id, after=run.calls_after))


def _summed(run: Run) -> bool:
    """Whether it is known what the noted calls took; of runs that began before that was counted, it is not."""
    return bool(not run.calls_noted or run.tokens_noted or run.micros_noted)


def key_of(project: ProjectId, run_id: RunId) -> BudgetKey:
    return (project, BudgetKind.RUN, run_id)


def judge(run: Run, known: Budget | None, now: Millis) -> Spending:
    """Compare what is used with what may be, each bound by itself; the first that will be reached tells the end."""
    spent, held = (known.spent, known.held) if known is not None else (ZERO, ZERO)
    elapsed = run.elapsed_ms(now)
    used = {"tokens": spent.tokens, "usd": spent.micros, "time": elapsed}
    seconds = run.bounds.seconds
    most = {
        "tokens": run.bounds.tokens,
        "usd": run.bounds.micros,
        "time": None if seconds is None else int(seconds * 1000),
    }
    bounded = {name: cap for name, cap in most.items() if cap is not None}
    used_up = next((name for name, cap in bounded.items() if used[name] >= cap), None)
    ending = tuple(LIMITS[name] for name, cap in bounded.items() if used[name] * 100 >= cap * WARNING_PERCENT)
    stuck = used_up is None and run.paused is PauseCause.BUDGET
    words = "" if used_up is None else _spent_words(used_up, used[used_up], bounded[used_up])
    paced = elapsed >= PACE_MS_MIN or bounded.keys() == {"time"}
    ends = {
        name: (cap - used[name]) * (elapsed / used[name]) / 1000
        for name, cap in bounded.items()
        if paced and used[name] and elapsed and used[name] < cap and not run.final and run.paused is None
    }
    first = min(ends, key=lambda name: ends[name], default=None)
    return Spending(
        spent=spent,
        held=held,
        elapsed_ms=elapsed,
        ending=ending,
        used_up=used_up,
        reason=None if used_up is None else f"the {used_up} cap is reached: {words}",
        stuck=stuck,
        reached_in_seconds=None if first is None else ends[first],
        reached_first=first,
    )


def _bounds(budget: Budget) -> tuple[object, ...]:
    if budget.seconds_max is None:
        return _caps(budget)
    stands = budget.stopped_at_ms is not None
    return (*_caps(budget), stands, budget.elapsed_ms(Millis(0)) if stands else budget.started_at_ms)


def _caps(budget: Budget) -> tuple[object, ...]:
    return (budget.tokens_max, budget.micros_max, budget.seconds_max)


def _spent_words(name: str, used: int, cap: int) -> str:
    match name:
        case "usd":
            return f"${used / 1e6:.6f} of ${cap / 1e6:.6f} are spent"
        case "time":
            return f"{used / 1000:.1f} s of {cap / 1000:g} s are spent"
        case _:
            return f"{used} of {cap} are spent"


def _words(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h"
