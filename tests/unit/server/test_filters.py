"""`?q=` on the lists: filtered on the server, page after page, and refused in words where it cannot be read."""

from collections.abc import AsyncIterator

import httpx2
import pytest

from homeostat import Client
from homeostat.app.assemble import System
from homeostat.core import limits
from homeostat.server import sifting
from homeostat.server.application import table_of

LISTS = {
    "list_agents": "/v1/agents",
    "list_runs": "/v1/runs",
    "list_incidents": "/v1/immune/incidents",
    "list_approvals": "/v1/immune/approvals",
    "list_calls": "/v1/calls",
    "list_policies": "/v1/policies",
    "list_budgets": "/v1/budgets",
    "list_heads": "/v1/heads",
    "list_audit": "/v1/audit",
    "read_turns": "/v1/agents/ann-0/turns",
    "list_turns": "/v1/turns",
    "follow_events": "/v1/events",
}
INSIDE_RUNS = {"list_tasks", "read_ledger", "follow_ledger"}


@pytest.fixture(autouse=True)
async def anns(http: httpx2.AsyncClient) -> None:
    for number in range(6):
        tags = ["even" if number % 2 == 0 else "odd"]
        body = {"agent_type": "t", "agent_id": f"ann-{number}", "tags": tags}
        assert (await http.post("/v1/agents/register", json=body)).status_code == 200


async def test_every_list_takes_a_filter() -> None:
    taking = {one.name for one in table_of() if "q" in getattr(one.takes, "__struct_fields__", ())}
    assert taking == {*LISTS, *INSIDE_RUNS}


@pytest.mark.parametrize("path", LISTS.values())
async def test_an_unknown_field_is_refused_with_those_there_are(http: httpx2.AsyncClient, path: str) -> None:
    refused = await http.get(path, params={"q": "colour:red"})
    told = refused.json()
    assert (refused.status_code, told["code"]) == (422, "filter_invalid")
    assert told["fields"]
    assert "colour" in told["detail"]


async def test_agents_are_filtered_and_paged(http: httpx2.AsyncClient) -> None:
    first = await http.get("/v1/agents", params={"q": "tag:even", "limit": 2})
    assert [one["agent_id"] for one in first.json()] == ["ann-0", "ann-2"]
    following = first.headers["link"].partition(">")[0].removeprefix("<")
    assert [one["agent_id"] for one in (await http.get(following)).json()] == ["ann-4"]


async def test_turns_are_filtered_over_pages(http: httpx2.AsyncClient) -> None:
    sent = [
        (await http.post("/v1/agents/ann-0/inbox", json={"type": "turn", "payload": number})).json()["turn_id"]
        for number in range(5)
    ]
    await http.post(f"/v1/turns/{sent[0]}/stop", json={"reason": "over"})
    page = (await http.get("/v1/agents/ann-0/turns", params={"q": "status:queued started>-1h", "limit": 2})).json()
    assert [one["turn_id"] for one in page["items"]] == [sent[4], sent[3]]
    rest = {"q": "status:queued", "limit": 2, "cursor": page["next_cursor"]}
    assert [one["turn_id"] for one in (await http.get("/v1/agents/ann-0/turns", params=rest)).json()["items"]] == [
        sent[2]
    ]
    assert (await http.get("/v1/agents/ann-0/turns", params={"q": "started<-1h"})).json()["items"] == []


async def test_the_turns_of_all_agents_are_one_list_newest_first(http: httpx2.AsyncClient) -> None:
    sent = [
        (await http.post(f"/v1/agents/ann-{number % 3}/inbox", json={"type": "turn", "payload": number})).json()[
            "turn_id"
        ]
        for number in range(6)
    ]
    found: list[str] = []
    asked: dict[str, str | int] = {"limit": 4}
    while True:
        page = (await http.get("/v1/turns", params=asked)).json()
        found += [one["turn_id"] for one in page["items"]]
        if page["next_cursor"] is None:
            break
        asked["cursor"] = page["next_cursor"]
    assert found == sorted(sent, reverse=True)
    of_one = (await http.get("/v1/turns", params={"q": "agent:ann-1"})).json()["items"]
    assert [one["payload"] for one in of_one] == [4, 1]


async def test_a_filter_that_fits_nothing_reads_no_whole_table(
    http: httpx2.AsyncClient, system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its page ends at the bound with a cursor, and who follows the cursors finds everything."""
    assert limits.FILTER_SCAN_ROWS_MAX > limits.PAGE_MAX
    monkeypatch.setattr(sifting, "PAGE_MAX", 2)
    monkeypatch.setattr(sifting, "FILTER_SCAN_ROWS_MAX", 2)
    page = (await http.get("/v1/heads", params={"q": "agent:ann-5"})).json()
    assert (page["heads"], page["next_cursor"]) == ([], "ann-1")
    found: list[str] = []
    cursor = ""
    while cursor is not None:
        asked = {"q": "agent:ann-5", **({"cursor": cursor} if cursor else {})}
        page = (await http.get("/v1/heads", params=asked)).json()
        found += [one["agent_id"] for one in page["heads"]]
        cursor = page["next_cursor"]
    assert found == ["ann-5"]


async def test_acts_are_found_by_who_and_what(http: httpx2.AsyncClient) -> None:
    await http.post("/v1/agents/ann-0/cordon", json={"reason": "a new release", "actor": "bea"})
    await http.post("/v1/agents/ann-1/cordon", json={"reason": "a new release", "actor": "cid"})
    page = (await http.get("/v1/audit", params={"q": "by:bea verb:cordon_* outcome:done reason:release"})).json()
    assert [one["object"] for one in page["items"]] == ["agent/ann-0"]


async def test_events_are_filtered_on_their_way(http: httpx2.AsyncClient, url: str) -> None:
    async with http.stream("GET", "/v1/events", params={"q": "agent:ann-1"}) as stream:
        lines = stream.aiter_lines()
        assert await anext(lines)  # the reader is in place
        for agent in ("ann-0", "ann-1"):
            await http.post(f"/v1/agents/{agent}/quarantine", json={"reason": "to see"})
        seen = [line async for line in _until(lines, "ann-1")]
    assert not any("ann-0" in line for line in seen)


async def _until(lines: AsyncIterator[str], word: str) -> AsyncIterator[str]:
    async for line in lines:
        yield line
        if word in line:
            return


async def test_a_client_keeps_what_a_path_asks_for(client: Client) -> None:
    """A query that stands in the path was dropped once, and with it cursors and limits."""
    assert [one["agent_id"] for one in await client.read_json("/v1/agents?limit=1")] == ["ann-0"]
    assert [one.agent_id for one in await client.agents(query="agent:ann-3")] == ["ann-3"]
