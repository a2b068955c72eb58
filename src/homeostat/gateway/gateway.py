"""The gateway as one object: what the server, the other rooms and the command line call."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

from homeostat.core.clock import Clock, Millis, SystemClock
from homeostat.core.errors import InvalidRequest
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, Ids, ProjectId, RunId, chance, process_seed
from homeostat.core.limits import CALL_RETENTION_SECONDS, GATEWAY_LEASE_SECONDS, PAGE_MAX
from homeostat.core.ports.bus import Bus
from homeostat.core.ports.gateway import Assignments, GatewayStore, Keyring, Listener, PriceList
from homeostat.core.records.budget import Amount, Budget, BudgetKey, BudgetLimit
from homeostat.core.records.call import Call, CallFilter, CallId, Outcome, Outlay
from homeostat.core.records.enforcement import Mandate, Spent
from homeostat.core.records.policy import Action, Policy, PolicyFilter, PolicyId
from homeostat.core.records.rate import RateKey
from homeostat.core.records.turn import AgentKey
from homeostat.core.standstills import Standstills
from homeostat.gateway.announcing import Announcer
from homeostat.gateway.clerk import Clerk
from homeostat.gateway.doorman import Doorman
from homeostat.gateway.errands import Errands, Nobody
from homeostat.gateway.hearing import Hearing
from homeostat.gateway.office import Manners, Office, Warden
from homeostat.gateway.policies import PolicyBook
from homeostat.gateway.proxy import Proxy
from homeostat.gateway.rates import Allowance
from homeostat.gateway.rehearsal import Rehearsal, rehearse
from homeostat.gateway.routes import Outlet, Routes

ClearContext = Callable[[AgentKey, str], Awaitable[None]]
"""Has one of our own agents forget everything before its next turn; the words say why."""

SPENT_PAGES_MAX: Final = 200  # of the call log, for one receipt

Loop = tuple[str, Callable[[], Coroutine[Any, Any, None]]]


class Gateway:
    """Every model call passes here. `loops` are its background work; whoever assembles it owns their tasks."""

    def __init__(
        self,
        *,
        store: GatewayStore,
        bus: Bus,
        keyring: Keyring,
        prices: PriceList,
        outlets: list[Outlet],
        clock: Clock | None = None,
        ids: Ids | None = None,
        manners: Manners | None = None,
        project: ProjectId = DEFAULT_PROJECT,
        development: bool = False,
        assignments: Assignments | None = None,
        clear_context: ClearContext | None = None,
        listener: Listener | None = None,
        retention_seconds: float = CALL_RETENTION_SECONDS,
        lease_seconds: float = GATEWAY_LEASE_SECONDS,
    ) -> None:
        self.store, self._clear_context = store, clear_context
        self.clock, manners = clock or SystemClock(), manners or Manners()
        ids = ids or Ids(clock=self.clock, entropy=chance(process_seed()))  # calls need unique ids, not secret ones
        self.book = PolicyBook(
            store=store,
            bus=bus,
            clock=self.clock,
            changed=self._changed,
            allowance_of=self._allowance,
            outage_seconds=manners.policy_outage_seconds,
        )
        self.hearing, self.standstills = Hearing(listener), Standstills(self.clock)
        self.clerk = Clerk(
            store=store,
            announcer=Announcer(bus=bus, hearing=self.hearing, standstills=self.standstills),
            clock=self.clock,
            ids=ids,
            seen_version=lambda: self.office.in_flight.settled_version(self.book.version),
            retention_seconds=retention_seconds,
            lease_seconds=lease_seconds,
        )
        self.office = Office(
            clock=self.clock,
            ids=ids,
            routes=Routes(outlets),
            doorman=Doorman(keyring=keyring, clock=self.clock, project=project, development=development),
            book=self.book,
            clerk=self.clerk,
            prices=prices,
            manners=manners,
            errands=Errands(assignments=assignments or Nobody(), clock=self.clock, believes_runs=manners.believes_runs),
        )
        self.application = Proxy(self.office)
        self.warden = Warden(clock=self.clock, seconds=manners.patience_seconds, clerk=self.clerk)
        self.loops: tuple[Loop, ...] = (
            ("gateway clerk", self.clerk.run),
            ("gateway sweep", self.clerk.run_sweeps),
            ("gateway warden", self.warden.run),
            ("gateway announcer", self.clerk.announcer.run),
            ("standstills", self.standstills.run),
        )

    def _allowance(self, key: RateKey) -> Allowance:
        return self.clerk.rates.of(key)

    async def open(self) -> None:
        """Everything that must be known before the first request."""
        await self.book.open()
        await self.clerk.enter()

    async def close(self) -> None:
        """Break off what is open still, and write what is left. The loops have been stopped before."""
        for call in tuple(self.clerk.airspace.calls):
            call.abandon()
        await self.clerk.leave()
        for outlet in self.office.routes.outlets.values():
            await outlet.upstream.close()

    def owns(self, path: str) -> bool:
        return self.office.routes.owns(path)

    def _changed(self) -> None:
        self.clerk.budgets.forget()
        self.clerk.wake()

    # --- policies ------------------------------------------------------------------------------------------

    async def put_policy(self, policy: Policy, mandate: Mandate | None = None) -> Policy:
        await self.book.put(policy, mandate)
        if policy.action is Action.CLEAR_CONTEXT and policy.agent_id is not None and self._clear_context is not None:
            await self._clear_context((policy.project, policy.agent_id), policy.reason)
        return policy

    async def drop_policy(self, project: ProjectId, policy_id: PolicyId, mandate: Mandate | None = None) -> bool:
        return await self.book.drop(project, policy_id, mandate)

    async def drop_policies(self, wanted: PolicyFilter) -> list[PolicyId]:
        return await self.book.drop_all(wanted)

    def policy(self, project: ProjectId, policy_id: PolicyId) -> Policy | None:
        """A policy by its id, as this process has it in force."""
        return self.book.get(project, policy_id)

    async def gate(self, agent: AgentKey) -> tuple[str, str] | None:
        """What refuses a call of this agent as the store has it now: the error's code and the policy."""
        if await self.store.version() != self.book.version:
            await self.book.refresh()
        gate = self.book.chain(agent, self.clock.now_ms()).gate
        return None if gate is None else (gate.code, gate.policy_id or "")

    async def spent(self, agent: AgentKey, since: Millis) -> Spent:
        """What an agent got since an instant: calls that began after it."""
        if self.in_flight_here(agent) or self.clerk.owes(agent):  # a receipt waits for nobody else's calls
            await self.clerk.flush()
        refused = answered = tokens = 0
        before: CallId | None = None
        for _ in range(SPENT_PAGES_MAX):
            wanted = CallFilter(project=agent[0], agent_id=agent[1], since_ms=since, before=before)
            page = await self.store.calls(wanted, PAGE_MAX)
            refused += sum(call.repeats for call in page if call.outcome is Outcome.REFUSED)
            answered += sum(call.outcome is not Outcome.REFUSED for call in page)
            tokens += sum(call.usage.tokens for call in page)
            if len(page) < PAGE_MAX:
                break
            before = page[-1].call_id
        return Spent(refused=refused, answered=answered, tokens=tokens)

    async def rehearse(self, policy: Policy, *, since_ms: int, limit: int) -> Rehearsal:
        """What a policy would have done to the logged past, up to now."""
        await self.clerk.flush()
        return await rehearse(self.store, policy, since_ms=since_ms, limit=limit)

    # --- budgets -------------------------------------------------------------------------------------------

    async def put_budget(self, budget: Budget) -> Budget:
        """Set the bounds of a run or an agent; in force at once here, and a moment later everywhere."""
        bounds = (budget.tokens_max, budget.micros_max, budget.seconds_max)
        if all(bound is None for bound in bounds) or any(bound is not None and bound < 0 for bound in bounds):
            raise InvalidRequest(problem="a budget needs tokens, usd or seconds, none of them negative")
        stored = await self.store.put_budget(budget)
        await self.book.announce_budget(budget.project, budget.holder)
        return stored

    async def drop_budget(self, key: BudgetKey) -> bool:
        dropped = await self.store.drop_budget(key)
        await self.book.announce_budget(key[0], key[2])
        return dropped

    async def budget(self, key: BudgetKey) -> Budget | None:
        """An account as it is now, this gateway's last calls included."""
        await self.clerk.flush()
        return await self.store.budget(key)

    def warn(self, key: BudgetKey, limit: BudgetLimit) -> None:
        """Tell everybody that a bound of a budget ends, a moment later, unless that was told."""
        self.clerk.warn(key, limit)

    async def budgets(self, project: ProjectId, *, after: BudgetKey | None, limit: int) -> list[Budget]:
        await self.clerk.flush()
        return await self.store.budgets(project, after=after, limit=limit)

    # --- calls ---------------------------------------------------------------------------------------------

    async def calls(self, wanted: CallFilter, limit: int) -> list[Call]:
        """The call log, newest first, this gateway's last calls included."""
        await self.clerk.flush()
        return await self.store.calls(wanted, limit)

    async def outlays(self, project: ProjectId, since: Millis, until: Millis) -> dict[AgentId, Outlay]:
        """What agents spent on calls that began in a time, this gateway's last calls included."""
        await self.clerk.flush()
        return await self.store.outlays(project, since, until)

    async def spent_for(self, project: ProjectId, run_id: RunId, *, after: str) -> Amount:
        """What the calls of a run took that are in the log behind an id, this gateway's last ones included."""
        await self.clerk.flush()
        return await self.store.spent_for(project, run_id, after=after)

    async def open_for(self, project: ProjectId, run_id: RunId) -> list[CallId]:
        """Calls of a run that are open: those of this gateway, and what others have written of theirs."""
        await self.clerk.flush()
        return await self.store.flights_of(project, run_id, PAGE_MAX)

    async def alone(self) -> bool:
        """Whether no other gateway is alive: one has calls at hand for a moment before it writes them down."""
        live = await self.store.gateways(self.clock.now_ms())
        return all(view.gateway_id == self.clerk.gateway_id for view in live)

    def in_flight_here(self, agent: AgentKey) -> int:
        """How many calls of an agent are open in this process, exactly."""
        return self.office.in_flight.count(agent)

    async def in_flight(self, agent: AgentKey) -> int:
        """How many calls of an agent are open in all gateways together."""
        elsewhere = await self.store.flights_count(*agent, besides=self.clerk.gateway_id)
        return elsewhere + self.in_flight_here(agent)

    async def drained(self, agent: AgentKey, version: int) -> bool:
        """Whether nothing of an agent is open anywhere, and every gateway knows the policies of a version."""
        await self.clerk.flush()
        live = await self.store.gateways(self.clock.now_ms())
        return all(view.seen_version >= version for view in live) and not await self.in_flight(agent)
