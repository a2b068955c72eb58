"""What a call has to pass before it is sent: it is read, every policy looks at it, and what it may use is set aside."""

from typing import Final

from homeostat.core.errors import HomeostatError, MalformedPayload
from homeostat.core.gateway_errors import ModelUnpriced
from homeostat.core.records.budget import BudgetKey, BudgetKind
from homeostat.core.records.price import Price, Rate
from homeostat.gateway.dialects.shapes import Ask
from homeostat.gateway.docket import Docket
from homeostat.gateway.metering import Bound, UnknownModel, bound, tariff
from homeostat.gateway.refusals import Refusal, refusal_of
from homeostat.gateway.request_body import RequestBody

BODILESS: Final = frozenset({"GET", "HEAD", "DELETE", "OPTIONS"})
AGENT: Final = BudgetKind.AGENT
PROBE: Final = Bound(1, 0, 1, explicit=True, price=None)  # what an unread request needs: that anything is left at all
GLANCE: Final = Bound(1, 0, 1, explicit=True, price=Price("", Rate(0, 0, 0, 0)))  # one without a body costs nothing


class Admission(Docket):
    """A call of a known agent up to where it may be sent. What is at hand is taken without waiting for the store."""

    __slots__ = ()

    async def _prepare(self) -> Refusal | None:
        """Read the request, let every policy look at it and set aside what it may use."""
        try:
            body = b""
            if self._route.dialect is not None:
                self._body = RequestBody(self._request, self._office.manners.body_bytes_max)
                body = await self._body.whole(self._headers.content_length)
            if self._run_id is not None or self._headers.said_run_id is not None:
                await self._office.admit(self._run_id, self._headers.said_run_id)
            if self._route.dialect is None:
                if self._chain.rates and (refusal := await self._draw()) is not None:
                    return refusal
                await self._reserve(GLANCE if self._request.method in BODILESS else PROBE)
                return None
            if (refusal := self._look(body)) is not None or self._set_aside_at_hand():
                return refusal
            return await self._set_aside()
        except HomeostatError as error:
            return self._refused(error)
        except BaseException:
            self._give_back()
            raise

    def _refused(self, error: HomeostatError) -> Refusal:
        self._give_back()
        self._office.tell(error, self.agent)
        return refusal_of(error)

    def _look(self, body: bytes) -> Refusal | None:
        """Read the request and let every policy look at it."""
        office, route, chain = self._office, self._route, self._chain
        assert route.dialect is not None
        self._ask = ask = route.dialect.ask(body)
        if chain.asks:
            if not self._headers.plain:
                raise MalformedPayload(
                    field="body", problem="it is said to be no plain UTF-8, and may be read otherwise"
                )
            if (refusal := chain.ask(ask)) is not None:
                return refusal
        unknown = office.manners.unknown_model
        self._tariff = priced = tariff(office.prices, route.outlet.provider, ask.model, unknown)
        if priced.price is None and unknown is UnknownModel.REFUSE:
            raise ModelUnpriced(model=ask.model, where="here")
        return None

    # --- what the call may use -------------------------------------------------------------------------------

    def _set_aside_at_hand(self) -> bool:
        """Set aside what the call may use, as far as that is at hand; says whether that was all of it."""
        chain, ask, priced = self._chain, self._ask, self._tariff
        assert ask is not None
        assert priced is not None
        if chain.rates:
            self._bound = bound(ask, priced.price) if chain.counts_tokens else None
            self._taken = chain.take(self._bound, self.began)
            if self._taken is None:
                return False
        budgets, keys = self._office.clerk.budgets, self._budget_keys()
        if not budgets.unbudgeted(keys):
            self._bound = needed = self._bound or bound(ask, priced.price)
            self._reservation = budgets.reserve_at_hand(self.call_id, keys, needed, ask.model, self.began)
            if self._reservation is None:
                return False
            if not needed.explicit:
                ask.cap_output(needed.tokens_out)
        self._keep_to_what_was_counted(ask)
        return True

    async def _set_aside(self) -> Refusal | None:
        """As `_set_aside_at_hand`, asking the store for the rest."""
        ask, priced = self._ask, self._tariff
        assert ask is not None
        assert priced is not None
        if self._chain.rates and self._taken is None and (refusal := await self._draw()) is not None:
            return refusal
        if not self._office.clerk.budgets.unbudgeted(self._budget_keys()):
            await self._reserve(self._bound or bound(ask, priced.price))
        self._keep_to_what_was_counted(ask)
        return None

    def _keep_to_what_was_counted(self, ask: Ask) -> None:
        """A call that named no bound of its own gets the one it was counted with, or more would be used than that."""
        if self._taken and self._bound is not None and ask.generates and (ask.output_cap is None or ask.output_cap < 0):
            ask.cap_output(self._bound.tokens_out)

    async def _draw(self) -> Refusal | None:
        """Ask the store for room, settling first what is over: it may have used less than it took."""
        self._office.clerk.catch_up()
        drawn = await self._chain.draw(self._bound)
        if isinstance(drawn, Refusal):
            return drawn
        self._taken, out = drawn
        if self._ask is not None and self._bound is not None and out < self._bound.tokens_out:
            self._ask.cap_output(out)
            self._bound = bound(self._ask, self._bound.price)
        return None

    async def _reserve(self, needed: Bound) -> None:
        """Set aside what the call may use, where any budget counts it."""
        ask = self._ask
        self._bound = needed
        self._reservation = reservation = await self._office.clerk.budgets.reserve(
            self.call_id, self._budget_keys(), needed, ask.model if ask is not None else ""
        )
        if reservation is not None and ask is not None and not needed.explicit:
            cap = reservation.output_cap
            ask.cap_output(needed.tokens_out if cap is None else cap)

    def _budget_keys(self) -> tuple[BudgetKey, ...]:
        project, agent_id = self.agent
        mine: BudgetKey = (project, AGENT, agent_id)
        return (mine,) if self._run_id is None else ((project, BudgetKind.RUN, self._run_id), mine)

    def _give_back(self) -> None:
        """The call is not made after all."""
        for taken in self._taken or ():
            taken.give_back()
        self._taken = None
