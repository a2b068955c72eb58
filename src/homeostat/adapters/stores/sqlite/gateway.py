"""The gateway's store on SQLite: one writer at a time, so a transaction may read, decide and write."""

import sqlite3
from collections.abc import Iterable, Sequence

from homeostat.adapters.stores import gateway_rows as rows
from homeostat.adapters.stores.sqlite import mandates
from homeostat.adapters.stores.sqlite.bulk import put_rows
from homeostat.adapters.stores.sqlite.engine import SqliteEngine
from homeostat.adapters.stores.sqlite.transaction import immediate
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

SQL = statements("sqlite", "gateway")


class SqliteGateway:
    """Policies, ledger and call log on an engine that is open and migrated."""

    def __init__(self, engine: SqliteEngine) -> None:
        self._engine = engine

    # --- policies ------------------------------------------------------------------------------------------

    async def version(self) -> int:
        return await self._engine.read(lambda connection: connection.execute(SQL["version_get"]).fetchone()[0])

    async def policies(self) -> tuple[int, list[Policy]]:
        def work(connection: sqlite3.Connection) -> tuple[int, list[Policy]]:
            connection.execute("BEGIN")
            try:
                version = connection.execute(SQL["version_get"]).fetchone()[0]
                return version, [rows.read_policy(row) for row in connection.execute(SQL["policies_all"])]
            finally:
                connection.execute("COMMIT")

        return await self._engine.read(work)

    async def put_policy(self, policy: Policy, mandate: Mandate | None = None) -> int:
        def work(connection: sqlite3.Connection) -> int:
            mandates.require(connection, mandate)
            connection.execute(SQL["policy_put"], rows.write_policy(policy))
            return _bump(connection)

        return await self._engine.save(work)

    async def drop_policy(self, project: ProjectId, policy_id: PolicyId, mandate: Mandate | None = None) -> int | None:
        def work(connection: sqlite3.Connection) -> int | None:
            mandates.require(connection, mandate)
            if not connection.execute(SQL["policy_drop"], (project, policy_id)).rowcount:
                return None
            return _bump(connection)

        return await self._engine.save(work)

    async def drop_policies(self, wanted: PolicyFilter) -> tuple[int | None, list[PolicyId]]:
        def work(connection: sqlite3.Connection) -> tuple[int | None, list[PolicyId]]:
            found = connection.execute(SQL["policies_drop"], rows.write_policy_filter(wanted)).fetchall()
            dropped = sorted(PolicyId(row[0]) for row in found)
            return (_bump(connection) if dropped else None), dropped

        return await self._engine.save(work)

    # --- the ledger ----------------------------------------------------------------------------------------

    async def put_budget(self, budget: Budget) -> Budget:
        def work(connection: sqlite3.Connection) -> Budget:
            connection.execute(SQL["budget_put"], rows.write_bounds(budget))
            _bump(connection)
            return _budgets(connection, [budget.key])[budget.key]

        return await self._engine.save(work)

    async def drop_budget(self, key: BudgetKey) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            dropped = connection.execute(SQL["budget_drop"], rows.write_key(key)).rowcount > 0
            connection.execute(SQL["holds_forget"], rows.write_key(key))
            _bump(connection)
            return dropped

        return await self._engine.save(work)

    async def budget(self, key: BudgetKey) -> Budget | None:
        return await self._engine.read(lambda connection: _budgets(connection, [key]).get(key))

    async def ceiling(self, key: BudgetKey) -> tuple[int | None, int | None]:
        found = await self._all("budget_ceiling", rows.write_key(key))
        return (found[0][0], found[0][1]) if found else (None, None)

    async def budgets(self, project: ProjectId, *, after: BudgetKey | None, limit: int) -> list[Budget]:
        kind, holder = (after[1].value, after[2]) if after is not None else ("", "")
        found = await self._all("budgets_list", (project, kind, holder, limit))
        return [rows.read_budget(row) for row in found]

    async def enter(self, gateway_id: GatewayId, expires_at_ms: Millis) -> None:
        await self._engine.write(
            lambda connection: connection.execute(SQL["gateway_enter"], (gateway_id, expires_at_ms)) and None
        )

    async def post(self, posting: Posting) -> Posted:
        return await self._engine.save(lambda connection: _post(connection, posting))

    async def holds(self, gateway_id: GatewayId) -> dict[BudgetKey, Amount]:
        return await self._engine.read(lambda connection: _holds(connection, gateway_id))

    async def leave(self, gateway_id: GatewayId) -> None:
        def work(connection: sqlite3.Connection) -> None:
            with immediate(connection):
                _bury(connection, gateway_id, Millis(0), died=False)

        await self._engine.write(work)

    async def bury(self, now: Millis, *, latest: Millis, sparing: GatewayId, limit: int) -> list[Call]:
        def work(connection: sqlite3.Connection) -> list[Call]:
            buried: list[Call] = []
            for (gateway_id,) in connection.execute(SQL["gateways_dead"], (now, sparing, limit, latest)).fetchall():
                with immediate(connection):
                    buried += _bury(connection, gateway_id, now, died=True)
            return buried

        return await self._engine.write(work)

    async def expire_rates(self, before: Millis, limit: int) -> int:
        return await self._engine.write(
            lambda connection: connection.execute(SQL["rates_expire"], (before, limit)).rowcount
        )

    async def gateways(self, now: Millis) -> list[GatewayView]:
        return [GatewayView(*row) for row in await self._all("gateways_live", (now,))]

    # --- calls ---------------------------------------------------------------------------------------------

    async def calls(self, wanted: CallFilter, limit: int) -> list[Call]:
        name = "calls_of_run" if wanted.run_id else "calls_of_agent" if wanted.agent_id else "calls_list"
        return [rows.read_call(row) for row in await self._all(name, rows.write_filter(wanted, limit))]

    async def outlays(self, project: ProjectId, since: Millis, until: Millis) -> dict[AgentId, Outlay]:
        since_id, until_id = rows.write_span(since, until)
        return dict(rows.read_outlay(row) for row in await self._all("calls_spent", (project, since_id, until_id)))

    async def spent_for(self, project: ProjectId, run_id: RunId, *, after: str) -> Amount:
        return Amount(*(await self._all("calls_of_run_spent", (project, run_id, after)))[0])

    async def logged(self, agent: AgentKey, since: Millis) -> tuple[int, int]:
        since_id, _ = rows.write_span(since, since)
        found = await self._all("calls_logged", (*agent, since_id))
        return found[0][0], found[0][1]

    async def flights(self, project: ProjectId, agent_id: AgentId | None, limit: int) -> list[Flight]:
        return [rows.read_flight(row) for row in await self._all("flights_list", (project, agent_id, limit))]

    async def flights_count(self, project: ProjectId, agent_id: AgentId, *, besides: GatewayId) -> int:
        return (await self._all("flights_count", (project, agent_id, besides)))[0][0]

    async def flights_of(self, project: ProjectId, run_id: RunId, limit: int) -> list[CallId]:
        found = await self._all("flights_of_run", (project, rows.write_mark(run_id), limit))
        return [row[0] for row in found]

    async def expire_calls(self, before: CallId, limit: int) -> int:
        return await self._engine.write(
            lambda connection: connection.execute(SQL["calls_expire"], (before, limit)).rowcount
        )

    async def _all(self, name: str, values: Sequence[object]) -> list[rows.Row]:
        return await self._engine.read(lambda connection: connection.execute(SQL[name], values).fetchall())


