"""The journal of a turn that is run again: it gives what was recorded, and notices whatever is asked otherwise."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, cast

from homeostat.agent.asking import Asking, digest_under
from homeostat.agent.journal import Journal, Result
from homeostat.agent.suspension import TurnOver
from homeostat.core.codec import Json, from_json, to_json
from homeostat.core.ids import CardId, ToolCallId
from homeostat.core.limits import CALL_BODY_BYTES_MAX
from homeostat.core.records.provenance import EntryKind
from homeostat.core.records.turn import AfterExecution, Grant, WaitStatus
from homeostat.core.records.view import Hydration, Outcome
from homeostat.core.redaction import redact_json
from homeostat.runs.replaying.differences import as_kept, difference, same, shown
from homeostat.runs.replaying.earlier import EARLIER
from homeostat.runs.replaying.rules import Rules, model_of
from homeostat.runs.replaying.tape import CallMade, StepTaken, Tape

AGENT_TOOL: Final = "agent:"
FINISHED: Final = frozenset({Outcome.SUCCESS.value, Outcome.FAILED.value})
"""How a turn ends that somebody worked on to its end."""
LOST: Final = "attempts_exhausted"  # its workers were gone, one after the other


class Mode(StrEnum):
    """What is taken from the record."""

    EXACT = "exact"  # everything
    RE_MODEL = "re-model"  # tools; models are asked anew
    WHAT_IF = "what-if"  # everything that is asked as it was; models are asked what they were not asked before


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first thing that is not as it was: at which entry, and in words."""

    seq: int
    message: str
    recorded: str = ""
    now: str = ""


class Diverged(TurnOver):
    """The turn took another way than the recorded one."""


class TapeEnd(TurnOver):
    """The recorded turn was stopped here, and nobody knows how it would have gone on."""


