"""What was learned of healing, as it is sent: read, vetoed, taken along and brought in."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from homeostat.core.limits import (
    LESSON_COUNT_MAX,
    MEMORY_FEEDBACK_MAX,
    MEMORY_LESSONS_MAX,
    MEMORY_VETOES_MAX,
)
from homeostat.core.records.immune import ActualCause, Diagnosis, RemedyAction
from homeostat.core.wire.fields import Body, Instant, Name, Shape
from homeostat.core.wire.immune import REASON_CHARS_MAX, Reason, ReasonBody, Word

KINDS_MAX = 64
FORMAT = "homeostat-memory"

Said = Annotated[str, msgspec.Meta(max_length=REASON_CHARS_MAX, pattern=r"\S")]
"""A reason that has to be given."""

Count = Annotated[int, msgspec.Meta(ge=0, le=LESSON_COUNT_MAX)]
When = Annotated[datetime, msgspec.Meta(tz=True)]


class FeedbackBody(Body, frozen=True, kw_only=True):
    """What the last incident of an agent really was."""

    agent_id: Name
    actual_cause: ActualCause
    notes: Reason = ""
    author: Name = "operator"


class FeedbackShape(Shape, frozen=True, kw_only=True):
    """Feedback as it is kept, and the diagnosis it is about."""

    feedback_id: str
    agent_id: str
    actual_cause: ActualCause
    notes: str
    author: str
    at: Instant
    incident_id: str | None
    diagnosis: Diagnosis | None
    kinds: tuple[str, ...]
    withdrawn: bool


class LessonShape(Shape, frozen=True, kw_only=True):
    """How often a remedy helped the fleet against a diagnosis."""

    diagnosis: Diagnosis
    action: RemedyAction
    cured: int
    failed: int


class ShiftShape(Shape, frozen=True, kw_only=True):
    """What operators' words come to: by how much they move a diagnosis where evidence of one kind is seen."""

    diagnosis: Diagnosis
    kind: str
    nats: float


class VetoBody(Body, frozen=True, kw_only=True):
    """Which remedy is not to be tried against what, on whose word and why; without an agent it is for all of them."""

    diagnosis: Diagnosis
    action: RemedyAction
    reason: Said
    agent_id: Name | None = None
    actor: Name = "operator"


class LiftVetoBody(VetoBody, frozen=True, kw_only=True):
    """Which remedy may be tried again, on whose word and why."""

    reason: Reason = ""


class VetoShape(Shape, frozen=True, kw_only=True):
    """A remedy that is not tried against a diagnosis: on one agent, or on any where none is named."""

    diagnosis: Diagnosis
    action: RemedyAction
    agent_id: str | None
    reason: str
    actor: str
    at: Instant


class VetoedShape(Shape, frozen=True, kw_only=True):
    """The veto as it stands, or stood, and what may still be tried. Where that is nothing, agents stay isolated."""

    veto: VetoShape
    left: tuple[RemedyAction, ...]


class MemoryShape(Shape, frozen=True, kw_only=True):
    """What was learned: the ladders as they stand now, what helped, what operators said, and what they vetoed."""

    ladders: dict[Diagnosis, tuple[RemedyAction, ...]]
    lessons: list[LessonShape]
    feedback: list[FeedbackShape]
    shifts: list[ShiftShape]
    vetoes: list[VetoShape]


# --- one document, out of one memory and into another ---------------------------------------------------------------


class LessonRecord(Body, frozen=True, kw_only=True):
    """How often a remedy helped one agent, how often not, and when it failed last."""

    agent_id: Name
    diagnosis: Diagnosis
    action: RemedyAction
    cured: Count = 0
    failed: Count = 0
    failed_at: When | None = None


class FeedbackRecord(Body, frozen=True, kw_only=True):
    """What an operator said of a diagnosis, or took back."""

    feedback_id: Name
    agent_id: Name
    actual_cause: ActualCause
    at: When
    notes: Reason = ""
    author: Name = "operator"
    incident_id: Word | None = None
    diagnosis: Diagnosis | None = None
    kinds: Annotated[tuple[Word, ...], msgspec.Meta(max_length=KINDS_MAX)] = ()
    withdrawn: bool = False


class VetoRecord(Body, frozen=True, kw_only=True):
    """What an operator vetoed, for one agent or for everybody."""

    diagnosis: Diagnosis
    action: RemedyAction
    reason: Said
    at: When
    agent_id: Name | None = None
    actor: Name = "operator"


class MemoryDocument(Shape, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that one project's memory holds. It needs nothing beside it."""

    format: Literal["homeostat-memory"] = FORMAT
    version: Literal[1] = 1
    project: Name | None = None
    exported_at: When | None = None
    lessons: Annotated[tuple[LessonRecord, ...], msgspec.Meta(max_length=MEMORY_LESSONS_MAX)] = ()
    feedback: Annotated[tuple[FeedbackRecord, ...], msgspec.Meta(max_length=MEMORY_FEEDBACK_MAX)] = ()
    vetoes: Annotated[tuple[VetoRecord, ...], msgspec.Meta(max_length=MEMORY_VETOES_MAX)] = ()


class ImportBody(ReasonBody, frozen=True, kw_only=True):
    """A memory to be taken in, on whose word, and why."""

    memory: MemoryDocument


class ImportShape(Shape, frozen=True, kw_only=True):
    """How much of a memory was new here, how much was known, and the ladders that are in another order by it."""

    dry_run: bool
    lessons: int
    feedback: int
    vetoes: int
    known: int
    ladders: dict[Diagnosis, tuple[RemedyAction, ...]]
