"""The error tree: four families a caller can act on.

HomeostatError
├── ProtocolViolation   the caller has a bug: do not repeat the call as it is
│   ├── IllegalTransition · MalformedPayload · UnknownMessageType · PayloadTooLarge · InvalidRequest
│   ├── AgentUnknown · TurnUnknown · CardUnknown · BoxUnknown · WorkerUnknown · RouteUnknown · MethodNotAllowed
│   └── ResultFieldsMissing · IdempotencyKeyReused · SettingInvalid · IntervalInvalid
├── Conflict            the world moved on: read again, then decide
│   └── StaleEpoch · AgentBusy · TurnUnfinished · AgentExists · AgentGone · AgentExpired · BoxInUse
├── Refused             a rule or a budget says no
│   └── DepthExceeded · GateClosed · QueueFull · BoxNotYours · BoxReadOnly · BoxOfTurn · BoxReferred · Unauthenticated
│       Forbidden · OriginRefused
└── Unavailable         try again later; nothing is known to have changed
    ├── StoreUnavailable · BusUnavailable · StatusUnavailable · ServerUnreachable · Overloaded · ShuttingDown
    └── InternalError

What only one room raises stands beside: `run_errors`, `gateway_errors`, `enforcement_errors`.
The docstring of a class is its message; `{names}` in it are filled from keyword arguments.
"""

import inspect


class HomeostatError(Exception):
    """Something went wrong."""

    code: str = "error"
    http_status: int = 500
    hint: str = ""

    def __init__(self, **facts: object) -> None:
        self.facts = facts
        text = inspect.cleandoc(type(self).__doc__ or "").format_map(_Facts(facts))
        super().__init__(text[:-1] if text.endswith("..") else text)  # a fact may be a sentence of its own

    @property
    def message(self) -> str:
        return str(self)


class _Facts(dict[str, object]):
    """Lets a message be formatted although a fact is missing: an error must never raise another."""

    def __missing__(self, key: str) -> str:
        return f"<{key}>"


class ProtocolViolation(HomeostatError):
    """The request breaks the protocol."""

    code = "protocol_violation"
    http_status = 422


class Conflict(HomeostatError):
    """Somebody else was first."""

    code = "conflict"
    http_status = 409


class Refused(HomeostatError):
    """A rule forbids this."""

    code = "refused"
    http_status = 403


class Unavailable(HomeostatError):
    """Not available right now."""

    code = "unavailable"
    http_status = 503
    hint = "Try again; use the same Idempotency-Key so that nothing happens twice."


class IllegalTransition(ProtocolViolation):
    """{machine}: there is no way from {state} by {event}."""

    code = "illegal_transition"
    http_status = 409
    hint = "See how it stands with `homeostat describe`; what is under way may have to end first."


class MalformedPayload(ProtocolViolation):
    """{field} is not valid: {problem}."""

    code = "malformed_payload"
    hint = "Send JSON as the API description at /openapi.json shows it."


class InvalidRequest(ProtocolViolation):
    """{problem}."""

    code = "invalid_request"
    hint = "Correct what is named and ask again; nothing was changed."


class UnknownMessageType(ProtocolViolation):
    """{message_type!r} cannot be sent; an inbox takes {allowed}."""

    code = "unknown_message_type"


class PayloadTooLarge(ProtocolViolation):
    """{what} has {size} bytes; the limit is {limit}."""

    code = "payload_too_large"
    http_status = 413
    hint = "Store large content elsewhere and send a pointer to it."


class AgentUnknown(ProtocolViolation):
    """There is no agent {agent_id!r} in project {project!r}."""

    code = "agent_unknown"
    http_status = 404
    hint = "Host it with `homeostat worker` and wait for its word, or register it: POST /v1/agents/register."


class TurnUnknown(ProtocolViolation):
    """There is no turn {turn_id!r}."""

    code = "turn_unknown"
    http_status = 404
    hint = "Turn ids are given by POST /v1/agents/{id}/inbox; finished turns are kept for the retention time."


class CardUnknown(ProtocolViolation):
    """There is no card {card_id!r}."""

    code = "card_unknown"
    http_status = 404


class BoxUnknown(ProtocolViolation):
    """There is no box {box_id!r}."""

    code = "box_unknown"
    http_status = 404


class WorkerUnknown(ProtocolViolation):
    """There is no worker {worker_id!r} here."""

    code = "worker_unknown"
    http_status = 404
    hint = "Open a worker session first; a session ends when its lease runs out."


class RouteUnknown(ProtocolViolation):
    """There is nothing at {path}."""

    code = "route_unknown"
    http_status = 404
    hint = "The routes are listed at /docs, and described at /openapi.json."


class MethodNotAllowed(ProtocolViolation):
    """{method} is not possible on {path}; use {allowed}."""

    code = "method_not_allowed"
    http_status = 405


class ResultFieldsMissing(ProtocolViolation):
    """The deliverable misses required fields: {missing}."""

    code = "result_fields_missing"
    hint = "Return an object that has them, or hand them in with submit_result(name=value, …)."