class ReplayJournal(Journal):
    """Stands in for what a store knows of a turn."""

    def __init__(
        self, grant: Grant, hydration: Hydration, tape: Tape, mode: Mode, *, rules: Rules | None = None
    ) -> None:
        super().__init__(grant, hydration)
        self._tape = tape
        self._mode = mode
        self._rules = rules
        self._model = ""
        assert tape.end is not None
        self._label = tape.end.label
        self.divergence: Divergence | None = None
        self.leave: Callable[[TurnOver], None] = _stay
        self.live: list[str] = []
        self._met: set[str] = set()
        self._begun: set[str] = set()
        self._expected: dict[str, int] = {}
        self._answers: dict[str, Result] = {}
        self._cards_met = 0
        self._line = sorted(
            [
                *((step.seq, _step(key)) for key, step in tape.steps.items()),
                *((call.seq, _call(key)) for key, call in tape.calls.items() if _answered(call)),
                *((card.seq, _card(number)) for number, card in enumerate(tape.cards)),
            ]
        )
        self._place = 0
        self._live_now: set[str] = set()

    @property
    def replaying(self) -> bool:
        return True

    @property
    def met(self) -> int:
        """How many recorded things were come by."""
        return len(self._met)

    @property
    def whole(self) -> bool:
        """Whether everything that was recorded was come by."""
        return all(key in self._met for _, key in self._line)

    # --- steps ---------------------------------------------------------------------------------------------

    def compare(self, key: str, asking: Asking) -> None:
        taken = self._tape.steps.get(key)
        asked = asking()
        model = asked is not None and asked["what"] == "model"
        if self._rules is not None:
            self._model = model_of(asked, self._model)
            if (words := self._rules.refuse_step(key, asked, self._model)) is not None:
                self._diverge(self._next() if taken is None else taken.seq, words, "allowed", "refused")
        if self._mode is Mode.RE_MODEL and model:
            self._go_live(key)
            return
        if taken is None:
            if self._mode is Mode.WHAT_IF and model:
                self._go_live(key)
                return
            what = f"asked a model (step `{key}`)" if model else f"took step `{key}`"
            self._unknown(f"{what}, which the recording does not have", self._next())
            return
        self._in_order(taken.seq, self._next(), f"took step `{key}`")
        self._meet(_step(key))
        digest = None if asked is None else asked["digest"]
        known = taken.asked.digest
        if digest == known or any(digest_under(rules, asking) == known for rules in EARLIER):
            return
        if self._mode is Mode.WHAT_IF and model:
            self._go_live(key)
            return
        told = None if asked is None else from_json(redact_json(to_json(asked.get("told"), limit=CALL_BODY_BYTES_MAX)))
        self._differs(taken.seq, _what(taken), _read(taken.asked.told_json), told)

    def outcome(self, key: str) -> Json | None:
        if key in self._live_now:
            return self._steps.get(key)
        taken = self._tape.steps.get(key)
        return None if taken is None else Json(taken.outcome_json)

    def _go_live(self, key: str) -> None:
        self._meet(_step(key))
        self.live.append(key)
        self._live_now.add(key)

    # --- calls ---------------------------------------------------------------------------------------------

    def call_id(self) -> ToolCallId:
        """A call takes its place in the order when it is made, however late somebody waits for it."""
        call_id = super().call_id()
        self._expected[call_id] = self._next()
        self._begin(_call(call_id))
        return call_id

    def missing_card(self, call_id: ToolCallId) -> CardId | None:
        del call_id
        return None

    def result(self, call_id: ToolCallId, tool: str, args: Json) -> Result | None:
        if (known := self._answers.get(call_id)) is not None:
            return known
        made = self._tape.calls.get(call_id)
        kept = as_kept(args, None if made is None else made.args_json)
        answer = self._answers[call_id] = self._find_answer(call_id, tool, kept)
        return answer

    def _find_answer(self, call_id: ToolCallId, tool: str, args: Json) -> Result:
        made = self._tape.calls.get(call_id)
        if self._rules is not None and (words := self._rules.refuse_tool(tool)) is not None:
            self._diverge(self._place_of(call_id) if made is None else made.seq, words, "allowed", "refused")
        if made is not None and made.tool == tool and made.args_json == args and self._place_of(call_id) >= made.seq:
            return self._give(made)  # as it was, to the letter
        now = from_json(args)
        if made is not None and _call(call_id) not in self._met:
            self._in_order(made.seq, self._expected.get(call_id, made.seq), f"called {_tool(tool)} with {shown(now)}")
        if made is None or made.tool != tool or not self._same_args(made, now):
            made = self._like(call_id, tool, now, made)
        return self._give(made)

    def _place_of(self, call_id: str) -> int:
        """The entry that was due when a call was made."""
        return self._expected.get(call_id, self._tape.end_seq)

    def _give(self, made: CallMade) -> Result:
        self._met.add(_call(made.call_id))
        if (
            made.status in (WaitStatus.PENDING, WaitStatus.CANCELLED)
            or made.after_execution == AfterExecution.TERMINATE
        ):
            self._stop(TapeEnd())
        return Result(WaitStatus(made.status), _read(made.result_json))

    def _same_args(self, made: CallMade, now: Any) -> bool:
        return made.args_json is None or same(_read(made.args_json), now)

    def _like(self, call_id: str, tool: str, now: Any, made: CallMade | None) -> CallMade:
        """A call that is not the recorded one; where models answer anew, the same question may come elsewhere."""
        if self._mode is not Mode.EXACT:
            for other in self._tape.calls.values():
                if other.tool == tool and _call(other.call_id) not in self._met and self._same_args(other, now):
                    return other
        name = _tool(tool)
        if made is None:
            words = f"called {name} with {shown(now)}, which the recording does not have"
            return self._unknown(words, self._expected.get(call_id, self._next()))
        if made.tool != tool:
            words = f"called {name} ({call_id}), and {_tool(made.tool)} when it was recorded"
            return self._diverge(made.seq, words, made.tool, tool)
        return self._differs(made.seq, f"called {name} with other arguments", _read(made.args_json), now)

    # --- cards ---------------------------------------------------------------------------------------------

    def written(self, kind: str, content: Json) -> CardId | None:
        number = self._cards_met
        if number >= len(self._tape.cards):
            self._unknown(f"wrote a card {kind!r}, which the recording does not have", self._next())
            return CardId("card_of_a_replay")
        card = self._tape.cards[number]
        self._in_order(card.seq, self._next(), f"wrote a card {kind!r}")
        self._meet(_card(number))
        self._cards_met += 1
        if card.type != kind:
            self._diverge(card.seq, f"wrote a card {kind!r}, and {card.type!r} when it was recorded", card.type, kind)
        text = as_kept(content, card.content_json)
        if text == card.content_json:
            return CardId(card.card_id)
        now = from_json(text)
        if not same(_read(card.content_json), now):
            self._differs(card.seq, f"wrote another card {kind!r}", _read(card.content_json), now)
        return CardId(card.card_id)

    # --- the end -------------------------------------------------------------------------------------------

    def close(self) -> None:
        unmet = min((seq for seq, key in self._line if key not in self._met), default=None)
        if self._mode is Mode.EXACT and unmet is not None:
            words = self._words_of(unmet)
            with suppress(Diverged):  # the code is done, so there is nothing to be left
                self._diverge(unmet, f"ended without {words}", words, "nothing")

    def _meet(self, key: str) -> None:
        self._begin(key)
        self._met.add(key)

    def _begin(self, key: str) -> None:
        self._begun.add(key)
        while self._place < len(self._line) and self._line[self._place][1] in self._begun:
            self._place += 1

    def _next(self) -> int:
        """The recorded entry that is due: the first that was not come by yet, or the end of the turn."""
        return self._line[self._place][0] if self._place < len(self._line) else self._tape.end_seq

    def _in_order(self, seq: int, due: int, what: str) -> None:
        """See that nothing was left out before. Code that does several things at once has no order to keep."""
        if due < seq and self._mode is Mode.EXACT and self._tape.end is not None and self._tape.end.in_order:
            self._diverge(due, f"{what}, where the recording has {self._words_of(due)}", self._words_of(due), what)

    def _words_of(self, seq: int) -> str:
        for step in self._tape.steps.values():
            if step.seq == seq:
                return f"step `{step.name}`"
        for call in self._tape.calls.values():
            if call.seq == seq:
                return f"a call of {_tool(call.tool)}"
        return "a card that it wrote"

    # --- words ---------------------------------------------------------------------------------------------

    def _differs(self, seq: int, what: str, recorded: Any, now: Any) -> Any:
        place, old, new = difference(recorded, now)
        where = f" ({place})" if place else ""
        return self._diverge(seq, f"{what}{where}: recorded {old}, now {new}", old, new)

    def _unknown(self, words: str, seq: int) -> Any:
        """Something that was not recorded: another way, unless the recorded turn was stopped before it came so far."""
        if self._tape.end is not None and not ended_by_code(self._tape) and seq == self._tape.end_seq:
            self._stop(TapeEnd())
        return self._diverge(seq, words, "nothing", "")

    def _diverge(self, seq: int, words: str, recorded: str, now: str) -> Any:
        if self.divergence is None:
            self.divergence = Divergence(seq, f"{self._label} {words}", recorded, now)
        self._stop(Diverged())

    def _stop(self, over: TurnOver) -> None:
        self.leave(over)
        raise over

    def reached(self, what: str) -> None:
        """The code tried to reach outside."""
        if self.divergence is None:
            words = f"{self._label} {what}, and a replay calls nothing outside"
            self.divergence = Divergence(self._next(), words, "", what)
        self.leave(Diverged())


