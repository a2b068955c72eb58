"""Work that takes longer than a request should: begun, looked at by its id, and honestly lost with its process."""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from homeostat.core.clock import Clock, Millis
from homeostat.core.errors import HomeostatError, InternalError, Overloaded, ProtocolViolation
from homeostat.core.ids import Ids, ProjectId
from homeostat.core.limits import OPERATIONS_KEPT_MAX, OPERATIONS_RUNNING_MAX

_ID: Final = re.compile(r"op_[0-9a-z]{1,64}_(\d{1,12})")


class OperationStatus(StrEnum):
    """Where an operation stands. `lost` is what a process took with it when it ended: look at the object itself."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    LOST = "lost"


class OperationUnknown(ProtocolViolation):
    """There is no operation {operation_id!r}."""

    code = "operation_unknown"
    http_status = 404
    hint = "GET /v1/operations lists those of this process; the oldest that have ended are forgotten."


@dataclass(slots=True)
class Operation:
    """One piece of work: what came of it is `result`, or why nothing did is `error`."""

    operation_id: str
    project: ProjectId
    verb: str
    object: str
    actor: str
    started_at_ms: Millis
    status: OperationStatus = OperationStatus.RUNNING
    ended_at_ms: Millis | None = None
    result: Any = None
    error: HomeostatError | None = None
    task: "asyncio.Task[None] | None" = None


class Operations:
    """Runs them as tasks of this process, so many at a time, and remembers those that ended, up to a bound."""

    def __init__(self, *, clock: Clock, ids: Ids) -> None:
        self._clock = clock
        self._ids = ids
        self._scope = "".join(c for c in ids.scope().lower() if c.isalnum())
        self._count = 0
        self._kept: OrderedDict[str, Operation] = OrderedDict()

    def begin(
        self, project: ProjectId, verb: str, thing: str, work: Callable[[], Awaitable[Any]], *, actor: str
    ) -> Operation:
        """Begin some work; its failure is kept with it."""
        running = sum(one.status is OperationStatus.RUNNING for one in self._kept.values())
        if running >= OPERATIONS_RUNNING_MAX:
            raise Overloaded(problem=f"{running} operations are under way")
        self._count += 1
        operation = Operation(
            f"op_{self._scope}_{self._count}", project, verb, thing, actor, Millis(self._clock.now_ms())
        )
        self._kept[operation.operation_id] = operation
        ended = [name for name, one in self._kept.items() if one.status is not OperationStatus.RUNNING]
        for name in ended[: max(0, len(self._kept) - OPERATIONS_KEPT_MAX)]:
            del self._kept[name]
        operation.task = asyncio.create_task(self._run(operation, work), name=operation.operation_id)
        return operation

    async def _run(self, operation: Operation, work: Callable[[], Awaitable[Any]]) -> None:
        try:
            operation.result = await work()
            operation.status = OperationStatus.SUCCEEDED
        except HomeostatError as error:
            operation.error, operation.status = error, OperationStatus.FAILED
        except asyncio.CancelledError:
            operation.status = OperationStatus.LOST
            raise
        except Exception:  # what nobody foresaw is told as such, with its trace in the log
            import logging  # noqa: PLC0415

            logging.getLogger(__name__).exception("operation %s failed", operation.operation_id)
            operation.error, operation.status = InternalError(), OperationStatus.FAILED
        finally:
            operation.ended_at_ms = Millis(self._clock.now_ms())

    def get(self, project: ProjectId, operation_id: str) -> Operation:
        """An operation; one of a process that has ended is lost, and says so."""
        found = self._kept.get(operation_id)
        if found is not None and found.project == project:
            return found
        named = _ID.fullmatch(operation_id)
        if found is not None or named is None or operation_id.startswith(f"op_{self._scope}_"):
            raise OperationUnknown(operation_id=operation_id[:100])
        return Operation(operation_id, project, "", "", "", Millis(0), OperationStatus.LOST)

    def all(self, project: ProjectId) -> list[Operation]:
        """Those of a project, newest first."""
        return [one for one in reversed(self._kept.values()) if one.project == project]

    @classmethod
    def owned(cls, stack: AsyncExitStack, *, clock: Clock, ids: Ids) -> "Operations":
        """Operations that end with whatever owns them."""
        operations = cls(clock=clock, ids=ids)
        stack.push_async_callback(operations.close)
        return operations

    async def close(self) -> None:
        """End what is under way; each sees to what it holds."""
        tasks = [one.task for one in self._kept.values() if one.task is not None and not one.task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
