"""The world in which sources of turns are tried: a kernel, a source, and a few words for common steps."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeVar

from homeostat.core.codec import to_json
from homeostat.core.errors import StaleEpoch
from homeostat.core.ids import AgentId, ProjectId, TurnId
from homeostat.core.limits import LEASE_BEATS
from homeostat.core.ports.turns import TurnSource, WorkerSession
from homeostat.core.records.turn import AgentKey, Grant, MessageType
from homeostat.core.records.view import Outcome
from homeostat.core.records.work import Fence
from homeostat.kernel.commands import Enqueue
from homeostat.kernel.kernel import Kernel

T = TypeVar("T")

PATIENCE_SECONDS: Final = 10.0  # less than the safety poll: a doorbell that is lost has to be noticed
DONE: Final = to_json("done")


@dataclass(slots=True)
class World:
    """A source of turns, and the kernel behind it for whatever happens outside of workers."""

    source: TurnSource
    kernel: Kernel
    project: ProjectId
    sessions: list[WorkerSession] = field(default_factory=list[WorkerSession])
    _beating: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    def key(self, name: str = "ann") -> AgentKey:
        return (self.project, AgentId(name))

    async def worker(
        self, *names: str, on_revoke: Callable[[Fence], None] | None = None, silent: bool = False
    ) -> WorkerSession:
        """A session that hosts agents by these names, registered; it beats unless it is silent."""
        keys = [self.key(name) for name in names or ("ann",)]
        await self.source.register(keys)
        session = await self.source.open(keys, on_revoke or _unmoved)
        self.sessions.append(session)
        if not silent:
            self._beating.append(asyncio.create_task(_beat(session)))
        return session

    async def send(self, name: str = "ann", payload: object = "hello", **message: object) -> TurnId:
        command = Enqueue(key=self.key(name), type=MessageType.TURN, payload=to_json(payload), **message)  # pyright: ignore[reportArgumentType]
        return (await self.kernel.enqueue(command)).turn_id

    async def close(self) -> None:
        for beating in self._beating:
            beating.cancel()
        for session in self.sessions:
            with suppress(Exception):
                await session.close()


async def _beat(session: WorkerSession) -> None:
    while True:
        await session.renew(session.lease_seconds / LEASE_BEATS)


def _unmoved(fence: Fence) -> None:
    del fence


Check = Callable[[World], Awaitable[None]]


async def soon(work: Awaitable[T]) -> T:
    """What has to come, and not only after its time is over."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await work


async def one(session: WorkerSession) -> Grant:
    """The next turn."""
    grants = await soon(session.claim(1, PATIENCE_SECONDS))
    assert len(grants) == 1, f"asked for one turn and got {len(grants)}"
    return grants[0]


async def deliver(session: WorkerSession, grant: Grant, result: object = "done") -> None:
    await session.deliver(grant, status=Outcome.SUCCESS, result=to_json(result))


async def is_stale(work: Awaitable[object]) -> bool:
    try:
        await work
    except StaleEpoch:
        return True
    return False
