"""A turn as its ledger recorded it, put together from entries as they come."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, cast

import msgspec

from homeostat.agent.journal import CARD, STEP
from homeostat.core.codec import NULL, Json
from homeostat.core.records.provenance import EntryKind, read_line
from homeostat.core.records.recording import GOES_ON
from homeostat.core.run_errors import RunNotRecorded
from homeostat.runs.bundle import Page


class Asked(msgspec.Struct, frozen=True):
    digest: str | None = None
    told_json: str | None = None


class StepTaken(msgspec.Struct, frozen=True, kw_only=True):
    """A step, a call of a model, or a tool that ran inside of the turn."""

    turn_id: str
    name: str
    outcome_json: str
    asked: Asked = Asked()
    seq: int = 0
    kind: str = ""


class CallMade(msgspec.Struct, frozen=True, kw_only=True):
    """A tool or another agent that a turn waited for."""

    turn_id: str
    call_id: str
    tool: str
    status: str
    after_execution: str
    args_json: str | None
    result_json: str | None
    seq: int = 0


class CardWritten(msgspec.Struct, frozen=True, kw_only=True):
    turn_id: str
    card_id: str
    type: str
    content_json: str
    seq: int = 0


class ContextCard(msgspec.Struct, frozen=True):
    type: str
    author: str | None
    content_json: str


class Code(msgspec.Struct, frozen=True):
    """Where an agent's code was found, and the digest of its file."""

    target: str
    source: str | None = None


class TurnEnded(msgspec.Struct, frozen=True, kw_only=True):
    """The message a turn was, and what it delivered. What there was nothing of is not said."""

    turn_id: str
    agent_id: str
    type: str
    task: dict[str, Any] | None = None
    parent_turn_id: str | None = None
    source: str | None = None
    correlation_id: str | None = None
    trace_id: str
    depth: int = 0
    created_at_ms: int
    payload_json: str
    result_fields_json: str | None = None
    context: tuple[ContextCard, ...] = ()
    code: Code | None = None
    in_order: bool = False
    left_out: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    memory: dict[str, Json] = msgspec.field(default_factory=dict[str, Json])
    status: str | None
    result_json: str = NULL
    error_json: str = NULL
    order: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """How the turn is called in words."""
        if self.task is not None:
            number, name = self.task.get("number"), self.task.get("name")
            return f"task {number} ({name})" if number is not None else f"task {name}"
        return f"the turn of {self.agent_id} ({self.turn_id})"


@dataclass(slots=True)
class Tape:
    """Everything that came to a turn from outside, and what became of it."""

    run_id: str
    project: str
    steps: dict[str, StepTaken] = field(default_factory=dict[str, StepTaken])
    calls: dict[str, CallMade] = field(default_factory=dict[str, CallMade])
    cards: list[CardWritten] = field(default_factory=list[CardWritten])
    end: TurnEnded | None = None
    end_seq: int = 0

    @property
    def entries(self) -> int:
        return len(self.steps) + len(self.calls) + len(self.cards) + 1

    def _called(self, place: str) -> "StepTaken | CallMade | None":
        """What has this name in the order; ledgers of before call a step by its own, though a call may have it too."""
        return self.calls.get(place) or self.steps.get(place.removeprefix(STEP))

    def arrange(self, order: tuple[str, ...]) -> None:
        """Give entries their numbers in the order in which the code asked for them. What was written down while the
        turn ran stands by the clock, which cannot tell two things of one millisecond apart.
        """
        parts: list[StepTaken | CallMade | CardWritten] = [*self.steps.values(), *self.calls.values(), *self.cards]
        numbers = sorted(part.seq for part in parts)
        cards, left = iter(self.cards), {id(part): part for part in parts}
        asked: list[StepTaken | CallMade | CardWritten] = []
        for name in order:
            part = next(cards, None) if name == CARD else self._called(name)
            if part is not None and left.pop(id(part), None) is not None:
                asked.append(part)
        arranged = zip([*asked, *sorted(left.values(), key=lambda part: part.seq)], numbers, strict=True)
        placed = {id(part): msgspec.structs.replace(part, seq=seq) for part, seq in arranged}
        self.steps = {name: cast("StepTaken", placed[id(step)]) for name, step in self.steps.items()}
        self.calls = {name: cast("CallMade", placed[id(call)]) for name, call in self.calls.items()}
        self.cards = [cast("CardWritten", placed[id(card)]) for card in self.cards]


