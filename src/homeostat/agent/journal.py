"""What a turn did before, by name: running it again finds outcomes instead of repeating side effects.

Names are made of counters, so they are the same in every run as long as the author's code takes the same path. Where it
does not, results would be given to the wrong questions; that is found out and said.
"""

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, cast

from homeostat.agent.asking import MEMORY, MEMORY_OMITTED, TOLD_BYTES_MAX, Asked, Asking, remembered
from homeostat.agent.errors import NonDeterministic, StepFailed, as_json
from homeostat.core.codec import Json, from_json, to_json
from homeostat.core.errors import InvalidRequest, PayloadTooLarge
from homeostat.core.ids import CardId, ToolCallId, scope_of
from homeostat.core.limits import NAME_CHARS_MAX, STEP_ERROR_CHARS_MAX, STEPS_PER_TURN_MAX
from homeostat.core.records.card import KERNEL_CARDS, Card
from homeostat.core.records.turn import AfterExecution, Grant, Wait, WaitStatus
from homeostat.core.records.view import Hydration

REPEAT = "#"
"""Stands between a step's name and how often it was used before."""

CARD = "#card"
"""How a card is called in the order of what a run of a turn did."""

CALL: Final = "call_"
"""How calls are called, with their number behind it."""

STEP: Final = "#step "
"""Stands before the name of a step in that order, if it could be that of a call."""

NOTHING_READ: Final[Mapping[str, Json | None]] = {}


@dataclass(frozen=True, slots=True)
class CardView:
    """A card as an author reads it."""

    card_id: CardId
    type: str
    content: Any
    author: str | None

    @staticmethod
    def of(card: Card) -> "CardView":
        return CardView(card.card_id, card.type, from_json(card.content), card.author)


@dataclass(frozen=True, slots=True)
class Result:
    """How a call was answered."""

    status: WaitStatus
    value: Any


class Journal:
    """The stored past of one turn, and how much of it this run has come by."""

    def __init__(self, grant: Grant, hydration: Hydration) -> None:
        self._turn_id = grant.turn.turn_id
        self._steps: dict[str, Json] = dict(hydration.steps)
        self._waits: dict[ToolCallId, Wait] = {wait.call_id: wait for wait in grant.waits}
        self._cards: dict[CardId, Json] = {card.card_id: card.content for card in hydration.output}
        self._written = self.own(hydration.output)
        self._before = frozenset((*map(place_of, self._steps), *self._waits))
        self.code: dict[str, str | None] | None = None
        self.memory: Mapping[str, Json | None] = NOTHING_READ
        self.rewind()

    def rewind(self) -> None:
        """Begin a run: everything is counted anew. `order` tells what it asked for, one after the other.

        `parallel` says that it asked for something while a step was under way, so that the order is one of several.
        """
        self._names: Counter[str] = Counter()
        self._calls = 0
        self._writes = 0
        self._told = 0
        self._telling: dict[str, int] = {}
        self._seen: set[str] = set()
        self.order: list[str] = []
        self.parallel = False

    @property
    def replaying(self) -> bool:
        """Whether this run has yet to come to where the last one ended."""
        return not self._before <= self._seen

    # --- steps ---------------------------------------------------------------------------------------------

    def step_key(self, name: str) -> str:
        """The name under which a step's outcome is kept; the second of a name has its number behind it."""
        if not 0 < len(name) <= NAME_CHARS_MAX - 8 or REPEAT in name:
            raise InvalidRequest(problem=f"a step's name has 1 to {NAME_CHARS_MAX - 8} characters and no {REPEAT!r}")
        if self._names.total() >= STEPS_PER_TURN_MAX:
            raise InvalidRequest(problem=f"a turn has at most {STEPS_PER_TURN_MAX} steps")
        self._names[name] += 1
        key = name if self._names[name] == 1 else f"{name}{REPEAT}{self._names[name]}"
        place = place_of(key)
        self._seen.add(place)
        self.order.append(place)
        return key

    def compare(self, key: str, asking: Asking) -> None:
        """A step is about to be asked for. Within a run nobody compares; a replay does."""

    def asks(self, key: str, asking: Asking) -> Asked | None:
        """What a new step is asked, for the record. The first one names the code, and each tells what of memory was
        read and is in no step that was kept: should the turn be stopped, nobody is there to do so at its end.
        """
        asked = asking()
        if self.code is not None and not self._steps:
            asked = {**(asked or {}), "code": self.code}
        if (count := len(self.memory)) > self._told:
            self._telling[key] = count
            asked = {**(asked or {}), **remembered(dict(islice(self.memory.items(), self._told, None)), TOLD_BYTES_MAX)}
        return asked

    def outcome(self, key: str) -> Json | None:
        outcome = self._steps.get(key)
        if outcome is not None:
            self._told = len(self.memory)  # it was read when the step was new as well, and told with it or before it
        return outcome

    def keep(self, key: str, outcome: Json) -> None:
        self._steps[key] = outcome
        self._told = max(self._told, self._telling.pop(key, 0))

    # --- calls ---------------------------------------------------------------------------------------------

    def call_id(self) -> ToolCallId:
        self._calls += 1
        call_id = f"{CALL}{self._calls}"
        self.order.append(call_id)
        return ToolCallId(call_id)

    def learn(self, waits: tuple[Wait, ...]) -> None:
        """Waits as they stand by now."""
        self._waits.update({wait.call_id: wait for wait in waits})

    def see(self, card_id: CardId, content: Json) -> None:
        self._cards[card_id] = content

    def missing_card(self, call_id: ToolCallId) -> CardId | None:
        """The card of an answered call that was not read with the boxes."""
        wait = self._waits.get(call_id)
        if wait is None or wait.result_card_id is None or wait.result_card_id in self._cards:
            return None
        return wait.result_card_id

    def result(self, call_id: ToolCallId, tool: str, args: Json) -> Result | None:
        """The answer to a call that was made before; None if there is none yet.

        One that ends its turn, and came while that was in line, does so once it is asked for again: nobody is given it.
        """
        wait = self._waits.get(call_id)
        if wait is None:
            return None
        self._seen.add(call_id)
        self._check(wait, tool, args)
        if wait.status is WaitStatus.PENDING or wait.after_execution is AfterExecution.TERMINATE:
            return None
        content = self._cards.get(wait.result_card_id) if wait.result_card_id is not None else None
        value = cast("dict[str, Any]", from_json(content)).get("result") if content is not None else None
        return Result(wait.status, value)

    def _check(self, wait: Wait, tool: str, args: Json) -> None:
        if wait.tool != tool:
            raise NonDeterministic(
                turn_id=self._turn_id, problem=f"{wait.call_id} called {wait.tool!r} before and {tool!r} now"
            )
        card = self._cards.get(wait.call_card_id) if wait.call_card_id is not None else None
        if card is not None and cast("dict[str, Any]", from_json(card)).get("args") != from_json(args):
            raise NonDeterministic(
                turn_id=self._turn_id, problem=f"{wait.call_id} called {tool!r} with other arguments before"
            )

    # --- cards ---------------------------------------------------------------------------------------------

    def own(self, output: tuple[Card, ...]) -> list[Card]:
        """The cards this turn's author wrote, among all that the output box holds."""
        place = f"card_{scope_of(self._turn_id)}_"
        return [card for card in output if card.card_id.startswith(place) and card.type not in KERNEL_CARDS]

    def newly_written(self, output: tuple[Card, ...]) -> CardId | None:
        """A card that is there although nobody heard of its being written."""
        own = self.own(output)
        return own[len(self._written)].card_id if len(own) > len(self._written) else None

    def written(self, kind: str, content: Json) -> CardId | None:
        """The card this write made in an earlier run, if it did."""
        number = self._writes
        self._writes += 1
        self.order.append(CARD)
        if number >= len(self._written):
            return None
        card = self._written[number]
        if card.type != kind or from_json(card.content) != from_json(content):
            raise NonDeterministic(turn_id=self._turn_id, problem=f"card {number + 1} was another one before")
        return card.card_id

    def wrote(self, card_id: CardId, kind: str, content: Json, like: Grant) -> None:
        """Remember a card, should this run begin again in place."""
        turn = like.turn
        self._written.append(
            Card(turn.project, scope_of(turn.turn_id), 0, kind, content, "", turn.agent_id, turn.created_at_ms, card_id)
        )

    # --- the end -------------------------------------------------------------------------------------------

    def close(self) -> None:
        """See that this run came by everything that was done before it."""
        missed = sorted(place.removeprefix(STEP) for place in self._before - self._seen)
        if missed:
            raise NonDeterministic(
                turn_id=self._turn_id, problem=f"it ended without asking for {', '.join(map(repr, missed))} again"
            )


