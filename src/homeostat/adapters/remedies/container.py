"""Treats agents that are containers or deployments by what an engine can do: configure them, and begin them anew."""

from homeostat.adapters.enforcers.cluster import Cluster
from homeostat.adapters.enforcers.container import DockerEngine
from homeostat.core.clock import Clock, rfc3339
from homeostat.core.errors import HomeostatError
from homeostat.core.records.immune import Applied, RemedyAction
from homeostat.core.records.turn import AgentKey

AUTONOMY = "HOMEOSTAT_AUTONOMY"
REDUCED = "reduced"

R = RemedyAction


class ContainerRemedies:
    """What needs the agent's own understanding is left to its control endpoint."""

    def __init__(self, *, engine: DockerEngine | None, cluster: Cluster | None, clock: Clock) -> None:
        self._engine = engine
        self._cluster = cluster
        self._clock = clock

    async def apply(self, key: AgentKey, action: RemedyAction, reason: str) -> tuple[Applied, str]:
        del reason
        if action not in {R.RESET_AGENT, R.REDUCE_AUTONOMY}:
            return Applied.NOT_APPLICABLE, "a container engine does not know what its containers think"
        try:
            if self._cluster is not None and (names := await self._cluster.deployments(key[1])):
                return await self._on_cluster(self._cluster, key, action, names)
            if self._engine is not None and (found := await self._engine.containers(key)):
                if action is R.REDUCE_AUTONOMY:
                    return Applied.NOT_APPLICABLE, "a container is configured when it is made, and not after"
                return await self._restart(self._engine, key, [one["Id"] for one in found])
        except HomeostatError as problem:
            return Applied.FAILED, str(problem)
        return Applied.NOT_APPLICABLE, "it is neither a container nor a deployment that is known here"

    async def _on_cluster(
        self, cluster: Cluster, key: AgentKey, action: RemedyAction, names: list[str]
    ) -> tuple[Applied, str]:
        configured = ""
        if action is R.REDUCE_AUTONOMY:
            maps = await cluster.configure(key[1], {AUTONOMY: REDUCED})
            if not maps:
                return Applied.NOT_APPLICABLE, "no config map carries its label"
            configured = f"{AUTONOMY}={REDUCED} in {', '.join(maps)}; "
        at = rfc3339(self._clock.now_ms())
        restarted = [name for name in names if await cluster.restart(name, at)]
        if restarted != names:
            return Applied.FAILED, f"{', '.join(sorted(set(names) - set(restarted)))} does not say that it begins anew"
        return Applied.APPLIED, f"{configured}{', '.join(names)} begins anew"

    async def _restart(self, engine: DockerEngine, key: AgentKey, ids: list[str]) -> tuple[Applied, str]:
        for container_id in ids:
            await engine.act("restart", container_id, t="2")
        states = {one["Id"]: one["State"] for one in await engine.containers(key)}
        if any(states.get(one) != "running" for one in ids):
            return Applied.FAILED, f"not all of its containers run again: {sorted(states.values())}"
        return Applied.APPLIED, f"{len(ids)} containers begin anew"

    async def undo(self, key: AgentKey) -> None:
        if self._cluster is not None and await self._cluster.deployments(key[1]):
            await self._cluster.configure(key[1], {AUTONOMY: None})
