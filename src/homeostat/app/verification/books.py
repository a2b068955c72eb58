"""Money and approvals: within the cap, each yes used once."""

from collections import Counter
from collections.abc import AsyncGenerator
from typing import Final

from homeostat.app.verification.findings import Violation
from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.limits import PAGE_MAX
from homeostat.core.ports.gateway import GatewayStore
from homeostat.core.ports.immune import ImmuneStore
from homeostat.core.records.budget import ZERO, Amount, Budget, BudgetKey, BudgetKind
from homeostat.core.records.immune import ApprovalStatus, IncidentId

KNOWN_EVERYWHERE_MS: Final = 10_000
"""When every gateway knows of an account: it may serve for five seconds by what it knew, and be five seconds ahead."""


async def budgets(store: GatewayStore, project: ProjectId) -> AsyncGenerator[list[Budget]]:
    """A project's accounts, some at a time."""
    after: BudgetKey | None = None
    while page := await store.budgets(project, after=after, limit=PAGE_MAX):
        yield page
        after = page[-1].key


async def always_within_the_cap(store: GatewayStore, key: BudgetKey) -> list[Violation]:
    """What is spent and held lies within the bounds, and what is held is held by somebody.

    Bounds that were lowered may lie below what was spent before: then nothing came to it since.
    """
    account = await store.budget(key)
    if account is None:
        return []
    found: list[Violation] = []
    about = f"{account.kind.value} {account.holder}"
    used = account.spent.plus(account.held)
    if any(most is not None and part > most for part, most in zip(used, await store.ceiling(key), strict=True)):
        detail = f"{account.spent.tokens} tokens and {account.spent.micros} micro-dollars are spent"
        found.append(Violation("always_within_the_cap", about, f"{detail}, {account.held} held, of {_bounds(account)}"))
    held = ZERO
    for gateway in await store.gateways(Millis(0)):
        held = held.plus((await store.holds(gateway.gateway_id)).get(key, ZERO))
    if held != account.held:
        found.append(Violation("always_what_is_held_is_somebodys", about, f"{account.held} held, by gateways {held}"))
    return found


async def always_what_was_logged_is_spent(store: GatewayStore, key: BudgetKey) -> list[Violation]:
    """An agent's account was charged with every call in the log: calls are written down with what is charged for them.

    A gateway that has not heard of an account yet charges nothing to it. The clock of a run's account is not the time
    it was opened, what is not bounded is not held, and of calls that a dead gateway left behind the log may tell twice:
    of those nothing is known.
    """
    before = await store.budget(key)
    if before is None or before.kind is not BudgetKind.AGENT or before.tokens_max is None:
        return []
    since = Millis(before.started_at_ms + KNOWN_EVERYWHERE_MS)
    tokens, lost = await store.logged((before.project, AgentId(before.holder)), since)
    account = await store.budget(key)  # after the log: it may only have grown since
    if lost or account is None or account.started_at_ms != before.started_at_ms or tokens <= account.spent.tokens:
        return []
    detail = f"{account.spent.tokens} tokens are spent, and the log has {tokens} since its bounds were set"
    return [Violation("always_what_was_logged_is_spent", f"agent {account.holder}", detail)]


def _bounds(account: Budget) -> Amount:
    return Amount(
        -1 if account.tokens_max is None else account.tokens_max,
        -1 if account.micros_max is None else account.micros_max,
    )


async def always_a_yes_is_used_once(
    store: ImmuneStore, project: ProjectId
) -> AsyncGenerator[tuple[int, list[Violation]]]:
    """What was approved was done once at most, and nothing was done on a word that was not yes."""
    before: IncidentId | None = None
    while page := await store.incidents(project, agent_id=None, before=before, limit=PAGE_MAX):
        for incident in page:
            found: list[Violation] = []
            used = Counter(one.approval_id for one in incident.treatments if one.approval_id is not None)
            for approval_id, times in used.items():
                approval = await store.approval(project, approval_id)
                if approval is None or approval.status is not ApprovalStatus.APPROVED:
                    said = "nobody knows of" if approval is None else f"is {approval.status.value}"
                    detail = f"{incident.incident_id} was treated on it, and it {said}"
                    found.append(Violation("always_treated_on_a_yes", approval_id, detail))
                elif times > 1:
                    detail = f"it was used {times} times for {incident.incident_id}"
                    found.append(Violation("always_an_approval_is_executed_once", approval_id, detail))
                elif approval.incident_id != incident.incident_id and approval.stands_until_ms is None:
                    detail = f"it was given for {approval.incident_id}, and used for {incident.incident_id}"
                    found.append(Violation("always_an_approval_is_executed_once", approval_id, detail))
            yield len(used), found
        before = page[-1].incident_id
