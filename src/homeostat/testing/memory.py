"""The turn store as plain dictionaries: for simulations and quick tests, never for production."""

from collections.abc import Collection

from homeostat.adapters.stores.rows import place_of, scope_behind
from homeostat.core.clock import Millis
from homeostat.core.ids import BoxId, ProjectId, RunId, Scope, TurnId, WorkerId, box_of, scope_of, turn_of
from homeostat.core.limits import QUEUE_FRONT
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.box import NOBODY, BoxEnding
from homeostat.core.records.card import DELIVERABLE, DELIVERABLE_POSITION, Card
from homeostat.core.records.head import Gate, Head, Mailbox
from homeostat.core.records.run import SHUT, GateState
from homeostat.core.records.turn import AgentKey, OpenTurn, WaitStatus
from homeostat.core.records.view import Due
from homeostat.core.records.work import Fence
from homeostat.core.records.writes import Answer, OutboxRow, Saved, Writes
from homeostat.testing.memory_read import MemoryTurnsReading


class PlaceTaken(Exception):
    """A row that must be new exists: what a database would call a violated constraint."""


class MemoryTurns(MemoryTurnsReading):
    """Turns in memory, by the same laws as on disk. No method ever waits, so each is atomic on an event loop."""

    lanes = 2

    def __init__(self, *, queue_front: int = QUEUE_FRONT) -> None:
        super().__init__()
        self._queue_front = queue_front
        self._helped_up_to: tuple[str, str] = ("", "")

    # --- loading -------------------------------------------------------------------------------------------

    async def load(self, agents: Collection[AgentKey]) -> dict[AgentKey, Mailbox]:
        return {key: self._mailbox(self.heads_by_key[key]) for key in agents if key in self.heads_by_key}

    def _mailbox(self, head: Head) -> Mailbox:
        active = None
        if head.turn_id is not None:
            waits = self._waits(head.turn_id)
            active = OpenTurn(self.turns[head.turn_id], head.starts, head.losses, head.cards, waits)
        line = self.lines.get(head.key)
        if not line:
            return Mailbox(head, active)
        front = (line[seq] for seq in sorted(line)[: self._queue_front])
        return Mailbox(head, active, tuple(self._queued(entry) for entry in front))

    def _queued(self, entry: OpenTurn) -> OpenTurn:
        turn = self.turns[entry.turn.turn_id]
        waits = self._waits(turn.turn_id) if entry.starts else ()
        return OpenTurn(turn, entry.starts, entry.losses, entry.cards, waits)

    async def recall(self, keys: Collection[tuple[ProjectId, str]]) -> dict[tuple[ProjectId, str], Answer]:
        return {key: self.answers[key] for key in keys if key in self.answers}

    async def box_owner(self, project: ProjectId, box_id: BoxId) -> AgentKey | None:
        return self.box_owners.get((project, box_id))

    async def lease(self, worker_id: WorkerId) -> Millis | None:
        return self.leases.get(worker_id)

    async def dispatched(self, agents: Collection[AgentKey], limit: int) -> list[AgentKey]:
        return [key for key in sorted(agents) if _waits_for_a_worker(self.heads_by_key.get(key))][:limit]

    async def registered(self, agents: Collection[AgentKey]) -> set[AgentKey]:
        return self.heads_by_key.keys() & set(agents)

    async def outbox(self, before: Scope, limit: int) -> list[OutboxRow]:
        return [self.outbox_rows[key] for key in sorted(self.outbox_rows) if key < before][:limit]

    async def held(self, worker_id: WorkerId) -> list[tuple[Fence, Millis]]:
        return [
            (Fence(head.key, head.turn_id, head.epoch, worker_id), head.since_ms)
            for head in self.heads_by_key.values()
            if head.worker_id == worker_id and head.turn_id is not None
        ]

    async def runs_held(self) -> set[RunId]:
        return set(self.held_runs)

    async def due(self, now: Millis, *, unclaimed: tuple[Millis, Millis], lease_ms: int, limit: int) -> Due:
        ends = self.leases
        past = [worker for worker in sorted(ends) if ends[worker] <= now or ends[worker] > now + 2 * lease_ms]
        dead = {worker: ends[worker] for worker in past[:limit]}
        heads = list(self.heads_by_key.values())
        lost = [head for head in heads if head.worker_id in dead][:limit]
        orphans = [head for head in heads if head.worker_id is not None and head.worker_id not in ends][:limit]
        late = [wait for wait in self.pending.values() if wait.deadline_ms <= now]
        ahead = [wait for wait in self.pending.values() if wait.created_at_ms > now + lease_ms]
        after, up_to = unclaimed
        waiting = [head for head in heads if after < head.since_ms <= up_to and _waits_for_a_worker(head)]
        instants = [*ends.values(), *(wait.deadline_ms for wait in self.pending.values())]
        return Due(
            dead_workers=tuple(dead.items()),
            lost=tuple(
                (head.key, head.turn_id, head.epoch, head.worker_id)
                for head in (*lost, *orphans)[:limit]
                if head.turn_id is not None and head.worker_id is not None
            ),
            timeouts=tuple(sorted(late, key=lambda wait: wait.deadline_ms)[:limit]),
            unclaimed=tuple(
                (head.key, head.since_ms) for head in sorted(waiting, key=lambda head: head.since_ms)[:limit]
            ),
            stranded=self._stranded(limit),
            misdated=tuple(ahead[:limit]),
            next_ms=Millis(min(instants)) if instants else None,
        )

    def _stranded(self, limit: int) -> tuple[AgentKey, ...]:
        """In rounds: those who were told of once are told of again after all others."""
        keys = sorted((head.agent_id, head.project) for head in self.heads_by_key.values() if _stranded(head))
        found = [key for key in keys if key > self._helped_up_to][:limit]
        self._helped_up_to = found[-1] if len(found) == limit else ("", "")
        return tuple((project, agent_id) for agent_id, project in found)

    # --- saving --------------------------------------------------------------------------------------------

    async def save(self, writes: Writes) -> Saved:
        known = self.heads_by_key
        stale = frozenset(
            key for key, (base, _) in writes.heads.items() if key not in known or known[key].version != base
        )
        if stale:
            return Saved(stale=stale)
        gates = {**dict.fromkeys(self.held_runs, GateState.HELD), **dict.fromkeys(self.closed_runs, GateState.CLOSED)}
        asked = [(run_id, most, gates[run_id]) for run_id, most in writes.runs.items() if run_id in gates]
        if refused := tuple((run_id, gate) for run_id, most, gate in asked if most >= SHUT[gate]):
            return Saved(refused=refused)
        if gone := frozenset([box for box in writes.boxes if not self._there(*box)]):
            return Saved(gone=gone)
        if (
            any(key in known for key in writes.new_heads)
            or any(key in self.answers for key in writes.answers)
            or any((owner[0], box) in self.box_owners for box, owner in writes.box_owners.items())
        ):
            return Saved(answered=True)
        self._check(writes)
        self._apply(writes)
        return Saved()

    def _check(self, writes: Writes) -> None:
        """What the schema of a database would refuse."""
        for head in (*writes.new_heads.values(), *(head for _, head in writes.heads.values())):
            assert (head.status is HeadStatus.IDLE) == (head.turn_id is None), head
            assert (head.status is HeadStatus.RUNNING) == (head.worker_id is not None), head
            assert head.queued >= 0, head
        assert not writes.new_waits.keys() & writes.waits.keys(), "a wait is written once"
        assert not writes.turns.keys() & writes.turn_boxes.keys(), "a turn is written once"
        assert not writes.inbox_put.keys() & writes.inbox_drop, "a place in line is written once"
        assert not writes.leases.keys() & writes.leases_ended.keys(), "a lease is written once"
        for turn_id in writes.turns:
            if turn_id in self.turns:
                raise PlaceTaken(turn_id)
        for turn_id, call_id in writes.new_waits:
            if call_id in self.waits.get(turn_id, {}):
                raise PlaceTaken(f"{turn_id} {call_id}")
        taken: set[tuple[Scope, int]] = set()
        for card in writes.cards:
            place = (card.scope, card.position)
            if place in taken or card.position in self.cards.get(card.scope, {}):
                raise PlaceTaken(f"card {place}")
            taken.add(place)

    def _apply(self, writes: Writes) -> None:
        self.heads_by_key.update(writes.new_heads)
        for key, (_, head) in writes.heads.items():
            self.heads_by_key[key] = head
        self.answers.update(writes.answers)
        for box_id, owner in writes.box_owners.items():
            self.box_owners[owner[0], box_id] = owner
        self.turns.update(writes.turns)
        self.turns.update(writes.turn_boxes)
        for (project, agent_id, seq), entry in writes.inbox_put.items():
            self.lines.setdefault((project, agent_id), {})[seq] = entry
        for project, agent_id, seq in writes.inbox_drop:
            self.lines.get((project, agent_id), {}).pop(seq, None)
        for wait in (*writes.new_waits.values(), *writes.waits.values()):
            self.waits.setdefault(wait.turn_id, {})[wait.call_id] = wait
            if wait.status is WaitStatus.PENDING:
                self.pending[wait.turn_id, wait.call_id] = wait
            else:
                self.pending.pop((wait.turn_id, wait.call_id), None)
        for card in writes.cards:
            self.cards.setdefault(card.scope, {})[card.position] = card
        for step in writes.steps:
            self.steps.setdefault(step.turn_id, {}).setdefault(step.name, step)
        self.leases.update(writes.leases)
        ended = writes.leases_ended
        for worker_id in [one for one, end in ended.items() if end is None or end == self.leases.get(one)]:
            self.leases.pop(worker_id, None)
        if writes.outbox is not None:
            self.outbox_rows[writes.outbox.outbox_id] = writes.outbox
        for outbox_id in writes.outbox_drop:
            self.outbox_rows.pop(outbox_id, None)

    # --- forgetting ----------------------------------------------------------------------------------------

    async def expire(self, before: Scope, limit: int) -> int:
        instant = int(before, 16) >> 48
        old = [
            turn_id for turn_id in sorted(self.turns) if turn_id < "turn_" + before and self._ended(turn_id, instant)
        ]
        old = old[:limit]
        referred = {card.reference for cards in self.cards.values() for card in cards.values() if card.reference}
        for turn_id in old:
            if (self.turns[turn_id].project, box_of(turn_id)) not in self.box_owners:
                cards = self.cards.pop(scope_of(turn_id), {})
                if kept := {place: card for place, card in cards.items() if card.card_id in referred}:
                    self.cards[scope_of(turn_id)] = kept
            self.steps.pop(turn_id, None)
            self.waits.pop(turn_id, None)
            del self.turns[turn_id]
            self.swept_up_to = max(self.swept_up_to, turn_id)
        given = [key for key, answer in self.answers.items() if answer.created_at_ms < instant][:limit]
        for key in given:
            del self.answers[key]
        return len(old) + len(given)

    def _there(self, project: ProjectId, box_id: BoxId) -> bool:
        owner = self.box_owners.get((project, box_id))
        return self._length(project, box_id) is not None or owner not in {None, (project, NOBODY)}

    async def end_box(self, project: ProjectId, box_id: BoxId) -> BoxEnding:
        scope = scope_behind(box_id, "box_")
        if scope is None or not self._there(project, box_id):
            return BoxEnding(unknown=True)
        live = {head.turn_id for head in self.heads_by_key.values()}
        live |= {entry.turn.turn_id for line in self.lines.values() for entry in line.values()}
        own = turn_of(scope)
        pointed = (
            turn.turn_id
            for turn in self.turns.values()
            if turn.project == project
            and turn.turn_id in live
            and (turn.turn_id == own or box_id in {turn.context_box_id, turn.output_box_id})
        )
        ending = BoxEnding(
            needed_by=next(pointed, None),
            born_of=own if self._own(project, own) is not None else None,
            referred_by=next((BoxId("box_" + card.scope) for card in self._referring(f"card_{scope}_")), None),
        )
        if ending == BoxEnding():
            self.box_owners[project, box_id] = (project, NOBODY)
        return ending

    def _referring(self, card_id: str) -> list[Card]:
        born = (card for cards in self.cards.values() for card in cards.values())
        return [card for card in born if card.reference is not None and card.reference.startswith(card_id)]

    async def clear(self, limit: int) -> int:
        ended = [key for key, owner in self.box_owners.items() if owner[1] == NOBODY]
        scopes = [Scope(box_id.removeprefix("box_")) for _, box_id in ended]
        found = [card for scope in scopes for card in self.cards.get(scope, {}).values()][:limit]
        for card in found:
            del self.cards[card.scope][card.position]
        places = [place for card in found if card.reference and (place := place_of(card.reference))]
        for scope, position, _ in sorted(places, reverse=True):  # the end of a turn comes last
            self._free(scope, position)
            self._free(scope, DELIVERABLE_POSITION)
        for key, scope in zip(ended, scopes, strict=True):
            if not self.cards.get(scope):
                del self.box_owners[key]
        return len(found)

    def _free(self, scope: Scope, position: int) -> None:
        """Forget a card that was left of a turn, should nothing need it any more; its end stays as long as any."""
        left = self.cards.get(scope, {})
        end, card = left.get(DELIVERABLE_POSITION), left.get(position)
        if end is None or card is None or end.type != DELIVERABLE or turn_of(scope) in self.turns:
            return
        owned = (card.project, box_of(turn_of(scope))) in self.box_owners
        if not owned and not self._referring(card.card_id) and (position or len(left) == 1):
            del left[position]

    def _ended(self, turn_id: TurnId, before_ms: int) -> bool:
        card = self.cards.get(scope_of(turn_id), {}).get(DELIVERABLE_POSITION)
        return card is not None and card.created_at_ms < before_ms


def _waits_for_a_worker(head: Head | None) -> bool:
    return head is not None and head.status is HeadStatus.DISPATCHED and head.gate is not Gate.CLOSED


def _stranded(head: Head) -> bool:
    return head.status is HeadStatus.IDLE and head.queued > 0 and head.gate is Gate.OPEN
