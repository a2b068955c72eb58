"""The arithmetic of the ledger: what a posting does to budgets, the same on every engine."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from homeostat.core.clock import Millis
from homeostat.core.records.budget import ZERO, Amount, Budget, BudgetKey, Drawn, Flight, Posting


@dataclass(slots=True)
class Entries:
    """What has to be written: budgets as they are now, and by how much a gateway's holds change."""

    budgets: dict[BudgetKey, Budget]
    changed: set[BudgetKey] = field(default_factory=set[BudgetKey])
    holds: dict[BudgetKey, Amount] = field(default_factory=dict[BudgetKey, Amount])
    drawn: list[Drawn] = field(default_factory=list[Drawn])
    warned: list[BudgetKey] = field(default_factory=list[BudgetKey])

    def move(self, key: BudgetKey, *, spent: Amount, held: Amount, now: Millis) -> None:
        """Change an account; one that does not exist (any more) keeps no books."""
        budget = self.budgets.get(key)
        if budget is None:
            return
        moved = replace(budget, spent=budget.spent.plus(spent), held=_floor(budget.held.plus(held)))
        if moved.warns and moved.warned_at_ms is None:
            moved = replace(moved, warned_at_ms=now)
            self.warned.append(key)
        self.budgets[key] = moved
        self.changed.add(key)

    def hold(self, key: BudgetKey, amount: Amount) -> None:
        if amount != ZERO and key in self.budgets:
            self.holds[key] = self.holds.get(key, ZERO).plus(amount)


def keys_of(posting: Posting) -> list[BudgetKey]:
    """The budgets a posting touches, in the order in which they are locked."""
    return sorted({spend.key for spend in posting.spends} | {draw.key for draw in posting.draws})


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
    return entries


def bury(
    flights: Iterable[Flight], holds: dict[BudgetKey, Amount], budgets: dict[BudgetKey, Budget], now: Millis
) -> Entries:
    """A dead gateway's open calls are charged at what was reserved for them; what else it held goes back."""
    entries = Entries(budgets)
    for flight in flights:
        for key in flight.keys:
            entries.move(key, spent=flight.reserved, held=ZERO, now=now)
    for key, held in holds.items():
        entries.move(key, spent=ZERO, held=Amount(-held.tokens, -held.micros), now=now)
    return entries


def _floor(amount: Amount) -> Amount:
    """What is held can only be less than was thought when a budget was dropped and set anew in between."""
    return Amount(max(0, amount.tokens), max(0, amount.micros))
