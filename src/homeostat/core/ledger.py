"""The arithmetic of the ledger: what a posting does to budgets, the same on every engine."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, scope_named
from homeostat.core.records.budget import (
    ZERO,
    Amount,
    Budget,
    BudgetKey,
    BudgetKind,
    Drawn,
    Flight,
    GatewayId,
    Limits,
    Posting,
    Warned,
)
from homeostat.core.records.call import Api, Call, Metered, Outcome, Priced, Usage, call_of


@dataclass(slots=True)
class Entries:
    """What has to be written: budgets as they are now, and by how much a gateway's holds change."""

    budgets: dict[BudgetKey, Budget]
    changed: set[BudgetKey] = field(default_factory=set[BudgetKey])
    holds: dict[BudgetKey, Amount] = field(default_factory=dict[BudgetKey, Amount])
    drawn: list[Drawn] = field(default_factory=list[Drawn])
    news: dict[BudgetKey, Limits] = field(default_factory=dict[BudgetKey, Limits])
    calls: list[Call] = field(default_factory=list[Call])

    def move(self, key: BudgetKey, *, spent: Amount, held: Amount, now: Millis) -> None:
        """Change an account; one that does not exist (any more) keeps no books."""
        budget = self.budgets.get(key)
        if budget is None:
            return
        moved = replace(budget, spent=budget.spent.plus(spent), held=_floor(budget.held.plus(held)))
        self.budgets[key] = moved
        self.changed.add(key)
        if ending := moved.ending(now):
            self.warn(key, ending, now)

    def warn(self, key: BudgetKey, limits: Limits, now: Millis) -> None:
        """Have the owner of an account know that bounds of it end; of each they are told once."""
        budget = self.budgets.get(key)
        if budget is None:
            return
        news = tuple(one for one in limits if one not in budget.warned and budget.most(one) is not None)
        if news:
            self.budgets[key] = replace(budget, warned_at_ms=now, warned=(*budget.warned, *news))
            self.changed.add(key)
            self.news[key] = (*self.news.get(key, ()), *news)

    @property
    def warned(self) -> tuple[Warned, ...]:
        return tuple(Warned(self.budgets[key], limits) for key, limits in self.news.items())

    def hold(self, key: BudgetKey, amount: Amount) -> None:
        if amount != ZERO and key in self.budgets:
            self.holds[key] = self.holds.get(key, ZERO).plus(amount)


def keys_of(posting: Posting) -> list[BudgetKey]:
    """The budgets a posting touches, in the order in which they are locked."""
    named = {spend.key for spend in posting.spends} | {draw.key for draw in posting.draws}
    return sorted(named.union(key for key, _ in posting.warnings) if posting.warnings else named)


def settle(posting: Posting, budgets: dict[BudgetKey, Budget]) -> Entries:
    """Spends first, then draws, each judged on what the one before left."""
    entries = Entries(budgets)
    for spend in posting.spends:
        released = Amount(-spend.released.tokens, -spend.released.micros)
        entries.move(spend.key, spent=spend.spent, held=released, now=posting.now_ms)
        entries.hold(spend.key, released)
    for draw in posting.draws:
        budget = entries.budgets.get(draw.key)
        if budget is None:
            entries.drawn.append(Drawn(None, None, None))
            continue
        granted = budget.grants(draw.need, draw.wish, posting.now_ms)
        if granted is None:
            entries.drawn.append(Drawn(None, budget.refuses(draw.need, posting.now_ms), budget))
            continue
        entries.move(draw.key, spent=ZERO, held=granted, now=posting.now_ms)
        entries.hold(draw.key, granted)
        entries.drawn.append(Drawn(granted, None, entries.budgets[draw.key]))
    for key, limit in posting.warnings:
        entries.warn(key, (limit,), posting.now_ms)
    return entries


def bury(
    gateway_id: GatewayId,
    flights: Iterable[Flight],
    holds: dict[BudgetKey, Amount],
    budgets: dict[BudgetKey, Budget],
    now: Millis,
    *,
    died: bool,
) -> Entries:
    """A gateway's open calls are charged at what was reserved for them, and if it died so is whatever else it held.

    A call too young to be written down was paid out of what was held, and nobody knows which part of it: what was
    forwarded is never free. What the call log cannot tell by calls, it tells by a line for each agent.
    """
    entries = Entries(budgets)
    rest = dict(holds)
    for flight in flights:
        entries.calls.append(flight.call)
        for key in flight.keys:
            entries.move(key, spent=flight.reserved, held=ZERO, now=now)
            rest[key] = _floor(rest.get(key, ZERO).minus(flight.reserved))
    for key, held in holds.items():
        unknown = rest[key] if died else ZERO
        entries.move(key, spent=unknown, held=Amount(-held.tokens, -held.micros), now=now)
        if key[1] is BudgetKind.AGENT and unknown != ZERO and key in budgets:
            entries.calls.append(_unwritten(gateway_id, key, unknown, now))
    return entries


def _unwritten(gateway_id: GatewayId, key: BudgetKey, charged: Amount, now: Millis) -> Call:
    """What is known of the calls that a gateway took with it: whose they were, and what they cost at most."""
    project, _, holder = key
    return Call(
        call_id=call_of(scope_named(now, f"{gateway_id} {holder}")),
        project=project,
        agent_id=AgentId(holder),
        upstream="",
        api=Api.UNKNOWN,
        path="",
        outcome=Outcome.LOST,
        status=0,
        code="gateway_died",
        started_at_ms=now,
        usage=Usage(charged.tokens),
        metered=Metered.RESERVED,
        cost_micros=charged.micros,
        priced=Priced.CAPPED,
    )


def _floor(amount: Amount) -> Amount:
    """What is held can only be less than was thought when a budget was dropped and set anew in between."""
    return Amount(max(0, amount.tokens), max(0, amount.micros))
