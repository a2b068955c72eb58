"""How the gateway says no: in the words of the API that is spoken, and so that no SDK hammers at a closed door."""

from dataclasses import dataclass
from typing import Final

import msgspec

from homeostat.core.errors import HomeostatError, Refused, Unavailable
from homeostat.core.gateway_errors import BudgetExceeded
from homeostat.core.ports.upstream import Headers
from homeostat.core.records.budget import BudgetKind
from homeostat.core.records.call import Api, CallId
from homeostat.gateway.asgi import Inbound

_encoder = msgspec.json.Encoder()

HELD_RETRY_SECONDS = 1
OPENAI_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "insufficient_quota",
    403: "permission_error",
    404: "invalid_request_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
}
ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


OF_A_RUN: Final = f"{BudgetKind.RUN}."


@dataclass(frozen=True, slots=True)
class Refusal:
    """One no. Without `should_retry` the SDK decides by the status."""

    status: int
    code: str
    message: str
    should_retry: bool | None = False
    retry_after_seconds: int | None = None
    policy_id: str = ""
    bound: str = ""

    @property
    def holds_a_run(self) -> bool:
        """Whether a run is held for it, as its money is used up."""
        return self.bound.startswith(OF_A_RUN)


class BudgetHeld(Refused):
    """Calls under way hold what is left of the {limit} budget of {kind} {holder!r}: {spent} of {most} are spent."""

    code = "budget_held"
    http_status = 402
    hint = "Try again when they have ended, or name the most an answer may have (max_tokens), so that less is held."


def refusal_of(error: HomeostatError) -> Refusal:
    """An error as a refusal; what is only unavailable, or held for a while, may be tried again."""
    status = 400 if error.http_status == 422 else error.http_status
    if isinstance(error, BudgetHeld):
        return Refusal(status, error.code, error.message, should_retry=True, retry_after_seconds=HELD_RETRY_SECONDS)
    bound = ".".join(str(error.facts[name]) for name in ("kind", "limit")) if isinstance(error, BudgetExceeded) else ""
    return Refusal(status, error.code, error.message, None if isinstance(error, Unavailable) else False, bound=bound)


STRANGER = Refusal(
    401,
    "unauthenticated",
    "This is not the key of a registered agent. Send the api_key that registration gave it (POST /v1/agents/register), "
    "or start it with `homeostat exec`.",
)


def is_anthropic(api: Api) -> bool:
    return api.value.startswith("anthropic")


def error_body(api: Api, refusal: Refusal, call_id: CallId) -> bytes:
    if is_anthropic(api):
        kind = ANTHROPIC_TYPES.get(refusal.status, "api_error")
        error = {"type": kind, "message": refusal.message, "code": refusal.code}
        return _encoder.encode({"type": "error", "error": error, "request_id": call_id})
    kind = OPENAI_TYPES.get(refusal.status, "server_error")
    return _encoder.encode({"error": {"message": refusal.message, "type": kind, "param": None, "code": refusal.code}})


def render(api: Api, refusal: Refusal, call_id: CallId) -> tuple[Headers, bytes]:
    """The head and body of a refusal."""
    body = error_body(api, refusal, call_id)
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"request-id" if is_anthropic(api) else b"x-request-id", call_id.encode()),
    ]
    if refusal.should_retry is not None:
        headers.append((b"x-should-retry", b"true" if refusal.should_retry else b"false"))
    if refusal.retry_after_seconds is not None:
        headers.append((b"retry-after", b"%d" % refusal.retry_after_seconds))
    return headers, body


async def turn_away(request: Inbound, api: Api, refusal: Refusal, call_id: CallId) -> None:
    """Answer with a refusal."""
    headers, body = render(api, refusal, call_id)
    await request.reply(refusal.status, headers, body)


def stream_error(api: Api, refusal: Refusal, call_id: CallId) -> bytes:
    """The same no in the middle of a stream, where the status has long been sent."""
    body = error_body(api, refusal, call_id)
    return (b"event: error\n" if is_anthropic(api) else b"") + b"data: " + body + b"\n\n"
