"""What must hold: after every commit (always), at any time (never), and once the storm is over (finally)."""

from homeostat.core.codec import from_json
from homeostat.core.ids import CardId, RunId, Scope, ToolCallId, TurnId, WorkerId, scope_of, turn_of
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.card import DELIVERABLE_POSITION, Card
from homeostat.core.records.event import Event
from homeostat.core.records.head import Gate, Head
from homeostat.core.records.turn import AfterExecution, AgentKey, Turn, Wait, WaitStatus
from homeostat.core.records.writes import Writes
from homeostat.testing.memory import MemoryTurns
from homeostat.testing.simulation.trace import Trace, Violation

Before = dict[AgentKey, Head | None]


class Checks:
    """Watches every commit and every acknowledgement of one seed."""

    def __init__(self, store: MemoryTurns, trace: Trace) -> None:
        self._store = store
        self._trace = trace
        self.commits = 0
        self.open: dict[AgentKey, set[TurnId]] = {}
        self.ended: dict[TurnId, Card] = {}
        self.announced: dict[TurnId, str] = {}
        self._steps_announced: dict[str, str] = {}
        self.acknowledged: dict[TurnId, str] = {}
        self.requested: dict[str, list[TurnId]] = {}
        self._holders: dict[tuple[AgentKey, int], tuple[TurnId | None, WorkerId | None]] = {}
        self._entered: dict[tuple[TurnId, int], int] = {}
        self._stored: dict[tuple[TurnId, str], int] = {}
        self._step_epochs: dict[tuple[TurnId, str], set[int]] = {}
        self._waits: dict[tuple[TurnId, ToolCallId], Wait] = {}
        self._contexts: dict[TurnId, tuple[CardId, ...]] = {}
        self.forbidden_tags: set[str] = set()
        self.once_held: set[RunId | None] = set()

    # --- after every commit --------------------------------------------------------------------------------

    def committed(self, writes: Writes, before: Before) -> None:
        """Look at everything a commit changed."""
        self.commits += 1
        for turn in writes.turns.values():
            self._turn_made(turn)
        for card in writes.cards:
            if _is_end(card):
                self._turn_ended(card)
        for key, (_, head) in writes.heads.items():
            if (old := before[key]) is not None:
                self._head_moved(old, head)
            self._agent_is_whole(head)
        for wait in (*writes.new_waits.values(), *writes.waits.values()):
            self._wait_moved(wait)
        for turn_id in [turn_of(card.scope) for card in writes.cards if _is_end(card)]:
            self._parent_was_told(turn_id)
        for step in writes.steps:
            self._stored.setdefault((step.turn_id, step.name), self.commits)
            old = before.get(self._store.turns[step.turn_id].key)
            self._step_epochs.setdefault((step.turn_id, step.name), set()).add(old.epoch if old else 0)
        for event in writes.outbox.events if writes.outbox else ():
            if event.suffix == "task" and TurnId(event.event_id) not in self.ended:
                raise Violation("never_an_end_is_announced_before_it_is_durable", event.event_id)

    def _turn_made(self, turn: Turn) -> None:
        self.open.setdefault(turn.key, set()).add(turn.turn_id)
        tag = str(from_json(turn.payload)["tag"])
        self.requested.setdefault(tag, []).append(turn.turn_id)
        if tag in self.forbidden_tags:
            raise Violation("never_a_refused_command_changes_anything", f"{turn}")
        if self._killed(turn.run_id):
            raise Violation("never_a_turn_of_a_killed_run_is_made", f"{turn}")

    def _head_moved(self, old: Head, head: Head) -> None:
        if head.epoch < old.epoch or head.version != old.version + 1:
            raise Violation("always_epochs_increase", f"{old} became {head}")
        untouched = head.gate_reason == old.gate_reason  # else it may have been open for a moment within the commit
        entered = (head.turn_id, head.epoch, head.worker_id) != (old.turn_id, old.epoch, old.worker_id)
        if head.status is HeadStatus.RUNNING and entered:
            holder = (head.turn_id, head.worker_id)
            if self._holders.setdefault((head.key, head.epoch), holder) != holder:
                raise Violation("always_one_active_turn_per_agent", f"epoch {head.epoch} was given twice: {head}")
            if head.gate is Gate.CLOSED and untouched:
                raise Violation("always_a_closed_gate_starts_nothing", f"{old} became {head}")
            run_id = self._store.turns[TurnId(str(head.turn_id))].run_id
            if self._killed(run_id):
                raise Violation("never_a_turn_of_a_killed_run_begins", f"{old} became {head}")
            if run_id in self._store.held_runs:
                raise Violation("never_a_turn_of_a_held_run_begins", f"{old} became {head}")
            self._entered[TurnId(str(head.turn_id)), head.epoch] = self.commits
        if head.turn_id not in (None, old.turn_id) and head.gate is not Gate.OPEN and untouched:
            raise Violation("always_a_closed_gate_starts_nothing", f"{old} became {head}")

    def _agent_is_whole(self, head: Head) -> None:
        """An agent's unfinished turns are the active one and those in line, each in one place."""
        line = self._store.lines.get(head.key, {})
        if head.queued != len(line):
            raise Violation("always_the_queue_is_counted", f"{len(line)} in line, {head}")
        willing = {seq: entry for seq, entry in line.items() if not self._passed_over(entry.turn.run_id)}
        if head.status is HeadStatus.IDLE and head.gate is Gate.OPEN and head.queued and len(willing) == len(line):
            raise Violation("always_an_idle_agent_has_no_mail", f"{head}")
        present = [entry.turn.turn_id for entry in line.values()]
        if head.turn_id is not None:
            present.append(head.turn_id)
            turn = self._store.turns[head.turn_id]
            cards = sum(1 for place in self._store.cards.get(scope_of(turn.turn_id), {}) if place > 0)
            if cards != head.cards:
                raise Violation("always_cards_are_counted", f"{cards} cards, {head}")
            if willing and min(willing) < turn.seq:  # what may not begin is passed over
                raise Violation("always_queue_order_per_agent", f"{turn.seq} is active, {sorted(line)} wait")
        if len(present) != len(set(present)) or set(present) != self.open.get(head.key, set()):
            missing = self.open.get(head.key, set()) ^ set(present)
            raise Violation("always_every_open_turn_is_in_one_place", f"{sorted(missing)} {head}")

    def _killed(self, run_id: RunId | None) -> bool:
        """Whether a run's kill is committed: from then on none of its turns is made, begun or gone on with."""
        return run_id in self._store.closed_runs

    def _passed_over(self, run_id: RunId | None) -> bool:
        """Whether turns of a run may stand in line before others: it is over, or was held and may have been resumed
        since, and nobody has looked again.
        """
        return self._killed(run_id) or run_id in self.once_held

    def _turn_ended(self, card: Card) -> None:
        turn_id = turn_of(card.scope)
        if turn_id in self.ended:
            raise Violation("never_two_ends_of_one_turn", turn_id)
        self.ended[turn_id] = card
        turn = self._store.turns[turn_id]
        self.open[turn.key].discard(turn_id)
        content = from_json(card.content)
        self._trace.count(f"ended_{content['status']}")
        by_tool = isinstance(content["result"], dict) and "tool_says" in content["result"]
        self._trace.count("terminated_by_result", by_tool)
        if content["error"] is not None and content["error"].get("code") == "attempts_exhausted":
            self._trace.count("attempts_exhausted")

    def _parent_was_told(self, turn_id: TurnId) -> None:
        """The commit that ends a joined turn brings its reply home."""
        turn = self._store.turns[turn_id]
        if turn.parent_turn_id is not None and turn.reply_call_id is not None:
            wait = self._store.pending.get((turn.parent_turn_id, turn.reply_call_id))
            if wait is not None:
                raise Violation("always_the_end_of_a_joined_turn_is_its_parent_s_result", f"{turn_id} {wait}")

    def _wait_moved(self, wait: Wait) -> None:
        key = (wait.turn_id, wait.call_id)
        old = self._waits.get(key)
        self._waits[key] = wait
        if old is None:
            return
        if old.deadline_ms != wait.deadline_ms:
            raise Violation("never_a_deadline_moves", f"{old} became {wait}")
        if old.status is not WaitStatus.PENDING and wait != old:
            raise Violation("never_a_wait_is_answered_twice", f"{old} became {wait}")

    # --- what callers were told ----------------------------------------------------------------------------

    def enqueued(self, tag: str, turn_id: TurnId) -> None:
        """A caller was told that its message is safe."""
        if tag not in self.requested or turn_id not in self.requested[tag]:
            raise Violation("always_an_acknowledged_message_is_durable", f"{tag} {turn_id}")
        self.acknowledged[turn_id] = tag

    def delivered(self, turn_id: TurnId, card_id: str) -> None:
        """A worker was told that its deliverable is the one."""
        if turn_id not in self.ended or self.ended[turn_id].card_id != card_id:
            raise Violation("always_an_acknowledged_deliverable_is_the_one", f"{turn_id} {card_id}")

    def stepped(self, turn_id: TurnId, epoch: int, name: str) -> None:
        """A worker was told that its step is remembered."""
        if (turn_id, name) not in self._stored:
            raise Violation("always_an_acknowledged_step_is_durable", f"{turn_id} {name}")
        if epoch not in self._step_epochs[turn_id, name]:
            raise Violation("never_a_worker_writes_under_an_epoch_that_is_over", f"{turn_id} {name} epoch {epoch}")

    def side_effect(self, turn_id: TurnId, epoch: int, name: str) -> None:
        """A worker runs a step that it found no outcome for."""
        stored = self._stored.get((turn_id, name))
        if stored is not None and stored < self._entered[turn_id, epoch]:
            raise Violation("never_a_stored_step_runs_twice", f"{turn_id} epoch {epoch} {name}")

    def announce(self, event: Event) -> None:
        """The bus took a terminal event."""
        turn_id = TurnId(event.event_id)
        card = self.ended.get(turn_id)
        if card is None or from_json(event.payload)["deliverable_card_id"] != card.card_id:
            raise Violation("never_two_terminal_events_with_different_content", f"{event.payload} for {card}")
        if self.announced.setdefault(turn_id, event.payload) != event.payload:
            raise Violation("never_two_terminal_events_with_different_content", event.payload)

    def announce_step(self, event: Event) -> None:
        """The bus took word of a step."""
        if self._steps_announced.setdefault(event.event_id, event.payload) != event.payload:
            raise Violation("never_one_step_is_announced_in_different_words", event.payload)
        said = from_json(event.payload)
        if said["phase"] == "stored" and (TurnId(said["agent_turn_id"]), said["step_id"]) not in self._stored:
            raise Violation("never_a_step_is_announced_before_it_is_durable", event.payload)

    def forgotten(self, turn_ids: set[TurnId], before: Scope) -> None:
        """Retention removed turns."""
        instant = int(before, 16) >> 48
        for turn_id in sorted(turn_ids):
            if turn_id not in self.ended:
                raise Violation("never_an_open_turn_is_forgotten", turn_id)
            if self.ended[turn_id].created_at_ms >= instant:
                raise Violation("never_a_turn_is_forgotten_before_its_time", turn_id)

    def context_read(self, turn: Turn, context: tuple[Card, ...]) -> None:
        """A turn that is taken up again sees what it saw before, though its context's box has grown."""
        if turn.context_box_id is None:
            return
        seen = tuple(card.card_id for card in context)
        if self._contexts.setdefault(turn.turn_id, seen) != seen:
            raise Violation("always_a_context_is_what_it_was", f"{turn}: {self._contexts[turn.turn_id]}, then {seen}")
        entries = self._store.cards.get(scope_of(turn.context_box_id), {})
        self._trace.count("context_grew", sum(1 for place in entries if place > 0) > len(seen))

    # --- once the storm is over ----------------------------------------------------------------------------

    def finally_hold(self, unique_tags: set[str]) -> None:
        """Everything that must be true when nothing is left to do."""
        self.finally_nothing_is_stranded()
        self.finally_every_acknowledged_enqueue_has_a_deliverable()
        self.finally_every_turn_was_announced()
        self.finally_every_stored_step_was_announced()
        self.finally_one_request_is_one_turn(unique_tags)
        self.finally_a_terminating_result_is_the_deliverable()
        self.finally_rolling_boxes_have_no_gaps()

    def finally_nothing_is_stranded(self) -> None:
        store = self._store
        left = [turn_id for turns in self.open.values() for turn_id in sorted(turns)]
        busy = [head for head in store.heads_by_key.values() if head.status is not HeadStatus.IDLE or head.queued]
        if left or busy:
            raise Violation("finally_nothing_is_stranded", f"{left} {busy}")
        if store.outbox_rows:
            raise Violation("finally_nothing_is_stranded", f"in the outbox: {list(store.outbox_rows.values())}")
        if store.pending:
            raise Violation("finally_nothing_is_stranded", f"waits: {list(store.pending)}")

    def finally_every_acknowledged_enqueue_has_a_deliverable(self) -> None:
        if lost := [turn_id for turn_id in self.acknowledged if turn_id not in self.ended]:
            raise Violation("finally_every_acknowledged_enqueue_has_a_deliverable", f"{lost}")

    def finally_every_turn_was_announced(self) -> None:
        if silent := [turn_id for turn_id in self.ended if turn_id not in self.announced]:
            raise Violation("finally_every_turn_was_announced", f"{silent}")

    def finally_every_stored_step_was_announced(self) -> None:
        told = self._steps_announced
        if silent := [(turn, name) for turn, name in self._stored if f"{turn}:step:{name}" not in told]:
            raise Violation("finally_every_stored_step_was_announced", f"{silent}")

    def finally_one_request_is_one_turn(self, unique_tags: set[str]) -> None:
        for tag, turn_ids in self.requested.items():
            if tag in unique_tags and len(turn_ids) > 1:
                raise Violation("finally_one_request_is_one_turn", f"{tag} became {turn_ids}")

    def finally_a_terminating_result_is_the_deliverable(self) -> None:
        """A turn that a tool's result ended delivers what a terminating call brought."""
        for turn_id, card in self.ended.items():
            waits = self._store.waits.get(turn_id, {}).values()
            final = [wait for wait in waits if wait.after_execution is AfterExecution.TERMINATE and wait.result_card_id]
            content = from_json(card.content)
            by_tool = isinstance(content["result"], dict) and "tool_says" in content["result"]
            if not by_tool or turn_id not in self._store.turns:
                continue
            cards = self._store.cards[scope_of(turn_id)].values()
            results = {
                other.card_id: from_json(other.content)["result"] for other in cards if other.type == "tool.result"
            }
            if content["result"] not in [results[wait.result_card_id] for wait in final if wait.result_card_id]:
                raise Violation("finally_a_terminating_result_is_the_deliverable", f"{card} {final}")

    def finally_rolling_boxes_have_no_gaps(self) -> None:
        for (_, box_id), owner in self._store.box_owners.items():
            entries = self._store.cards.get(scope_of(box_id), {})
            places = sorted(position for position in entries if position > 0)
            if places != list(range(1, len(places) + 1)):
                raise Violation("finally_rolling_boxes_have_no_gaps", f"{box_id} of {owner}: {places}")


def _is_end(card: Card) -> bool:
    return card.position == DELIVERABLE_POSITION and card.reference is None and card.author is not None
