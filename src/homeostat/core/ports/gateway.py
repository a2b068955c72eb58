"""What the gateway asks of the world: who an agent is, what a model costs, and a store for rules, money and calls."""

from typing import Protocol

from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, ProjectId, RunId
from homeostat.core.machines.run import RunStatus
from homeostat.core.records.budget import Amount, Budget, BudgetKey, Flight, GatewayId, GatewayView, Posted, Posting
from homeostat.core.records.call import Call, CallFilter, CallId, Outlay
from homeostat.core.records.conversation import Conversation
from homeostat.core.records.enforcement import Mandate
from homeostat.core.records.policy import Policy, PolicyFilter, PolicyId
from homeostat.core.records.price import Price
from homeostat.core.records.turn import AgentKey, Turn
from homeostat.core.records.vitals import Hearsay


class Keyring(Protocol):
    """Knows whose key a key is."""

    async def holder(self, key_digest: str) -> AgentKey | None:
        """The agent a key was given to, or None where there is no such key or its agent is gone."""
        ...

    def left(self, agent: AgentKey) -> bool:
        """Whether an agent may have gone, so that its key has to be looked up again."""
        ...


class Assignments(Protocol):
    """Knows what agents work on."""

    def at_hand(self, agent: AgentKey) -> tuple[bool, Turn | None]:
        """Whether that is known here without asking, as it is at this moment, and the turn that is active."""
        ...

    async def look_up(self, agent: AgentKey) -> Turn | None:
        """The turn that is active, as the store has it."""
        ...


class RunGates(Protocol):
    """Knows which runs are over."""

    async def ended(self, run_id: RunId) -> RunStatus | None:
        """The status of a run that may start nothing any more; None for any other, and where there is none."""
        ...


class PriceList(Protocol):
    """Knows what models cost."""

    def find(self, provider: str, model: str) -> Price | None:
        """The price of a model by any of its names; None where it is not known."""
        ...

    @property
    def dearest(self) -> Price:
        """What an unknown model is charged at most."""
        ...


class Listener(Protocol):
    """Looks at what was said in a call. It may be asked from any thread, and keeps nothing of what it is shown."""

    def listen(self, conversation: Conversation) -> Hearsay | None:
        """What tools told the agent to do; None if they told it nothing."""
        ...


class GatewayStore(Protocol):
    """Keeps policies, the ledger and the call log, durably. Every method may raise `StoreUnavailable`."""

    # --- policies ------------------------------------------------------------------------------------------

    async def version(self) -> int:
        """A number that grows with every change to policies and budgets."""
        ...

    async def policies(self) -> tuple[int, list[Policy]]:
        """Every policy, and the version this is."""
        ...

    async def put_policy(self, policy: Policy, mandate: Mandate | None = None) -> int:
        """Set a policy, in place of the one of that id; returns the version from which it is in force.

        Under a mandate that is void, this and `drop_policy` raise `AgentMoved`, and nothing is changed.
        """
        ...

    async def drop_policy(self, project: ProjectId, policy_id: PolicyId, mandate: Mandate | None = None) -> int | None:
        """Remove a policy; None where there is none."""
        ...

    async def drop_policies(self, wanted: PolicyFilter) -> tuple[int | None, list[PolicyId]]:
        """Remove every policy that fits, at once; returns which, after the version since then (None where none did)."""
        ...

    # --- the ledger ----------------------------------------------------------------------------------------

    async def put_budget(self, budget: Budget) -> Budget:
        """Set the bounds, the clock and the warning of a budget; what was spent and held before stays so."""
        ...

    async def drop_budget(self, key: BudgetKey) -> bool: ...

    async def budget(self, key: BudgetKey) -> Budget | None: ...

    async def ceiling(self, key: BudgetKey) -> tuple[int | None, int | None]:
        """How many tokens and micro-dollars may be spent and held without a call having been let in above the bounds.

        That is more than the bounds where they were lowered below what was spent; None where nobody can tell.
        """
        ...

    async def budgets(self, project: ProjectId, *, after: BudgetKey | None, limit: int) -> list[Budget]: ...

    async def enter(self, gateway_id: GatewayId, expires_at_ms: Millis) -> None:
        """A gateway begins; from now on it may post."""
        ...

    async def post(self, posting: Posting) -> Posted:
        """Write a posting, all or nothing. Spends come first, then draws, each judged on what the one before left.

        Room of rate limits likewise: what comes back is counted before what is drawn.
        """
        ...

    async def holds(self, gateway_id: GatewayId) -> dict[BudgetKey, Amount]:
        """What a gateway has drawn and not let go."""
        ...

    async def leave(self, gateway_id: GatewayId) -> None:
        """A gateway ends: what it holds and has not spent goes back."""
        ...

    async def bury(self, now: Millis, *, latest: Millis, sparing: GatewayId, limit: int) -> list[Call]:
        """Settle the open calls of gateways that died at what was reserved, and what else they held; returns them.

        Calls that were not written down yet come as one line for each agent whose budget they were paid from. A gateway
        that says it lives longer than `latest` was told so by a clock that is wrong, and is taken for dead.
        """
        ...

    async def expire_rates(self, before: Millis, limit: int) -> int:
        """Forget rate limits nobody has drawn on since; returns how many."""
        ...

    async def gateways(self, now: Millis) -> list[GatewayView]: ...

    # --- calls ---------------------------------------------------------------------------------------------

    async def calls(self, wanted: CallFilter, limit: int) -> list[Call]: ...

    async def outlays(self, project: ProjectId, since: Millis, until: Millis) -> dict[AgentId, Outlay]:
        """What agents spent on calls that began in a time."""
        ...

    async def spent_for(self, project: ProjectId, run_id: RunId, *, after: str) -> Amount:
        """What the calls of a run took that are in the log behind an id."""
        ...

    async def logged(self, agent: AgentKey, since: Millis) -> tuple[int, int]:
        """How many tokens the log has of an agent's calls that began since, and how many of them nobody settled."""
        ...

    async def flights(self, project: ProjectId, agent_id: AgentId | None, limit: int) -> list[Flight]:
        """The calls that are open, oldest first."""
        ...

    async def flights_count(self, project: ProjectId, agent_id: AgentId, *, besides: GatewayId) -> int:
        """How many calls of an agent are open in other gateways."""
        ...

    async def flights_of(self, project: ProjectId, run_id: RunId, limit: int) -> list[CallId]:
        """The calls of a run that are open, oldest first."""
        ...

    async def expire_calls(self, before: CallId, limit: int) -> int:
        """Forget calls older than an id; returns how many."""
        ...
