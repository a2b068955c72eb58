"""What is asked of a Kubernetes API server: deployments by label, their scale, a restart, and a config map."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2

from homeostat.core.enforcement_errors import (
    ContainerUnknown,
    DeploymentChanged,
    EngineDenied,
    EngineFailed,
    EngineUnreachable,
)

AGENT_LABEL: Final = "homeostat.dev/agent"
RESTARTED: Final = "kubectl.kubernetes.io/restartedAt"
MERGE_PATCH: Final = "application/merge-patch+json"
ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
ENGINE_SECONDS: Final = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How many replicas a deployment is to have and has, in one version of it."""

    name: str
    version: str
    replicas: int
    running: int


class Cluster:
    """One namespace of one cluster, with the rights of one service account."""

    local = False

    def __init__(
        self,
        url: str,
        *,
        namespace: str = "default",
        token_file: Path = ACCOUNT / "token",
        ca_file: Path | None = ACCOUNT / "ca.crt",
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self.namespace = namespace
        self.title = f"the cluster at {url}"
        self._token_file = token_file
        verify: ssl.SSLContext | bool = True
        if url.startswith("https:") and ca_file is not None and ca_file.exists():
            verify = ssl.create_default_context(cafile=str(ca_file))
        self._http = httpx2.AsyncClient(
            base_url=url, verify=verify, timeout=ENGINE_SECONDS, transport=transport, trust_env=False
        )

    async def close(self) -> None:
        await self._http.aclose()

    @property
    def _deployments(self) -> str:
        return f"/apis/apps/v1/namespaces/{self.namespace}/deployments"

    async def ping(self) -> None:
        """Ask for one deployment that is ours, which needs the rights that are needed."""
        await self._ask("GET", self._deployments, verb="list", query={"labelSelector": AGENT_LABEL, "limit": "1"})

    async def deployments(self, agent_id: str) -> list[str]:
        """The names of an agent's deployments."""
        found = await self._ask("GET", self._deployments, verb="list", query=_of(agent_id))
        return sorted(one["metadata"]["name"] for one in found["items"])

    async def scale(self, name: str) -> Scale:
        found = await self._ask("GET", f"{self._deployments}/{name}/scale", verb="get")
        return Scale(
            name=name,
            version=found["metadata"]["resourceVersion"],
            replicas=found.get("spec", {}).get("replicas", 0),
            running=found.get("status", {}).get("replicas", 0),
        )

    async def set_scale(self, seen: Scale, replicas: int) -> None:
        """Scale, unless the deployment is not what was seen any more."""
        body = {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": {"name": seen.name, "namespace": self.namespace, "resourceVersion": seen.version},
            "spec": {"replicas": replicas},
        }
        await self._ask("PUT", f"{self._deployments}/{seen.name}/scale", verb="scale", body=body)

    async def restart(self, name: str, at: str) -> bool:
        """Have every replica replaced; whether the deployment says so now."""
        patch = {"spec": {"template": {"metadata": {"annotations": {RESTARTED: at}}}}}
        path = f"{self._deployments}/{name}"
        await self._ask("PATCH", path, verb="restart", body=patch)
        found = await self._ask("GET", path, verb="get")
        return found["spec"]["template"]["metadata"].get("annotations", {}).get(RESTARTED) == at

    async def configure(self, agent_id: str, data: dict[str, str | None]) -> list[str]:
        """Change the config maps of an agent; the names of those that say so now."""
        path = f"/api/v1/namespaces/{self.namespace}/configmaps"
        found = await self._ask("GET", path, verb="list config maps", query=_of(agent_id))
        changed: list[str] = []
        for one in found["items"]:
            name = one["metadata"]["name"]
            told = await self._ask("PATCH", f"{path}/{name}", verb="patch a config map", body={"data": data})
            held: dict[str, str] = told.get("data") or {}
            if all(held.get(entry) == value for entry, value in data.items()):
                changed.append(name)
        return changed

    async def _ask(
        self, method: str, path: str, *, verb: str, query: dict[str, str] | None = None, body: object = None
    ) -> Any:
        headers = {"accept": "application/json"}
        if body is not None:
            headers["content-type"] = MERGE_PATCH if method == "PATCH" else "application/json"
        try:
            token = self._token_file.read_text().strip()  # it is renewed under us
            headers["authorization"] = f"Bearer {token}"
        except OSError:
            pass
        try:
            answer = await self._http.request(method, path, params=query, json=body, headers=headers)
        except httpx2.TransportError as problem:
            raise EngineUnreachable(engine=self.title, problem=str(problem) or type(problem).__name__) from problem
        if answer.status_code < 300:
            return answer.json()
        said = _message(answer)
        match answer.status_code:
            case 401 | 403:
                raise EngineDenied(engine=self.title, verb=verb, problem=said)
            case 404:
                raise ContainerUnknown(kind="deployment", agent_id=path.rpartition("/")[2], problem=said)
            case 409:
                raise DeploymentChanged(name=path, problem=said)
            case status:
                raise EngineFailed(engine=self.title, verb=verb, problem=f"{status}: {said}")


def _of(agent_id: str) -> dict[str, str]:
    return {"labelSelector": f"{AGENT_LABEL}={agent_id}"}


def _message(answer: httpx2.Response) -> str:
    try:
        return str(answer.json()["message"])[:300]
    except (ValueError, KeyError, TypeError):
        return answer.text[:300]
