"""Operations between two real servers on one PostgreSQL: what one does the other tells, and what dies is lost."""

import random
import time
from typing import Any

import httpx2

from homeostat.core.limits import OPERATION_HELD_SECONDS
from homeostat.testing.homeostat import HomeostatServer

NAMES = ("ann", "bob", "cid", "dan", "eva")
PATIENCE_SECONDS = 120


def _get(server: HomeostatServer, path: str) -> Any:
    return httpx2.get(server.url + path, trust_env=False, timeout=30).json()


def _post(server: HomeostatServer, path: str, body: dict[str, Any]) -> httpx2.Response:
    return httpx2.post(server.url + path, json=body, trust_env=False, timeout=30)


def _until(server: HomeostatServer, path: str, status: str) -> Any:
    until = time.monotonic() + PATIENCE_SECONDS
    while (found := _get(server, path))["status"] != status:
        assert found["status"] == "running", found
        assert time.monotonic() < until, found
        time.sleep(0.2)
    return found


def _learn(servers: list[HomeostatServer]) -> None:
    """Tell whoever judges what is normal for some agents, until one of them is known to be healthy."""
    luck = random.Random(7)  # noqa: S311 — the same every time
    for name in NAMES:
        assert _post(servers[0], "/v1/agents/register", {"agent_type": "t", "agent_id": name}).status_code == 200
    until = time.monotonic() + PATIENCE_SECONDS
    while not any(_get(server, "/v1/agents/ann/health").get("phase") == "healthy" for server in servers):
        assert time.monotonic() < until
        for server in servers:
            for name in NAMES:
                usual = [{"latency_ms": luck.randint(400, 600), "tokens_out": luck.randint(80, 120)} for _ in range(20)]
                _post(server, "/v1/vitals", {"agent_id": name, "samples": usual})
        time.sleep(1.0)


def test_another_server_tells_how_an_operation_ended_and_that_one_was_lost(postgres_url: str) -> None:
    options = ("--store-url", postgres_url)
    with HomeostatServer(*options) as one, HomeostatServer(*options) as other:
        asked = {"prefer": "respond-async"}
        begun = httpx2.get(f"{one.url}/v1/audit/verify", headers=asked, trust_env=False, timeout=30)
        assert begun.status_code == 202, begun.text
        told = _until(other, begun.headers["location"], "succeeded")
        assert told["result"]["valid"]
        assert told == _get(one, begun.headers["location"])
        _learn([one, other])
        drill = {"kind": "cost_overrun", "reason": "to see", "actor": "bea", "seconds": 60}
        holder, witness = one, other
        started = _post(holder, "/v1/agents/ann/drill", drill)
        if started.status_code != 202:  # the other one judges, and only that one can drill
            holder, witness = other, one
            started = _post(holder, "/v1/agents/ann/drill", drill)
        assert started.status_code == 202, started.text
        place = started.headers["location"]
        assert _get(witness, place)["status"] == "running"
        killed = time.monotonic()
        holder.kill()
        lost = _until(witness, place, "lost")
        assert (lost["object"], lost["actor"]) == ("agent/ann", "bea")
        assert time.monotonic() - killed > OPERATION_HELD_SECONDS / 3, "as long as it may be held, nobody gives it up"