def ended_by_code(tape: Tape) -> bool:
    """Whether the author's code came to its end, or somebody ended it from outside: whoever stopped it, the last of the
    workers it was lost with, or a result that ends its turn.
    """
    end = tape.end
    if end is None or end.status not in FINISHED:
        return False
    if any(call.after_execution == AfterExecution.TERMINATE and _answered(call) for call in tape.calls.values()):
        return False
    error = from_json(end.error_json)
    return not (isinstance(error, dict) and cast("dict[str, Any]", error).get("code") == LOST)


def _step(key: str) -> str:
    return f"step {key}"


def _call(call_id: str) -> str:
    return f"call {call_id}"


def _card(number: int) -> str:
    return f"card #{number}"


def _answered(call: CallMade) -> bool:
    return call.status not in {WaitStatus.PENDING, WaitStatus.CANCELLED}


def _what(taken: StepTaken) -> str:
    if taken.kind == EntryKind.MODEL_CALL:
        return f"asked the model something else (step `{taken.name}`)"
    if taken.kind == EntryKind.TOOL_RESULT:
        return f"called `{taken.name.removeprefix('tool:').partition('#')[0]}` with other arguments"
    return f"took step `{taken.name}` with other arguments"


def _tool(tool: str) -> str:
    return f"agent {tool[len(AGENT_TOOL) :]!r}" if tool.startswith(AGENT_TOOL) else f"`{tool}`"


def _read(text: str | None) -> Any:
    return None if text is None else from_json(text)


def _stay(over: TurnOver) -> None:
    del over
