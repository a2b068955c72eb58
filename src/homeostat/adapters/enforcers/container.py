"""Holds agents that are containers: paused and unpaused through the engine's own socket, found by their label."""

import json
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final

import httpx2

from homeostat.adapters.enforcers.workless import Workless
from homeostat.core.enforcement_errors import ContainerUnknown, EngineDenied, EngineFailed, EngineUnreachable
from homeostat.core.records.enforcement import Mandate, Reading, Strategy
from homeostat.core.records.immune import Stance
from homeostat.core.records.turn import AgentKey

LABEL: Final = "homeostat.agent"
PROJECT_LABEL: Final = "homeostat.project"  # where it is absent, the container is in the default project
STOP_SECONDS: Final = 2
ENGINE_SECONDS: Final = 4.0
RUNS: Final = frozenset({"running", "restarting"})
DOWN: Final = frozenset(
    {"created", "exited", "dead", "stopped", "configured", "initialized"}
)  # Docker's, then Podman's
SEEN: Final = {"paused": frozenset({"paused"}), "ran": RUNS}


class DockerEngine:
    """Docker's API, or Podman's which speaks it, over a Unix socket."""

    local = True

    def __init__(self, path: str) -> None:
        self.title = f"the engine at {path}"
        self._socket = path
        transport = httpx2.AsyncHTTPTransport(uds=path)
        self._http = httpx2.AsyncClient(transport=transport, base_url="http://engine", timeout=ENGINE_SECONDS)

    async def close(self) -> None:
        await self._http.aclose()

    async def containers(self, key: AgentKey | None = None) -> list[dict[str, Any]]:
        """Everything that carries an agent's label, running or not."""
        label = LABEL if key is None else f"{LABEL}={key[1]}"
        filters = json.dumps({"label": [label]})
        found: list[dict[str, Any]] = await self._ask("GET", "/containers/json", {"all": "1", "filters": filters})
        return [one for one in found if key is None or one["Labels"].get(PROJECT_LABEL, "default") == key[0]]

    async def ping(self) -> None:
        """Ask for one container that is ours: what it costs does not grow, and it needs the rights that are needed."""
        await self._ask("GET", "/containers/json", {"limit": "1", "filters": json.dumps({"label": [LABEL]})})

    async def act(self, verb: str, container_id: str, **parameters: str) -> None:
        await self._ask("POST", f"/containers/{container_id}/{verb}", parameters)

    def _knock(self) -> None:
        """See whether anybody is there; on a Unix socket that is known at once."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            link.settimeout(0)
            try:
                link.connect(self._socket)
            except OSError as problem:
                raise EngineUnreachable(engine=self.title, problem=str(problem)) from problem

    async def _ask(self, method: str, path: str, parameters: Mapping[str, str]) -> Any:
        self._knock()
        try:
            answer = await self._http.request(method, path, params=dict(parameters))
        except httpx2.TransportError as problem:
            raise EngineUnreachable(engine=self.title, problem=str(problem)) from problem
        if answer.status_code < 300 or answer.status_code == 304:
            return answer.json() if answer.content else None
        said = _message(answer)
        verb = path.rpartition("/")[2]
        if answer.status_code in {401, 403}:
            raise EngineDenied(engine=self.title, verb=verb, problem=said)
        if answer.status_code == 404:
            raise ContainerUnknown(kind="container", agent_id="?", problem=said)
        raise EngineFailed(engine=self.title, verb=verb, problem=f"{answer.status_code}: {said}")


def _message(answer: httpx2.Response) -> str:
    try:
        return str(answer.json()["message"])[:300]
    except (ValueError, KeyError, TypeError):
        return answer.text[:300]


def _lost(found: list[dict[str, Any]], ran: list[str]) -> str:
    """What ran before and does not now. One that was removed was replaced, where another runs."""
    there = {one["Id"]: one["State"] for one in found}
    down = [f"container {one[:12]} is {there[one]}" for one in ran if there.get(one) in DOWN]
    if not any(state in RUNS for state in there.values()):
        down += [f"container {one[:12]} was removed and has to be made again" for one in ran if one not in there]
    return ", ".join(down)


class ContainerEnforcer(Workless):
    """Pauses every container of an agent. A paused one that its engine brought back running is paused again."""

    strategy = Strategy.CONTAINER
    local = True
    frees_to_treat = True
    drains = False
    ends = True

    def __init__(self, engine: DockerEngine, *, expects: Callable[[AgentKey], bool] = lambda _: False) -> None:
        self.engine = engine
        self._expects = expects

    async def reaches(self, key: AgentKey) -> bool:
        """Whoever is said to be a container is held to be one, found or not."""
        return self._expects(key) or bool(await self.engine.containers(key))

    async def observe(self, key: AgentKey, before: str) -> str:
        """Which of them are paused already, as whoever did so may undo it, and which run and are to run again."""
        if before:
            return before
        found = await self.engine.containers(key)
        seen = {name: [one["Id"] for one in found if one["State"] in states] for name, states in SEEN.items()}
        return json.dumps(seen)

    async def hold(
        self, key: AgentKey, stance: Stance, reason: str, before: str, mandate: Mandate | None = None
    ) -> None:
        del reason, mandate
        found = await self._containers(key)
        seen: dict[str, list[str]] = json.loads(before or "{}")
        paused, ran = seen.get("paused", []), seen.get("ran", [])
        for one in found:
            match stance:
                case Stance.CLOSED if one["State"] == "running":
                    await self.engine.act("pause", one["Id"])
                case Stance.CLOSED if one["State"] == "restarting":  # it cannot be paused, and would begin again
                    await self.engine.act("stop", one["Id"], t=str(STOP_SECONDS))
                case Stance.OPEN if one["State"] == "paused" and one["Id"] not in paused:
                    await self.engine.act("unpause", one["Id"])
                case Stance.OPEN if one["State"] in DOWN and one["Id"] in ran:
                    await self.engine.act("start", one["Id"])
                case Stance.ENDED if one["State"] not in DOWN:
                    if one["State"] == "paused":  # what is paused hears no signal
                        await self.engine.act("unpause", one["Id"])
                    await self.engine.act("stop", one["Id"], t=str(STOP_SECONDS))
                case _:
                    pass

    async def held(self, key: AgentKey, before: str) -> Reading:
        seen: dict[str, list[str]] = json.loads(before or "{}")
        found = await self.engine.containers(key) if any(seen.values()) else await self._containers(key)
        states = [one["State"] for one in found]
        told = (
            ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states)))
            or "its containers were removed"
        )
        lost = _lost(found, seen.get("ran", []))
        if any(state in RUNS for state in states):
            return Reading(stance=Stance.OPEN, note=told, lost=lost)
        return Reading(stance=Stance.CLOSED if "paused" in states else Stance.ENDED, note=told, lost=lost)

    async def _containers(self, key: AgentKey) -> list[dict[str, Any]]:
        found = await self.engine.containers(key)
        if not found:
            raise ContainerUnknown(kind="container", agent_id=key[1], problem=f"none is labelled {LABEL}={key[1]}")
        return found
