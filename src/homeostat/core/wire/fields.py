"""The kinds of field that bodies are made of."""

from typing import Annotated, Any

import msgspec

from homeostat.core.limits import FILTER_CHARS_MAX, NAME_CHARS_MAX

Name = Annotated[
    str,
    # `$` would let a trailing newline through; this does not.
    msgspec.Meta(min_length=1, max_length=NAME_CHARS_MAX, pattern=r"^[^\x00-\x1f\x7f]+(?![\s\S])"),
]
"""Any printable text of bounded length: agent ids, tool names, correlation ids."""

Instant = Annotated[
    str, msgspec.Meta(extra_json_schema={"format": "date-time", "examples": ["2026-01-31T12:00:00.000Z"]})
]
"""RFC 3339 in UTC with milliseconds."""

FilterText = Annotated[
    str,
    msgspec.Meta(
        max_length=FILTER_CHARS_MAX,
        description="Only what fits, as in `phase:quarantined tag:gpu cost>2 started>-1h`; an unknown field is refused "
        "with the list of those there are.",
        examples=["started>-1h"],
    ),
]
"""A filter, in the grammar of `homeostat.core.filter`."""

Hex32 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{32}(?![\s\S])", examples=["4bf92f3577b34da6a3ce929d0e0e4736"])]
"""A W3C trace id."""

Value = Annotated[msgspec.Raw, msgspec.Meta(description="Any JSON value.")]
"""A JSON value that is passed on unread."""

NO_VALUE = msgspec.Raw(b"null")
"""Nothing: what is optional and raw is this when it is absent."""


def absent() -> Any:
    """The default of a raw field: a description of the API has no words for a raw default, but for none at all."""
    return msgspec.field(default_factory=lambda: NO_VALUE)


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What a server sends: readers ignore what they do not know."""


class Body(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a caller sends: a misspelt field is an error, not silence."""
