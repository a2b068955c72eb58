"""Budgets where money is spent: an upper bound is set aside before a call is sent, and settled after it.

A gateway draws from the ledger a little more than a call needs and serves the next calls out of that, so that most
calls do not wait for the store. What it has drawn is held in the ledger: nobody else can spend it.
"""

import asyncio
from collections.abc import Callable, Container, Iterable
from typing import Protocol, cast

from msgspec import Struct

from homeostat.core.clock import Clock
from homeostat.core.errors import BudgetExceeded, ModelUnpriced
from homeostat.core.limits import (
    ACCOUNTS_CACHED_MAX,
    BUDGET_FLOAT_CALLS,
    BUDGET_FLOAT_SECONDS,
    BUDGET_RETRIES,
    OUTPUT_TOKENS_LEAST,
)
from homeostat.core.records.budget import ZERO, Amount, Budget, BudgetKey, BudgetLimit, Draw, Drawn, Spend
from homeostat.core.records.call import CallId
from homeostat.gateway.metering import Bound

_tuple = cast("Callable[[type[Amount], tuple[int, int]], Amount]", tuple.__new__)
"""What each call does a dozen times is spared a named tuple's own constructor."""


class Ledger(Protocol):
    """Takes draws to the store and brings back what became of them."""

    def draw(self, draw: Draw) -> "asyncio.Future[Drawn]": ...

    def wake(self) -> None:
        """There is something to write, though nobody waits for it."""
        ...

    def catch_up(self) -> bool:
        """Settle calls that are over and were not settled yet; says whether there were any."""
        ...


class Account:
    """This gateway's part of one budget: what it has at hand, and what is set aside for calls under way."""

    __slots__ = ("budget", "free", "last_need", "last_used", "most_open", "open", "reserved", "stale")

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.free = ZERO
        self.reserved = ZERO
        self.open = 0
        self.most_open = 0
        self.last_need = ZERO
        self.last_used = 0.0
        self.stale = False

    def take(self, amount: Amount, now: float) -> Amount | None:
        """Set as much of an amount aside as has to be held, if so much is at hand."""
        budget = self.budget
        tokens = 0 if budget.tokens_max is None else amount[0]
        micros = 0 if budget.micros_max is None else amount[1]
        free_tokens, free_micros = self.free
        self.last_used = now
        self.last_need = need = _tuple(Amount, (tokens, micros))
        if free_tokens < tokens or free_micros < micros:
            return None
        reserved_tokens, reserved_micros = self.reserved
        self.free = _tuple(Amount, (free_tokens - tokens, free_micros - micros))
        self.reserved = _tuple(Amount, (reserved_tokens + tokens, reserved_micros + micros))
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        return need

    def untake(self, held: Amount) -> None:
        self.reserved = self.reserved.minus(held)
        self.free = self.free.plus(held)
        self.open -= 1

    def earmark(self, amount: Amount) -> Amount:
        """Hand out what there is towards an amount, so that nobody else counts on it meanwhile."""
        part = self.free.least(self.budget.mask(amount))
        self.free = self.free.minus(part)
        return part

    def settle(self, held: Amount, actual: Amount) -> Amount:
        """Turn what was set aside into what was used; returns how much is no longer held."""
        budget = self.budget
        tokens, micros = self.free[0] + held[0], self.free[1] + held[1]
        used_tokens = 0 if budget.tokens_max is None else min(actual[0], tokens)
        used_micros = 0 if budget.micros_max is None else min(actual[1], micros)
        reserved_tokens, reserved_micros = self.reserved
        self.free = _tuple(Amount, (tokens - used_tokens, micros - used_micros))
        self.reserved = _tuple(Amount, (reserved_tokens - held[0], reserved_micros - held[1]))
        self.open -= 1
        return _tuple(Amount, (used_tokens, used_micros))

    @property
    def float_calls(self) -> int:
        """How many calls' worth is kept at hand: a few, and more the more were made at a time lately."""
        return BUDGET_FLOAT_CALLS + 2 * self.most_open

    def surplus(self, now: float) -> Amount:
        """Take out what is at hand beyond what the next calls will need."""
        idle = now - self.last_used > BUDGET_FLOAT_SECONDS
        if idle:
            self.most_open = self.open
        keep = ZERO if idle or self.stale else self.free.least(self.last_need.times(2 * self.float_calls))
        released = self.free.minus(keep)
        self.free = keep
        return released


class Reservation:
    """What is set aside for one call in each budget it counts against. `output_cap` is what its answer must keep to."""

    __slots__ = ("amount", "buried", "call_id", "output_cap", "parts", "settled")

    def __init__(self, call_id: CallId, amount: Amount) -> None:
        self.call_id = call_id
        self.amount = amount
        self.output_cap: int | None = None
        self.parts: list[tuple[Account, Amount]] = []
        self.settled = False
        self.buried = False

    @property
    def keys(self) -> tuple[BudgetKey, ...]:
        return tuple(account.budget.key for account, _ in self.parts)

    def give_back(self) -> None:
        for account, held in self.parts:
            account.untake(held)
        self.parts.clear()


