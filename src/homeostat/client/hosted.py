"""The heartbeats of the agents a worker hosts, told from what its session sees of their turns."""

import asyncio
import contextlib
from collections.abc import Collection
from typing import TYPE_CHECKING

from homeostat.client.heartbeat import Beater, Keep, Measure
from homeostat.client.keys import KeyRing
from homeostat.client.pulse import Pulse
from homeostat.core.errors import HomeostatError
from homeostat.core.ids import TurnId
from homeostat.core.records.turn import AgentKey, Grant
from homeostat.core.wire.answers import HeadShape

if TYPE_CHECKING:
    from homeostat.client.client import Client

HOSTED_TYPE = "agent"


class HostedHeartbeats:
    """One pulse per agent whose key is known here. A turn is an item; it is in work while the session holds it."""

    def __init__(self, client: "Client", keys: KeyRing) -> None:
        self._client = client
        self._keys = keys
        self._pulses: dict[AgentKey, Pulse] = {}
        self._beaters: list[Beater] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._began: dict[TurnId, float] = {}

    def host(self, agents: Collection[AgentKey]) -> None:
        """Begin to beat for these; for one whose key is not here nobody can speak."""
        for agent in agents:
            if agent in self._pulses or (key := self._keys.get(agent)) is None:
                continue
            pulse = self._pulses[agent] = Pulse(clock=self._client.transport.clock)
            beater = Beater(
                self._client,
                agent_type=HOSTED_TYPE,
                agent_id=agent[1],
                tags=None,
                api_key=key,
                pulse=pulse,
                project=agent[0],
                keep=self._keeper(agent),
                depth=self._depth(agent),
            )
            self._beaters.append(beater)
            self._tasks.append(asyncio.create_task(beater.run(), name=f"heartbeat of {agent[1]}"))

    def _keeper(self, agent: AgentKey) -> Keep:
        return lambda key: self._keys.keep(agent, key)

    def _depth(self, agent: AgentKey) -> Measure:
        async def read() -> int | None:
            """What waits in the agent's inbox; that nobody can say so is no reason not to beat."""
            with contextlib.suppress(HomeostatError):
                answer = await self._client.transport.send(
                    "GET", f"/v1/agents/{agent[1]}/head", project=agent[0], retry_seconds=0
                )
                return answer.read(HeadShape).queued
            return None

        return read

    def began(self, grant: Grant) -> None:
        if (pulse := self._pulses.get(grant.turn.key)) is not None and grant.turn.turn_id not in self._began:
            self._began[grant.turn.turn_id] = self._client.transport.clock.monotonic()
            pulse.in_work += 1
            pulse.act(f"began turn {grant.turn.turn_id}")

    def left(self, agent: AgentKey, turn_id: TurnId, what: str) -> float | None:
        """A turn is not in work here any more; returns how long it was."""
        began = self._began.pop(turn_id, None)
        pulse = self._pulses.get(agent)
        if began is None or pulse is None:
            return None
        pulse.in_work -= 1
        pulse.act(f"{what} turn {turn_id}")
        return self._client.transport.clock.monotonic() - began

    def ended(self, grant: Grant, *, failed: bool) -> None:
        seconds = self.left(grant.turn.key, grant.turn.turn_id, "failed" if failed else "finished")
        if seconds is not None:
            self._pulses[grant.turn.key].processed(seconds=seconds, failed=failed)

    async def close(self) -> None:
        """Stop beating. The agents stay registered: whoever hosts them next speaks for them."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await asyncio.gather(*(beater.last_word() for beater in self._beaters))