class IdempotencyKeyReused(ProtocolViolation):
    """Idempotency-Key {key!r} was used before with another request."""

    code = "idempotency_key_reused"
    hint = "Use a fresh key for a different request."


class SettingInvalid(ProtocolViolation):
    """{setting} is not valid: {problem}."""

    code = "setting_invalid"


class IntervalInvalid(ProtocolViolation):
    """A push interval of {interval} is not possible; it has to lie between {low} s and {high} s."""

    code = "interval_invalid"


class StaleEpoch(Conflict):
    """Turn {turn_id} is no longer held by {worker_id} under epoch {epoch}."""

    code = "stale_epoch"
    hint = "Stop working on it: the turn was recovered, stopped or finished. Nothing was changed."


class AgentBusy(Conflict):
    """Agent {agent_id!r} is busy with turn {turn_id}."""

    code = "agent_busy"
    hint = "Wait until it is idle, or send a message of type 'turn', which queues."


class AgentExists(Conflict):
    """Agent {agent_id!r} is registered already."""

    code = "agent_exists"
    hint = "Send the key it was given to register it again, or choose another id."


class AgentGone(Conflict):
    """Agent {agent_id!r} was deregistered."""

    code = "agent_gone"
    http_status = 410
    hint = "A heartbeat does not bring it back; register it again with its key if it should return."


class AgentExpired(AgentGone):
    """Agent {agent_id!r} was dead for so long that the fleet let it go."""

    code = "agent_expired"
    hint = "Register it again with its id and key."


class TurnUnfinished(Conflict):
    """Turn {turn_id} has no deliverable yet."""

    code = "turn_unfinished"
    http_status = 404
    hint = "Ask again with ?wait=SECONDS."


class BoxInUse(Conflict):
    """Turn {turn_id}, which has not ended, needs box {box_id}."""

    code = "box_in_use"
    hint = "End it when that turn has ended; POST /v1/turns/{id}/stop ends the turn at once. Nothing was changed."


class DepthExceeded(Refused):
    """This call would be {depth} levels deep; the limit is {limit}."""

    code = "depth_exceeded"
    http_status = 422
    hint = "Agents are calling each other in circles, or the task should be split differently."


class GateClosed(Refused):
    """Agent {agent_id!r} takes no direct work: its gate is {gate}."""

    code = "gate_closed"
    http_status = 409
    hint = "Send a message of type 'turn': it waits in the inbox until the gate opens."


class QueueFull(Refused):
    """Agent {agent_id!r} has {queued} messages waiting, which is the limit."""

    code = "queue_full"
    http_status = 429


class BoxNotYours(Refused):
    """Box {box_id} is written by agent {owner!r}; fork it to write to a copy."""

    code = "box_not_yours"
    http_status = 409


class BoxReadOnly(Refused):
    """Box {box_id} is what the turn reads as its context, and nobody writes to it on that turn's behalf."""

    code = "box_read_only"
    http_status = 409
    hint = "Fork the box, and write to the copy."


class BoxOfTurn(Refused):
    """Box {box_id} is what turn {turn_id} wrote, and leaves with that turn."""

    code = "box_of_turn"
    http_status = 409
    hint = "It goes when the retention time is over. One that became an agent's memory stays then, and can be ended."


class BoxReferred(Refused):
    """Box {referred_by} has cards of box {box_id}: it is a fork of it, or remembers them."""

    code = "box_referred"
    http_status = 409
    hint = "End that box first, or keep this one as long as that one is needed. Nothing was changed."


class Unauthenticated(Refused):
    """This needs a valid key."""

    code = "unauthenticated"
    http_status = 401
    hint = "Send 'Authorization: Bearer KEY'."


class Forbidden(Refused):
    """This key may not {verb} {object}."""

    code = "forbidden"
    hint = "Use a key whose role and project allow it. An admin makes one: homeostat key create NAME --role ROLE."


class OriginRefused(Refused):
    """A page of {origin} may not act on {host}."""

    code = "origin_refused"
    hint = "Browsers may only use this server from its own pages; other clients send no Origin header."


class StoreUnavailable(Unavailable):
    """The store did not answer: {problem}."""

    code = "store_unavailable"


class BusUnavailable(Unavailable):
    """The bus did not answer: {problem}."""

    code = "bus_unavailable"


class StatusUnavailable(Unavailable):
    """The status server did not answer: {problem}."""

    code = "status_unavailable"


class Overloaded(Unavailable):
    """Too much work is waiting ({problem})."""

    code = "overloaded"


class ServerUnreachable(Unavailable):
    """{url} did not answer: {problem}."""

    code = "server_unreachable"
    hint = "Is it running? `homeostat up` starts one; HOMEOSTAT_URL says where it is."


class ShuttingDown(Unavailable):
    """This server is shutting down."""

    code = "shutting_down"


class InternalError(Unavailable):
    """Something went wrong inside the server."""

    code = "internal_error"
    http_status = 500
    hint = "The server's log has the details under this trace_id."
