"""Ledgers, their heads, and what checks and replays of them say, as they are sent."""

from typing import Annotated, Literal

import msgspec

from homeostat.core.limits import CURSOR_MAX, PAGE_DEFAULT, PROMPT_CHARS_MAX
from homeostat.core.wire.bodies import Limit
from homeostat.core.wire.fields import Body, FilterText, Instant, Name, Shape, Value
from homeostat.core.wire.gateway import Names

Seq = Annotated[int, msgspec.Meta(ge=0, le=CURSOR_MAX, description="The number of the last entry that was seen.")]


class LiveQuery(Body, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Which entries: those behind `cursor`."""

    cursor: Seq = 0
    limit: Limit = PAGE_DEFAULT
    q: FilterText | None = None


class LedgerQuery(LiveQuery, frozen=True, kw_only=True, forbid_unknown_fields=False):
    """Which entries: those behind `cursor`, in either order. Newest first, 0 begins with the last one."""

    order: Literal["oldest", "newest"] = "oldest"


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


class NamesBody(Body, frozen=True, kw_only=True):
    """Names that are allowed and denied, with `*` for any part of a name; an empty `allow` allows all."""

    allow: Names = ()
    deny: Names = ()


NO_NAMES = NamesBody()


class ReplayPolicyBody(Body, frozen=True, kw_only=True):
    """The policy of a "what if": the first call that it would have refused is where the replay diverges."""

    models: NamesBody = NO_NAMES
    tools: NamesBody = NO_NAMES


NO_POLICY = ReplayPolicyBody()


class ReplayBody(Body, frozen=True, kw_only=True):
    """How to replay.

    `exact` takes everything from the record; `re-model` asks models anew and takes tools from the record; `what-if`
    takes what is asked as it was and asks models what they were not asked before: because of another `prompt`, another
    `model` or other code. A `policy` says which calls would be refused. `agents` names the code of agents by their ids,
    where it is not where it was. With `simulate_models` nobody outside is asked: a simulation answers.
    """

    mode: Literal["exact", "re-model", "what-if"] = "exact"
    agents: dict[Name, Name] = msgspec.field(default_factory=dict[Name, Name])
    prompt: Annotated[str, msgspec.Meta(max_length=PROMPT_CHARS_MAX)] | None = None
    model: Name | None = None
    policy: ReplayPolicyBody = NO_POLICY
    simulate_models: bool = False


class DivergenceShape(Shape, frozen=True, kw_only=True):
    """The first thing that is not as it was recorded."""

    seq: int
    message: str
    recorded: str
    now: str


class ReplayShape(Shape, frozen=True, kw_only=True):
    """What a replay came to: `identical`, `diverged`, `incomplete` (some code is not here, or no model answered),
    `tampered`, or `unreached`: nothing differs because the other prompt or model reached none of the agents; they are
    named, and have no profile.
    """

    run_id: str
    mode: str
    verdict: str
    turns: int
    entries: int
    live_calls: int
    divergence: DivergenceShape | None
    changed_code: list[str]
    skipped: list[str]
    unreached: list[str]
