"""The gateway's store on PostgreSQL: a posting locks its gateway, then its accounts in order, decides and writes."""

from collections.abc import Iterable, Sequence
from typing import Final

from homeostat.adapters.stores import gateway_rows as rows
from homeostat.adapters.stores.postgres import mandates
from homeostat.adapters.stores.postgres.engine import PostgresEngine, Transaction
from homeostat.adapters.stores.statements import statements
from homeostat.core import ledger, pacing
from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, ProjectId, RunId
from homeostat.core.ledger import Entries
from homeostat.core.records.budget import (
    Amount,
    Budget,
    BudgetKey,
    Flight,
    GatewayId,
    GatewayView,
    Posted,
    Posting,
)
from homeostat.core.records.call import Call, CallFilter, CallId, Outlay
from homeostat.core.records.enforcement import Mandate
from homeostat.core.records.policy import Policy, PolicyFilter, PolicyId
from homeostat.core.records.rate import RateDrawn, RateKey
from homeostat.core.records.turn import AgentKey

SQL: Final = statements("postgres", "gateway")


class PostgresGateway:
    """Policies, ledger and call log on an engine that is open and migrated."""

    def __init__(self, engine: PostgresEngine) -> None:
        self._engine = engine

    # --- policies ------------------------------------------------------------------------------------------

    async def version(self) -> int:
        return (await self._all("version_get"))[0][0]

    async def policies(self) -> tuple[int, list[Policy]]:
        version = await self.version()  # first: what is read after it is at least as new
        return version, [rows.read_policy(row) for row in await self._all("policies_all")]

    async def put_policy(self, policy: Policy, mandate: Mandate | None = None) -> int:
        async def work(transaction: Transaction) -> int:
            await mandates.require(transaction, mandate)
            await transaction.fetch(SQL["policy_put"], *rows.write_policy(policy))
            return await _bump(transaction)

        return await self._engine.transact(work)

    async def drop_policy(self, project: ProjectId, policy_id: PolicyId, mandate: Mandate | None = None) -> int | None:
        async def work(transaction: Transaction) -> int | None:
            await mandates.require(transaction, mandate)
            if not await transaction.fetch(SQL["policy_drop"], project, policy_id):
                return None
            return await _bump(transaction)

        return await self._engine.transact(work)

    async def drop_policies(self, wanted: PolicyFilter) -> tuple[int | None, list[PolicyId]]:
        async def work(transaction: Transaction) -> tuple[int | None, list[PolicyId]]:
            found = await transaction.fetch(SQL["policies_drop"], *rows.write_policy_filter(wanted))
            dropped = sorted(PolicyId(row[0]) for row in found)
            return (await _bump(transaction) if dropped else None), dropped

        return await self._engine.transact(work)

    # --- the ledger ----------------------------------------------------------------------------------------

    async def put_budget(self, budget: Budget) -> Budget:
        async def work(transaction: Transaction) -> Budget:
            await transaction.fetch(SQL["budget_put"], *rows.write_bounds(budget))
            await _bump(transaction)
            return (await _budgets(transaction, [budget.key]))[budget.key]

        return await self._engine.transact(work)

    async def drop_budget(self, key: BudgetKey) -> bool:
        async def work(transaction: Transaction) -> bool:
            dropped = await transaction.fetch(SQL["budget_drop"], *rows.write_key(key))
            await transaction.fetch(SQL["holds_forget"], *rows.write_key(key))
            await _bump(transaction)
            return bool(dropped)

        return await self._engine.transact(work)

    async def budget(self, key: BudgetKey) -> Budget | None:
        found = await self._all("budget_see", *rows.write_key(key))
        return rows.read_budget(found[0]) if found else None

    async def ceiling(self, key: BudgetKey) -> tuple[int | None, int | None]:
        found = await self._all("budget_ceiling", *rows.write_key(key))
        return (found[0][0], found[0][1]) if found else (None, None)

    async def budgets(self, project: ProjectId, *, after: BudgetKey | None, limit: int) -> list[Budget]:
        kind, holder = (after[1].value, after[2]) if after is not None else ("", "")
        return [rows.read_budget(row) for row in await self._all("budgets_list", project, kind, holder, limit)]

    async def enter(self, gateway_id: GatewayId, expires_at_ms: Millis) -> None:
        await self._all("gateway_enter", gateway_id, expires_at_ms)

    async def post(self, posting: Posting) -> Posted:
        return await self._engine.transact(lambda transaction: _post(transaction, posting))

    async def holds(self, gateway_id: GatewayId) -> dict[BudgetKey, Amount]:
        return dict(rows.read_hold(row) for row in await self._all("holds_get", gateway_id))

    async def leave(self, gateway_id: GatewayId) -> None:
        async def work(transaction: Transaction) -> None:
            await transaction.fetch(SQL["gateway_get"], gateway_id)
            await _bury(transaction, gateway_id, Millis(0), died=False)

        await self._engine.transact(work)

    async def bury(self, now: Millis, *, latest: Millis, sparing: GatewayId, limit: int) -> list[Call]:
        buried: list[Call] = []
        for (gateway_id,) in await self._all("gateways_dead", now, sparing, limit, latest):

            async def work(transaction: Transaction, dead: GatewayId = gateway_id) -> list[Call]:
                # Whoever locks it first buries it; one that has come back to life meanwhile is not dead.
                if not await transaction.fetch(SQL["gateway_lapsed"], dead, now, latest):
                    return []
                return await _bury(transaction, dead, now, died=True)

            buried += await self._engine.transact(work)
        return buried

    async def expire_rates(self, before: Millis, limit: int) -> int:
        return (await self._all("rates_expire", before, limit))[0][0]

    async def gateways(self, now: Millis) -> list[GatewayView]:
        return [GatewayView(*row) for row in await self._all("gateways_live", now)]

    # --- calls ---------------------------------------------------------------------------------------------

    async def calls(self, wanted: CallFilter, limit: int) -> list[Call]:
        name = "calls_of_run" if wanted.run_id else "calls_of_agent" if wanted.agent_id else "calls_list"
        return [rows.read_call(row) for row in await self._all(name, *rows.write_filter(wanted, limit))]

    async def outlays(self, project: ProjectId, since: Millis, until: Millis) -> dict[AgentId, Outlay]:
        since_id, until_id = rows.write_span(since, until)
        return dict(rows.read_outlay(row) for row in await self._all("calls_spent", project, since_id, until_id))

    async def spent_for(self, project: ProjectId, run_id: RunId, *, after: str) -> Amount:
        return Amount(*(await self._all("calls_of_run_spent", project, run_id, after))[0])

    async def logged(self, agent: AgentKey, since: Millis) -> tuple[int, int]:
        since_id, _ = rows.write_span(since, since)
        found = await self._all("calls_logged", *agent, since_id)
        return found[0][0], found[0][1]

    async def flights(self, project: ProjectId, agent_id: AgentId | None, limit: int) -> list[Flight]:
        return [rows.read_flight(row) for row in await self._all("flights_list", project, agent_id, limit)]

    async def flights_count(self, project: ProjectId, agent_id: AgentId, *, besides: GatewayId) -> int:
        return (await self._all("flights_count", project, agent_id, besides))[0][0]

    async def flights_of(self, project: ProjectId, run_id: RunId, limit: int) -> list[CallId]:
        found = await self._all("flights_of_run", project, rows.write_mark(run_id), limit)
        return [row[0] for row in found]

    async def expire_calls(self, before: CallId, limit: int) -> int:
        return (await self._all("calls_expire", before, limit))[0][0]

    async def _all(self, name: str, *values: object) -> Sequence[rows.Row]:
        return await self._engine.fetch(SQL[name], *values)