class Config(msgspec.Struct, frozen=True):
    """Of what was asked for, whether it can be replayed; runs of long ago did not say so, and can."""

    replay: bool = True


class Created(msgspec.Struct, frozen=True):
    """The first entry of a run, as far as a replay reads it."""

    config: Config = Config()


class Untold(msgspec.Struct, frozen=True):
    """That nothing could be written down of a turn, or of one thing it did; or any other change of a run."""

    change: str = ""
    turn_id: str = ""
    key: str = ""
    why: str = ""


_KIND: Final = b'"kind":"'
_created = msgspec.json.Decoder(Created)
_step = msgspec.json.Decoder(StepTaken)
_call = msgspec.json.Decoder(CallMade)
_card = msgspec.json.Decoder(CardWritten)
_end = msgspec.json.Decoder(TurnEnded)
_untold = msgspec.json.Decoder(Untold)
_UNTOLD: Final = b'"change":"untold"'
_GOES_ON: Final = f'"change":"{GOES_ON}"'.encode()
_CHANGED: Final = EntryKind.RUN_CHANGED.value.encode()

_CREATED: Final = EntryKind.RUN_CREATED.value.encode()
_STEP, _MODEL, _TOOL, _CARD, _END = (
    kind.value.encode()
    for kind in (EntryKind.STEP, EntryKind.MODEL_CALL, EntryKind.TOOL_RESULT, EntryKind.CARD, EntryKind.TURN_ENDED)
)
_KINDS: Final = frozenset({_CREATED, _STEP, _MODEL, _TOOL, _CARD, _END})


class Tapes:
    """Winds entries onto tapes. Only what belongs to turns is decoded; the rest of a ledger passes by."""

    def __init__(self, project: str, run_id: str) -> None:
        self._project = project
        self._run_id = run_id
        self._open: dict[str, Tape] = {}
        self._untold: list[str] = []
        self._going_on: dict[str, str] = {}

    def take(self, page: Page) -> Iterator[Tape]:
        """Tapes that are complete with this page."""
        for line in page:
            start = line.find(_KIND, 0, 48) + len(_KIND)
            kind = line[start : line.find(b'"', start)]
            if kind == _CHANGED and (_UNTOLD in line or _GOES_ON in line):
                self._note_untold(line)
            if kind in _KINDS and (tape := self._wind(kind, line)) is not None:
                yield tape

    def _note_untold(self, line: bytes) -> None:
        said = _untold.decode(read_line(line).payload)
        if said.change == "untold":
            self._untold.append(f"{said.turn_id or said.key}: the ledger does not tell of it ({said.why})")
        elif said.change == GOES_ON:
            self._going_on[said.turn_id] = f"{said.turn_id}: the ledger does not tell how it ended"

    @property
    def untold(self) -> list[str]:
        """Of what nothing could be written down, in words."""
        return [*self._untold, *self._going_on.values()]

    def _wind(self, kind: bytes, line: bytes) -> Tape | None:
        entry = read_line(line)
        payload, seq = entry.payload, entry.seq
        if kind == _CREATED:
            if not _created.decode(payload).config.replay:  # every turn would differ from what it left out
                raise RunNotRecorded(run_id=self._run_id)
            return None
        if kind == _END:
            end = _end.decode(payload)
            self._going_on.pop(end.turn_id, None)
            tape = self._open.pop(end.turn_id, None) or Tape(self._run_id, self._project)
            tape.end, tape.end_seq = end, seq
            if end.order:
                tape.arrange(end.order)
            return tape
        if kind == _CARD:
            card = _card.decode(payload)
            self._tape(card.turn_id).cards.append(msgspec.structs.replace(card, seq=seq))
        elif kind == _TOOL and b'"call_id":' in line:
            call = _call.decode(payload)
            self._tape(call.turn_id).calls[call.call_id] = msgspec.structs.replace(call, seq=seq)
        else:
            step = _step.decode(payload)
            self._tape(step.turn_id).steps[step.name] = msgspec.structs.replace(step, seq=seq, kind=kind.decode())
        return None

    def _tape(self, turn_id: str) -> Tape:
        tape = self._open.get(turn_id)
        if tape is None:
            tape = self._open[turn_id] = Tape(self._run_id, self._project)
        return tape
