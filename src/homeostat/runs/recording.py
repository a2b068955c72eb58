"""What turns left behind, as entries of their run's ledger: enough to run their code again without asking anybody."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, cast

import msgspec
from msgspec import UNSET, UnsetType

from homeostat.agent.asking import MEMORY, MEMORY_OMITTED, RECORDED_BYTES_MAX, remembered
from homeostat.agent.journal import CARD, place_of
from homeostat.core.canonical import Ordered, canonical_plain
from homeostat.core.clock import Millis
from homeostat.core.codec import NULL, Json, from_json, to_json
from homeostat.core.ids import ProjectId, TurnId, digest_of
from homeostat.core.limits import ENTRY_BYTES_MAX, PAYLOAD_BYTES_MAX
from homeostat.core.ports.ledger import LedgerStore
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.card import DELIVERABLE, KERNEL_CARDS, Card
from homeostat.core.records.provenance import EntryKind
from homeostat.core.records.recording import GOES_ON, RECORDING, TaskTold, Worked, end_of, going_on
from homeostat.core.records.turn import MessageType, Step, Turn, Wait, WaitStatus
from homeostat.core.records.view import Deliverable
from homeostat.core.redaction import redact_json

NOTHING_RECORDED: Final[Mapping[str, Any]] = {}
NOTHING: Final[Mapping[TurnId, Collection[str]]] = {}
TYPES: Final = {kind: kind.value for kind in MessageType}
OF_THE_TURN: Final = {"code": "agent", MEMORY: MEMORY, MEMORY_OMITTED: MEMORY_OMITTED}
"""What a step tells besides what it is asked, and how it is called where the end of its turn tells it."""
TOLD: Final = tuple(f'"{name}":' for name in OF_THE_TURN)
NOTHING_SAID: Final = NULL.encode()


class Delivered(msgspec.Struct, frozen=True):
    """What a deliverable says, its parts as they were written."""

    status: str | None = None
    result: msgspec.Raw = msgspec.Raw(NOTHING_SAID)
    error: msgspec.Raw = msgspec.Raw(NOTHING_SAID)


Ending = tuple[str | None, str, str]
_delivered = msgspec.json.Decoder(Delivered)
_encoder = msgspec.json.Encoder()


class TurnTold(Ordered, frozen=True, gc=False):
    """What the ledger says of a turn that is over; nothing of what most turns have nothing of."""

    agent_id: str
    code: msgspec.Raw | UnsetType
    context: msgspec.Raw | UnsetType
    correlation_id: str | UnsetType
    created_at_ms: int
    depth: int | UnsetType
    error_json: str | UnsetType
    in_order: bool | UnsetType
    left_out: dict[str, str] | UnsetType  # what an entry has no room for, by its digest if that is known
    memory: msgspec.Raw | UnsetType
    order: tuple[str, ...] | UnsetType
    parent_turn_id: str | UnsetType
    payload_json: str
    result_fields_json: str | UnsetType
    result_json: str
    source: str | UnsetType
    status: str | None
    task: TaskTold | UnsetType
    trace_id: str
    turn_id: str
    type: str


class Note(msgspec.Struct, frozen=True, gc=False):
    """One entry to be."""

    kind: EntryKind
    payload: dict[str, Any] | Ordered
    at_ms: Millis
    key: str
    name: str = CARD
    said: str | None = None


async def notes_of(
    ledger: LedgerStore,
    turns: TurnStore,
    project: ProjectId,
    tasks: Mapping[TurnId, TaskTold],
    noted: Mapping[TurnId, Collection[str]] = NOTHING,
    *,
    ended: bool = True,
    left: Callable[[TurnId], Worked | None] | None = None,
) -> dict[TurnId, list[Note]]:
    """What is to be written down of some turns, by the turn at the root: it and all it asked of others.

    `tasks` says of each which task it was. Of turns that are under way that is what they have done so far; `noted` says
    of which turns something was written down then. `left` knows what some turns left behind, and only whether that was
    all has to be asked.
    """
    short: dict[TurnId, Worked] = {}
    if left is not None and ended:
        short = {turn_id: worked for turn_id in tasks if (worked := left(turn_id)) is not None}
    for turn_id in await ledger.busy(list(short)) if short else ():
        del short[turn_id]
    notes = {
        turn_id: [_short_note(worked, tasks[turn_id], early=turn_id in noted)] for turn_id, worked in short.items()
    }
    roots = {turn_id: turn_id for turn_id in tasks if turn_id not in short} if len(short) < len(tasks) else {}
    notes.update((turn_id, []) for turn_id in roots)
    for worked in await ledger.worked(project, list(roots)) if roots else ():
        turn = worked.turn
        root = roots.get(turn.turn_id) or roots.get(cast("TurnId", turn.parent_turn_id))
        if root is None:
            continue
        roots[turn.turn_id] = root
        # That the turn at the root has ended says nothing of those that it asked of others.
        over = (ended and turn.turn_id in tasks) or any(card.type == DELIVERABLE for card in worked.cards)
        context: tuple[Card, ...] = ()
        if over and turn.context_box_id is not None:
            context = (await turns.hydrate(turn, fresh=True)).context
        early = bool(noted.get(root))
        notes[root] += turn_notes(worked, context, tasks.get(turn.turn_id), over=over, early=early)
        if ended and not over:
            notes[root].append(_going_on_note(turn))
    return notes


def _short_note(worked: Worked, task: TaskTold, *, early: bool) -> Note:
    """What is told of a turn that left nothing behind but its end, and maybe a recording: as `turn_notes` tells it."""
    recorded_as, recording = "", NOTHING_RECORDED
    for step in worked.steps:
        recorded_as = step.outcome
        recording = from_json(recorded_as)
    (delivered,) = worked.cards
    order = recording.get("order") or () if early else ()
    return _end_note(worked, delivered, (), recording, task, order=order, recorded_as=recorded_as)


def turn_notes(
    worked: Worked,
    context: Collection[Card],
    task: TaskTold | None,
    *,
    over: bool = True,
    early: bool = False,
) -> list[Note]:
    """One turn: what came to it in the order in which it came, and last, if it is over, what it made of it.

    Where something was written down early, the order is told apart: clocks are not fine enough to tell it.
    """
    turn = worked.turn
    cards = {card.card_id: card for card in worked.cards} if worked.waits else {}
    recording: dict[str, Any] = {}
    recorded_as = ""
    notes: list[tuple[int, int, Note]] = []
    for place, step in enumerate(worked.steps):
        if step.name == RECORDING:
            recorded_as = step.outcome
            recording = from_json(recorded_as)
        else:
            notes.append((step.created_at_ms, place, _step_note(step)))
    for place, wait in enumerate(worked.waits):
        if not over and wait.status is WaitStatus.PENDING:
            continue
        at = wait.answered_at_ms or wait.created_at_ms
        notes.append((at, place, _call_note(wait, cards)))
    delivered: Card | None = None
    for card in worked.cards:
        if card.type == DELIVERABLE:
            delivered = delivered or card
        elif card.type not in KERNEL_CARDS:
            notes.append((card.created_at_ms, card.position, _card_note(card, turn.turn_id)))
    ordered = [note for _, _, note in sorted(notes, key=lambda one: one[:2])] if notes else []
    if not over:
        return ordered
    if order := cast("list[str]", recording.get("order") or []):
        ordered = _as_asked(ordered, order)
    if not recording and (recording := _told_by(worked.steps)):
        recorded_as = to_json(recording)
    told_order = order if early else ()
    end = _end_note(worked, delivered, context, recording, task, order=told_order, recorded_as=recorded_as)
    return [*ordered, end] if ordered else [end]


def _told_by(steps: Sequence[Step]) -> dict[str, Any]:
    """Whose code it was and what it read, as the steps of a turn say: one that was stopped told nothing at its end."""
    told: dict[str, Any] = {}
    read: dict[str, Json | None] = {}
    for step in steps:
        if not any(word in step.outcome for word in TOLD):
            continue
        asked = cast("dict[str, Any]", from_json(step.outcome)).get("asked")
        if isinstance(asked, dict):
            said = cast("dict[str, Any]", asked)
            read.update(said.get(MEMORY) or {})
            told |= {name: said[key] for key, name in OF_THE_TURN.items() if key != MEMORY and said.get(key)}
    return told | remembered(read, RECORDED_BYTES_MAX) if read else told


def _said(turn: Turn, ending: Ending, context: Collection[Card], recorded_as: str, task: TaskTold | None) -> str:
    """Everything that others wrote of what is told of a turn's end; the rest are names and numbers made here."""
    texts = [turn.agent_id, turn.payload, recorded_as, ending[1], ending[2]]
    if turn.source is not None:
        texts.append(turn.source)
    if turn.correlation_id is not None and task is None:  # that of a task names its run and seed
        texts.append(turn.correlation_id)
    if turn.result_fields is not None:
        texts.append(turn.result_fields)
    for card in context:
        texts += (card.type, card.author or "", card.content)
    if task is not None:
        texts.append(task.name)  # the rest of it are numbers
    return "\n".join(texts)


