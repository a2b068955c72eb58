"""Agents who talk to a model, and runs that have them do so."""

import asyncio
import json
from typing import Any

import httpx2

from homeostat.core.codec import Json as Text
from homeostat.core.codec import to_json
from homeostat.core.records.turn import Grant
from homeostat.core.records.view import Outcome
from homeostat.testing.crews import eventually

Json = dict[str, Any]


class Talkers:
    """Agents who call a model as often as they are told; asked for a plan, they talk as much, and plan one talk."""

    def __init__(
        self, http: httpx2.AsyncClient, *, planning_calls: int = 0, through: httpx2.AsyncClient | None = None
    ) -> None:
        self._http = http
        self._through = through or http
        self._planning_calls = planning_calls
        self._keys: dict[str, str] = {}
        self.calls: list[int] = []
        self.pause_seconds = 0.0

    async def register(self, *names: str) -> None:
        for name in names:
            body = {"agent_type": "talker", "agent_id": name}
            self._keys[name] = (await self._http.post("/v1/agents/register", json=body)).json()["api_key"]

    async def work(self, grant: Grant) -> tuple[Outcome, Text]:
        asked = json.loads(grant.turn.payload)
        planning = asked.get("asks") == "plan"
        for _ in range(self._planning_calls if planning else asked["calls"]):
            if not await self.call(grant.turn.agent_id):
                return Outcome.FAILED, Text("null")
            await asyncio.sleep(self.pause_seconds)
        plan = {"tasks": [{"name": "talk", "agent": grant.turn.agent_id, "input": {"calls": 4}}]}
        return Outcome.SUCCESS, to_json(plan) if planning else Text("null")

    async def call(self, name: str) -> bool:
        body = {"model": "gpt-4o-mini", "max_tokens": 40, "messages": [{"role": "user", "content": "a word"}]}
        head = {"authorization": f"Bearer {self._keys[name]}"}
        answer = await self._through.post("/openai/v1/chat/completions", json=body, headers=head)
        self.calls.append(answer.status_code)
        return answer.status_code == 200


async def begin(http: httpx2.AsyncClient, **body: Any) -> str:
    answer = await http.post("/v1/runs", json={"goal": "talk", **body})
    assert answer.status_code == 201, answer.text
    return answer.json()["run_id"]


async def look(http: httpx2.AsyncClient, run_id: str) -> Json:
    return (await http.get(f"/v1/runs/{run_id}")).json()


async def reached(http: httpx2.AsyncClient, run_id: str, *statuses: str, rests: bool = True) -> Json:
    async def there() -> bool:
        found = await look(http, run_id)
        return found["status"] in statuses and (found["at_rest"] or not rests)

    await eventually(there)
    return await look(http, run_id)


def talk(calls: int) -> Json:
    return {"name": "talk", "agent": "ann", "input": {"calls": calls}}
