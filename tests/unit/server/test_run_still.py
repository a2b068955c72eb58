"""A run that stands still says so wherever runs are listed, and for whom it waits."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from homeostat.adapters.stores.sqlite import SqliteRuns
from homeostat.app.assemble import System, assemble
from homeostat.app.settings import Auth, Settings
from homeostat.core.records.access import Role
from homeostat.runs import standing
from homeostat.server.serving import bind, serving, url_of
from homeostat.testing.crews import eventually
from homeostat.testing.servers import free_port

Json = dict[str, Any]

LOOKS = {"runs_list", "states_latest", "states_marked", "states_list", "turns_in_line", "agents_barred"}
SAID = {"reason": "it mails customers", "actor": "eve"}


async def begin(http: httpx2.AsyncClient, goal: str, *agents: str, many: int = 1, **more: Any) -> str:
    tasks = [{"name": f"{name}{n}", "agent": name} for n in range(many) for name in agents]
    answer = await http.post("/v1/runs", json={"goal": goal, "tasks": tasks, **more})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["run_id"])


async def waits(http: httpx2.AsyncClient, **query: Any) -> dict[str, list[str]]:
    """For whom the runs of a list wait, by their goals."""
    listed: list[Json] = (await http.get("/v1/runs", params=query)).json()["runs"]
    return {run["goal"]: run["waits_for"] for run in listed}


async def queued(http: httpx2.AsyncClient, tasks: int) -> None:
    """Wait until so many tasks are in line."""

    async def there() -> bool:
        return sum(run["tasks"].get("queued", 0) for run in (await http.get("/v1/runs")).json()["runs"]) == tasks

    await eventually(there)


@pytest.fixture(autouse=True)
async def agents(http: httpx2.AsyncClient) -> None:
    for name in ("ann", "bob"):
        assert (await http.post("/v1/agents/register", json={"agent_type": "t", "agent_id": name})).is_success


async def test_a_list_says_which_runs_stand_still_and_for_whom(http: httpx2.AsyncClient) -> None:
    await begin(http, "hers", "ann", many=2)
    await begin(http, "theirs", "ann", "bob")
    held = await begin(http, "held", "ann")
    await queued(http, 5)
    assert (await http.post(f"/v1/runs/{held}/pause", json=SAID)).is_success
    assert await waits(http) == {"held": [], "theirs": [], "hers": []}
    assert (await http.post("/v1/agents/ann/cordon", json=SAID)).is_success
    assert await waits(http) == {"held": [], "theirs": [], "hers": ["ann"]}, "bob can, and one is paused"
    assert (await http.post("/v1/agents/bob/quarantine", json=SAID)).is_success
    assert await waits(http) == {"held": [], "theirs": ["ann", "bob"], "hers": ["ann"]}
    assert await waits(http, q="-waits_for:none", status="applying") == {"theirs": ["ann", "bob"], "hers": ["ann"]}
    assert await waits(http, q="waits_for:bob") == {"theirs": ["ann", "bob"]}
    assert (await http.post("/v1/agents/ann/uncordon", json=SAID)).is_success
    assert await waits(http) == {"held": [], "theirs": [], "hers": []}
    assert (await http.post("/v1/agents/ann/deregister")).is_success
    assert await waits(http) == {"held": [], "theirs": ["ann", "bob"], "hers": ["ann"]}


async def test_however_much_of_it_waits_a_run_stands_still(http: httpx2.AsyncClient) -> None:
    run_id = await begin(http, "much", "ann", many=230, policy={"parallel": 230})
    await queued(http, 230)
    assert (await http.post("/v1/agents/ann/cordon", json=SAID)).is_success
    assert await waits(http) == {"much": ["ann"]}
    assert (await http.get(f"/v1/why/runs/{run_id}")).json()["waits_for"] == ["ann"]


@pytest.mark.parametrize(("together", "asked"), [(100_000, 1), (4, 3), (1, 6)])
async def test_a_list_asks_of_many_runs_at_once(
    http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch, together: int, asked: int
) -> None:
    for number in range(6):
        await begin(http, f"goal {number}", "ann", many=2)
    await queued(http, 12)
    assert (await http.post("/v1/agents/ann/cordon", json=SAID)).is_success
    monkeypatch.setattr(standing, "TASKS_ASKED_MAX", together)
    read, told = SqliteRuns._all, Counter[str]()

    async def counting(self: SqliteRuns, name: str, *values: object) -> Sequence[Any]:
        told[name] += name in LOOKS
        return await read(self, name, *values)

    monkeypatch.setattr(SqliteRuns, "_all", counting)
    found = await waits(http)
    assert found == {f"goal {number}": ["ann"] for number in range(6)}
    assert +told == {"runs_list": 1, "states_latest": asked, "turns_in_line": asked, "agents_barred": 1}


async def test_agents_are_not_told_that_others_are_held(tmp_path: Path) -> None:
    listener = bind("127.0.0.1", free_port())
    async with (
        assemble(Settings(data_dir=tmp_path / "guarded", auth=Auth.KEYS)) as system,
        serving(system, listener),
        httpx2.AsyncClient(base_url=url_of(listener), trust_env=False) as http,
    ):
        own = await enter(system, http)
        await begin(http, "theirs", "bob")
        await queued(http, 1)
        assert (await http.post("/v1/agents/bob/cordon", json=SAID)).is_success
        assert await waits(http) == {"theirs": ["bob"]}
        operator, http.headers["authorization"] = http.headers["authorization"], own
        assert await waits(http) == {"theirs": []}
        http.headers["authorization"] = operator
        assert (await http.post("/v1/agents/bob/deregister")).is_success
        http.headers["authorization"] = own
        assert await waits(http) == {"theirs": ["bob"]}, "who left is no secret"


async def enter(system: System, http: httpx2.AsyncClient) -> str:
    """Let an operator speak from here on; what is answered is what one of two agents says of itself."""
    issued = await system.access.keys.create(
        name="op", role=Role.OPERATOR, project=None, expires_in_seconds=None, by="test"
    )
    http.headers["authorization"] = f"Bearer {issued.secret}"
    keys = [
        (await http.post("/v1/agents/register", json={"agent_type": "t", "agent_id": name})).json()["api_key"]
        for name in ("ann", "bob")
    ]
    return f"Bearer {keys[0]}"