def _as_asked(notes: list[Note], order: list[str]) -> list[Note]:
    """Put notes into the order in which the code asked for them; what it did not ask for comes last."""
    cards = (note for note in notes if note.kind is EntryKind.CARD)
    named = {note.name: note for note in notes if note.kind is not EntryKind.CARD}
    asked = [next(cards, None) if name == CARD else named.get(name) or named.get(place_of(name)) for name in order]
    placed = {id(note): place for place, note in reversed(list(enumerate(asked))) if note is not None}
    return sorted(notes, key=lambda note: placed.get(id(note), len(order)))


def recorded(text: Json) -> str:
    """A JSON text as a ledger keeps it: as it was, to the order of its members, but without secrets."""
    return redact_json(text)


def _step_note(step: Step) -> Note:
    outcome = cast("dict[str, Any]", from_json(step.outcome))
    asked = cast("dict[str, Any]", outcome.pop("asked", None) or {})
    for name in OF_THE_TURN:
        asked.pop(name, None)  # it is told with the end of the turn
    payload: dict[str, Any] = {"turn_id": step.turn_id, "name": step.name}
    if asked:
        payload["asked"] = {"digest": asked.get("digest")}
        if "told" in asked:
            payload["asked"]["told_json"] = to_json(asked["told"])
    payload["outcome_json"] = to_json(outcome, limit=2 * PAYLOAD_BYTES_MAX)
    kinds = {"model": EntryKind.MODEL_CALL, "tool": EntryKind.TOOL_RESULT}
    kind = kinds.get(str(asked.get("what")), EntryKind.STEP)
    return Note(kind, payload, step.created_at_ms, f"{step.turn_id} step {step.name}", place_of(step.name))