class Settlement(Struct, frozen=True):
    """A call's entry for the next posting."""

    call_id: CallId
    spends: tuple[Spend, ...]


class Budgets:
    """Reserves and settles in memory, and goes to the ledger only when what is at hand is not enough."""

    def __init__(self, *, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._accounts: dict[BudgetKey, Account] = {}
        self._absent: set[BudgetKey] = set()
        self._open: dict[CallId, Reservation] = {}
        self.settlements: list[Settlement] = []

    def forget(self) -> None:
        """Budgets were set or changed: what was not there may be there now, and bounds may be others."""
        self._absent.clear()
        for account in self._accounts.values():
            account.stale = True

    def unbudgeted(self, keys: Iterable[BudgetKey]) -> bool:
        """Whether it is known that no budget counts for these."""
        return self._absent.issuperset(keys)

    # --- reserving -----------------------------------------------------------------------------------------

    def reserve_at_hand(
        self, call_id: CallId, keys: tuple[BudgetKey, ...], bound: Bound, model: str
    ) -> Reservation | None:
        """As `reserve`, as far as that goes without waiting; None also where the ledger has to be asked."""
        reservation = Reservation(call_id, bound.amount)
        now = self._clock.monotonic()
        try:
            for key in keys:
                if key in self._absent:
                    continue
                account = self._accounts.get(key)
                if account is not None and not account.stale:
                    self._check(account.budget, bound, model)
                    if (held := account.take(reservation.amount, now)) is not None:
                        reservation.parts.append((account, held))
                        continue
                reservation.give_back()
                return None
        except BaseException:
            reservation.give_back()
            raise
        if not reservation.parts:
            return None
        self._open[call_id] = reservation
        return reservation

    async def reserve(
        self, call_id: CallId, keys: tuple[BudgetKey, ...], bound: Bound, model: str
    ) -> Reservation | None:
        """Set the bound of a call aside in every budget it counts against; None where there is none.

        Raises `BudgetExceeded` or `ModelUnpriced`, and then nothing is set aside.
        """
        reservation = Reservation(call_id, bound.amount)
        try:
            for key in keys:
                await self._reserve_in(key, reservation, bound, model)
        except BaseException:
            reservation.give_back()
            raise
        if not reservation.parts:
            return None
        self._open[call_id] = reservation
        return reservation

    async def _reserve_in(self, key: BudgetKey, reservation: Reservation, bound: Bound, model: str) -> None:
        for _ in range(BUDGET_RETRIES):
            if key in self._absent:
                return
            account = self._accounts.get(key)
            if account is not None and not account.stale:
                self._check(account.budget, bound, model)
                if self._take(account, reservation):
                    return
                if self._ledger.catch_up() and self._take(account, reservation):
                    return
            drawn = await self._draw(key, account, reservation.amount)
            if drawn.budget is None:
                return
            self._check(drawn.budget, bound, model)
            account = self._accounts[key]
            if drawn.granted is not None:
                taken = self._take(account, reservation)
                assert taken, "what was granted is at hand, and nobody else ran in between"
                return
            self._shrink(reservation, bound, account, drawn)
        raise exceeded(self._accounts[key].budget, BudgetLimit.TOKENS)

    def _take(self, account: Account, reservation: Reservation) -> bool:
        held = account.take(reservation.amount, self._clock.monotonic())
        if held is None:
            return False
        reservation.parts.append((account, held))
        return True

    async def _draw(self, key: BudgetKey, account: Account | None, amount: Amount) -> Drawn:
        """Ask the ledger for what is missing; what it grants is at hand afterwards."""
        carried = account.earmark(amount) if account is not None else ZERO
        missing = amount.minus(carried)
        calls = account.float_calls if account is not None else BUDGET_FLOAT_CALLS
        drawing = self._ledger.draw(Draw(key, missing, missing.plus(amount.times(calls))))
        try:
            drawn = await asyncio.shield(drawing)
        except asyncio.CancelledError:
            drawing.add_done_callback(lambda done: self._know_late(key, done))
            raise
        finally:
            if account is not None and self._accounts.get(key) is account:
                account.free = account.free.plus(carried)
        self._know(key, drawn)
        return drawn

    def _know_late(self, key: BudgetKey, drawing: "asyncio.Future[Drawn]") -> None:
        """Whoever asked has gone; what was granted is at hand all the same."""
        if not drawing.cancelled() and drawing.exception() is None:
            self._know(key, drawing.result())

    def _know(self, key: BudgetKey, drawn: Drawn) -> None:
        if drawn.budget is None:
            self._accounts.pop(key, None)
            if len(self._absent) >= ACCOUNTS_CACHED_MAX:
                self._absent.clear()
            self._absent.add(key)
            return
        account = self._accounts.get(key)
        if account is None:
            account = self._accounts[key] = Account(drawn.budget)
        account.budget = drawn.budget
        account.stale = False
        if drawn.granted is not None:
            account.free = account.free.plus(drawn.granted)

    def _check(self, budget: Budget, bound: Bound, model: str) -> None:
        if budget.micros_max is not None and bound.price is None:
            raise ModelUnpriced(model=model, where=f"while {budget.kind} {budget.holder!r} has a budget in dollars")
        if budget.ends_at_ms is not None and self._clock.now_ms() >= budget.ends_at_ms:
            raise exceeded(budget, BudgetLimit.SECONDS)

    def _shrink(self, reservation: Reservation, bound: Bound, account: Account, drawn: Drawn) -> None:
        """Where the agent named no cap of its own, an answer that fits what is left is better than none."""
        budget, limit = account.budget, drawn.refused_by
        assert limit is not None, "what is not granted is refused by some bound"
        fitting = bound.fitting(budget.left.plus(account.free)) if not bound.explicit else -1
        if reservation.output_cap is not None:  # another budget left less than this one does
            fitting = min(fitting, reservation.output_cap)
        if limit is BudgetLimit.SECONDS or fitting < OUTPUT_TOKENS_LEAST:
            raise exceeded(budget, limit)
        reservation.amount = bound.of(fitting)
        reservation.output_cap = fitting
        others = [other for other, _ in reservation.parts]
        reservation.give_back()
        for other in others:
            taken = self._take(other, reservation)
            assert taken, "what was set aside before was enough for more"

    # --- settling ------------------------------------------------------------------------------------------

    def settle(self, reservation: Reservation, actual: Amount) -> None:
        """Charge what was used; the rest is at hand again."""
        assert not reservation.settled, "a call is charged once"
        reservation.settled = True
        self._open.pop(reservation.call_id, None)
        if reservation.buried:
            return  # this gateway was taken for dead meanwhile, and the call was charged at its reservation
        spends = [
            Spend(account.budget.key, actual, account.settle(held, actual)) for account, held in reservation.parts
        ]
        self.settlements.append(Settlement(reservation.call_id, tuple(spends)))
        self._ledger.wake()

    def surpluses(self, *, everything: bool = False) -> list[Spend]:
        """What goes back to the ledger with the next posting."""
        now = self._clock.monotonic() + (BUDGET_FLOAT_SECONDS * 2 if everything else 0)
        spends: list[Spend] = []
        for key, account in self._accounts.items():
            if account.free != ZERO and (released := account.surplus(now)) != ZERO:
                spends.append(Spend(key, ZERO, released))
        return spends

    @property
    def at_hand(self) -> bool:
        """Whether anything is held that no call needs right now."""
        return any(account.free != ZERO for account in self._accounts.values())

    # --- when the ledger and this gateway disagree -----------------------------------------------------------

    def bury(self, charged: Container[CallId]) -> None:
        """This gateway was taken for dead: it holds nothing any more, and some of its calls were charged by others."""
        for reservation in self._open.values():
            reservation.buried = reservation.call_id in charged
            reservation.parts = [(Account(account.budget), ZERO) for account, _ in reservation.parts]
        self._accounts.clear()

    def hold(self, holds: dict[BudgetKey, Amount]) -> None:
        """Believe what the ledger says this gateway holds, after a draw whose outcome was not heard."""
        for key, account in self._accounts.items():
            free = holds.get(key, ZERO).minus(account.reserved)
            for settlement in self.settlements:
                for spend in settlement.spends:
                    if spend.key == key:
                        free = free.minus(spend.released)
            account.free = Amount(max(0, free.tokens), max(0, free.micros))


def exceeded(budget: Budget, limit: BudgetLimit) -> BudgetExceeded:
    """The refusal, with the numbers it rests on."""
    match limit:
        case BudgetLimit.TOKENS:
            numbers = {"spent": budget.spent.tokens, "held": budget.held.tokens, "most": budget.tokens_max}
        case BudgetLimit.USD:
            spent, held = budget.spent.micros / 1_000_000, budget.held.micros / 1_000_000
            numbers = {
                "spent": f"${spent:.6f}",
                "held": f"${held:.6f}",
                "most": f"${(budget.micros_max or 0) / 1e6:.6f}",
            }
        case BudgetLimit.SECONDS:
            numbers = {"spent": f"{budget.seconds_max:g} s", "held": "0 s", "most": f"{budget.seconds_max:g} s"}
    return BudgetExceeded(limit=limit.value, kind=budget.kind.value, holder=budget.holder, **numbers)
