"""The treasurer of a run: keeps its account as the run stands, and holds the run where it has used too much."""

from homeostat.core.clock import Millis
from homeostat.core.limits import RUNS_SEEN_SECONDS
from homeostat.core.machines.run import RunEvent
from homeostat.core.records.budget import WARNING_PERCENT
from homeostat.core.records.provenance import EntryKind
from homeostat.core.records.run import Bounds, OnBudget, PauseCause, Run, Task
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
        self._kept = terms

    def due_ms(self, run: Run, now: Millis) -> Millis | None:
        """When to look at the budget, whatever happens."""
        if run.applying_since_ms is None:
            return None
        seconds = run.bounds.seconds
        looks = [Millis(now + int(RUNS_SEEN_SECONDS * 1000))] if metered(run) else []
        if seconds is not None:
            share = 1.0 if run.warned else WARNING_PERCENT / 100
            looks.append(Millis(now + max(0, int(seconds * share * 1000) - run.elapsed_ms(now))))
        return min(looks, default=None)

    async def refused(self, run: Run, task: Task) -> bool:
        """Whether a task failed because there was no money left: that is not its fault, and it is tried again."""
        if run.bounds == Bounds() or run.config.policy.on_budget is OnBudget.FAIL:
            return False
        if self._desk.purse.alarmed(run):
            return True
        if task.agent_id is None or task.started_at_ms is None:
            return False
        return await self._desk.purse.refused(run, task.agent_id, since=task.started_at_ms)

    async def check(self, draft: Draft) -> None:
        """Warn at 80 %; at 100 % pause or fail, whichever the policy says."""
        run, clock, purse = draft.run, self._desk.clock, self._desk.purse
        if run.bounds.seconds is None and not metered(run):
            return
        lately = clock.monotonic() - self._looked_at < RUNS_SEEN_SECONDS
        if metered(run) and lately and not purse.alarmed(run):
            return
        self._looked_at = clock.monotonic()
        seen = await purse.look(run, draft.now)
        if seen.used_up is not None or purse.take_alarm(run):
            reason = f"the {seen.used_up or 'budget'} cap is reached"
            if run.config.policy.on_budget is OnBudget.FAIL:
                draft.move(RunEvent.FAIL, actor=DRIVER, reason=reason)
            else:
                draft.move(RunEvent.PAUSE, actor=DRIVER, reason=reason, paused=PauseCause.BUDGET)
        elif seen.warns and not run.warned:
            draft.note(EntryKind.RUN_CHANGED, {"change": "budget_warning", "forecast": seen.forecast})
            draft.set(warned=True)
            if run.config.policy.pause_on_warning:
                reason = "80 % of a budget is used"
                draft.move(RunEvent.PAUSE, actor=DRIVER, reason=reason, paused=PauseCause.WARNING)


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
