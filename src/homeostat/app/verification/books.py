"""Money and approvals: within the cap, each yes used once."""

from collections import Counter
from collections.abc import AsyncGenerator

from homeostat.app.verification.findings import Violation
from homeostat.core.clock import Millis
from homeostat.core.ids import ProjectId
from homeostat.core.limits import PAGE_MAX
from homeostat.core.ports.gateway import GatewayStore
from homeostat.core.ports.immune import ImmuneStore
from homeostat.core.records.budget import ZERO, Amount, Budget, BudgetKey
from homeostat.core.records.immune import ApprovalStatus, IncidentId


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
            yield len(used), found
        before = page[-1].incident_id
