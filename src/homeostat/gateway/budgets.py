"""Budgets where money is spent: an upper bound is set aside before a call is sent, and settled after it.

A gateway draws from the ledger a little more than a call needs and serves the next calls out of that, so that most
calls do not wait for the store. What it has drawn is held in the ledger: nobody else can spend it.
"""

import asyncio
from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

from homeostat.core.clock import Clock
from homeostat.core.errors import StoreUnavailable
from homeostat.core.gateway_errors import BudgetExceeded, ModelUnpriced
from homeostat.core.limits import (
    ACCOUNTS_CACHED_MAX,
    BUDGET_FLOAT_CALLS,
    BUDGET_FLOAT_SECONDS,
    BUDGET_RETRIES,
    OUTPUT_TOKENS_LEAST,
)
from homeostat.core.records.budget import ZERO, Amount, Budget, BudgetKey, BudgetLimit, Draw, Drawn, Spend
from homeostat.core.records.call import CallId
from homeostat.gateway.account import Account
from homeostat.gateway.metering import Bound
from homeostat.gateway.refusals import BudgetHeld

Answered = tuple[int, Drawn]
"""What became of a draw, and in which era of this gateway: what was granted in one that is over was charged with it."""


class Ledger(Protocol):
    """Takes draws to the store and brings back what became of them."""

    def draw(self, draw: Draw) -> "asyncio.Future[Answered]": ...

    def wake(self) -> None:
        """There is something to write, though nobody waits for it."""
        ...

    def catch_up(self) -> bool:
        """Settle calls that are over and were not settled yet; says whether there were any."""
        ...


class Reservation(Struct, eq=False):
    """What is set aside for one call in each budget it counts against. `output_cap` is what its answer must keep to."""

    call_id: CallId
    amount: Amount
    parts: list[tuple[Account, Amount]] = []
    output_cap: int | None = None
    settled: bool = False
    buried: bool = False

    @property
    def keys(self) -> tuple[BudgetKey, ...]:
        return tuple(account.budget.key for account, _ in self.parts)

    def give_back(self) -> None:
        for account, held in self.parts:
            account.untake(held)
        self.parts.clear()


