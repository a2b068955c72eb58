"""Errors as callers see them: application/problem+json, with a stable code and a way out."""

from typing import Final

import msgspec

from homeostat.core.errors import HomeostatError
from homeostat.server.answers import Answer

PROBLEM_TYPE: Final = b"application/problem+json"
RESERVED: Final = frozenset({"type", "title", "status", "detail", "code", "hint", "trace_id"})

_encode = msgspec.json.Encoder(enc_hook=str).encode


def problem(error: HomeostatError, trace_id: str) -> Answer:
    """One error as a response; its facts are members of their own."""
    kind = type(error)
    facts = {name: fact for name, fact in error.facts.items() if name not in RESERVED}
    body = _encode(
        {
            "type": f"/errors/{kind.code}",
            "title": _title(kind.code),
            "status": kind.http_status,
            "detail": error.message,
            "code": kind.code,
            "hint": kind.hint,
            "trace_id": trace_id,
            **facts,
        }
    )
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if kind.http_status == 503:
        headers = ((b"retry-after", b"1"),)
    elif kind.http_status == 405:
        headers = ((b"allow", str(error.facts.get("allowed", "")).encode()),)
    elif kind.http_status == 413:
        # What the caller still wants to send would only be thrown away.
        headers = ((b"connection", b"close"),)
    return Answer(kind.http_status, body, PROBLEM_TYPE, headers)


def _title(code: str) -> str:
    return code.replace("_", " ").capitalize()
