"""What is written of a call when it is over, and what of one that nobody may live to settle."""

from homeostat.core.gateway_errors import UpstreamUnreachable
from homeostat.core.limits import NAME_CHARS_MAX, TOOLS_LOGGED_MAX
from homeostat.core.records.budget import ZERO, Flight, amount_of
from homeostat.core.records.call import ANSWERED, Call, Metered, Outcome
from homeostat.gateway.accounting import NOTHING, UNREAD, Statement, reserved, state_answer, state_relayed
from homeostat.gateway.admission import BODILESS, Admission
from homeostat.gateway.policy import alert
from homeostat.gateway.routes import PATH_CHARS_KEPT


class Booking(Admission):
    """A call as the books see it: how it ended, what it used and what that cost."""

    __slots__ = ()

    def settle(self) -> Call:
        """Settle a call that is over and tell what there is to write of it."""
        statement = self._state()
        if self._reservation is not None:
            if statement.metered is Metered.ESTIMATED and self._ask is not None and self._ask.goes_on():
                statement = self._reserved() or statement
            amount = amount_of(statement.usage.tokens, statement.cost_micros or 0)
            self._office.clerk.budgets.settle(self._reservation, amount)
        tokens = statement.usage.tokens
        for taken in self._taken or ():
            taken.settle(tokens)
        call = self._call(self._outcome, self._status, self._code, statement)
        for policy in self._chain.alerts:
            if policy.max_tokens is None or tokens > policy.max_tokens:
                self._office.clerk.announce(alert(policy, call))
        return call

    def _state(self) -> Statement:
        ask, dialect, priced = self._ask, self._route.dialect, self._tariff
        if not self._sent or self._code == UpstreamUnreachable.code:
            return NOTHING
        if self._outcome is ANSWERED and self._status >= 400:
            return NOTHING
        if ask is None or dialect is None or priced is None:
            return NOTHING if self._request.method in BODILESS else UNREAD
        if self._answer is not None:
            return state_answer(ask, dialect, self._answer, priced)
        return state_relayed(ask, dialect, self._relay, priced, self._reserved())

    def _reserved(self) -> Statement | None:
        if self._reservation is None or self._bound is None or self._tariff is None:
            return None
        return reserved(self._bound, self._reservation, self._tariff)

    def _call(self, outcome: Outcome, status: int, code: str, statement: Statement) -> Call:
        ask, headers, began, route = self._ask, self._headers, self.began, self._route
        first = self._relay.first_token_at if self._relay is not None else self._ended if self._answer else None
        project, agent_id = self.agent
        return Call(  # by position: names would take thirteen times as long
            self.call_id,
            project,
            agent_id,
            route.outlet.name,
            route.api,
            route.path or self._request.path[:PATH_CHARS_KEPT],
            outcome,
            status,
            self._started_ms,
            self._run_id,
            headers.trace_id,
            ask.model[:NAME_CHARS_MAX] if ask is not None else "",
            ask.streamed if ask is not None else False,
            code,
            self._policy_id,
            _millis(self._ended - began),
            None if first is None else _millis(first - began),
            statement.usage,
            statement.metered,
            statement.cost_micros,
            statement.priced,
            headers.retries,
            ask.prompt_hash if ask is not None else "",
            _offered(ask.tools) if ask is not None and ask.tools else (),
            statement.tools,
            1,
            self._refused_by,
        )

    def flight(self) -> Flight:
        """What this call is settled at should nobody live to settle it."""
        self._ended = self._office.clock.monotonic()
        call = self._call(Outcome.LOST, 0, "gateway_died", self._reserved() or UNREAD)
        reservation = self._reservation
        if reservation is None or reservation.buried:  # what was set aside for it is charged already
            return Flight(call, ZERO, ())
        return Flight(call, reservation.amount, reservation.keys)


def _offered(tools: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name[:NAME_CHARS_MAX] for name in tools[:TOOLS_LOGGED_MAX])


def _millis(seconds: float) -> float:
    """Milliseconds, to the microsecond; `round` would write them down and read them again."""
    return int(seconds * 1_000_000) / 1000
