"""What keeps operations, for every process that shares the store."""

from typing import Protocol

from homeostat.core.clock import Millis
from homeostat.core.ids import ProjectId
from homeostat.core.records.operation import Operation


class OperationStore(Protocol):
    """Durable when a call returns."""

    async def put_operation(self, operation: Operation) -> None:
        """Write one that begins."""
        ...

    async def settle_operation(self, operation: Operation) -> None:
        """Write how one ended; what was settled stays as it is."""
        ...

    async def hold_operations(self, owner: str, until: Millis) -> None:
        """Say that an owner is still at whatever it has begun and not settled."""
        ...

    async def abandon_operations(self, since: Millis) -> None:
        """Say that nobody is at anything any more; only for whoever knows to be alone."""
        ...

    async def operation(self, project: ProjectId, operation_id: str) -> Operation | None: ...

    async def operations(self, project: ProjectId, *, before: str | None, limit: int) -> list[Operation]:
        """Those of a project, newest first, behind an id."""
        ...

    async def forget_operations(self, before: str, now: Millis) -> None:
        """Drop what began before an id would have been made, unless somebody is still at it."""
        ...
