"""An approval that is given at another process than the one that decides is carried out once."""

import asyncio

from homeostat.adapters.upstreams.simulated.faults import Faults
from homeostat.app.settings import Settings
from homeostat.core.ids import DEFAULT_PROJECT
from homeostat.core.machines.phase import Phase
from homeostat.core.records.immune import Applied, RemedyAction
from homeostat.core.records.turn import AgentKey
from homeostat.testing.clinic import Clinic, clinic
from homeostat.testing.clock import ManualClock

FEW = ["agent-0", "agent-1", "agent-2"]
SICK = FEW[0]
FLOOD = Faults(tokens=400)


class SlowRemedy:
    """Remedies that take until they are let through; both processes have the same."""

    def __init__(self) -> None:
        self.given: list[RemedyAction] = []
        self.begun = asyncio.Event()
        self.through = asyncio.Event()

    async def apply(self, key: AgentKey, action: RemedyAction, reason: str) -> tuple[Applied, str]:
        del key, reason
        self.given.append(action)
        self.begun.set()
        await self.through.wait()
        return Applied.APPLIED, "given"

    async def undo(self, key: AgentKey) -> None:
        del key


async def hears(one: Clinic, name: str) -> None:
    """As if the word of the other process had come by the bus."""
    one.system.immune.ward.watches[one.key(name)].stale = True


async def test_whoever_decides_leaves_a_treatment_to_the_process_that_has_begun_it(postgres_url: str) -> None:
    clock, settings, remedy = ManualClock(), Settings(store_url=postgres_url), SlowRemedy()
    async with (
        clinic(settings=settings, clock=clock, remedies=remedy) as one,
        clinic(settings=settings, clock=clock, remedies=remedy) as other,
    ):
        await one.train(*FEW, samples=60)
        one.faults[SICK] = FLOOD
        await one.sample(*FEW)
        await one.tick()
        assert (one.phase(SICK), one.system.immune.leading) == (Phase.QUARANTINED, True)
        (question,) = await one.system.immune.store.approvals(DEFAULT_PROJECT, status=None, before=None, limit=5)
        await other.system.fleet.registry.refresh()
        answering = asyncio.create_task(
            other.system.immune.approvals.approve(DEFAULT_PROJECT, question.approval_id, reason="yes", actor="ann")
        )
        beginning = asyncio.create_task(remedy.begun.wait())
        await asyncio.wait({answering, beginning}, return_when=asyncio.FIRST_COMPLETED)
        assert beginning.done(), f"nobody began to treat it: {answering}"
        await hears(one, SICK)
        ticking = asyncio.create_task(one.tick())
        await asyncio.wait({ticking}, timeout=5)
        remedy.through.set()
        await asyncio.gather(answering, ticking)
        assert len(remedy.given) == 1, "one word was carried out twice"
        (incident, *_) = await one.incidents(SICK)
        assert [treatment.approval_id for treatment in incident.treatments] == [question.approval_id]
