"""A worker that kills itself at a given point of a scripted turn, and writes down what it came by until then."""

import asyncio
import os
import signal
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from homeostat import Client, ManagedAgent, Turn, Worker
from homeostat.agent.orchestrator import Orchestrator
from homeostat.agent.tools import ToolService
from homeostat.app.assemble import assemble
from homeostat.app.settings import Settings
from homeostat.client.tools import HttpMemory, HttpToolDesk
from homeostat.client.turns import HttpTurns
from homeostat.core.ids import DEFAULT_PROJECT, TurnId

AGENT = "victim"
LEASE_SECONDS = 0.5
PATIENCE_SECONDS = 60.0
WATCHED = ("hydrate", "step", "write", "suspend", "deliver")

POINTS = (
    "after claim",
    "before hydrate",
    "after hydrate",
    "inside a",
    "before step",
    "after step",
    "before write",
    "after write",
    "before suspend",
    "after suspend",
    "suspended",
    "after claim 2",
    "before hydrate 2",
    "after hydrate 2",
    "inside b",
    "before step 2",
    "after step 2",
    "before keep",
    "after keep",
    "before deliver",
    "after deliver",
)
"""Every await of the turn below, in order, when nothing goes wrong."""

UNKEPT = {"a": {"inside a", "before step"}, "b": {"inside b", "before step 2"}}
"""Where the process dies between a step's effect and its being stored: nobody can know of that effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """Where a worker lives, what it writes, and where it dies."""

    place: str
    diary: str
    turn_id: str
    kill_at: str | None = None
    survivor: bool = False


class Diary:
    """Lines that are on disk when `note` returns; at one of them the process dies."""

    def __init__(self, path: str, kill_at: str | None) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._kill_at = kill_at
        self._counts: dict[str, int] = {}

    def note(self, line: str) -> None:
        os.write(self._file, line.encode() + b"\n")

    def point(self, name: str) -> None:
        self._counts[name] = count = self._counts.get(name, 0) + 1
        name = name if count == 1 else f"{name} {count}"
        self.note(f"point {name}")
        if name == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


class WatchedSession:
    """A session whose every answer is a point at which its owner may die."""

    def __init__(self, session: Any, diary: Diary, suspended: asyncio.Event) -> None:
        self._session = session
        self._diary = diary
        self._suspended = suspended

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._session, name)
        if name not in WATCHED:
            return found

        async def watched(*args: Any, **named: Any) -> Any:
            self._diary.point(f"before {name}")
            answer = await found(*args, **named)
            if name == "step":
                self._diary.note(f"stored {args[1]}")
            self._diary.point(f"after {name}")
            if name == "suspend":
                self._suspended.set()
            return answer

        return watched

    async def claim(self, limit: int, seconds: float) -> Any:
        grants = await self._session.claim(limit, seconds)
        for _ in grants:
            self._diary.point("after claim")
        return grants


class WatchedSource:
    def __init__(self, source: Any, diary: Diary) -> None:
        self._source = source
        self._diary = diary
        self.suspended = asyncio.Event()

    async def register(self, agents: Any) -> None:
        await self._source.register(agents)

    async def open(self, hosted: Any, on_revoke: Any) -> Any:
        return WatchedSession(await self._source.open(hosted, on_revoke), self._diary, self.suspended)


class WatchedMemory:
    """A keeper of memory whose every write is such a point, too."""

    def __init__(self, keeper: Any, diary: Diary) -> None:
        self._keeper = keeper
        self._diary = diary

    async def recall(self, agent: Any) -> Any:
        return await self._keeper.recall(agent)

    async def keep(self, agent: Any, changes: Any, at: Any) -> None:
        self._diary.point("before keep")
        await self._keeper.keep(agent, changes, at)
        self._diary.point("after keep")


def script(diary: Diary) -> type[ManagedAgent]:
    """The turn: a step, a card, a tool, another step; and the agent counts its turns."""

    def effect(name: str) -> Any:
        async def work() -> str:
            diary.note(f"effect {name}")
            diary.point(f"inside {name}")
            return f"did {name}"

        return work

    class Agent(ManagedAgent):
        async def process(self, turn: Turn, /) -> Any:
            count = await self.memory.load("history", 0) + 1
            self.memory.update("history", count)
            first = await turn.step("a", effect("a"))
            await turn.write("note", {"after": first})
            result = await turn.call("tool", x=1)
            return [first, result, await turn.step("b", effect("b")), count]

    return Agent


def tool(x: int) -> str:
    return f"result {x}"


async def live(life: Life) -> None:
    diary = Diary(life.diary, life.kill_at)
    async with AsyncExitStack() as stack:
        source: Any
        desk: Any
        memory: Any
        delivered: Coroutine[Any, Any, Any]
        if life.place.startswith("http"):
            client = await stack.enter_async_context(Client(life.place))
            source, desk, memory = HttpTurns(client), HttpToolDesk(client), HttpMemory(client)
            delivered = client.deliverable(life.turn_id, wait=PATIENCE_SECONDS)
        else:
            folder = Path(life.diary).parent
            settings = Settings(store_url=life.place, lease_seconds=LEASE_SECONDS, data_dir=folder)
            system = await stack.enter_async_context(assemble(settings))
            source, desk, memory = system.turns, system.tools.desk(), system.memory
            delivered = system.kernel.deliverables.wait(DEFAULT_PROJECT, TurnId(life.turn_id), PATIENCE_SECONDS)
        watched = WatchedSource(source, diary)
        worker = Worker(source=watched, orchestrator=Orchestrator(memory=WatchedMemory(memory, diary)))
        worker.host(AGENT, script(diary))
        await worker.open()
        running = asyncio.create_task(worker.run(stop_seconds=1))
        if not life.survivor:
            # The tool is not served before the worker has let go of the turn, so that all points come in order.
            await watched.suspended.wait()
            await worker.idle()
            diary.point("suspended")
        service = ToolService(desk, [tool])
        serving = asyncio.create_task(service.run())
        await delivered
        await worker.idle()
        worker.stop()
        service.stop()
        await asyncio.gather(running, serving)


def main(life: Life) -> None:
    asyncio.run(live(life))
