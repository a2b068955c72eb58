"""Holds agents that are deployments: scaled to nothing, on the condition of what was seen, and back to exactly that."""

import json
import re
from collections.abc import Callable
from typing import Final

from homeostat.adapters.enforcers.cluster import AGENT_LABEL, Cluster
from homeostat.adapters.enforcers.workless import Workless
from homeostat.core.enforcement_errors import ContainerUnknown, DeploymentChanged
from homeostat.core.records.enforcement import Mandate, Reading, Strategy
from homeostat.core.records.immune import Stance
from homeostat.core.records.turn import AgentKey

LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


class KubernetesEnforcer(Workless):
    """Remedies are applied to a deployment's description, so it stays at nothing while it is treated."""

    strategy = Strategy.KUBERNETES
    local = False
    frees_to_treat = False
    drains = False
    ends = False

    def __init__(self, cluster: Cluster, *, expects: Callable[[AgentKey], bool] = lambda _: False) -> None:
        self.cluster = cluster
        self._expects = expects

    async def reaches(self, key: AgentKey) -> bool:
        """Whoever is said to be a deployment is held to be one, found or not."""
        if self._expects(key):
            return True
        return LABEL_VALUE.fullmatch(key[1]) is not None and bool(await self.cluster.deployments(key[1]))

    async def observe(self, key: AgentKey, before: str) -> str:
        """How many replicas each deployment has. One at nothing keeps the number it had."""
        counts: dict[str, int] = json.loads(before or "{}")
        for name in await self.cluster.deployments(key[1]):
            scale = await self.cluster.scale(name)
            if scale.replicas > 0 or name not in counts:
                counts[name] = scale.replicas
        return json.dumps(counts)

    async def hold(
        self, key: AgentKey, stance: Stance, reason: str, before: str, mandate: Mandate | None = None
    ) -> None:
        del reason, mandate
        counts: dict[str, int] = json.loads(before or "{}")
        for name in await self._names(key):
            scale = await self.cluster.scale(name)
            if stance in {Stance.CLOSED, Stance.ENDED} and scale.replicas > 0:
                if counts.get(name) != scale.replicas:
                    seen = counts.get(name, "none")
                    raise DeploymentChanged(name=name, problem=f"it has {scale.replicas} replicas, {seen} were seen")
                await self.cluster.set_scale(scale, 0)
            elif stance is Stance.OPEN and scale.replicas == 0 and counts.get(name, 0) > 0:
                await self.cluster.set_scale(scale, counts[name])

    async def held(self, key: AgentKey, before: str) -> Reading:
        wanted = running = 0
        counts: dict[str, int] = json.loads(before or "{}")
        short: list[str] = []
        for name in await self._names(key):
            scale = await self.cluster.scale(name)
            wanted += scale.replicas
            running += scale.running
            if scale.replicas == 0 and counts.get(name, 0) > 0:
                short.append(f"{name} is at 0 replicas and had {counts[name]}")
        lost = ", ".join(short)
        if wanted:
            return Reading(stance=Stance.OPEN, note=f"{wanted} replicas are wanted, {running} there", lost=lost)
        if running:
            return Reading(stance=None, note=f"scaled to 0, {running} replicas have not ended", lost=lost)
        return Reading(stance=Stance.CLOSED, note="scaled to 0, none is left", lost=lost)

    async def _names(self, key: AgentKey) -> list[str]:
        found = await self.cluster.deployments(key[1])
        if not found:
            problem = f"none is labelled {AGENT_LABEL}={key[1]} in {self.cluster.namespace}"
            raise ContainerUnknown(kind="deployment", agent_id=key[1], problem=problem)
        return found