def _call_note(wait: Wait, cards: Mapping[Any, Card]) -> Note:
    call = cards.get(wait.call_card_id)
    answer = cards.get(wait.result_card_id)
    args = cast("dict[str, Any]", from_json(call.content)).get("args") if call is not None else None
    result = cast("dict[str, Any]", from_json(answer.content)).get("result") if answer is not None else None
    payload = {
        "turn_id": wait.turn_id,
        "call_id": wait.call_id,
        "tool": wait.tool,
        "status": wait.status.value,
        "after_execution": wait.after_execution.value,
        "args_json": None if call is None else to_json(args),
        "result_json": None if answer is None else to_json(result),
    }
    at = Millis(wait.answered_at_ms or wait.created_at_ms)
    return Note(EntryKind.TOOL_RESULT, payload, at, f"{wait.turn_id} call {wait.call_id}", wait.call_id)


def _card_note(card: Card, turn_id: TurnId) -> Note:
    payload = {
        "turn_id": turn_id,
        "card_id": card.card_id,
        "type": card.type,
        "content_json": card.content,
    }
    return Note(EntryKind.CARD, payload, card.created_at_ms, f"{turn_id} card {card.position}")


def _going_on_note(turn: Turn) -> Note:
    """That a turn is at work still, though the one that asked for it is over: its end is told later."""
    said = {"change": GOES_ON, "turn_id": turn.turn_id, "agent_id": turn.agent_id}
    return Note(EntryKind.RUN_CHANGED, said, turn.created_at_ms, going_on(turn.turn_id))


