"""All that is known of one call while it is under way, whoever handles it at the moment."""

import asyncio
from typing import Final

from homeostat.core.clock import Millis
from homeostat.core.ports.upstream import Pending, UpstreamResponse
from homeostat.core.records.call import Outcome, call_of
from homeostat.core.records.turn import AgentKey
from homeostat.gateway.asgi import AtOnce, Inbound
from homeostat.gateway.budgets import Reservation
from homeostat.gateway.dialects.shapes import Ask
from homeostat.gateway.headers import RequestHeaders
from homeostat.gateway.metering import Bound, Tariff
from homeostat.gateway.office import Office
from homeostat.gateway.policy import Chain
from homeostat.gateway.rates import Taken
from homeostat.gateway.relay import Relay
from homeostat.gateway.request_body import RequestBody
from homeostat.gateway.routes import Route

ABANDONED: Final = Outcome.ABANDONED
HUNG_UP: Final = 499


class Docket:
    """The state of a call. One is made for every request, so it has slots, and its maker names no arguments."""

    __slots__ = (
        "_answer",
        "_ask",
        "_body",
        "_bound",
        "_chain",
        "_code",
        "_ended",
        "_headers",
        "_hides_usage",
        "_hung_up",
        "_office",
        "_outcome",
        "_over",
        "_pending",
        "_policy_id",
        "_refused_by",
        "_relay",
        "_request",
        "_reservation",
        "_response",
        "_route",
        "_run_id",
        "_sending_since",
        "_sent",
        "_started_ms",
        "_status",
        "_taken",
        "_tariff",
        "_task",
        "_version",
        "_waiting",
        "_watching",
        "agent",
        "began",
        "call_id",
    )

    _pending: Pending  # the upstream's answer, and who waits for it, of a call without a task
    _waiting: AtOnce

    def __init__(  # noqa: PLR0917 - a dictionary would be made of their names, for every call
        self,
        office: Office,
        request: Inbound,
        route: Route,
        headers: RequestHeaders,
        agent: AgentKey,
        chain: Chain,
        began: float,
        started_ms: Millis,
    ) -> None:
        self._office = office
        self._request = request
        self._route = route
        self._headers = headers
        self._chain = chain
        self.began = began
        self._started_ms = started_ms
        self._run_id = headers.run_id
        self.agent = agent
        self.call_id = call_of(office.ids.scope())
        # what was asked
        self._ask: Ask | None = None
        self._body: RequestBody | None = None  # where it is not here yet, or only passes
        # what was set aside for it
        self._bound: Bound | None = None
        self._tariff: Tariff | None = None
        self._taken: list[Taken] | None = None
        self._reservation: Reservation | None = None
        # on its way
        self._version: int | None = None
        self._response: UpstreamResponse | None = None
        self._hides_usage = False
        self._sending_since: float | None = None
        self._hung_up = False
        self._task: asyncio.Task[object] | None = None
        self._watching: asyncio.Task[None] | None = None
        # what became of it
        self._answer: bytes | None = None
        self._relay: Relay | None = None
        self._sent = False
        self._outcome = ABANDONED
        self._status = HUNG_UP
        self._code = "hung_up"
        self._policy_id = ""
        self._refused_by = ""
        self._ended = 0.0
        self._over = False
