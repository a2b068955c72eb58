"""A Homeostat in the test's own process whose agents call models, on a clock that is turned by hand."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from homeostat.adapters.upstreams.simulated import Pace
from homeostat.adapters.upstreams.simulated.faults import Faults, FaultyUpstream
from homeostat.app.assemble import System, assemble
from homeostat.app.holding import StandIns
from homeostat.app.settings import Settings
from homeostat.core.codec import to_json
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, TurnId, chance
from homeostat.core.machines.phase import Phase
from homeostat.core.ports.immune import Enforcer, Remedies
from homeostat.core.ports.upstream import UpstreamRequest
from homeostat.core.records.immune import Incident, Transition
from homeostat.core.records.turn import AgentKey, MessageType
from homeostat.fleet.registry import Introduction
from homeostat.immune.doctrine import Doctrine
from homeostat.kernel.commands import Enqueue
from homeostat.testing.clock import ManualClock
from homeostat.testing.gateways import Booth, Heard, Keys

DOCTRINE: Final = Doctrine(tick_seconds=3600.0, settle_seconds=0.0, reconcile_seconds=3600.0)
"""Ticks are the test's own, and nobody waits for others to show the same."""

PACE: Final = Pace(first_token_seconds=0.3, token_seconds=0.01)
WORDS: Final = [
    "what",
    "is",
    "the",
    "weather",
    "like",
    "in",
    "the",
    "city",
    "where",
    "the",
    "river",
    "meets",
    "the",
    "old",
    "stone",
    "bridge",
    "today",
]


@dataclass(slots=True)
class Clinic:
    """A fleet under watch. Faults live with the model that answers, out of the immune system's sight."""

    system: System
    clock: ManualClock
    faults: dict[str, Faults] = field(default_factory=dict[str, Faults])
    keys: dict[str, str] = field(default_factory=dict[str, str])
    _calls: int = 0

    def plan(self, request: UpstreamRequest) -> Faults | None:
        body = request.body if isinstance(request.body, bytes) else b""
        for name, faults in self.faults.items():
            if b"I am %s:" % name.encode() in body:
                return faults
        return None

    # --- agents --------------------------------------------------------------------------------------------

    async def enrol(
        self, *names: str, agent_type: str = "worker", tags: tuple[str, ...] = (), hostname: str | None = None
    ) -> None:
        for name in names:
            said = Introduction(agent_type=agent_type, tags=tags, hostname=hostname)
            enrolled = await self.system.enrol(said, AgentId(name), key=None)
            self.keys[name] = enrolled.api_key

    async def call(self, name: str, *, question: str | None = None, model: str = "gpt-4o-mini", **asked: Any) -> Heard:
        """One model call of an agent, through the gateway."""
        self._calls += 1
        luck = chance(name, self._calls)
        if question is None:
            question = " ".join(luck.choice(WORDS) for _ in range(luck.randint(8, 40)))
        booth = Booth(self.system.gateway, Keys({}), self.system.bus, self.system.gateway.store, FaultyUpstream())
        return await booth.chat(f"I am {name}: {question}", key=self.keys[name], model=model, **asked)

    async def sample(self, *names: str, times: int = 1) -> None:
        """Calls of agents in turn, then a tick."""
        for _ in range(times):
            for name in names:
                await self.call(name)
            await self.tick()

    async def tick(self) -> None:
        await self.system.gateway.clerk.flush()
        await self.system.turn_vitals.catch_up()
        await self.system.immune.tick()
        await self.system.immune.reconcile()

    async def train(self, *names: str, samples: int = 150) -> None:
        """Let agents be healthy until it is known what is normal for them."""
        await self.enrol(*(name for name in names if name not in self.keys))
        for _ in range(samples):
            for name in names:
                await self.call(name)
            await self.tick()
        for name in names:
            assert self.phase(name) is Phase.HEALTHY, f"{name} is {self.phase(name)}"

    async def enqueue(self, name: str, payload: object) -> TurnId:
        accepted = await self.system.kernel.enqueue(
            Enqueue(key=self.key(name), type=MessageType.TURN, payload=to_json(payload))
        )
        return accepted.turn_id

    # --- looking -------------------------------------------------------------------------------------------

    @staticmethod
    def key(name: str) -> AgentKey:
        return (DEFAULT_PROJECT, AgentId(name))

    def phase(self, name: str) -> Phase:
        return self.system.immune.phase_of(self.key(name))

    async def steps(self, name: str) -> list[Transition]:
        """How an agent's health went, oldest first."""
        return (await self.system.immune.store.transitions(self.key(name), before=None, limit=100))[::-1]

    async def path(self, name: str) -> list[Phase]:
        return [step.target for step in await self.steps(name)]

    async def incidents(self, name: str | None = None) -> list[Incident]:
        agent_id = None if name is None else AgentId(name)
        return await self.system.immune.store.incidents(DEFAULT_PROJECT, agent_id=agent_id, before=None, limit=100)


@asynccontextmanager
async def clinic(
    *,
    doctrine: Doctrine = DOCTRINE,
    enforcers: tuple[Enforcer, ...] = (),
    remedies: Remedies | None = None,
    settings: Settings | None = None,
    clock: ManualClock | None = None,
) -> AsyncGenerator[Clinic, None]:
    """A fleet that is watched within the block."""
    clock = clock or ManualClock()
    made: list[Clinic] = []

    async def pause(seconds: float) -> None:
        clock.advance(seconds)

    def plan(request: UpstreamRequest) -> Faults | None:
        return made[0].plan(request)

    upstream = FaultyUpstream(pace=PACE, clock=clock, pause=pause, plan=plan)
    stand_ins = StandIns(doctrine=doctrine, enforcers=enforcers, remedies=remedies, simulated=upstream)
    async with assemble(settings or Settings(ephemeral=True), clock=clock, stand_ins=stand_ins) as system:
        made.append(Clinic(system, clock))
        yield made[0]
