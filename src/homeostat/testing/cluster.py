"""A Kubernetes API server for tests that keeps to the recorded contract: paths, versions, refusals and bodies."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2

from homeostat.adapters.enforcers.cluster import AGENT_LABEL, MERGE_PATCH

DEPLOYMENTS: Final = re.compile(
    r"/apis/apps/v1/namespaces/(?P<namespace>[^/]+)/deployments(?:/(?P<name>[^/]+))?(/scale)?"
)
CONFIG_MAPS: Final = re.compile(r"/api/v1/namespaces/[^/]+/configmaps(?:/(?P<name>[^/]+))?")


@dataclass(slots=True)
class Deployment:
    """What is stored of one deployment."""

    name: str
    agent: str
    replicas: int
    running: int
    version: int = 1
    annotations: dict[str, str] = field(default_factory=dict[str, str])


class FakeCluster(httpx2.AsyncBaseTransport):
    """Answers as an API server does. `seen` hears of every exchange, so that a test can hold it to the real models."""

    def __init__(self, *deployments: Deployment, config: dict[str, dict[str, str]] | None = None) -> None:
        self.deployments = {one.name: one for one in deployments}
        self.config = config or {}
        self.denied: set[str] = set()
        self.away = False
        self.slow_to_end = False
        self.before_write: Callable[[], None] = lambda: None
        self.seen: Callable[[httpx2.Request, dict[str, Any], httpx2.Response], None] = lambda _ask, _body, _answer: None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self.away:
            raise httpx2.ConnectError("connection refused", request=request)
        body: dict[str, Any] = json.loads(request.content) if request.content else {}
        answer = self._answer(request, body)
        await answer.aread()
        self.seen(request, body, answer)
        return answer

    def _answer(self, request: httpx2.Request, body: dict[str, Any]) -> httpx2.Response:
        path, method = request.url.path, request.method
        if method in self.denied:
            return _status(403, "Forbidden", f'deployments is forbidden: User cannot {method} resource "deployments"')
        if found := CONFIG_MAPS.fullmatch(path):
            return self._config(request, found["name"], body)
        found = DEPLOYMENTS.fullmatch(path)
        if found is None:
            return _status(404, "NotFound", "the server could not find the requested resource")
        if found["name"] is None:
            agent = request.url.params["labelSelector"].removeprefix(f"{AGENT_LABEL}=")
            items = [_deployment(one) for one in self.deployments.values() if one.agent == agent]
            return _ok({"apiVersion": "apps/v1", "kind": "DeploymentList", "metadata": {}, "items": items})
        one = self.deployments.get(found["name"])
        if one is None:
            return _status(404, "NotFound", f'deployments.apps "{found["name"]}" not found')
        if method == "PUT":
            return self._scale(one, body)
        if method == "PATCH":
            assert request.headers["content-type"] == MERGE_PATCH
            one.annotations |= body["spec"]["template"]["metadata"]["annotations"]
            one.version += 1
            return _ok(_deployment(one))
        return _ok(_scale(one) if path.endswith("/scale") else _deployment(one))

    def _scale(self, one: Deployment, body: dict[str, Any]) -> httpx2.Response:
        self.before_write()
        if body["metadata"].get("resourceVersion", str(one.version)) != str(
            one.version
        ):  # without one, it is done anyway
            said = f'Operation cannot be fulfilled on deployments.apps "{one.name}": the object has been modified'
            return _status(409, "Conflict", said)
        one.replicas = body["spec"]["replicas"]
        one.running = one.running if self.slow_to_end else one.replicas
        one.version += 1
        return _ok(_scale(one))

    def _config(self, request: httpx2.Request, name: str | None, body: dict[str, Any]) -> httpx2.Response:
        if name is None:
            agent = request.url.params["labelSelector"].removeprefix(f"{AGENT_LABEL}=")
            items = [_map(agent, data) for owner, data in self.config.items() if owner == agent]
            return _ok({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {}, "items": items})
        agent = name.removesuffix("-config")
        for entry, value in body["data"].items():
            if value is None:
                self.config[agent].pop(entry, None)
            else:
                self.config[agent][entry] = value
        return _ok(_map(agent, self.config[agent]))


def _ok(body: dict[str, Any]) -> httpx2.Response:
    return httpx2.Response(200, json=body)


def _status(code: int, reason: str, message: str) -> httpx2.Response:
    body = {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }
    return httpx2.Response(code, json={**body, "metadata": {}})


def _deployment(one: Deployment) -> dict[str, Any]:
    labels = {AGENT_LABEL: one.agent}
    template = {
        "metadata": {"labels": labels, "annotations": dict(one.annotations)},
        "spec": {"containers": [{"name": "agent", "image": "agent:1"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": one.name, "namespace": "agents", "resourceVersion": str(one.version), "labels": labels},
        "spec": {"replicas": one.replicas, "selector": {"matchLabels": labels}, "template": template},
        "status": {"replicas": one.running},
    }


def _scale(one: Deployment) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": {"name": one.name, "namespace": "agents", "resourceVersion": str(one.version)},
        "spec": {"replicas": one.replicas} if one.replicas else {},  # what is nothing is left out
        "status": {"replicas": one.running},
    }


def _map(agent: str, data: dict[str, str]) -> dict[str, Any]:
    metadata = {"name": f"{agent}-config", "namespace": "agents", "labels": {AGENT_LABEL: agent}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}
