"""The plan of one flush: mailboxes as the rules leave them, and the writes that make them so."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.enforcement_errors import AgentMoved
from homeostat.core.errors import AgentUnknown, BoxNotYours, BoxUnknown, MalformedPayload, StaleEpoch
from homeostat.core.ids import BoxId, CardId, Ids, ProjectId, RunId, TurnId, WorkerId, card_of, digest_of, scope_of
from homeostat.core.limits import LEASE_BEATS
from homeostat.core.machines.turn import HEAD, HeadStatus, TurnEvent
from homeostat.core.records.box import BoxKey
from homeostat.core.records.card import KERNEL_CARDS, Card, CardDraft
from homeostat.core.records.enforcement import Mandate
from homeostat.core.records.event import Event
from homeostat.core.records.head import Head, Mailbox
from homeostat.core.records.recording import Worked
from homeostat.core.records.run import Start
from homeostat.core.records.turn import AgentKey, OpenTurn, Wait
from homeostat.core.records.view import Deliverable
from homeostat.core.records.writes import Writes
from homeostat.kernel.commands import Fence, Report


class Need(Exception):
    """A rule lacks something it must know; the flusher fetches it and asks the rule again.

    Rules raise it before they write, so that asking twice is harmless.
    """

    def __init__(
        self,
        *,
        mailbox: AgentKey | None = None,
        box: tuple[ProjectId, BoxId] | None = None,
        turn: tuple[ProjectId, TurnId] | None = None,
        card: tuple[ProjectId, CardId] | None = None,
    ) -> None:
        self.mailbox = mailbox
        self.box = box
        self.turn = turn
        self.card = card


@dataclass(frozen=True, slots=True)
class BoxState:
    """How long a box is, who writes to it, and whose finished turn it was born with, if it was."""

    length: int
    owner: AgentKey | None
    born_of: AgentKey | None = None


class Plan(Struct, kw_only=True):
    """What a flush is about to do. Rules read from it and write to it; nothing else happens until it is saved."""

    now: Millis
    ids: Ids
    lease_ms: int
    leases: dict[WorkerId, Millis]
    held_runs: Collection[RunId | None] = ()
    closed_runs: Collection[RunId | None] = ()
    holding_runs: Collection[RunId | None] = ()
    void: Collection[Mandate] = ()
    gone: Collection[BoxKey] = ()
    steps_heard: bool = True
    mailboxes: dict[AgentKey, Mailbox | None] = {}
    base: dict[AgentKey, int] = {}
    boxes: dict[tuple[ProjectId, BoxId], BoxState] = {}
    contents: dict[tuple[ProjectId, CardId], Json] = {}
    behind: dict[TurnId, OpenTurn | None] = {}
    touched: dict[AgentKey, None] = {}
    ends: list[tuple[ProjectId, Deliverable]] = []
    left: list[Worked] = []
    events: list[Event] = []
    followups: list[Report] = []
    revoked: list[Fence] = []
    writes: Writes = field(default_factory=Writes)

    # --- mailboxes -----------------------------------------------------------------------------------------

    def mailbox(self, key: AgentKey) -> Mailbox:
        try:
            mailbox = self.mailboxes[key]
        except KeyError:
            raise Need(mailbox=key) from None
        if mailbox is None:
            raise AgentUnknown(project=key[0], agent_id=key[1])
        return mailbox

    def held(self, fence: Fence) -> Mailbox:
        """The mailbox a worker may write to, if the turn is still its own."""
        mailbox = self.mailbox(fence.key)
        head = mailbox.head
        if (
            head.turn_id != fence.turn_id
            or head.epoch != fence.epoch
            or head.worker_id != fence.worker_id
            or head.status is not HeadStatus.RUNNING
        ):
            raise StaleEpoch(turn_id=fence.turn_id, worker_id=fence.worker_id, epoch=fence.epoch)
        return mailbox

    def move(self, mailbox: Mailbox, event: TurnEvent | None, **changes: Any) -> Head:
        """The head after an event, through the table, with the version this flush will give it."""
        head = mailbox.head
        version = self.base[head.project, head.agent_id] + 1
        if event is None:
            return replace(head, version=version, **changes)
        status = HEAD.next(head.status, event)
        return replace(head, version=version, status=status, since_ms=self.now, **changes)

    def put(self, mailbox: Mailbox) -> None:
        head, writes = mailbox.head, self.writes
        key = (head.project, head.agent_id)
        self.mailboxes[key] = mailbox
        self.touched[key] = None
        if writes.new_heads and key in writes.new_heads:
            writes.new_heads[key] = head
        else:
            writes.heads[key] = (self.base[key], head)

    # --- runs ----------------------------------------------------------------------------------------------

    def may_begin(self, run_id: RunId | None) -> bool:
        """Whether a turn of a run may be given out, as far as is known; the save finds out whether it is true."""
        return run_id is None or (run_id not in self.held_runs and run_id not in self.closed_runs)

    def starts(self, run_id: RunId | None, what: Start = Start.TURN) -> None:
        """A turn of a run is made or begun: its run has to be open for that when this flush commits."""
        if run_id is not None and self.writes.runs.get(run_id, -1) < what:
            self.writes.runs[run_id] = what

    # --- health ---------------------------------------------------------------------------------------------

    def require(self, mandate: Mandate) -> None:
        """Something is done because of an agent's health: that has to be as it was when this flush commits."""
        if mandate in self.void:
            raise AgentMoved(agent_id=mandate.key[1])
        self.writes.mandates.add(mandate)

    # --- the queue -----------------------------------------------------------------------------------------

    def enqueue_row(self, entry: OpenTurn) -> None:
        turn = entry.turn
        key = (turn.project, turn.agent_id, turn.seq)
        self.writes.inbox_drop.discard(key)
        self.writes.inbox_put[key] = entry

    def in_line(self, mailbox: Mailbox, turn_id: TurnId) -> OpenTurn | None:
        """Find a queued turn, whether or not it is near the front."""
        for entry in mailbox.queue:
            if entry.turn.turn_id == turn_id:
                return entry
        if mailbox.queue_complete:
            return None
        for entry in self.writes.inbox_put.values():
            if entry.turn.turn_id == turn_id:
                return entry
        if turn_id not in self.behind:
            raise Need(turn=(mailbox.head.project, turn_id))
        found = self.behind[turn_id]
        if found is None or found.turn.key != mailbox.head.key:
            return None
        return None if (*found.turn.key, found.turn.seq) in self.writes.inbox_drop else found

    def dequeue_row(self, entry: OpenTurn) -> None:
        turn = entry.turn
        key = (turn.project, turn.agent_id, turn.seq)
        if self.writes.inbox_put.pop(key, None) is None or turn.turn_id not in self.writes.turns:
            self.writes.inbox_drop.add(key)

    def wait(self, wait: Wait) -> None:
        """Note how a wait stands, in its new row if this flush makes one: no row is written twice."""
        key = (wait.turn_id, wait.call_id)
        (self.writes.new_waits if key in self.writes.new_waits else self.writes.waits)[key] = wait

    # --- cards ---------------------------------------------------------------------------------------------

    def card(self, entry: OpenTurn, position: int, type_: str, content: Json) -> CardId:
        """Write one card at its birthplace, and a reference to it in the rolling box if the turn has one."""
        turn = entry.turn
        scope, digest = scope_of(turn.turn_id), digest_of(content)
        card = Card(turn.project, scope, position, type_, content, digest, turn.agent_id, self.now)
        self.writes.cards.append(card)
        if turn.output_box_id is not None:
            self._refer(turn.key, turn.output_box_id, card)
        return card_of(scope, position, digest)

    def content(self, project: ProjectId, card_id: CardId) -> Json:
        """What a card says, be it stored or about to be."""
        for card in self.writes.cards:
            if card.reference is None and card.card_id == card_id:
                return card.content
        try:
            return self.contents[project, card_id]
        except KeyError:
            raise Need(card=(project, card_id)) from None

    @staticmethod
    def admit_cards(drafts: tuple[CardDraft, ...]) -> None:
        """See that a worker's cards tell nothing that only the kernel can know."""
        for draft in drafts:
            if draft.type in KERNEL_CARDS:
                raise MalformedPayload(field="cards", problem=f"only the kernel writes cards of type {draft.type}")

    def append(self, entry: OpenTurn, drafts: tuple[CardDraft, ...]) -> tuple[OpenTurn, tuple[CardId, ...]]:
        """Write drafts behind the cards the turn has so far."""
        if not drafts:
            return entry, ()
        first = entry.cards + 1
        ids = tuple(self.card(entry, first + i, draft.type, draft.content) for i, draft in enumerate(drafts))
        return replace(entry, cards=entry.cards + len(drafts)), ids

    def rolling(self, entry: OpenTurn) -> None:
        """Make sure the length of the turn's rolling box is known before anything is written to it."""
        if (box_id := entry.turn.output_box_id) is not None:
            self.box(entry.turn.project, box_id)

    def box(self, project: ProjectId, box_id: BoxId) -> BoxState:
        """How long a box is and who writes to it."""
        try:
            return self.boxes[project, box_id]
        except KeyError:
            raise Need(box=(project, box_id)) from None

    def name_box(self, project: ProjectId, box_id: BoxId) -> None:
        """Somebody names a box, which has to be there when this flush commits."""
        if (project, box_id) in self.gone:
            raise BoxUnknown(box_id=box_id)
        self.writes.boxes.add((project, box_id))

    def may_own(self, key: AgentKey, box_id: BoxId) -> None:
        """One agent writes to a box, and an agent has one active turn: so a box has one writer."""
        box = self.box(key[0], box_id)
        owner = box.owner or box.born_of
        if owner is not None and owner != key:
            raise BoxNotYours(box_id=box_id, owner=owner[1])
        self.name_box(key[0], box_id)

    def own_box(self, key: AgentKey, box_id: BoxId) -> None:
        """Take a box as output."""
        self.may_own(key, box_id)
        box = self.boxes[key[0], box_id]
        if box.owner is None:
            self.writes.box_owners[box_id] = key
            self.boxes[key[0], box_id] = BoxState(box.length, key)

    def _refer(self, key: AgentKey, box_id: BoxId, card: Card) -> None:
        box = self.boxes[key[0], box_id]
        self.boxes[key[0], box_id] = BoxState(box.length + 1, box.owner, box.born_of)
        self.writes.cards.append(
            replace(card, scope=scope_of(box_id), position=box.length + 1, content=Json(""), reference=card.card_id)
        )

    # --- leases and announcements --------------------------------------------------------------------------

    def lease(self, worker_id: WorkerId) -> None:
        """Let a worker's lease run its full length, unless it was renewed just now."""
        left = self.leases.get(worker_id, 0) - self.now
        recent = self.lease_ms - self.lease_ms // LEASE_BEATS <= left <= self.lease_ms
        if not recent or worker_id in self.writes.leases_ended:
            self.renew(worker_id)

    def renew(self, worker_id: WorkerId) -> None:
        """A worker that shows itself is alive, even if it was given up a moment before."""
        self.writes.leases_ended.pop(worker_id, None)
        self.writes.leases[worker_id] = self.lease_end()

    def lease_end(self) -> Millis:
        return Millis(self.now + self.lease_ms)

    def announce(self, event: Event) -> None:
        """Have something said at least once, should this flush commit."""
        self.events.append(event)
