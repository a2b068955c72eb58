"""Group flush: whatever commands wait share one transaction, and each is answered after its commit."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, cast

from homeostat.core.clock import Clock, Millis
from homeostat.core.codec import from_json, to_json
from homeostat.core.errors import (
    BoxUnknown,
    HomeostatError,
    IdempotencyKeyReused,
    StoreUnavailable,
)
from homeostat.core.ids import Ids, WorkerId
from homeostat.core.limits import (
    FLUSH_COMMANDS_MAX,
    FLUSH_CONFLICTS_MAX,
    MAILBOX_CACHED_PAYLOAD_BYTES_MAX,
    MAILBOXES_CACHED_MAX,
)
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.head import Gate, Mailbox
from homeostat.core.records.turn import AgentKey, Grant
from homeostat.core.records.writes import Answer, OutboxRow
from homeostat.kernel import commands as c
from homeostat.kernel.claim import claim
from homeostat.kernel.deliver import Followups
from homeostat.kernel.dock import Berth, Dock
from homeostat.kernel.plan import Need, Plan
from homeostat.kernel.rules import ANSWERS, RULES, key_of

log = logging.getLogger(__name__)

Committed = Callable[[Plan], None]


class Waiting:
    """A command and the caller who waits for its answer."""

    __slots__ = ("answer", "command", "future", "key")

    def __init__(self, command: c.Command, future: asyncio.Future[Any]) -> None:
        self.command = command
        self.future = future
        self.key = key_of(command)
        self.answer: object = None


class Flusher:
    """The only writer of a kernel. Mailboxes it has seen stay at hand; a compare-and-swap proves them still true."""

    def __init__(
        self,
        *,
        store: TurnStore,
        clock: Clock,
        ids: Ids,
        dock: Dock,
        lease_seconds: float,
        committed: Committed,
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._dock = dock
        self._lease_ms = int(lease_seconds * 1000)
        self._committed = committed
        self._waiting: deque[Waiting] = deque()
        self._wanted = asyncio.Event()
        self._mailboxes: dict[AgentKey, Mailbox] = {}
        self._leases: dict[WorkerId, Millis] = {}
        self.commits = 0
        self.conflicts = 0

    # --- the caller's side ---------------------------------------------------------------------------------

    def submit(self, command: c.Command) -> asyncio.Future[Any]:
        """Put a command into the next flush; the future has its answer, or its error, after the commit."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append(Waiting(command, future))
        if len(self._waiting) == 1:
            self._wanted.set()
        return future

    def forget(self, keys: Iterable[AgentKey]) -> None:
        """Somebody else may have moved these agents: read them again before deciding."""
        for key in keys:
            self._mailboxes.pop(key, None)

    # --- the loop ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            while self._waiting:
                await self.tick()

    async def tick(self) -> int:
        """Flush what waits now; returns how many commands were answered."""
        batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), FLUSH_COMMANDS_MAX))]
        if not batch:
            return 0
        try:
            await self._flush(batch)
        except asyncio.CancelledError:
            self._fail(batch, StoreUnavailable(problem="the kernel is shutting down"))
            raise
        except StoreUnavailable as error:
            self.forget(w.key for w in batch if w.key is not None)
            self._fail(batch, error)
        except Exception as error:  # noqa: BLE001 — whatever it is, callers must be answered
            await self._isolate(batch, error)
        return len(batch)

    async def _flush(self, batch: list[Waiting]) -> None:
        for _ in range(FLUSH_CONFLICTS_MAX):
            plan, claims = await self._decide(batch)
            try:
                if plan.writes:
                    saved = await self._store.save(plan.writes)
                    if not saved.ok:
                        self.conflicts += 1
                        self.forget(saved.stale or plan.mailboxes)
                        self._untake(claims)
                        continue
                    self.commits += 1
            except BaseException:
                self._untake(claims)
                self.forget(plan.mailboxes)
                raise
            self._settle(plan, claims, batch)
            return
        raise StoreUnavailable(problem=f"{FLUSH_CONFLICTS_MAX} lost races in a row")

    async def _isolate(self, batch: list[Waiting], error: Exception) -> None:
        """One bad command must not take its neighbours down: each is tried alone, and the bad one is told."""
        self.forget(w.key for w in batch if w.key is not None)
        if len(batch) == 1:
            log.error("a %s could not be flushed", type(batch[0].command).__name__, exc_info=error)
            self._fail(batch, error)
            return
        for waiting in batch:
            try:
                await self._flush([waiting])
            except StoreUnavailable as unavailable:
                self._fail([waiting], unavailable)
            except Exception as own:  # noqa: BLE001 — reported to its caller and logged
                await self._isolate([waiting], own)

    @staticmethod
    def _fail(batch: list[Waiting], error: Exception) -> None:
        for waiting in batch:
            if not waiting.future.done():
                waiting.future.set_exception(error)

    # --- deciding ------------------------------------------------------------------------------------------

    async def _decide(self, batch: list[Waiting]) -> tuple[Plan, list[tuple[Berth, Grant]]]:
        plan = Plan(now=self._clock.now_ms(), ids=self._ids, lease_ms=self._lease_ms, leases=self._leases)
        fresh: set[AgentKey] = set()
        await self._load(plan, {w.key for w in batch if w.key is not None}, fresh, cached=True)
        answered = await self._recall(batch)
        for waiting in batch:
            await self._answer(plan, waiting, fresh, answered)
        await self._reconsider(plan, batch, fresh, answered)
        claims = self._claims(plan)
        if plan.events:
            plan.writes.outbox = OutboxRow(plan.outbox_id(), tuple(plan.events))
        return plan, claims

    async def _load(self, plan: Plan, keys: Iterable[AgentKey], fresh: set[AgentKey], *, cached: bool) -> None:
        missing: list[AgentKey] = []
        for key in keys:
            mailbox = self._mailboxes.get(key) if cached else None
            if mailbox is None or (not mailbox.queue and mailbox.head.queued):
                missing.append(key)
            else:
                plan.mailboxes[key] = mailbox
                plan.base[key] = mailbox.head.version
        if missing:
            missing.sort()
            found = await self._store.load(missing)
            for key in missing:
                mailbox = found.get(key)
                plan.mailboxes[key] = mailbox
                fresh.add(key)
                if mailbox is not None:
                    plan.base[key] = mailbox.head.version

    async def _recall(self, batch: list[Waiting]) -> dict[tuple[str, str], Answer]:
        wanted = [
            (w.key[0], idempotency.key)
            for w in batch
            if w.key is not None and (idempotency := getattr(w.command, "idempotency", None)) is not None
        ]
        return cast("dict[tuple[str, str], Answer]", await self._store.recall(wanted)) if wanted else {}

    async def _answer(
        self, plan: Plan, waiting: Waiting, fresh: set[AgentKey], answered: dict[tuple[str, str], Answer]
    ) -> None:
        try:
            waiting.answer = await self._apply(plan, waiting.command, fresh, answered)
        except HomeostatError as error:
            waiting.answer = error

    async def _apply(
        self, plan: Plan, command: c.Command, fresh: set[AgentKey], answered: dict[tuple[str, str], Answer]
    ) -> object:
        idempotency: c.Idempotency | None = getattr(command, "idempotency", None)
        if idempotency is None:
            return await self._rule(plan, command, fresh)
        project = cast("AgentKey", key_of(command))[0]
        first = answered.get((project, idempotency.key))
        if first is not None:
            if first.fingerprint != idempotency.fingerprint:
                raise IdempotencyKeyReused(key=idempotency.key)
            return ANSWERS[type(command)](**from_json(first.answer))
        answer = await self._rule(plan, command, fresh)
        record = Answer(project, idempotency.key, idempotency.fingerprint, to_json(answer), plan.now)
        plan.writes.answers[project, idempotency.key] = record
        answered[project, idempotency.key] = record
        return answer

    async def _rule(self, plan: Plan, command: c.Command, fresh: set[AgentKey]) -> object:
        followups: Followups = []
        while True:
            try:
                answer = RULES[type(command)](plan, command, followups)
                break
            except Need as need:
                followups.clear()
                await self._fetch(plan, need, fresh)
        for followup in followups:
            await self._follow(plan, followup, fresh)
        return answer

    async def _follow(self, plan: Plan, followup: c.Report, fresh: set[AgentKey]) -> None:
        """Bring a joined turn's reply home in the same transaction; a parent that moved on needs none."""
        try:
            await self._rule(plan, followup, fresh)
            if followup.key not in plan.writes.heads and followup.key not in fresh:
                await self._load(plan, [followup.key], fresh, cached=False)
                await self._rule(plan, followup, fresh)
        except HomeostatError as error:
            log.info("a reply found nobody waiting: %s", error)

    async def _fetch(self, plan: Plan, need: Need, fresh: set[AgentKey]) -> None:
        if need.mailbox is not None:
            await self._load(plan, [need.mailbox], fresh, cached=True)
        if need.box is not None:
            project, box_id = need.box
            length = await self._store.box_length(project, box_id)
            if length is None:
                raise BoxUnknown(box_id=box_id)
            plan.boxes[need.box] = (length, await self._store.box_owner(project, box_id))
        if need.item is not None:
            project, agent_id, seq = need.item
            line = await self._store.inbox(project, agent_id, after_seq=seq - 1, limit=1)
            plan.items[need.item] = line[0] if line and line[0].turn.seq == seq else None

    async def _reconsider(
        self, plan: Plan, batch: list[Waiting], fresh: set[AgentKey], answered: dict[tuple[str, str], Answer]
    ) -> None:
        """Never refuse from memory: a decision that swaps no head is only as good as the mailbox it was made on."""
        doubtful = [
            w
            for w in batch
            if w.key is not None
            and w.key not in fresh
            and w.key not in plan.writes.heads
            and w.key not in plan.writes.new_heads
        ]
        if doubtful:
            await self._load(plan, {w.key for w in doubtful if w.key is not None}, fresh, cached=False)
            for waiting in doubtful:
                idempotency: c.Idempotency | None = getattr(waiting.command, "idempotency", None)
                if idempotency is not None and waiting.key is not None:
                    taken_back = plan.writes.answers.pop((waiting.key[0], idempotency.key), None)
                    if taken_back is not None:
                        answered.pop((waiting.key[0], idempotency.key), None)
                await self._answer(plan, waiting, fresh, answered)

    def _claims(self, plan: Plan) -> list[tuple[Berth, Grant]]:
        """Hand what became ready to workers that are parked here, in this very transaction."""
        claims: list[tuple[Berth, Grant]] = []
        for key in list(plan.touched):
            mailbox = plan.mailboxes[key]
            if mailbox is None or mailbox.head.status is not HeadStatus.DISPATCHED:
                continue
            if mailbox.head.gate is Gate.CLOSED or (berth := self._dock.take(key)) is None:
                continue
            grant = claim(plan, c.Claim(key=key, worker_id=berth.worker_id))
            assert grant is not None, "a dispatched turn behind an open gate can be claimed"
            claims.append((berth, grant))
        return claims

    def _untake(self, claims: list[tuple[Berth, Grant]]) -> None:
        for berth, _ in claims:
            self._dock.untake(berth)

    # --- after the commit ----------------------------------------------------------------------------------

    def _settle(self, plan: Plan, claims: list[tuple[Berth, Grant]], batch: list[Waiting]) -> None:
        for key, mailbox in plan.mailboxes.items():
            if mailbox is None or _heavy(mailbox):
                self._mailboxes.pop(key, None)
            else:
                self._mailboxes[key] = mailbox
        if len(self._mailboxes) > MAILBOXES_CACHED_MAX:
            self.forget(list(self._mailboxes)[: MAILBOXES_CACHED_MAX // 8])
        self._leases.update(plan.writes.leases)
        for worker_id in plan.writes.leases_ended:
            self._leases.pop(worker_id, None)
        for waiting in batch:
            if waiting.future.done():
                continue
            if isinstance(waiting.answer, HomeostatError):
                waiting.future.set_exception(waiting.answer)
            else:
                waiting.future.set_result(waiting.answer)
        for berth, grant in claims:
            self._dock.grant(berth, grant)
        self._committed(plan)


def _heavy(mailbox: Mailbox) -> bool:
    entries = (mailbox.active, *mailbox.queue) if mailbox.active else mailbox.queue
    return sum(len(entry.turn.payload) for entry in entries) > MAILBOX_CACHED_PAYLOAD_BYTES_MAX