def place_of(step: str) -> str:
    """How a step is called among all that a run of a turn did, where calls have names as well."""
    return STEP + step if step.startswith(CALL) and step[len(CALL) :].isdecimal() else step


# --- outcomes ----------------------------------------------------------------------------------------------


def succeeded(value: Any, step: str, asked: Asked | None = None) -> Json:
    outcome = {"ok": value} if asked is None else {"ok": value, "asked": asked}
    try:
        return as_json(outcome, what=f"what step {step!r} returned")
    except PayloadTooLarge:
        if asked is None or MEMORY not in asked:
            raise
        told = {name: part for name, part in asked.items() if name != MEMORY}
        return succeeded(value, step, {**told, MEMORY_OMITTED: len(asked[MEMORY])})


def failed(problem: Exception, asked: Asked | None = None) -> Json:
    kind = type(problem)
    error = {"kind": f"{kind.__module__}.{kind.__qualname__}", "message": str(problem)[:STEP_ERROR_CHARS_MAX]}
    return to_json({"error": error} if asked is None else {"error": error, "asked": asked})


def replay(key: str, outcome: Json) -> Any:
    """A stored outcome, returned or raised as it was the first time."""
    stored = cast("dict[str, Any]", from_json(outcome))
    if "error" not in stored:
        return stored.get("ok")
    error = cast("dict[str, str]", stored["error"])
    raise _as_it_was(StepFailed(step=key, kind=error["kind"], problem=error["message"]))


def _as_it_was(error: StepFailed) -> StepFailed:
    """An error that is also of the kind that was raised, so that the same `except` clause takes it."""
    module, _, name = error.kind.rpartition(".")
    kind = getattr(sys.modules.get(module), name, None)
    if not isinstance(kind, type) or not issubclass(kind, Exception) or issubclass(StepFailed, kind):
        return error
    try:
        both = type(StepFailed.__name__, (StepFailed, kind), {"__doc__": StepFailed.__doc__})
        again = both.__new__(both)
        StepFailed.__init__(again, step=error.step, kind=error.kind, problem=str(error.facts["problem"]))
    except TypeError:
        return error  # two kinds that cannot be one
    return cast(StepFailed, again)
