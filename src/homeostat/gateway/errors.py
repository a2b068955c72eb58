"""What can be wrong with what is asked of the gateway's books."""

from homeostat.core.errors import ProtocolViolation


class CallUnknown(ProtocolViolation):
    """There is no call {call_id!r}."""

    code = "call_unknown"
    http_status = 404
    hint = "GET /v1/calls lists them; calls are kept for the retention time."
