"""Every route under whatever its description allows: no answer is the server's own failure, and none is undescribed."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from homeostat.server.application import table_of
from homeostat.testing.homeostat import HomeostatServer

SLICE = 10  # per route; the fleet's own routes are asked more in a test of their own
EXAMPLES = int(os.environ.get("HOMEOSTAT_SCHEMA_EXAMPLES", SLICE))  # `make schema` asks for more
SLOW = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large, HealthCheck.large_base_example)
CHECKS = [not_a_server_error, status_code_conformance, response_schema_conformance]
# A login by OpenID leads to another server, pages are for people, and a stream has no end.
ELSEWHERE = {"oidc_begin", "oidc_end", "read_openapi", "read_page", "follow_events"}
DONE = Path(
    f".schema/{EXAMPLES}.txt"
)  # which routes were asked so often, so that a long run goes on where it was stopped
ROUTES = sorted(f"{one.method} {one.path}" for one in table_of() if one.name not in ELSEWHERE)


@pytest.fixture(scope="module")
def server() -> Iterator[HomeostatServer]:
    with HomeostatServer("--ephemeral") as server:
        for agent in ("abc-123", "bob"):
            body = {"agent_type": "inference", "agent_id": agent, "tags": ["gpu"]}
            httpx2.post(f"{server.url}/v1/agents/register", json=body, trust_env=False)
        yield server


@pytest.fixture(scope="module")
def operations(server: HomeostatServer) -> dict[str, Any]:
    document = httpx2.get(f"{server.url}/openapi.json", trust_env=False).json()
    schema = schemathesis.openapi.from_dict(document)
    schema.config.update(base_url=server.url)
    found: list[Any] = [result.ok() for result in cast("Any", schema).get_all_operations()]
    return {operation.label: operation for operation in found}


def test_everything_is_described(operations: dict[str, Any]) -> None:
    assert {*operations} >= {*ROUTES}


@pytest.mark.parametrize("label", ROUTES)
def test_no_request_breaks_the_server_and_every_answer_is_described(operations: dict[str, Any], label: str) -> None:
    if EXAMPLES != SLICE and DONE.exists() and label in DONE.read_text().splitlines():
        pytest.skip(f"asked {EXAMPLES} times before: {DONE}")

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        suppress_health_check=SLOW,
        database=None,
        derandomize=EXAMPLES == SLICE,
    )
    @given(case=operations[label].as_strategy(generation_mode=GenerationMode.POSITIVE))
    def ask(case: Any) -> None:
        if "agent_id" in (case.path_parameters or {}):
            case.path_parameters["agent_id"] = "abc-123"
        for said in (case.query, case.body):
            if isinstance(said, dict) and "wait" in said:
                said["wait"] = 0
        case.call_and_validate(checks=CHECKS)

    try:
        ask()
    except Unsatisfiable:
        pytest.fail(f"{label} cannot be asked for")
    if EXAMPLES != SLICE:
        DONE.parent.mkdir(exist_ok=True)
        with DONE.open("a") as file:
            file.write(f"{label}\n")
