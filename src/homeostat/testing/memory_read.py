"""What readers may ask of the turn store in memory."""

from collections import Counter
from collections.abc import Collection

from homeostat.adapters.stores.rows import place_of, scope_behind
from homeostat.adapters.stores.views import resolve, turn_view
from homeostat.core.clock import Millis
from homeostat.core.ids import (
    AgentId,
    BoxId,
    CardId,
    ProjectId,
    RunId,
    Scope,
    ToolCallId,
    TraceId,
    TurnId,
    WorkerId,
    turn_of,
)
from homeostat.core.records.box import NOBODY
from homeostat.core.records.card import DELIVERABLE, DELIVERABLE_POSITION, EMPTY_BOX, NOTHING_YET, Card, reaches
from homeostat.core.records.head import Head
from homeostat.core.records.turn import AgentKey, MessageType, OpenTurn, Step, Turn, Wait, WaitStatus
from homeostat.core.records.view import Deliverable, Edge, HeadView, Hydration, TurnView, read_deliverable
from homeostat.core.records.writes import Answer, OutboxRow

_ANSWERED = (WaitStatus.SUCCESS, WaitStatus.ERROR, WaitStatus.TIMEOUT)


class MemoryTurnsReading:
    """The tables, open to whoever wants to check them, and the readers' half of the port."""

    def __init__(self) -> None:
        self.heads_by_key: dict[AgentKey, Head] = {}
        self.turns: dict[TurnId, Turn] = {}
        self.lines: dict[AgentKey, dict[int, OpenTurn]] = {}
        self.waits: dict[TurnId, dict[ToolCallId, Wait]] = {}
        self.pending: dict[tuple[TurnId, ToolCallId], Wait] = {}
        self.cards: dict[Scope, dict[int, Card]] = {}
        self.steps: dict[TurnId, dict[str, Step]] = {}
        self.box_owners: dict[tuple[ProjectId, BoxId], AgentKey] = {}
        self.leases: dict[WorkerId, Millis] = {}
        self.answers: dict[tuple[ProjectId, str], Answer] = {}
        self.outbox_rows: dict[Scope, OutboxRow] = {}
        self.closed_runs: set[RunId] = set()
        self.held_runs: set[RunId] = set()
        self.swept_up_to = TurnId("")

    # --- turns ---------------------------------------------------------------------------------------------

    def _own(self, project: ProjectId, turn_id: TurnId) -> Turn | None:
        turn = self.turns.get(turn_id)
        return turn if turn is not None and turn.project == project else None

    def _waits(self, turn_id: TurnId) -> tuple[Wait, ...]:
        return tuple(sorted(self.waits.get(turn_id, {}).values(), key=lambda wait: (wait.created_at_ms, wait.call_id)))

    async def turn(self, project: ProjectId, turn_id: TurnId) -> TurnView | None:
        turn = self._own(project, turn_id)
        if turn is None:
            return None
        queued = self.lines.get(turn.key, {}).get(turn.seq)
        head = await self.head(project, turn.agent_id)
        return turn_view(turn, queued, head, self._waits(turn_id), self.end_of(project, turn_id))

    async def deliverables(self, project: ProjectId, turns: Collection[TurnId]) -> dict[TurnId, Deliverable]:
        return {turn_id: end for turn_id in turns if (end := self.end_of(project, turn_id)) is not None}

    def end_of(self, project: ProjectId, turn_id: TurnId) -> Deliverable | None:
        scope = scope_behind(turn_id, "turn_")
        card = self.cards.get(scope, {}).get(DELIVERABLE_POSITION) if scope else None
        if card is None or card.project != project or card.type != DELIVERABLE:
            return None
        turn = self._own(project, turn_id)
        return read_deliverable(card, turn.output_box if turn else None)

    async def head(self, project: ProjectId, agent_id: AgentId) -> HeadView | None:
        head = self.heads_by_key.get((project, agent_id))
        return self._head_view(head) if head else None

    def _head_view(self, head: Head) -> HeadView:
        return HeadView(head, self.leases.get(head.worker_id) if head.worker_id else None)

    async def turns_counted(self, since: TurnId) -> dict[ProjectId, int]:
        of = [turn.project for turn in self.turns.values() if turn.turn_id >= since]
        projects = {key[0] for key in self.heads_by_key} | {turn.project for turn in self.turns.values()}
        return {project: of.count(project) for project in sorted(projects)}

    async def swept(self) -> TurnId:
        return self.swept_up_to

    async def headless(self) -> dict[AgentKey, int]:
        return dict(Counter(turn.key for turn in self.turns.values() if turn.key not in self.heads_by_key))

    async def doubled(self) -> dict[TurnId, int]:
        ends = {
            turn_of(scope): [card for at, card in born.items() if at != DELIVERABLE_POSITION and _is_end(card)]
            for scope, born in self.cards.items()
        }
        return {turn_id: len(more) for turn_id, more in sorted(ends.items()) if more and turn_id in self.turns}

    async def heads(self, project: ProjectId, *, after: AgentId | None, limit: int) -> list[HeadView]:
        found = [
            head for head in self.heads_by_key.values() if head.project == project and head.agent_id > (after or "")
        ]
        return [self._head_view(head) for head in sorted(found, key=lambda head: head.agent_id)[:limit]]

    async def inbox(self, project: ProjectId, agent_id: AgentId, *, after_seq: int, limit: int) -> list[OpenTurn]:
        line = self.lines.get((project, agent_id), {})
        found = [line[seq] for seq in sorted(line) if seq > after_seq][:limit]
        return [OpenTurn(self.turns[e.turn.turn_id], e.starts, e.losses, e.cards) for e in found]

    async def history(
        self, project: ProjectId, agent_id: AgentId, *, before: TurnId | None, limit: int
    ) -> list[TurnView]:
        if before is None:
            head = self.heads_by_key.get((project, agent_id))
            following = head.last_turn_id if head else None
        else:
            turn = self._own(project, before)
            following = turn.previous_turn_id if turn and turn.agent_id == agent_id else None
        found: list[TurnView] = []
        while following is not None and len(found) < limit:
            view = await self.turn(project, following)
            if view is None:
                break
            found.append(view)
            following = view.turn.previous_turn_id
        return found

    async def recent(self, project: ProjectId, *, before: TurnId | None, limit: int) -> list[TurnView]:
        own = (name for name, turn in self.turns.items() if turn.project == project)
        names = sorted((name for name in own if before is None or name < before), reverse=True)[:limit]
        return [view for name in names if (view := await self.turn(project, name)) is not None]

    # --- cards and boxes -----------------------------------------------------------------------------------

    async def hydrate(self, turn: Turn, *, fresh: bool) -> Hydration:
        stored = {} if fresh else self.steps.get(turn.turn_id, {})
        steps = {name: step.outcome for name, step in stored.items() if step.project == turn.project}
        context: tuple[Card, ...] = ()
        gone = False
        if turn.context_box_id is not None:
            read = await self._whole_box(turn.project, turn.context_box_id)
            context = tuple(card for card in read if reaches(turn.context_until, card.position))
            if not context and turn.context_until != NOTHING_YET:
                gone = await self.box_length(turn.project, turn.context_box_id) is None
        if fresh and turn.output_box_id is None:
            return Hydration({}, context, (), gone)
        return Hydration(steps, context, await self._whole_box(turn.project, turn.output_box), gone)

    async def _whole_box(self, project: ProjectId, box_id: BoxId) -> tuple[Card, ...]:
        scope = scope_behind(box_id, "box_")
        length = len(self.cards.get(scope, {})) if scope else 0
        found = await self.box(project, box_id, after=-1, limit=length) or ()
        return tuple(card for card in found if card.type != EMPTY_BOX)

    async def card(self, project: ProjectId, card_id: CardId) -> Card | None:
        place = place_of(card_id)
        card = self.cards.get(place[0], {}).get(place[1]) if place else None
        if card is None or card.project != project or card.reference is not None:
            return None
        return card if card.card_id == card_id else None

    async def box_length(self, project: ProjectId, box_id: BoxId) -> int | None:
        return self._length(project, box_id)

    def _length(self, project: ProjectId, box_id: BoxId) -> int | None:
        scope = scope_behind(box_id, "box_")
        if scope is None or self.box_owners.get((project, box_id)) == (project, NOBODY):
            return None
        entries = [position for position, card in self.cards.get(scope, {}).items() if card.project == project]
        if entries:
            return max(entries)
        return 0 if self._own(project, turn_of(scope)) is not None else None

    async def box_until(self, project: ProjectId, box_id: BoxId) -> int | None:
        length = await self.box_length(project, box_id)
        first = self.cards.get(Scope(box_id.removeprefix("box_")), {}).get(0)
        return ~length if length is not None and (first is None or first.project != project) else length

    async def box(self, project: ProjectId, box_id: BoxId, *, after: int, limit: int) -> list[Card] | None:
        scope = scope_behind(box_id, "box_")
        if scope is None or await self.box_length(project, box_id) is None:
            return None
        entries = self.cards.get(scope, {})
        page = [entries[at] for at in sorted(entries) if at > after and entries[at].project == project][:limit]
        return [resolve(card, await self.card(project, card.reference)) if card.reference else card for card in page]

    # --- edges ---------------------------------------------------------------------------------------------

    async def edges(
        self,
        project: ProjectId,
        *,
        trace_id: TraceId | None,
        turn_id: TurnId | None,
        after: str | None,
        limit: int,
    ) -> list[Edge]:
        own = [turn for turn in self.turns.values() if turn.project == project]
        found = [edge for turn in own for edge in self._edges(turn)]
        if turn_id is not None:
            found = [e for e in found if turn_id == e.turn_id or (turn_id == e.parent_turn_id and e.phase == "request")]
        else:
            found = [edge for edge in found if edge.trace_id == trace_id]
        return sorted((edge for edge in found if edge.edge_id > (after or "")), key=lambda edge: edge.edge_id)[:limit]

    def _edges(self, turn: Turn) -> list[Edge]:
        """The message that opened a turn, and each result it was given."""
        join = turn.type is MessageType.JOIN_REQUEST
        request = Edge(
            f"{turn.turn_id}:request",
            turn.project,
            "join" if join else "enqueue",
            "request",
            turn.source,
            turn.agent_id,
            turn.turn_id,
            turn.parent_turn_id,
            turn.reply_call_id,
            turn.correlation_id,
            turn.trace_id,
            turn.depth,
            turn.created_at_ms,
        )
        answered = [wait for wait in self.waits.get(turn.turn_id, {}).values() if wait.status in _ANSWERED]
        return [request, *(self._response(turn, wait) for wait in answered)]

    def _response(self, turn: Turn, wait: Wait) -> Edge:
        children = (child for child in self.turns.values() if child.parent_turn_id == turn.turn_id)
        child = next((child for child in children if child.reply_call_id == wait.call_id), None)
        return Edge(
            f"{turn.turn_id}:response:{wait.call_id}",
            turn.project,
            "join" if child else "report",
            "response",
            child.agent_id if child else None,
            turn.agent_id,
            turn.turn_id,
            turn.parent_turn_id,
            wait.call_id,
            wait.call_id,
            turn.trace_id,
            turn.depth,
            wait.answered_at_ms or wait.created_at_ms,
        )


def _is_end(card: Card) -> bool:
    return card.type == DELIVERABLE and card.reference is None
