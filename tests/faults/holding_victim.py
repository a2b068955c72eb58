"""A Homeostat that brings an agent into a phase and then waits to be killed; run by test_holding_killed."""

import asyncio
import sys
from pathlib import Path

from homeostat.app.assemble import System, assemble
from homeostat.app.holding import StandIns
from homeostat.app.settings import Settings
from homeostat.core.codec import to_json
from homeostat.core.ids import DEFAULT_PROJECT, AgentId
from homeostat.core.machines.phase import Phase
from homeostat.core.records.immune import Applied, RemedyAction
from homeostat.core.records.turn import AgentKey, MessageType
from homeostat.fleet.registry import Introduction
from homeostat.kernel.commands import Enqueue
from homeostat.testing.clinic import DOCTRINE

ANN: AgentKey = (DEFAULT_PROJECT, AgentId("ann"))


class Remedies:
    """Never come to an end, or cannot do anything."""

    def __init__(self, *, hang: bool) -> None:
        self.hang = hang
        self.begun = asyncio.Event()

    async def apply(self, key: AgentKey, action: RemedyAction, reason: str) -> tuple[Applied, str]:
        del key, action, reason
        self.begun.set()
        if self.hang:
            await asyncio.Event().wait()
        return Applied.FAILED, "it did not help"

    async def undo(self, key: AgentKey) -> None:
        del key


async def bring(system: System, remedies: Remedies, phase: Phase) -> None:
    immune = system.immune
    if phase is Phase.DRAINING:
        session = await system.turns.open([ANN], on_revoke=lambda _: None)
        await system.kernel.enqueue(Enqueue(key=ANN, type=MessageType.TURN, payload=to_json("long")))
        assert await session.claim(1, 10)
    await immune.quarantine(ANN, reason="it loops", actor="ann")
    if phase is Phase.HEALING:
        healing = asyncio.create_task(immune.heal(ANN, reason="now", actor="ann"))
        await remedies.begun.wait()
        assert not healing.done()
    elif phase is Phase.EXHAUSTED:
        await immune.heal(ANN, reason="now", actor="ann")
    assert immune.phase_of(ANN) is phase, immune.phase_of(ANN)


def say(words: str) -> None:
    sys.stdout.write(words + "\n")
    sys.stdout.flush()


async def main(data_dir: str, phase: Phase) -> None:
    remedies = Remedies(hang=phase is Phase.HEALING)
    stand_ins = StandIns(doctrine=DOCTRINE, remedies=remedies)
    async with assemble(Settings(data_dir=Path(data_dir)), stand_ins=stand_ins) as system:
        enrolled = await system.enrol(Introduction(agent_type="worker"), ANN[1], key=None)
        assert system.custody is not None
        say(f"{enrolled.api_key} {system.custody.path}")
        await asyncio.to_thread(sys.stdin.readline)  # until the agent is in custody
        await bring(system, remedies, phase)
        say("brought")
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Phase(sys.argv[2])))