def _shown(context: Collection[Card]) -> msgspec.Raw:
    return _spelled([{"type": card.type, "author": card.author, "content_json": card.content} for card in context])


def _remembered(recording: Mapping[str, Any]) -> msgspec.Raw | UnsetType:
    """What the code read from its agent's memory."""
    memory = cast("dict[str, str | None]", recording.get(MEMORY) or {})
    return _spelled({key: recorded(Json(text or NULL)) for key, text in memory.items()}) if memory else UNSET


def _left_out(recording: Mapping[str, Any]) -> dict[str, str] | UnsetType:
    """What was too large even to be brought here, so that nobody has its digest."""
    return {MEMORY: ""} if recording.get(MEMORY_OMITTED) else UNSET


def _spelled(value: object) -> msgspec.Raw:
    return msgspec.Raw(canonical_plain(value).encode())


def _fitting(told: TurnTold) -> TurnTold:
    """What an entry has room for: of what the code read, which has no bound, it tells the digest where it has none."""
    if sum(len(bytes(part)) for part in (told.context, told.memory) if part is not UNSET) <= ENTRY_BYTES_MAX // 4:
        return told
    left: dict[str, str] = {} if told.left_out is UNSET else {**told.left_out}
    for name, part in (("context", told.context), (MEMORY, told.memory)):
        if part is not UNSET and len(_encoder.encode(told)) > ENTRY_BYTES_MAX:
            left[name] = digest_of(bytes(part).decode())
            told = msgspec.structs.replace(told, left_out=dict(sorted(left.items())), **{name: UNSET})
    return told


def _ending(end: Deliverable | None, delivered: Card | None) -> Ending:
    """Status, result and error of a turn; where only its card is at hand, they are read from that."""
    if end is not None:
        return end.status, end.result, end.error or NULL
    if delivered is None:
        return None, NULL, NULL
    said = _delivered.decode(delivered.content)
    return said.status, bytes(said.result).decode(), bytes(said.error).decode()


def _end_note(
    worked: Worked,
    delivered: Card | None,
    context: Collection[Card],
    recording: Mapping[str, Any],
    task: TaskTold | None,
    *,
    order: Sequence[str],
    recorded_as: str,
) -> Note:
    turn = worked.turn
    status, result, error = ending = _ending(worked.end, delivered)
    told = TurnTold(  # by its places: this is done once for every task
        turn.agent_id,
        _spelled(code) if (code := recording.get("agent")) else UNSET,
        _shown(context) if context else UNSET,
        turn.correlation_id or UNSET,
        turn.created_at_ms,
        turn.depth or UNSET,
        UNSET if error == NULL else error,
        True if recording.get("order") and not recording.get("parallel") else UNSET,
        _left_out(recording) if recording else UNSET,
        _remembered(recording) if recording else UNSET,
        tuple(order) if order else UNSET,
        turn.parent_turn_id or UNSET,
        turn.payload,
        turn.result_fields or UNSET,
        result,
        turn.source or UNSET,
        status,
        task or UNSET,
        turn.trace_id,
        turn.turn_id,
        TYPES[turn.type],
    )
    if context or told.memory is not UNSET:
        told = _fitting(told)
    shown = context if told.context is not UNSET else ()
    said = _said(turn, ending, shown, recorded_as, task)
    at = delivered.created_at_ms if delivered is not None else turn.created_at_ms
    return Note(EntryKind.TURN_ENDED, told, at, end_of(turn.turn_id), "", said)
