"""`homeostat up --demo` has life in it, and keeps it: agents that work, one that falls ill, a question that waits."""

import time
from typing import Any

import httpx2

from homeostat.testing.homeostat import HomeostatServer

PATIENCE_SECONDS = 150


def test_a_fleet_lives_and_an_approval_waits() -> None:
    with HomeostatServer("--demo", command="up") as server:

        def get(path: str) -> Any:
            return httpx2.get(server.url + path, trust_env=False, timeout=30).json()

        until = time.monotonic() + PATIENCE_SECONDS
        while not (waiting := get("/v1/immune/approvals?status=pending")["approvals"]):
            assert time.monotonic() < until, get("/v1/agents")
            time.sleep(0.5)
        agents = get("/v1/agents")
        assert len(agents) >= 12
        assert {agent["phase"] for agent in agents} >= {"healthy", "quarantined"}
        assert get("/v1/calls?limit=1")["calls"]
        told = httpx2.post(
            f"{server.url}/v1/immune/approvals/{waiting[0]['approval_id']}/approve",
            json={"actor": "ann"},
            trust_env=False,
            timeout=30,
        )
        assert told.json()["answered_by"] == "ann"
        (run,) = get("/v1/runs")["runs"]
        assert run["created_by"] == "simulated operator"
        while get(f"/v1/runs/{run['run_id']}")["tasks"].get("succeeded", 0) < 4:
            assert time.monotonic() < until, get(f"/v1/runs/{run['run_id']}")
            time.sleep(0.5)
        path = f"{server.url}/v1/runs/{run['run_id']}/replay"
        replayed = httpx2.post(path, json={"mode": "exact"}, trust_env=False, timeout=30).json()
        assert (replayed["verdict"], replayed["skipped"]) == ("identical", [])
        assert replayed["turns"] >= 4, "what agents of the demo do in a run is recorded with their code"
        server.restart()
        assert get(f"/v1/runs/{run['run_id']}")["goal"] == run["goal"]
        assert {agent["agent_id"] for agent in get("/v1/agents")} == {agent["agent_id"] for agent in agents}
        done = get("/v1/calls?limit=1")["calls"][0]["call_id"]
        while get("/v1/calls?limit=1")["calls"][0]["call_id"] == done:  # they know their keys again
            assert time.monotonic() < until, server.log
            time.sleep(0.5)
