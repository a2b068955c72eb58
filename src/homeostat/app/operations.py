"""Work that takes longer than a request should: begun here, kept in the store, and honestly lost with its process."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, Final

import msgspec

from homeostat.app.supervisor import Supervisor
from homeostat.core.clock import Clock, Millis
from homeostat.core.codec import Json
from homeostat.core.errors import HomeostatError, InternalError, Overloaded, ProtocolViolation, Unavailable
from homeostat.core.ids import Ids, ProjectId, scope_floor
from homeostat.core.limits import OPERATION_HELD_SECONDS, OPERATION_KEPT_SECONDS, OPERATIONS_RUNNING_MAX
from homeostat.core.ports.operations import OperationStore
from homeostat.core.records.operation import Operation, OperationStatus

log = logging.getLogger(__name__)

RENEWALS: Final = 3  # within the time that work is held for: two may fail
PREFIX: Final = "op_"
_ID: Final = re.compile(r"op_[0-9a-f]{24}")

Work = Callable[[], Awaitable[Any]]
Explain = Callable[[HomeostatError], Json]

_encode = msgspec.json.Encoder().encode


class OperationUnknown(ProtocolViolation):
    """There is no operation {operation_id!r}."""

    code = "operation_unknown"
    http_status = 404
    hint = "GET /v1/operations lists them; they are forgotten a day after they began."


class Operations:
    """Does the work in tasks of this process, so many at a time; every process that shares the store can look at it."""

    def __init__(self, *, store: OperationStore, clock: Clock, ids: Ids) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._owner = ids.scope()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._unsettled: dict[str, Operation] = {}

    async def begin(
        self, project: ProjectId, verb: str, thing: str, work: Work, *, actor: str, explain: Explain
    ) -> Operation:
        """Begin some work, written down before; `explain` puts into words why it failed."""
        if len(self._tasks) >= OPERATIONS_RUNNING_MAX:
            raise Overloaded(problem=f"{len(self._tasks)} operations are under way")
        operation = Operation(
            operation_id=f"{PREFIX}{self._ids.scope()}",
            project=project,
            verb=verb,
            object=thing,
            actor=actor,
            owner=self._owner,
            started_at_ms=self._clock.now_ms(),
            held_until_ms=self._held_until(),
        )
        before = scope_floor(operation.started_at_ms - int(OPERATION_KEPT_SECONDS * 1000))
        await self._store.forget_operations(f"{PREFIX}{before}", operation.started_at_ms)
        await self._store.put_operation(operation)
        name = operation.operation_id
        self._tasks[name] = asyncio.create_task(self._run(operation, work, explain), name=name)
        return operation

    async def _run(self, operation: Operation, work: Work, explain: Explain) -> None:
        ended = operation
        try:
            result = Json(_encode(await work()).decode())
            ended = replace(operation, status=OperationStatus.SUCCEEDED, result=result)
        except HomeostatError as error:
            ended = replace(operation, status=OperationStatus.FAILED, error=explain(error))
        except asyncio.CancelledError:
            ended = replace(operation, status=OperationStatus.LOST)
        except Exception:  # what nobody foresaw is told as such, with its trace in the log
            log.exception("operation %s failed", operation.operation_id)
            ended = replace(operation, status=OperationStatus.FAILED, error=explain(InternalError()))
        self._unsettled[operation.operation_id] = replace(ended, ended_at_ms=self._clock.now_ms())
        del self._tasks[operation.operation_id]
        await self._settle()

    async def _settle(self) -> None:
        """Write what has ended; what the store does not take now is tried again."""
        for name, ended in list(self._unsettled.items()):
            try:
                await self._store.settle_operation(ended)
            except Unavailable as error:
                log.warning("the end of operation %s is not written yet: %s", name, error)
                return
            self._unsettled.pop(name, None)

    async def get(self, project: ProjectId, operation_id: str) -> Operation:
        """An operation, whichever process does it; what a process took with it is lost, and says so."""
        named = _ID.fullmatch(operation_id)
        found = None if named is None else await self._store.operation(project, operation_id)
        if found is None:
            raise OperationUnknown(operation_id=operation_id[:100])
        return self._seen(found)

    async def all(self, project: ProjectId, *, before: str | None, limit: int) -> list[Operation]:
        """Those of a project, newest first."""
        found = await self._store.operations(project, before=before, limit=limit)
        return [self._seen(one) for one in found]

    def _seen(self, operation: Operation) -> Operation:
        """That it is lost follows from the time, and is written nowhere."""
        if (ended := self._unsettled.get(operation.operation_id)) is not None:
            return ended
        held = operation.held_until_ms
        if held is None or operation.operation_id in self._tasks or self._clock.now_ms() < held:
            return operation
        return replace(operation, status=OperationStatus.LOST, ended_at_ms=held)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(OPERATION_HELD_SECONDS / RENEWALS)
            await self.tick()

    async def tick(self) -> None:
        """Hold what is under way, and settle what could not be settled."""
        try:
            if self._tasks or self._unsettled:
                await self._settle()
                await self._store.hold_operations(self._owner, self._held_until())
        except Unavailable as error:
            log.warning("operations wait: %s", error)

    def _held_until(self) -> Millis:
        return Millis(self._clock.now_ms() + int(OPERATION_HELD_SECONDS * 1000))

    async def close(self) -> None:
        """End what is under way; each sees to what it holds, and is told as lost at once."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def open_operations(
    stack: AsyncExitStack, supervisor: Supervisor, store: OperationStore, *, alone: bool, clock: Clock, ids: Ids
) -> Operations:
    """Operations that end with whatever owns them. Whoever is alone on a store knows that nobody else is at work."""
    if alone:
        await store.abandon_operations(clock.now_ms())
    operations = Operations(store=store, clock=clock, ids=ids)
    supervisor.add("operations", operations.run)
    stack.push_async_callback(operations.close)
    return operations
