"""Ledgers, their heads, and what checks and replays of them say, as they are sent."""

from typing import Annotated, Literal

import msgspec

from homeostat.core.limits import PAGE_DEFAULT
from homeostat.core.wire.bodies import Limit
from homeostat.core.wire.fields import Body, Instant, Name, Shape, Value

Seq = Annotated[int, msgspec.Meta(ge=0, description="The number of the last entry that was seen.")]


class LedgerQuery(Body, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Which entries: those behind `cursor`, oldest first."""

    cursor: Seq = 0
    limit: Limit = PAGE_DEFAULT


class EntryShape(Shape, frozen=True, kw_only=True):
    """One entry. Members of its payload whose names end in `_json` are JSON texts, exactly as they were."""

    seq: int
    kind: str
    at: Instant
    payload: Value
    hash: str


class LedgerPage(Shape, frozen=True, kw_only=True):
    entries: list[EntryShape]
    next_cursor: int | None


class HeadShape(Shape, frozen=True, kw_only=True):
    """A signed head, as it stands in bundles and head files."""

    format: str
    project: str
    run_id: str
    size: int
    root: str
    last: str
    at_ms: int
    stride: int
    marks: str
    public_key: str
    signature: str


class FindingShape(Shape, frozen=True, kw_only=True):
    """What is wrong with a ledger. `seq` is the first bad entry; with `until` it is one of those up to there."""

    code: str
    message: str
    seq: int | None
    until: int | None


class VerdictShape(Shape, frozen=True, kw_only=True):
    """What a check found."""

    valid: bool
    run_id: str
    project: str
    entries: int
    root: str
    heads: list[int]
    signed_by: list[str]
    unsigned: int
    finding: FindingShape | None


class ReplayBody(Body, frozen=True, kw_only=True):
    """How to replay. `agents` names the code of agents by their ids, where it is not where it was."""

    mode: Literal["exact"] = "exact"
    agents: dict[Name, Name] = msgspec.field(default_factory=dict[Name, Name])


class DivergenceShape(Shape, frozen=True, kw_only=True):
    """The first thing that is not as it was recorded."""

    seq: int
    message: str
    recorded: str
    now: str


class ReplayShape(Shape, frozen=True, kw_only=True):
    """What a replay came to: `identical`, `diverged`, `incomplete` (some code is not here) or `tampered`."""

    run_id: str
    mode: str
    verdict: str
    turns: int
    entries: int
    live_calls: int
    divergence: DivergenceShape | None
    changed_code: list[str]
    skipped: list[str]
