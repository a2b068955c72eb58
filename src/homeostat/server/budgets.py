"""Budgets over HTTP: what agents may spend, and runs that nobody drives here."""

from urllib.parse import quote, unquote

from homeostat.core.clock import rfc3339
from homeostat.core.errors import Forbidden, InvalidRequest, Unauthenticated
from homeostat.core.gateway_errors import BudgetUnknown
from homeostat.core.ids import RunId
from homeostat.core.limits import NAME_CHARS_MAX
from homeostat.core.records.budget import Budget, BudgetKey, BudgetKind
from homeostat.core.run_errors import BudgetOfRun
from homeostat.core.wire import gateway as w
from homeostat.server import identity
from homeostat.server.answers import Answer
from homeostat.server.call import Call
from homeostat.server.endpoints import NOTHING, Routes
from homeostat.server.render import instant
from homeostat.server.sifting import asked, sifted

routes = Routes("gateway")

MICROS = 1_000_000


@routes.taking("GET", "/v1/budgets", w.BudgetsQuery, gives=w.BudgetsPage)
async def list_budgets(call: Call, query: w.BudgetsQuery) -> w.BudgetsPage:
    """Every account: bounds, spent, held."""
    after: BudgetKey | None = None
    if query.cursor is not None:
        kind, _, holder = query.cursor.partition(":")
        if kind not in set(BudgetKind):
            raise InvalidRequest(problem="use the next_cursor of the page before")
        after = (call.project, BudgetKind(kind), unquote(holder))

    async def read(after: BudgetKey | None, limit: int) -> list[w.BudgetShape]:
        return [_budget(one) for one in await call.system.gateway.budgets(call.project, after=after, limit=limit)]

    found, last = await sifted(
        asked(call, "budgets", query.q),
        read,
        lambda one: (call.project, one.kind, one.holder),
        cursor=after,
        limit=query.limit,
    )
    following = None if last is None else f"{last[1]}:{quote(last[2], safe='')}"
    return w.BudgetsPage(budgets=found, next_cursor=following)


@routes.plain("GET", "/v1/budgets/{kind}/{holder}", gives=w.BudgetShape, errors=(BudgetUnknown,))
async def read_budget(call: Call) -> w.BudgetShape:
    """One account, of a run or an agent."""
    key = _budget_key(call)
    found = await call.system.gateway.budget(key)
    if found is None:
        raise BudgetUnknown(kind=key[1].value, holder=key[2])
    return _budget(found)


@routes.taking(
    "PUT",
    "/v1/budgets/{kind}/{holder}",
    w.BudgetBody,
    gives=w.BudgetShape,
    errors=(InvalidRequest, BudgetUnknown, BudgetOfRun, Forbidden, Unauthenticated),
    examples={"two dollars": {"usd": 2.0}, "tokens and time": {"tokens": 100_000, "seconds": 3600}},
)
async def put_budget(call: Call, body: w.BudgetBody) -> w.BudgetShape:
    """Set what an agent (`/v1/budgets/agent/ID`) or a run (`/v1/budgets/run/ID`) may spend.

    What was spent before stays spent. Seconds count from now on. The budget of a run that has not ended is the run's
    own: it is changed when the run is resumed.
    """
    await identity.require_operator(call, verb="set", what="budgets")
    project, kind, holder = key = _budget_key(call)
    await _leave_to_run(call, key)
    budget = Budget(
        project=project,
        kind=kind,
        holder=holder,
        tokens_max=body.tokens,
        micros_max=None if body.usd is None else round(body.usd * MICROS),
        seconds_max=body.seconds,
        started_at_ms=call.system.clock.now_ms(),
    )
    known = await call.system.gateway.budget(key)
    return _budget(await call.system.gateway.put_budget(budget.instead_of(known, clock_anew=True)))


@routes.plain(
    "DELETE",
    "/v1/budgets/{kind}/{holder}",
    status=204,
    errors=(BudgetUnknown, BudgetOfRun, Forbidden, Unauthenticated),
)
async def drop_budget(call: Call) -> Answer:
    """Remove an account, and with it what was spent; not that of a run that has not ended."""
    await identity.require_operator(call, verb="remove", what="budgets")
    key = _budget_key(call)
    await _leave_to_run(call, key)
    if not await call.system.gateway.drop_budget(key):
        raise BudgetUnknown(kind=key[1].value, holder=key[2])
    return NOTHING


async def _leave_to_run(call: Call, key: BudgetKey) -> None:
    """What a run may spend is changed with the run, which shows it and has it in its ledger."""
    if key[1] is not BudgetKind.RUN:
        return
    run = await call.system.runs.store.run(key[0], RunId(key[2]))
    if run is not None and not run.final:
        raise BudgetOfRun(run_id=run.run_id, state=run.status.value)


def _budget_key(call: Call) -> BudgetKey:
    kind, holder = call.parameters["kind"], call.parameters["holder"]
    if kind not in set(BudgetKind) or len(holder) > NAME_CHARS_MAX or not holder.isprintable():
        raise BudgetUnknown(kind=kind[:NAME_CHARS_MAX], holder=holder[:NAME_CHARS_MAX])
    return (call.project, BudgetKind(kind), holder)


def _budget(budget: Budget) -> w.BudgetShape:
    return w.BudgetShape(
        kind=budget.kind,
        holder=budget.holder,
        tokens=budget.tokens_max,
        tokens_spent=budget.spent.tokens,
        tokens_held=budget.held.tokens,
        usd=None if budget.micros_max is None else budget.micros_max / MICROS,
        usd_spent=budget.spent.micros / MICROS,
        usd_held=budget.held.micros / MICROS,
        seconds=budget.seconds_max,
        started_at=rfc3339(budget.started_at_ms),
        ends_at=instant(budget.ends_at_ms),
        warned_at=instant(budget.warned_at_ms),
        warned_of=budget.warned,
    )
