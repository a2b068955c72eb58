"""Runs the code of a run's agents again on its recording, and says whether it did the same."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from homeostat.agent.attempt import attempt
from homeostat.agent.orchestrator import Factory, Orchestrator
from homeostat.agent.outcome import Ending, failure
from homeostat.agent.recording import code_of
from homeostat.agent.turn import Turn
from homeostat.core.clock import Millis
from homeostat.core.codec import NULL, Json, from_json
from homeostat.core.errors import HomeostatError, Unavailable
from homeostat.core.ids import AgentId, CardId, ProjectId, RunId, TraceId, TurnId, WorkerId, scope_of
from homeostat.core.ports.memory import MemoryKeeper
from homeostat.core.ports.turns import WorkerSession
from homeostat.core.ports.upstream import Upstream
from homeostat.core.records.card import Card
from homeostat.core.records.turn import AgentKey, Grant, MessageType
from homeostat.core.records.turn import Turn as TurnRecord
from homeostat.core.records.view import Hydration
from homeostat.kernel.deliver import check_result_fields
from homeostat.runs.bundle import Bundle, each
from homeostat.runs.replaying.differences import as_kept, difference, same, shown
from homeostat.runs.replaying.failures import same_failure
from homeostat.runs.replaying.journal import FINISHED, Divergence, Mode, ReplayJournal, ended_by_code
from homeostat.runs.replaying.live import LiveModels, Nowhere, Window
from homeostat.runs.replaying.outside import guarded
from homeostat.runs.replaying.rules import Rules
from homeostat.runs.replaying.tape import Tape, Tapes, TurnEnded
from homeostat.runs.verify import Found, Walk, check_heads

FindFactory = Callable[[TurnEnded], Factory]
"""Finds the code of an agent; raises `HomeostatError` in words that say how to help."""


@dataclass(slots=True)
class Report:
    """What came of a replay."""

    run_id: str
    mode: Mode
    turns: int = 0
    entries: int = 0
    tampered: bool = False
    divergence: Divergence | None = None
    changed_code: list[str] = field(default_factory=list[str])
    skipped: list[str] = field(default_factory=list[str])
    unreached: list[str] = field(default_factory=list[str])
    """Agents that a change of the prompt or the model did not reach, if it reached nobody."""
    unanswered: list[AgentId] = field(default_factory=list[AgentId])
    """Agents that asked a model anew and were not answered, for a reason that is not theirs."""
    live_calls: int = 0

    @property
    def identical(self) -> bool:
        return self.divergence is None and not self.skipped and not self.unreached

    @property
    def verdict(self) -> str:
        if self.tampered:
            return "tampered"
        if self.divergence is not None:
            return "diverged"
        if self.skipped:
            return "incomplete"
        return "unreached" if self.unreached else "identical"


async def replay(
    bundle: Bundle,
    find: FindFactory,
    *,
    mode: Mode = Mode.EXACT,
    upstream: Upstream | None = None,
    rules: Rules | None = None,
) -> Report:
    """Run every recorded turn again until one goes another way. The recording itself is checked as it is read."""
    header = bundle.header
    report = Report(header.run_id, mode)
    stage = Stage(mode, find, report, upstream, rules)
    heads = sorted(header.heads, key=lambda head: head.size)
    walk, tapes = Walk(header.project, header.run_id, heads), Tapes(header.project, header.run_id)
    try:
        check_heads(heads, header.project, header.run_id, None)
        async for page in each(bundle.pages):
            walk.take(page)
            for tape in tapes.take(page):
                await stage.play(tape)
                if report.divergence is not None or stage.cut_off:
                    return report
            report.entries = walk.size
        report.skipped += tapes.untold
        walk.close(complete=bool(heads))
    except Found as found:
        report.tampered = True
        words = f"the recording was changed: {found.finding.message}"
        report.divergence = Divergence(found.finding.seq or 0, words)
    finally:
        await stage.close()
    return report


class Stage:
    """Where turns are played: their agents, and nothing of the world around them."""

    def __init__(
        self, mode: Mode, find: FindFactory, report: Report, upstream: Upstream | None, rules: Rules | None
    ) -> None:
        self._mode = mode
        self._rules = rules
        self._find = find
        self._report = report
        self._memory = RecordedMemory()
        self._orchestrator: Orchestrator | None = None
        self._known: set[str] = set()
        self._models = LiveModels(Nowhere() if upstream is None or mode is Mode.EXACT else Window(upstream))
        self.cut_off = False

    async def play(self, tape: Tape) -> None:
        """Run one turn again."""
        end = tape.end
        assert end is not None
        if end.left_out:  # whatever it did again, it would have read something else
            self._report.skipped.append(
                f"{end.label}: its {' and its '.join(end.left_out)} did not fit into the ledger"
            )
            return
        if not self._host(tape, end):
            return
        assert self._orchestrator is not None
        self._memory.values = dict(end.memory)
        grant, hydration = granted(tape, end)
        journal = ReplayJournal(grant, hydration, tape, self._mode, rules=self._rules)
        with guarded(journal.reached):
            await self._orchestrator.ready(end.agent_id, trace_id=end.trace_id)
            turn = Turn(
                grant=grant,
                hydration=hydration,
                session=cast("WorkerSession", Backdrop()),
                journal=journal,
                models=self._models,
            )
            journal.leave = turn.leave
            try:
                ending = await attempt(self._orchestrator, turn)
            except Unavailable as problem:
                ending = failure(problem)
        self._report.live_calls += len(journal.live)
        if (problem := self._models.take_unanswered()) is not None:
            self._leave_out(end, problem)
            return
        if unknown := _unknown(journal, tape, end):
            names = ", ".join(map(repr, unknown))
            self._report.skipped.append(f"{end.label}: it was stopped before it told what its memory had under {names}")
            return
        self._report.turns += 1
        if journal.divergence is not None:
            self._report.divergence = journal.divergence
        elif ending is not None:
            self._judge(tape, end, _checked(grant, ending))

    def _leave_out(self, end: TurnEnded, problem: HomeostatError) -> None:
        """A turn that asked a model and was not answered. Where nobody answers anybody, no other turn has to try it."""
        self.cut_off = isinstance(problem, Unavailable)
        rest = " Nothing behind it was replayed." if self.cut_off else ""
        self._report.skipped.append(f"{end.label}: no model answered {end.agent_id!r}. {problem}{rest}")
        if end.agent_id not in self._report.unanswered:
            self._report.unanswered.append(AgentId(end.agent_id))

    def _host(self, tape: Tape, end: TurnEnded) -> bool:
        if self._orchestrator is None:
            self._orchestrator = Orchestrator(
                project=ProjectId(tape.project), memory=cast("MemoryKeeper", self._memory)
            )
        if end.agent_id in self._known:
            return True
        if end.status not in FINISHED and end.code is None and not tape.steps and not tape.calls and not tape.cards:
            return False  # stopped before anybody worked on it
        try:
            factory = self._find(end)
            self._orchestrator.host(end.agent_id, factory)
            self._note_code(end, factory)
        except HomeostatError as problem:
            self._report.skipped.append(f"{end.label}: {problem}")
            return False
        self._known.add(end.agent_id)
        return True

    def _note_code(self, end: TurnEnded, factory: Factory) -> None:
        now = code_of(factory())
        if end.code is not None and end.code.source is not None and now["source"] not in (None, end.code.source):
            self._report.changed_code.append(str(now["target"]))

    def _judge(self, tape: Tape, end: TurnEnded, ending: Ending) -> None:
        """Compare what was delivered. What ended a turn from outside cannot be compared."""
        text = as_kept(ending.result, end.result_json)
        if end.status == ending.status.value == "success" and text == end.result_json:
            return
        if not ended_by_code(tape):
            return
        result, exact = from_json(text), self._mode is Mode.EXACT
        if end.status != ending.status.value:
            now = result if ending.error is None else from_json(ending.error)
            was = from_json(end.result_json) if end.status == "success" else from_json(end.error_json)
            words = f"{end.label} ended with {ending.status.value}, and with {end.status} when it was recorded"
            if ending.error is not None and not exact:
                words = f"{end.label} failed now"
            self._ended_otherwise(tape, words, was, now)
        elif not same(from_json(end.result_json), result):
            words = "delivered something else" if exact else "delivered"
            self._diverge(tape, end, words, from_json(end.result_json), result)
        elif ending.error is not None and not same_failure(
            from_json(end.error_json), from_json(as_kept(ending.error, end.error_json)), tape
        ):
            self._diverge(tape, end, "failed otherwise", from_json(end.error_json), from_json(ending.error))

    def _ended_otherwise(self, tape: Tape, words: str, recorded: Any, now: Any) -> None:
        """A result and an error have nothing in common that could be compared."""
        old, new = shown(recorded), shown(now)
        self._report.divergence = Divergence(tape.end_seq, f"{words}: recorded {old}, now {new}", old, new)

    def _diverge(self, tape: Tape, end: TurnEnded, what: str, recorded: Any, now: Any) -> None:
        place, old, new = difference(recorded, now)
        where = f" ({place})" if place else ""
        self._report.divergence = Divergence(
            tape.end_seq, f"{end.label} {what}{where}: recorded {old}, now {new}", old, new
        )

    async def close(self) -> None:
        if self._orchestrator is not None:
            await self._orchestrator.shutdown()


def granted(tape: Tape, end: TurnEnded) -> tuple[Grant, Hydration]:
    """A recorded turn as a worker would be given it."""
    project, turn_id = ProjectId(tape.project), TurnId(end.turn_id)
    record = TurnRecord(
        turn_id=turn_id,
        project=project,
        agent_id=AgentId(end.agent_id),
        seq=1,
        type=MessageType(end.type),
        payload=Json(end.payload_json),
        correlation_id=end.correlation_id,
        source=None if end.source is None else AgentId(end.source),
        parent_turn_id=None if end.parent_turn_id is None else TurnId(end.parent_turn_id),
        parent_step_id=None,
        reply_call_id=None,
        trace_id=TraceId(end.trace_id),
        depth=end.depth,
        run_id=RunId(tape.run_id),
        context_box_id=None,
        output_box_id=None,
        result_fields=None if end.result_fields_json is None else Json(end.result_fields_json),
        previous_turn_id=None,
        created_at_ms=Millis(end.created_at_ms),
    )
    scope = scope_of(turn_id)
    context = tuple(
        Card(
            project,
            scope,
            number,
            card.type,
            Json(card.content_json),
            "",
            None if card.author is None else AgentId(card.author),
            record.created_at_ms,
            CardId(f"card_context_{number}"),
        )
        for number, card in enumerate(end.context)
    )
    return Grant(record, 1, WorkerId("wrk_replay"), fresh=False), Hydration({}, context, ())


def _checked(grant: Grant, ending: Ending) -> Ending:
    """What the kernel would have said to a deliverable."""
    if ending.error is None and grant.turn.result_fields is not None:
        try:
            check_result_fields(grant.turn.result_fields, ending.result)
        except HomeostatError as problem:
            return failure(problem)
    return ending


def _unknown(journal: ReplayJournal, tape: Tape, end: TurnEnded) -> list[str]:
    """What a turn looked for in its memory that its recording does not tell, if that may be why it went another way."""
    if ended_by_code(tape) or (journal.divergence is None and journal.whole):
        return []
    return sorted(journal.memory.keys() - end.memory.keys())


class RecordedMemory:
    """What an agent remembered when the turn was recorded; what it remembers now is nobody's business."""

    def __init__(self) -> None:
        self.values: dict[str, Json] = {}

    async def recall(self, agent: AgentKey) -> dict[str, Json]:
        del agent
        return {key: text for key, text in self.values.items() if text != NULL}

    async def keep(self, agent: AgentKey, changes: Mapping[str, Json | None], at: Millis) -> None:
        del agent, changes, at


class Backdrop:
    """A session that keeps nothing: what has to be known is in the journal."""

    async def step(self, grant: Grant, name: str, outcome: Json) -> None:
        del grant, name, outcome

    async def emit(self, grant: Grant, chunk: Json) -> None:
        del grant, chunk

    async def swap_boxes(self, grant: Grant, **boxes: object) -> None:
        del grant, boxes
