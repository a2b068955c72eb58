"""Where tool services get calls from and bring results to, and who keeps what is known of tools."""

from collections.abc import Collection
from typing import Protocol

from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.ids import ProjectId
from homeostat.core.records.tool import CallKey, OpenCall, ToolSpec
from homeostat.core.records.turn import WaitStatus


class ToolKeeper(Protocol):
    """Keeps tools and who is making which call. Every method may raise `StoreUnavailable`."""

    async def put(self, project: ProjectId, tools: Collection[ToolSpec], at: Millis) -> None:
        """Make tools known, or known anew."""
        ...

    async def all(self, project: ProjectId) -> list[ToolSpec]:
        """Every tool of a project, by name."""
        ...

    async def waiting(self, project: ProjectId, tools: Collection[str], limit: int, now: Millis) -> list[OpenCall]:
        """Calls of these tools that were not answered yet and that nobody has, the most urgent first."""
        ...

    async def take(self, calls: Collection[CallKey], now: Millis, until: Millis) -> set[CallKey]:
        """Reserve calls that nobody has; returns those that are the caller's now."""
        ...

    async def hold(self, project: ProjectId, calls: Collection[CallKey], until: Millis) -> None:
        """Keep reservations of a project's calls for longer."""
        ...


class ToolDesk(Protocol):
    """What a tool service sees, in process or over HTTP."""

    async def register(self, tools: Collection[ToolSpec]) -> None:
        """Make tools known, so that agents may be offered them."""
        ...

    async def describe(self) -> dict[str, ToolSpec]:
        """Every tool that is known, by name."""
        ...

    async def calls(
        self, tools: Collection[str], *, limit: int, seconds: float, holding: Collection[CallKey] = ()
    ) -> list[OpenCall]:
        """Up to `limit` calls to make, waiting up to `seconds` for the first. `holding` names those still being made.

        A call goes to one service at a time; one whose service falls silent is given to another.
        """
        ...

    async def args(self, call: OpenCall) -> Json:
        """What a call was made with."""
        ...

    async def report(self, call: OpenCall, *, status: WaitStatus, result: Json) -> None:
        """Bring the result home. A late or repeated one is acknowledged and changes nothing."""
        ...
