"""A lane for each agent that is looked after: one whose engine hangs keeps nobody else from being held."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from homeostat.core.records.immune import Patient
from homeostat.core.records.turn import AgentKey
from homeostat.core.urgency import Haste, is_urgent

log = logging.getLogger(__name__)

BRING_SECONDS: Final = 6.0  # how long anybody waits for a lane; what takes longer goes on and is read later

Served = asyncio.Future[None]
Serve = Callable[[Patient, bool], Awaitable[None]]


def _nobody() -> list[Served]:
    return []


@dataclass(slots=True)
class Lane:
    """What is wanted of one agent, how urgently, and who waits until it is so."""

    wish: tuple[Patient, bool] | None = None
    haste: Haste = field(default_factory=Haste)
    waiting: list[Served] = field(default_factory=_nobody)
    task: asyncio.Task[None] | None = None


class Lanes:
    """Serves the newest wish for each agent; a wish that comes meanwhile is served next."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._lanes: dict[AgentKey, Lane] = {}

    def __contains__(self, key: AgentKey) -> bool:
        return key in self._lanes

    def enter(self, patient: Patient, *, local_only: bool) -> Served:
        """Have a wish served, of this machine's own ways if nobody wants more; the future is the caller's alone."""
        key = patient.key
        lane = self._lanes.setdefault(key, Lane())
        lane.wish = (patient, local_only and (lane.wish is None or lane.wish[1]))
        lane.haste.urgent = lane.haste.urgent or is_urgent()  # an operator may come to wait for what went on by itself
        served: Served = asyncio.get_running_loop().create_future()
        lane.waiting.append(served)
        if lane.task is None:
            context = lane.haste.context()
            lane.task = asyncio.create_task(self._run(key, lane), name=f"hold {key[1]}", context=context)
        return served

    async def bring(self, patient: Patient) -> None:
        """Wait until a wish is served, or too long for it."""
        served = self.enter(patient, local_only=False)
        late = asyncio.get_running_loop().call_later(BRING_SECONDS, _answer, served, None)
        try:
            await served
        finally:
            late.cancel()

    async def bring_all(self, patients: Iterable[Patient], *, local_only: bool) -> None:
        """Wait until wishes for many agents are served side by side; what came of them is told elsewhere."""
        served = [self.enter(patient, local_only=local_only) for patient in patients]
        if served:
            await asyncio.wait(served, timeout=BRING_SECONDS)

    async def close(self) -> None:
        lanes = list(self._lanes.values())
        for lane in lanes:
            if lane.task is not None:
                lane.task.cancel()
        await asyncio.gather(*(lane.task for lane in lanes if lane.task is not None), return_exceptions=True)
        for served in (served for lane in lanes for served in lane.waiting):
            served.cancel()  # of a lane that was closed before it began

    async def _run(self, key: AgentKey, lane: Lane) -> None:
        problem: BaseException | None = None
        try:
            while lane.wish is not None:
                (patient, local_only), lane.wish = lane.wish, None
                await self._serve(patient, local_only)
        except Exception as error:  # noqa: BLE001 - of whatever kind it is, whoever waits is told
            problem = error
            log.warning("%s could not be looked after: %s", key[1], problem)
        except asyncio.CancelledError as error:
            problem = error
            raise
        finally:
            del self._lanes[key]
            for served in lane.waiting:  # here, as of a task's end they would hear two rounds of the loop later
                _answer(served, problem)


def _answer(served: Served, problem: BaseException | None) -> None:
    if served.done():
        return
    if problem is None:
        served.set_result(None)
    else:
        served.set_exception(problem)
        served.exception()  # whoever does not ask does not need to know