class Budgets:
    """Reserves and settles in memory, and goes to the ledger only when what is at hand is not enough."""

    def __init__(self, *, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._accounts: dict[BudgetKey, Account] = {}
        self._absent: set[BudgetKey] = set()
        self._open: dict[CallId, Reservation] = {}
        self._unposted: list[Account] = []
        self.era = 0

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
        self, call_id: CallId, keys: tuple[BudgetKey, ...], bound: Bound, model: str, now: float
    ) -> Reservation | None:
        """As `reserve`, as far as that goes without waiting; None also where the ledger has to be asked."""
        amount = bound.of(bound.tokens_out)
        reservation = Reservation(call_id, amount)
        try:
            for key in keys:
                if key in self._absent:
                    continue
                account = self._accounts.get(key)
                if account is not None and not account.stale:
                    budget = account.budget
                    if bound.price is None or budget.seconds_max is not None:
                        self._check(budget, bound, model)
                    held = account.take(amount, now)
                    if held is None and self._ledger.catch_up():
                        held = account.take(amount, now)
                    if held is not None:
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

        Raises `BudgetExceeded`, `BudgetHeld` or `ModelUnpriced`, and then nothing is set aside.
        """
        for _ in range(BUDGET_RETRIES):
            reservation = self._open[call_id] = Reservation(call_id, bound.amount)
            try:
                for key in keys:
                    await self._reserve_in(key, reservation, bound, model)
            except BaseException:
                del self._open[call_id]
                reservation.give_back()
                raise
            if reservation.buried:  # what was set aside for it first was charged while the rest was waited for
                reservation.give_back()
                continue
            if reservation.parts:
                return reservation
            del self._open[call_id]
            return None
        del self._open[call_id]
        raise StoreUnavailable(problem="this gateway was taken for dead")

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
            if drawn is None:
                continue
            if drawn.budget is None:
                return
            self._check(drawn.budget, bound, model)
            account = self._accounts[key]
            if drawn.granted is None:
                self._shrink(reservation, bound, account, drawn)
            elif self._take(account, reservation):
                return
        if (account := self._accounts.get(key)) is None:
            raise StoreUnavailable(problem="the ledger began anew each time it was asked")
        raise exceeded(account.budget, BudgetLimit.TOKENS)

    def _take(self, account: Account, reservation: Reservation) -> bool:
        held = account.take(reservation.amount, self._clock.monotonic())
        if held is None:
            return False
        reservation.parts.append((account, held))
        return True

    async def _draw(self, key: BudgetKey, account: Account | None, amount: Amount) -> Drawn | None:
        """Ask the ledger for what is missing; what it grants is at hand afterwards, unless it began anew meanwhile."""
        carried = account.earmark(amount) if account is not None else ZERO
        missing = amount.minus(carried)
        calls = account.spare_calls if account is not None else BUDGET_FLOAT_CALLS
        drawing = self._ledger.draw(Draw(key, missing, missing.plus(amount.times(calls))))
        try:
            answered = await asyncio.shield(drawing)
        except asyncio.CancelledError:
            drawing.add_done_callback(lambda done: self._know_late(key, done))
            raise
        finally:
            if account is not None and self._accounts.get(key) is account:
                account.unmark(carried)
        return self._know(key, answered)

    def _know_late(self, key: BudgetKey, drawing: "asyncio.Future[Answered]") -> None:
        """Whoever asked has gone; what was granted is at hand all the same."""
        if not drawing.cancelled() and drawing.exception() is None:
            self._know(key, drawing.result())

    def _know(self, key: BudgetKey, answered: Answered) -> Drawn | None:
        era, drawn = answered
        if era != self.era:
            return None
        if drawn.budget is None:
            self._accounts.pop(key, None)
            if len(self._absent) >= ACCOUNTS_CACHED_MAX:
                self._absent.clear()
            self._absent.add(key)
            return drawn
        account = self._accounts.get(key)
        if account is None:
            account = self._accounts[key] = Account(drawn.budget)
        account.budget = drawn.budget
        account.stale = False
        if drawn.granted is not None:
            account.add(drawn.granted)
        return drawn

    def _check(self, budget: Budget, bound: Bound, model: str) -> None:
        if budget.micros_max is not None and bound.price is None:
            raise ModelUnpriced(model=model, where=f"while {budget.kind} {budget.holder!r} has a budget in dollars")
        if budget.seconds_max is not None and budget.time_is_up(self._clock.now_ms()):
            raise exceeded(budget, BudgetLimit.SECONDS)

    def _shrink(self, reservation: Reservation, bound: Bound, account: Account, drawn: Drawn) -> None:
        """Where the agent named no cap of its own, an answer that fits what is left is better than none."""
        budget, limit = account.budget, drawn.refused_by
        assert limit is not None, "what is not granted is refused by some bound"
        fitting = bound.fitting(budget.left.plus(account.free)) if not bound.explicit else -1
        if reservation.output_cap is not None:  # another budget left less than this one does
            fitting = min(fitting, reservation.output_cap)
        if limit is BudgetLimit.SECONDS or fitting < OUTPUT_TOKENS_LEAST:
            raise exceeded(budget, limit, bound)
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
        for account, held in reservation.parts:
            account.settle(held, actual)
            if not account.unposted:
                account.unposted = True
                self._unposted.append(account)
                self._ledger.wake()

    @property
    def pending(self) -> bool:
        """Whether anything was spent that no posting carries yet."""
        return bool(self._unposted)

    def spends(self) -> list[Spend]:
        """What was spent since the last posting, by account, and what goes back to the ledger."""
        settled, self._unposted = self._unposted, []
        return [*(account.post() for account in settled), *self.surpluses()]

    def surpluses(self, *, everything: bool = False) -> list[Spend]:
        """What goes back to the ledger with the next posting."""
        now = self._clock.monotonic() + (BUDGET_FLOAT_SECONDS * 2 if everything else 0)
        spends: list[Spend] = []
        for key, account in self._accounts.items():
            if (account.free_tokens or account.free_micros) and (released := account.surplus(now)) != ZERO:
                spends.append(Spend(key, ZERO, released))
        return spends

    @property
    def at_hand(self) -> bool:
        """Whether anything is held that no call needs right now."""
        return any(account.free_tokens or account.free_micros for account in self._accounts.values())

    # --- when the ledger and this gateway disagree -----------------------------------------------------------

    def bury(self) -> None:
        """This gateway was taken for dead: all it held is charged, and with that every call that was paid from it."""
        self.era += 1
        for reservation in self._open.values():
            reservation.buried = True
        self._accounts.clear()
        self._unposted.clear()

    def hold(self, holds: dict[BudgetKey, Amount]) -> None:
        """Believe what the ledger says this gateway holds, after a draw whose outcome was not heard."""
        for key, account in self._accounts.items():
            account.hold(holds.get(key, ZERO))


def exceeded(budget: Budget, limit: BudgetLimit, bound: Bound | None = None) -> BudgetExceeded | BudgetHeld:
    """The refusal, with the numbers it rests on. What fits as soon as others return what they hold is not used up."""
    least = 0 if bound is None else bound.tokens_out if bound.explicit else OUTPUT_TOKENS_LEAST
    need = ZERO if bound is None else bound.of(least)
    wanted = "a call"
    match limit:
        case BudgetLimit.TOKENS:
            numbers = {"spent": budget.spent.tokens, "held": budget.held.tokens, "most": budget.tokens_max}
            wanted += f" of up to {need.tokens}" if need.tokens else ""
        case BudgetLimit.USD:
            spent, held = budget.spent.micros / 1_000_000, budget.held.micros / 1_000_000
            numbers = {
                "spent": f"${spent:.6f}",
                "held": f"${held:.6f}",
                "most": f"${(budget.micros_max or 0) / 1e6:.6f}",
            }
            wanted += f" of up to ${need.micros / 1e6:.6f}" if need.micros else ""
        case BudgetLimit.SECONDS:
            numbers = {"spent": f"{budget.seconds_max:g} s", "held": "0 s", "most": f"{budget.seconds_max:g} s"}
    waits = bound is not None and limit is not BudgetLimit.SECONDS and bound.fitting(budget.unspent) >= least
    refusal = BudgetHeld if waits else BudgetExceeded
    return refusal(limit=limit.value, kind=budget.kind.value, holder=budget.holder, wanted=wanted, **numbers)
