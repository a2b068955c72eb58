"""What is written of a call when it is over, and what of one that nobody may live to settle."""

from typing import Final

from homeostat.core.errors import UpstreamUnreachable
from homeostat.core.limits import NAME_CHARS_MAX, TOOLS_LOGGED_MAX
from homeostat.core.records.budget import ZERO, Flight
from homeostat.core.records.call import Call, Outcome
from homeostat.gateway.accounting import NOTHING, UNREAD, Statement, reserved, state_answer, state_relayed
from homeostat.gateway.admission import BODILESS, Admission
from homeostat.gateway.policy import alert
from homeostat.gateway.relay import Relay
from homeostat.gateway.routes import PATH_CHARS_KEPT

HUNG_UP: Final = 499


class Booking(Admission):
    """A call as the books see it: how it ended, what it used and what that cost."""

    _answer: bytes | None = None
    _relay: Relay | None = None
    _sent = False
    _outcome = Outcome.ABANDONED
    _status = HUNG_UP
    _code = "hung_up"
    _policy_id = ""
    _ended = 0.0

    def settle(self) -> Call:
        """Settle a call that is over and tell what there is to write of it."""
        statement = self._state()
        for taken in self._taken or ():
            taken.settle(statement.usage.tokens)
        if self._reservation is not None:
            self._office.clerk.budgets.settle(self._reservation, statement.amount)
        call = self._call(self._outcome, self._status, self._code, statement)
        for policy in self._chain.alerts:
            if policy.max_tokens is None or call.usage.tokens > policy.max_tokens:
                self._office.clerk.announce(alert(policy, call))
        return call

    def _state(self) -> Statement:
        ask, dialect, priced = self._ask, self._route.dialect, self._tariff
        if not self._sent or self._code == UpstreamUnreachable.code:
            return NOTHING
        if self._outcome is Outcome.ANSWERED and self._status >= 400:
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
        ask, headers, began = self._ask, self._headers, self.began
        first = self._relay.first_token_at if self._relay is not None else self._ended if self._answer else None
        return Call(
            call_id=self.call_id,
            project=self.agent[0],
            agent_id=self.agent[1],
            run_id=self._run_id,
            trace_id=headers.trace_id,
            upstream=self._route.outlet.name,
            api=self._route.api,
            path=self._route.path or self._request.path[:PATH_CHARS_KEPT],
            model=ask.model[:NAME_CHARS_MAX] if ask is not None else "",
            streamed=ask.streamed if ask is not None else False,
            outcome=outcome,
            status=status,
            code=code,
            policy_id=self._policy_id,
            started_at_ms=self._started_ms,
            latency_ms=round((self._ended - began) * 1000, 3),
            first_token_ms=None if first is None else round((first - began) * 1000, 3),
            usage=statement.usage,
            metered=statement.metered,
            cost_micros=statement.cost_micros,
            priced=statement.priced,
            retries=headers.retries,
            prompt_hash=ask.prompt_hash if ask is not None else "",
            tools_offered=self._offered(),
            tool_calls=statement.tools,
        )

    def _offered(self) -> tuple[str, ...]:
        tools = self._ask.tools if self._ask is not None else ()
        return tuple(name[:NAME_CHARS_MAX] for name in tools[:TOOLS_LOGGED_MAX]) if tools else ()

    def flight(self) -> Flight:
        """What this call is settled at should nobody live to settle it."""
        self._ended = self._office.clock.monotonic()
        call = self._call(Outcome.LOST, 0, "gateway_died", self._reserved() or UNREAD)
        reservation = self._reservation
        if reservation is None or reservation.buried:  # what was set aside for it is charged already
            return Flight(call, ZERO, ())
        return Flight(call, reservation.amount, reservation.keys)
