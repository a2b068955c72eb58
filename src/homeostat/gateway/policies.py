"""The policies in force: read before the first request, and never older than a moment in any process."""

import asyncio
import logging
from collections.abc import Callable

from homeostat.core.clock import Clock, Millis
from homeostat.core.codec import to_json
from homeostat.core.errors import BusUnavailable, Overloaded, StoreUnavailable
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.limits import (
    CHAINS_CACHED_MAX,
    POLICIES_MAX,
    POLICY_OUTAGE_SECONDS,
    POLICY_STALE_SECONDS,
    POLICY_STALE_SECONDS_MAX,
)
from homeostat.core.ports.bus import Bus
from homeostat.core.ports.gateway import GatewayStore
from homeostat.core.records.enforcement import Mandate
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.policy import Action, Policy, PolicyFilter, PolicyId
from homeostat.core.records.rate import RateKey
from homeostat.core.records.turn import AgentKey
from homeostat.gateway.policy import Chain, check, compose, holds_for
from homeostat.gateway.rates import Allowance

log = logging.getLogger(__name__)

CHANGED = "policies"


class PolicyBook:
    """Composed chains by agent. Others' changes are heard on the bus, and found by asking should that be silent."""

    def __init__(
        self,
        *,
        store: GatewayStore,
        bus: Bus,
        clock: Clock,
        changed: Callable[[], None],
        allowance_of: Callable[[RateKey], Allowance],
        outage_seconds: float = POLICY_OUTAGE_SECONDS,
    ) -> None:
        self._store = store
        self._bus = bus
        self._clock = clock
        self._changed = changed
        self.version = 0
        self._policies: dict[tuple[ProjectId, AgentId | None], list[Policy]] = {}
        self._chains: dict[AgentKey, Chain] = {}
        self._allowance_of = allowance_of
        self._outage_seconds = outage_seconds
        self._checked_at = 0.0
        self._heard_at = 0.0
        self._silence: StoreUnavailable | None = None
        self._checking: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Read everything, before the first request; then listen."""
        await self.refresh()
        await self._bus.subscribe(subject("*", Channel.EVT, "gateway", "*", CHANGED), self._on_changed)

    # --- on the way of every call ----------------------------------------------------------------------------

    def chain(self, key: AgentKey, now: Millis) -> Chain:
        """What holds for an agent now."""
        chain = self._chains.get(key)
        if chain is None or chain.valid_until_ms <= now:
            chain = self._compose(key, now)
        return chain

    def is_stale(self, now: float) -> bool:
        """Whether the store must answer before the policies are believed; mostly it was asked just now."""
        age = now - self._checked_at
        if age < POLICY_STALE_SECONDS:
            return False
        self._ask()
        return age >= POLICY_STALE_SECONDS_MAX

    def _ask(self) -> "asyncio.Task[None]":
        if self._checking is None:
            self._checking = asyncio.get_running_loop().create_task(self._check())
        return self._checking

    async def settle(self) -> None:
        """Wait for an answer to a question of now. Raises where the store has been silent for longer than is allowed.

        The answer to the question under way may have lain there while this process slept, or on the line: then what it
        says is as old as the question, and another one is asked.
        """
        now = self._clock.monotonic()
        while now - self._checked_at >= POLICY_STALE_SECONDS_MAX:
            await asyncio.shield(self._ask())
            if self._silence is not None:
                raise self._silence

    async def _check(self) -> None:
        try:
            asked_at = self._clock.monotonic()
            if await self._store.version() != self.version:
                await self.refresh()
            self._hear(asked_at)
        except StoreUnavailable as error:
            now = self._clock.monotonic()
            if now - self._heard_at <= self._outage_seconds:
                log.warning("policies cannot be checked, the last ones known stay in force: %s", error)
                self._checked_at = now
            elif self._silence is None:
                log.warning(
                    "policies could not be checked for %g s; calls are refused: %s", self._outage_seconds, error
                )
                self._silence = error
        finally:
            self._checking = None

    def _hear(self, asked_at: float) -> None:
        self._checked_at = self._heard_at = asked_at
        self._silence = None

    def _compose(self, key: AgentKey, now: Millis) -> Chain:
        project, agent_id = key
        policies = [*self._policies.get((project, None), ()), *self._policies.get((project, agent_id), ())]

        chain = compose(policies, now, lambda policy_id: self._allowance_of((project, policy_id, agent_id)))
        if len(self._chains) >= CHAINS_CACHED_MAX:
            self._chains.clear()
        self._chains[key] = chain
        return chain

    # --- changes -------------------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Read every policy anew."""
        asked_at = self._clock.monotonic()
        version, policies = await self._store.policies()
        if version < self.version:
            return
        grouped: dict[tuple[ProjectId, AgentId | None], list[Policy]] = {}
        for policy in policies:
            grouped.setdefault((policy.project, policy.agent_id), []).append(policy)
        self._policies = grouped
        self._chains.clear()
        self.version = version
        self._hear(asked_at)
        self._changed()

    def all(self, project: ProjectId) -> list[Policy]:
        """A project's policies that have not expired."""
        now = self._clock.now_ms()
        found = [p for (owner, _), group in self._policies.items() if owner == project for p in group]
        return sorted((p for p in found if not p.expired(now)), key=lambda policy: policy.policy_id)

    def get(self, project: ProjectId, policy_id: PolicyId) -> Policy | None:
        return next((policy for policy in self.all(project) if policy.policy_id == policy_id), None)

    def of_agent(self, key: AgentKey) -> list[Policy]:
        return [policy for policy in self.all(key[0]) if holds_for(policy, key[1])]

    async def put(self, policy: Policy, mandate: Mandate | None = None) -> int:
        """Set a policy; when this returns it is in force here, and a moment later everywhere."""
        check(policy)
        if sum(len(group) for group in self._policies.values()) >= POLICIES_MAX:
            raise Overloaded(problem=f"there are {POLICIES_MAX} policies already")
        version = await self._store.put_policy(policy, mandate)
        await self.refresh()
        await self._announce(policy.project, policy.policy_id, {"set": policy, "version": version})
        if policy.action is Action.CLEAR_CONTEXT and policy.agent_id is not None:
            control = to_json({"control": "clear_context", "policy_id": policy.policy_id, "reason": policy.reason})
            event_id = f"{policy.policy_id}:{version}"
            event = Event(event_id, policy.project, Channel.CMD, "agent", policy.agent_id, "control", control)
            await self._publish(event)
        return version

    async def drop(self, project: ProjectId, policy_id: PolicyId, mandate: Mandate | None = None) -> bool:
        version = await self._store.drop_policy(project, policy_id, mandate)
        await self.refresh()
        if version is not None:
            await self._announce(project, policy_id, {"dropped": policy_id, "version": version})
        return version is not None

    async def drop_all(self, wanted: PolicyFilter) -> list[PolicyId]:
        """Remove every policy that fits; returns which."""
        version, dropped = await self._store.drop_policies(wanted)
        await self.refresh()
        if version is not None:
            await self._announce(wanted.project, "many", {"dropped": dropped, "version": version})
        return dropped

    async def announce_budget(self, project: ProjectId, holder: str) -> None:
        """Budgets share the version of policies: whoever knew that there was none must look again."""
        await self.refresh()
        await self._announce(project, holder, {"budget": holder})

    async def _announce(self, project: ProjectId, name: str, change: dict[str, object]) -> None:
        event_id = f"policies:{self.version}"
        await self._publish(Event(event_id, project, Channel.EVT, "gateway", name, CHANGED, to_json(change)))

    async def _publish(self, event: Event) -> None:
        try:
            await self._bus.publish((event,))
        except BusUnavailable as error:
            log.warning("other gateways will find a change by asking: %s", error)

    async def _on_changed(self, event: Event) -> None:
        del event
        if await self._store.version() != self.version:
            await self.refresh()