def _bump(connection: sqlite3.Connection) -> int:
    connection.execute(SQL["version_bump"])
    return connection.execute(SQL["version_get"]).fetchone()[0]


def _budgets(connection: sqlite3.Connection, keys: Iterable[BudgetKey]) -> dict[BudgetKey, Budget]:
    found = (connection.execute(SQL["budget_get"], rows.write_key(key)).fetchone() for key in keys)
    return {budget.key: budget for row in found if row is not None for budget in (rows.read_budget(row),)}


def _holds(connection: sqlite3.Connection, gateway_id: GatewayId) -> dict[BudgetKey, Amount]:
    return dict(rows.read_hold(row) for row in connection.execute(SQL["holds_get"], (gateway_id,)))


def _post(connection: sqlite3.Connection, posting: Posting) -> Posted:
    gateway_id = posting.gateway_id
    many = connection.executemany
    last = connection.execute(SQL["gateway_get"], (gateway_id,)).fetchone()
    if last is None:
        return Posted(alive=False)
    if last[0] >= posting.number:
        return Posted(alive=True, repeated=True)
    beat = (gateway_id, posting.expires_at_ms, posting.number, posting.seen_version)
    connection.execute(SQL["gateway_beat"], beat)
    entries = ledger.settle(posting, _budgets(connection, ledger.keys_of(posting)))
    _write(connection, gateway_id, entries)
    paced = _pace(connection, posting)
    if posting.opened:
        many(SQL["flight_put"], [rows.write_flight(flight, gateway_id) for flight in posting.opened])
    if posting.closed:
        many(SQL["flight_drop"], [(call_id,) for call_id in posting.closed])
    put_rows(connection, SQL["call_put"], [rows.write_call(call) for call in posting.calls])
    return Posted(alive=True, drawn=tuple(entries.drawn), paced=paced, warned=entries.warned)


def _pace(connection: sqlite3.Connection, posting: Posting) -> tuple[RateDrawn, ...]:
    draws, returns = posting.rate_draws, posting.rate_returns
    if not draws and not returns:
        return ()
    windows: dict[RateKey, pacing.Window] = {}
    for key in pacing.keys_of(draws, returns):
        row = connection.execute(SQL["rate_get"], key).fetchone()
        windows[key] = pacing.Window() if row is None else rows.read_window(row)
    paced = pacing.pace(draws, returns, windows, posting.now_ms)
    written = [rows.write_window(key, window, posting.now_ms) for key, window in windows.items()]
    connection.executemany(SQL["rate_put"], written)
    return paced


def _write(connection: sqlite3.Connection, gateway_id: GatewayId, entries: Entries) -> None:
    if entries.changed:
        moved = [rows.write_moved(entries.budgets[key]) for key in sorted(entries.changed)]
        connection.executemany(SQL["budget_move"], moved)
    if entries.holds:
        holds = [(gateway_id, *rows.write_key(key), *amount) for key, amount in entries.holds.items()]
        connection.executemany(SQL["hold_move"], holds)
        connection.execute(SQL["holds_tidy"], (gateway_id,))


def _bury(connection: sqlite3.Connection, gateway_id: GatewayId, now: Millis, *, died: bool) -> list[Call]:
    """Settle what a gateway left open, charge or give back what it held, and forget it."""
    flights = [rows.read_flight(row) for row in connection.execute(SQL["flights_of_gateway"], (gateway_id, -1))]
    holds = _holds(connection, gateway_id)
    keys = sorted({*holds, *(key for flight in flights for key in flight.keys)})
    entries = ledger.bury(gateway_id, flights, holds, _budgets(connection, keys), now, died=died)
    _write(connection, gateway_id, entries)
    put_rows(connection, SQL["call_put"], [rows.write_call(call) for call in entries.calls])
    for name in ("flights_drop", "holds_drop", "gateway_drop"):
        connection.execute(SQL[name], (gateway_id,))
    return entries.calls
