"""The fleet's routes under whatever their description allows and forbids: no answer is the server's own failure."""

from collections.abc import Iterator
from typing import Any, cast

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error

from homeostat.server import fleet
from homeostat.testing.homeostat import HomeostatServer

EXAMPLES = 20
SLOW = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large, HealthCheck.large_base_example)
ROUTES = r"^/v1/agents(/register|/status|/config/.*|/\{agent_id\}(/deregister|/config|/history)?)?$"


@pytest.fixture(scope="module")
def server() -> Iterator[HomeostatServer]:
    with HomeostatServer("--ephemeral") as server:
        yield server


@pytest.fixture(scope="module")
def key(server: HomeostatServer) -> str:
    body = {"agent_type": "inference", "agent_id": "abc-123", "tags": ["gpu"]}
    return httpx2.post(f"{server.url}/v1/agents/register", json=body, trust_env=False).json()["api_key"]


@pytest.fixture(scope="module")
def operations(server: HomeostatServer) -> dict[str, Any]:
    """Every route of the fleet by its label, as the server describes it."""
    document = httpx2.get(f"{server.url}/openapi.json", trust_env=False).json()
    schema = schemathesis.openapi.from_dict(document).include(path_regex=ROUTES)
    schema.config.update(base_url=server.url)
    found: list[Any] = [result.ok() for result in cast("Any", schema).get_all_operations()]
    return {operation.label: operation for operation in found}


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=lambda mode: mode.value)
@pytest.mark.parametrize("label", sorted(f"{route.method} {route.path}" for route in fleet.routes))
def test_no_request_breaks_the_server(operations: dict[str, Any], key: str, label: str, mode: GenerationMode) -> None:
    statuses: set[int] = set()

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=SLOW, database=None)
    @given(case=operations[label].as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        if case.path == "/v1/agents/status":
            case.headers["Authorization"] = f"Bearer {key}"
        if mode is GenerationMode.POSITIVE and not label.endswith("/deregister"):
            _mean_somebody(case)
        answer = case.call_and_validate(checks=[not_a_server_error])
        statuses.add(answer.status_code)

    try:
        ask()
    except Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE, f"{label} can be asked for"
        return
    assert max(statuses) < 500
    if mode is GenerationMode.POSITIVE and not label.endswith("/deregister"):
        assert statuses & {200, 204}, f"{label} never worked: {statuses}"


def _mean_somebody(case: Any) -> None:
    """Let a request that is in order be about an agent that there is, so that it gets to the end of its way."""
    for name, word in (("agent_id", "abc-123"), ("agent_type", "inference"), ("tag", "gpu")):
        if name in case.path_parameters:
            case.path_parameters[name] = word
    if case.method == "PUT":
        case.body["push_interval_seconds"] = min(max(case.body["push_interval_seconds"], 0.1), 3600.0)
    if case.path == "/v1/agents/status":
        case.body["agent_id"] = "abc-123"
