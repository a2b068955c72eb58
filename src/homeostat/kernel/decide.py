"""Deciding a batch: run each command's rule over mailboxes at hand, fetching what a rule turns out to need."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from msgspec.structs import replace

from homeostat.core.codec import NULL, from_json, to_json
from homeostat.core.errors import BoxNotYours, BoxUnknown, HomeostatError, IdempotencyKeyReused, Unavailable
from homeostat.core.ids import BoxId, ProjectId, TurnId, scope_of, turn_of
from homeostat.core.limits import READ_ON_PAGES_MAX, READ_ON_ROWS_MAX
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.box import NOBODY
from homeostat.core.records.head import Mailbox
from homeostat.core.records.turn import AgentKey, OpenTurn, TurnStatus
from homeostat.core.records.writes import Answer
from homeostat.kernel import commands as c
from homeostat.kernel.deliver import Followups
from homeostat.kernel.dispatch import can_dispatch, dispatch
from homeostat.kernel.plan import BoxState, Need, Plan
from homeostat.kernel.rules import ANSWERS, RULES

log = logging.getLogger(__name__)

RecallKey = tuple[ProjectId, str]


class Pending:
    """A command on its way to an answer, which may be an error."""

    __slots__ = ("answer", "command", "idempotency", "key", "recall_key")

    def __init__(self, command: c.Command) -> None:
        self.command = command
        self.key = command.key
        self.idempotency: c.Idempotency | None = command.idempotency
        self.recall_key = None if self.idempotency is None else _recall_key(command, self.idempotency)
        self.answer: object = None


def _recall_key(command: c.Command, idempotency: c.Idempotency) -> RecallKey | None:
    """Under which key a first answer would be found: within the turn, the agent or else the project it is about.

    Models count their calls from one: in a wider scope, what one agent says would be taken for what another did. For
    the same reason a message's sender is part of it.
    """
    match command:
        case c.PutCards():
            return (command.project, idempotency.key)
        case c.Report():
            return (command.key[0], f"{command.turn_id} {idempotency.key}")
        case c.Stop():
            return (command.key[0], f"{command.turn.turn_id} {idempotency.key}")
        case c.WriteCards() | c.Suspend() | c.Release():
            return (command.key[0], f"{command.fence.turn_id} {idempotency.key}")
        case c.Enqueue(source=str(source)):
            return (command.key[0], f"{command.key[1]} {idempotency.of(source).key}")
        case _:
            return None if command.key is None else (command.key[0], f"{command.key[1]} {idempotency.key}")


async def first_answer(store: TurnStore, command: c.Command) -> Any:
    """What a command was answered that came before under its key: for one that names what is gone by now."""
    pending = Pending(command)
    if (key := pending.recall_key) is None:
        return None
    first = (await store.recall([key])).get(key)
    return None if first is None else _repeat(pending, first)


def _repeat(pending: Pending, first: Answer) -> object:
    assert pending.idempotency is not None
    if first.fingerprint != pending.idempotency.fingerprint:
        raise IdempotencyKeyReused(key=pending.idempotency.said)
    return ANSWERS[type(pending.command)](from_json(first.answer))


class Decision:
    """One attempt at one batch. It starts from mailboxes in memory and never refuses on their word alone."""

    def __init__(self, plan: Plan, store: TurnStore, known: Mapping[AgentKey, Mailbox]) -> None:
        self._plan = plan
        self._store = store
        self._known = known
        self._fresh: set[AgentKey] = set()
        self._answers: dict[RecallKey, Answer] = {}
        self._answered_by: dict[RecallKey, Pending] = {}

    async def decide(self, batch: Sequence[Pending]) -> None:
        """Answer every command of a batch, in order."""
        if missing := self._recollect({pending.key for pending in batch if pending.key is not None}):
            await self._load(missing)
        wanted = [key for pending in batch if (key := pending.recall_key) is not None]
        if wanted:
            self._answers.update(await self._store.recall(wanted))
        for pending in batch:
            if (need := self._attempt(pending)) is not None:
                await self._supply(pending, need)
        if self._plan.followups:
            await self._follow()
        if doubtful := self._doubtful_of(batch):
            await self._reconsider(doubtful)
        if behind := self._used_up(batch):
            await self._read_on(behind)

    # --- answering -----------------------------------------------------------------------------------------

    async def _answer(self, pending: Pending) -> None:
        if (need := self._attempt(pending)) is not None:
            await self._supply(pending, need)

    async def _supply(self, pending: Pending, need: Need | None) -> None:
        """Fetch what a command lacks, until it can be answered."""
        try:
            while need is not None:
                await self._fetch(need)
                need = self._attempt(pending)
        except Unavailable:
            raise  # what could not be read was not decided; the batch is told so
        except HomeostatError as error:
            pending.answer = error

    def _attempt(self, pending: Pending) -> Need | None:
        """Answer a command if everything it needs is at hand; else say what is missing."""
        key = pending.recall_key
        followups: Followups = []
        try:
            if key is not None and (first := self._answers.get(key)) is not None:
                pending.answer = _repeat(pending, first)
                return None
            answer = RULES[type(pending.command)](self._plan, pending.command, followups)
        except Need as need:
            return need
        except Unavailable:
            raise
        except HomeostatError as error:
            pending.answer = error
            return None
        pending.answer = answer
        if key is not None and pending.idempotency is not None:
            fingerprint = pending.idempotency.fingerprint
            record = Answer(*key, fingerprint, to_json(answer), self._plan.now)
            self._plan.writes.answers[key] = record
            self._answers[key] = record
            self._answered_by[key] = pending
        if followups:
            self._plan.followups.extend(followups)
        return None

    async def _follow(self) -> None:
        """Bring the replies of joined turns home in the same transaction; a parent that moved on needs none."""
        while self._plan.followups:
            reply = Pending(self._plan.followups.pop(0))
            await self._answer(reply)
            if self._doubtful(reply):
                await self._load([cast(AgentKey, reply.key)])
                await self._answer(reply)
            if isinstance(reply.answer, HomeostatError):
                log.info("a reply found nobody waiting: %s", reply.answer)

    # --- knowing -------------------------------------------------------------------------------------------

    def _doubtful_of(self, batch: Sequence[Pending]) -> list[Pending]:
        known = self._plan.writes.heads
        return [pending for pending in batch if pending.key not in known and self._doubtful(pending)]

    async def _reconsider(self, doubtful: Sequence[Pending]) -> None:
        """Never refuse from memory: a decision that swaps no head is only as good as the mailbox it was made on."""
        await self._load({cast(AgentKey, pending.key) for pending in doubtful})
        for pending in doubtful:
            key = pending.recall_key
            if key is not None and self._answered_by.get(key) is pending:  # what another said under this key stands
                del self._plan.writes.answers[key]
                del self._answers[key]
            await self._answer(pending)
        await self._follow()

    def _doubtful(self, pending: Pending) -> bool:
        key, writes = pending.key, self._plan.writes
        return key is not None and key not in self._fresh and key not in writes.heads and key not in writes.new_heads

    def _recollect(self, keys: Iterable[AgentKey]) -> list[AgentKey]:
        """Begin with what is at hand; returns whom it does not do for."""
        plan, known = self._plan, self._known
        mailboxes, base = plan.mailboxes, plan.base
        missing: list[AgentKey] = []
        for key in keys:
            mailbox = known.get(key)
            if mailbox is None or (mailbox.head.queued and not mailbox.queue):
                missing.append(key)
            else:
                mailboxes[key] = mailbox
                base[key] = mailbox.head.version
        return missing

    async def _load(self, keys: Iterable[AgentKey]) -> None:
        plan, missing = self._plan, sorted(keys)
        found = await self._store.load(missing)
        for key in missing:
            plan.mailboxes[key] = mailbox = found.get(key)
            if mailbox is not None:
                plan.base[key] = mailbox.head.version
        plan.behind.clear()  # what was found in line was read before these mailboxes were
        self._fresh.update(missing)

    def _used_up(self, batch: Sequence[Pending]) -> list[AgentKey]:
        """Idle agents with mail behind the front that was at hand, where that is used up, or its runs are held."""
        plan = self._plan
        helped = [cast(AgentKey, pending.key) for pending in batch if isinstance(pending.command, c.Dispatch)]
        return [
            key
            for key in (dict.fromkeys((*plan.touched, *helped)) if helped else plan.touched)
            if (mailbox := plan.mailboxes[key]) is not None
            and mailbox.head.queued > len(mailbox.queue)
            and can_dispatch(mailbox.head)
            and not any(plan.may_begin(entry.turn.run_id) for entry in mailbox.queue)
        ]

    async def _read_on(self, keys: Iterable[AgentKey]) -> None:
        """Dispatch from behind the front."""
        plan = self._plan
        for key in keys:
            mailbox = cast(Mailbox, plan.mailboxes[key])
            put = (entry for (*owner, _), entry in plan.writes.inbox_put.items() if tuple(owner) == key)
            waiting = [entry for entry in put if plan.may_begin(entry.turn.run_id)]
            if (stored := await self._first_behind(key, mailbox)) is not None:
                waiting.append(stored)
            if waiting:  # else the head has moved meanwhile, and the swap will say so; or nobody may begin
                plan.put(replace(mailbox, queue=(min(waiting, key=lambda entry: entry.turn.seq),)))
                dispatch(plan, key)

    async def _first_behind(self, key: AgentKey, mailbox: Mailbox) -> OpenTurn | None:
        """The first in line behind what is at hand that may begin."""
        plan = self._plan
        gone = {seq for *owner, seq in plan.writes.inbox_drop if tuple(owner) == key}
        after, limit = (mailbox.queue[-1].turn.seq if mailbox.queue else -1), len(gone) + 1
        for _ in range(READ_ON_PAGES_MAX):
            line = await self._store.inbox(*key, after_seq=after, limit=limit)
            for entry in line:
                if entry.turn.seq not in gone and plan.may_begin(entry.turn.run_id):
                    return await self._queued(key[0], entry.turn.turn_id) if entry.starts else entry
            if len(line) < limit:
                return None
            after, limit = line[-1].turn.seq, READ_ON_ROWS_MAX
        return None

    async def _fetch(self, need: Need) -> None:
        plan = self._plan
        if need.mailbox is not None and (missing := self._recollect([need.mailbox])):
            await self._load(missing)
        if need.box is not None:
            plan.boxes[need.box] = await self._box(*need.box)
        if need.card is not None:
            card = await self._store.card(*need.card)
            plan.contents[need.card] = card.content if card is not None else NULL
        if need.turn is not None:
            plan.behind[need.turn[1]] = await self._queued(*need.turn)

    async def _queued(self, project: ProjectId, turn_id: TurnId) -> OpenTurn | None:
        """A turn as it stands in line, if it does."""
        view = await self._store.turn(project, turn_id)
        if view is None or view.status is not TurnStatus.QUEUED:
            if view is not None and view.deliverable is None:
                self._fresh.discard(view.turn.key)  # it came to the front since that was read
            return None
        line = await self._store.inbox(*view.turn.key, after_seq=view.turn.seq - 1, limit=1)
        return replace(line[0], waits=view.waits) if line and line[0].turn.turn_id == turn_id else None

    async def _box(self, project: ProjectId, box_id: BoxId) -> BoxState:
        length = await self._store.box_length(project, box_id)
        owner = await self._store.box_owner(project, box_id)
        if owner is not None and owner[1] != NOBODY:
            return BoxState(length or 0, owner)  # one whose cards an older version forgot is empty, not gone
        if length is None:
            raise BoxUnknown(box_id=box_id)
        view = await self._store.turn(project, turn_of(scope_of(box_id)))
        if view is None:
            return BoxState(length, None)
        if view.deliverable is None:  # its turn counts places by itself: a second writer would take them
            raise BoxNotYours(box_id=box_id, owner=view.turn.agent_id)
        return BoxState(length, None, view.turn.key)
