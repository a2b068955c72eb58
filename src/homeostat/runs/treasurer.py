"""The treasurer of a run: keeps its account as the run stands, and holds the run where it has used too much."""

from homeostat.core.clock import Millis
from homeostat.core.limits import CALL_SETTLES_SECONDS, GATEWAYS_TELL_SECONDS, RUNS_SEEN_SECONDS
from homeostat.core.machines.run import RunEvent
from homeostat.core.records.budget import WARNING_PERCENT, BudgetLimit, Limits
from homeostat.core.records.provenance import EntryKind
from homeostat.core.records.run import Bounds, OnBudget, PauseCause, Run, Task
from homeostat.runs.budget import LONG_AGO
from homeostat.runs.desk import Desk
from homeostat.runs.draft import DRIVER, Draft

Terms = tuple[Bounds, Millis | None, int]
"""What an account depends on: how much a run may use, since when it is applied, and for how long it was before."""


class Treasurer:
    """One for each run that is driven. It reads the account at most once a second, unless it is told to look."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._looked_at = float("-inf")
        self._kept: Terms | None = None
        self._filled_ms = LONG_AGO
        self._over_at: float | None = None

    def look_again(self) -> None:
        """The run's money may be used up."""
        self._looked_at = float("-inf")

    async def keep(self, run: Run) -> None:
        """See that there is an account with the run's bounds before anything is called for it, and that its clock goes
        while the run is applied, and only then. An account that is so already costs nothing.
        """
        terms = _terms(run)
        if terms is None or terms == self._kept or run.final:
            return
        await self._desk.purse.fill(run)
        self._kept, self._filled_ms = terms, self._desk.clock.now_ms()

    def due_ms(self, run: Run, now: Millis) -> Millis | None:
        """When to look at the budget, whatever happens."""
        if run.applying_since_ms is None:
            return None
        looks = [Millis(now + int(RUNS_SEEN_SECONDS * 1000))] if metered(run) else []
        if (left := _time_left(run, now)) is not None:
            looks.append(Millis(now + max(0, left)))
        return min(looks, default=None)

    async def refused(self, run: Run, task: Task) -> bool:
        """Whether a task failed because there was no money left: that is not its fault, and it is tried again."""
        if run.bounds == Bounds() or run.config.policy.on_budget is OnBudget.FAIL:
            return False
        if self._alarmed(run):
            return True
        if task.agent_id is None or task.started_at_ms is None:
            return False
        alarm = await self._desk.purse.refused(run, task.agent_id, since=task.started_at_ms)
        if alarm is not None:  # word of it was lost: without it the task would be tried again at once, and for ever
            self._desk.purse.alarm(run.run_id, alarm)
        return alarm is not None

    async def check(self, draft: Draft) -> None:
        """Warn at 80 % of each cap, once; at 100 % pause or fail, whichever the policy says. Where a call is refused
        before that, because it would have passed the cap, the warning comes with it.
        """
        run, clock, purse = draft.run, self._desk.clock, self._desk.purse
        if run.bounds == Bounds() or self._lately(run, draft.now):
            return
        self._looked_at = clock.monotonic()
        seen = await purse.look(run, draft.now)
        refused = purse.take_alarm(run, filled_ms=self._filled_ms)
        reason = seen.reason or (None if refused is None else refused.why)
        news = _unwarned(run, seen.ending if refused is None else (*seen.ending, refused.limit))
        if reason is None and not news:
            return
        if news:
            purse.warn(run, news)
            said = {"change": "budget_warning", "caps": news, "forecast": reason or seen.forecast}
            draft.note(EntryKind.RUN_CHANGED, said)
            draft.set(warned=True, warned_of=(*run.warned_of, *news))
        if reason is not None and run.config.policy.on_budget is OnBudget.FAIL:
            draft.move(RunEvent.FAIL, actor=DRIVER, reason=reason)
        elif reason is not None:
            draft.move(RunEvent.PAUSE, actor=DRIVER, reason=reason, paused=PauseCause.BUDGET)
        elif run.config.policy.pause_on_warning:
            reason = f"{WARNING_PERCENT} % of its {' and '.join(news)} are used"
            draft.move(RunEvent.PAUSE, actor=DRIVER, reason=reason, paused=PauseCause.WARNING)

    def _alarmed(self, run: Run) -> bool:
        return self._desk.purse.alarmed(run, filled_ms=self._filled_ms)

    async def awaits_calls(self, draft: Draft) -> bool:
        """Whether calls of a run whose turns have ended may yet come into the log: those that are open, and for a
        moment what other gateways have at hand. Those that take longer than calls do are named in its ledger.
        """
        run, bank, now = draft.run, self._desk.purse.bank, self._desk.clock.monotonic()
        self._over_at = now if self._over_at is None else self._over_at
        waited = now - self._over_at
        if found := await bank.open_for(run.project, run.run_id):
            if waited < CALL_SETTLES_SECONDS:
                return True
            draft.note(EntryKind.RUN_CHANGED, {"change": "calls_open", "calls": found})
        return waited < GATEWAYS_TELL_SECONDS and not await bank.alone()

    def _lately(self, run: Run, now: Millis) -> bool:
        """Whether the account was read just now, and nothing says that it is another since."""
        left = _time_left(run, now)
        if not metered(run) or self._alarmed(run) or (left is not None and left <= 0):
            return False
        return self._desk.clock.monotonic() - self._looked_at < RUNS_SEEN_SECONDS


def _unwarned(run: Run, limits: Limits) -> Limits:
    """Those of which nobody was told. Runs that were warned before each was told apart count as told of all."""
    if run.warned and not run.warned_of:
        return ()
    return tuple(limit for limit in BudgetLimit if limit in limits and limit not in run.warned_of)


def metered(run: Run) -> bool:
    """Whether what it calls is counted against a bound."""
    return run.bounds.tokens is not None or run.bounds.micros is not None


def _terms(run: Run) -> Terms | None:
    """None where nothing is bounded; a clock that nobody looks at may stand as it likes."""
    if run.bounds == Bounds():
        return None
    if run.bounds.seconds is None:
        return (run.bounds, None, 0)
    return (run.bounds, run.applying_since_ms, run.applied_ms)


def _time_left(run: Run, now: Millis) -> int | None:
    """Milliseconds until its time says something: that it ends, or if that was said, that it is over."""
    if run.bounds.seconds is None:
        return None
    share = WARNING_PERCENT / 100 if _unwarned(run, (BudgetLimit.SECONDS,)) else 1.0
    return int(run.bounds.seconds * share * 1000) - run.elapsed_ms(now)
