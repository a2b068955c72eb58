"""Tool services and the calls that wait for them: the doorbell says that there is one, the store which."""

import asyncio
from collections.abc import Collection

from homeostat.core.clock import Clock, Millis
from homeostat.core.codec import Json, from_json, to_json
from homeostat.core.errors import CardUnknown, InvalidRequest
from homeostat.core.ids import DEFAULT_PROJECT, CardId, ProjectId
from homeostat.core.limits import (
    NAME_CHARS_MAX,
    SAFETY_POLL_SECONDS,
    TOOL_CALLS_BATCH_MAX,
    TOOL_HOLD_SECONDS,
    TOOLS_MAX,
)
from homeostat.core.ports.bus import Bus, Subscription
from homeostat.core.ports.tools import ToolKeeper
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.tool import CallKey, OpenCall, ToolSpec
from homeostat.core.records.turn import WaitStatus
from homeostat.kernel.kernel import Kernel


class ToolDesks:
    """The desk of each project, on one kernel. A call that nobody asks for waits for its deadline."""

    def __init__(self, *, kernel: Kernel, keeper: ToolKeeper, bus: Bus, clock: Clock) -> None:
        self.kernel = kernel
        self.keeper = keeper
        self.clock = clock
        self._bus = bus
        self._subscription: Subscription | None = None
        self._bells: dict[tuple[str, str], set[asyncio.Event]] = {}

    async def listen(self) -> None:
        """Hear of calls as they are made, here and in other processes."""
        pattern = subject("*", Channel.CMD, "tool", "*", "call")
        self._subscription = await self._bus.subscribe(pattern, self._on_call)

    async def _on_call(self, event: Event) -> None:
        for bell in self._bells.get((event.project, event.target), ()):
            bell.set()

    def desk(self, project: ProjectId = DEFAULT_PROJECT) -> "LocalToolDesk":
        return LocalToolDesk(self, project)

    def watch(self, project: str, tools: Collection[str], bell: asyncio.Event) -> None:
        for tool in tools:
            self._bells.setdefault((project, tool), set()).add(bell)

    def unwatch(self, project: str, tools: Collection[str], bell: asyncio.Event) -> None:
        for tool in tools:
            bells = self._bells.get((project, tool), set())
            bells.discard(bell)
            if not bells:
                self._bells.pop((project, tool), None)


class LocalToolDesk:
    """One project's tools, in the kernel's own process."""

    def __init__(self, desks: ToolDesks, project: ProjectId) -> None:
        self._desks = desks
        self._project = project

    async def register(self, tools: Collection[ToolSpec]) -> None:
        for tool in tools:
            if not 0 < len(tool.name) <= NAME_CHARS_MAX:
                raise InvalidRequest(problem=f"a tool's name has 1 to {NAME_CHARS_MAX} characters")
        known = await self.describe()
        if len({*known, *(tool.name for tool in tools)}) > TOOLS_MAX:
            raise InvalidRequest(problem=f"a project has at most {TOOLS_MAX} tools")
        await self._desks.keeper.put(self._project, tools, self._desks.clock.now_ms())

    async def describe(self) -> dict[str, ToolSpec]:
        return {tool.name: tool for tool in await self._desks.keeper.all(self._project)}

    async def calls(
        self, tools: Collection[str], *, limit: int, seconds: float, holding: Collection[CallKey] = ()
    ) -> list[OpenCall]:
        if holding:
            await self._desks.keeper.hold(self._project, holding, self._until())
        bell = asyncio.Event()
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        self._desks.watch(self._project, tools, bell)
        try:
            while True:
                bell.clear()
                if taken := await self._take(tools, min(limit, TOOL_CALLS_BATCH_MAX)):
                    return taken
                left = end - loop.time()
                if left <= 0:
                    return []
                try:
                    async with asyncio.timeout(min(left, SAFETY_POLL_SECONDS)):
                        await bell.wait()
                except TimeoutError:
                    continue
        finally:
            self._desks.unwatch(self._project, tools, bell)

    async def _take(self, tools: Collection[str], limit: int) -> list[OpenCall]:
        keeper = self._desks.keeper
        now = self._desks.clock.now_ms()
        waiting = await keeper.waiting(self._project, tools, TOOL_CALLS_BATCH_MAX * 4, now)
        if not waiting:
            return []
        taken: list[OpenCall] = []
        for start in range(0, len(waiting), limit):
            batch = waiting[start : start + limit - len(taken)]
            ours = await keeper.take([call.key for call in batch], now, self._until())
            taken += [call for call in batch if call.key in ours]
            if len(taken) >= limit:
                break
        return taken

    def _until(self) -> Millis:
        return Millis(self._desks.clock.now_ms() + int(TOOL_HOLD_SECONDS * 1000))

    async def args(self, call: OpenCall) -> Json:
        card_id = call.call_card_id or CardId("")
        card = await self._desks.kernel.store.card(self._project, card_id)
        if card is None:
            raise CardUnknown(card_id=card_id)
        return to_json(from_json(card.content).get("args"))

    async def report(self, call: OpenCall, *, status: WaitStatus, result: Json) -> None:
        await self._desks.kernel.report(self._project, call.turn_id, call.call_id, status=status, result=result)