async def _bump(transaction: Transaction) -> int:
    return (await transaction.fetch(SQL["version_bump"]))[0][0]


async def _budgets(transaction: Transaction, keys: Iterable[BudgetKey]) -> dict[BudgetKey, Budget]:
    """Accounts, locked in the order in which they are named."""
    found: dict[BudgetKey, Budget] = {}
    for key in keys:
        for row in await transaction.fetch(SQL["budget_get"], *rows.write_key(key)):
            found[key] = rows.read_budget(row)
    return found


async def _post(transaction: Transaction, posting: Posting) -> Posted:
    gateway_id = posting.gateway_id
    last = await transaction.fetch(SQL["gateway_get"], gateway_id)
    if not last:
        return Posted(alive=False)
    if last[0][0] >= posting.number:
        return Posted(alive=True, repeated=True)
    await transaction.fetch(
        SQL["gateway_beat"], gateway_id, posting.expires_at_ms, posting.number, posting.seen_version
    )
    entries = ledger.settle(posting, await _budgets(transaction, ledger.keys_of(posting)))
    await _write(transaction, gateway_id, entries)
    paced = await _pace(transaction, posting)
    if posting.opened:
        flights = [rows.write_flight(flight, gateway_id) for flight in posting.opened]
        await transaction.executemany(SQL["flight_put"], flights)
    if posting.closed:
        await transaction.executemany(SQL["flight_drop"], [(call_id,) for call_id in posting.closed])
    if posting.calls:
        await transaction.fetch(SQL["call_put"], *rows.write_calls(posting.calls))
    return Posted(alive=True, drawn=tuple(entries.drawn), paced=paced, warned=entries.warned)


async def _pace(transaction: Transaction, posting: Posting) -> tuple[RateDrawn, ...]:
    draws, returns = posting.rate_draws, posting.rate_returns
    if not draws and not returns:
        return ()
    windows: dict[RateKey, pacing.Window] = {}
    for key in pacing.keys_of(draws, returns):
        windows[key] = rows.read_window((await transaction.fetch(SQL["rate_get"], *key))[0])
    paced = pacing.pace(draws, returns, windows, posting.now_ms)
    written = [rows.write_window(key, window, posting.now_ms) for key, window in windows.items()]
    await transaction.executemany(SQL["rate_put"], written)
    return paced


async def _write(transaction: Transaction, gateway_id: GatewayId, entries: Entries) -> None:
    if entries.changed:
        moved = [rows.write_moved(entries.budgets[key]) for key in sorted(entries.changed)]
        await transaction.executemany(SQL["budget_move"], moved)
    if entries.holds:
        holds = [(gateway_id, *rows.write_key(key), *amount) for key, amount in entries.holds.items()]
        await transaction.executemany(SQL["hold_move"], holds)
        await transaction.fetch(SQL["holds_tidy"], gateway_id)


async def _bury(transaction: Transaction, gateway_id: GatewayId, now: Millis, *, died: bool) -> list[Call]:
    """Settle what a gateway left open, charge or give back what it held, and forget it."""
    found = await transaction.fetch(SQL["flights_of_gateway"], gateway_id, None)
    flights = [rows.read_flight(row) for row in found]
    holds = dict(rows.read_hold(row) for row in await transaction.fetch(SQL["holds_get"], gateway_id))
    keys = sorted({*holds, *(key for flight in flights for key in flight.keys)})
    entries = ledger.bury(gateway_id, flights, holds, await _budgets(transaction, keys), now, died=died)
    await _write(transaction, gateway_id, entries)
    if entries.calls:
        await transaction.fetch(SQL["call_put"], *rows.write_calls(entries.calls))
    for name in ("flights_drop", "holds_drop", "gateway_drop"):
        await transaction.fetch(SQL[name], gateway_id)
    return entries.calls
