"""What an agent was called with, and what it spent: told from the call log."""

from collections.abc import AsyncIterator

import httpx2
import pytest

from homeostat.server import prompts
from homeostat.server.serving import bind, serving, url_of
from homeostat.testing.clinic import Clinic, clinic
from homeostat.testing.servers import free_port


@pytest.fixture
async def ward() -> AsyncIterator[Clinic]:
    async with clinic() as ward:
        await ward.enrol("ann", "bob")
        yield ward


@pytest.fixture
async def http(ward: Clinic) -> AsyncIterator[httpx2.AsyncClient]:
    listener = bind("127.0.0.1", free_port())
    async with serving(ward.system, listener), httpx2.AsyncClient(base_url=url_of(listener), trust_env=False) as http:
        yield http


async def ask(ward: Clinic, system: str | None, *, model: str = "gpt-4o-mini") -> None:
    said = [{"role": "user", "content": "I am ann: hello"}]
    if system is not None:
        said.insert(0, {"role": "system", "content": system})
    await ward.call("ann", model=model, messages=said)
    ward.clock.advance(60.0)


async def test_a_prompt_that_changed_is_told_with_its_times(
    ward: Clinic, http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ask(ward, None)
    await ask(ward, "Be brief.")
    await ask(ward, "Be brief.", model="gpt-4o")
    await ask(ward, "Be <b>kind</b>.")
    await ward.system.gateway.clerk.flush()
    page = (await http.get("/v1/agents/ann/prompts")).json()
    kind, brief, none = page["prompts"]
    assert (page["calls_looked_at"], page["whole_log"]) == (4, True)
    assert [one["calls"] for one in page["prompts"]] == [1, 2, 1]
    assert [one["has_prompt"] for one in page["prompts"]] == [True, True, False]
    assert sorted(brief["models"]) == ["gpt-4o", "gpt-4o-mini"]
    assert none["last_at"] < brief["first_at"] < brief["last_at"] < kind["first_at"] == kind["last_at"]
    assert "kind" not in str(page), "prompts are not kept"
    monkeypatch.setattr(prompts, "PAGE_MAX", 2)
    assert (await http.get("/v1/agents/ann/prompts")).json() == page, "read in pages it is the same"
    monkeypatch.setattr(prompts, "PROMPT_CALLS_MAX", 2)
    part = (await http.get("/v1/agents/ann/prompts")).json()
    assert (part["calls_looked_at"], part["whole_log"], len(part["prompts"])) == (2, False, 2)
    assert (await http.get("/v1/agents/nobody/prompts")).json()["code"] == "agent_unknown"


async def test_agents_are_found_by_what_they_spent_today(ward: Clinic, http: httpx2.AsyncClient) -> None:
    await ward.sample("ann", times=3)
    rows = (await http.get("/v1/agents")).json()
    spent = {one["agent_id"]: one["cost_usd_today"] for one in rows}
    assert spent["ann"] > 0
    assert spent["bob"] == 0
    found = (await http.get("/v1/agents", params={"q": "cost>0"})).json()
    assert [one["agent_id"] for one in found] == ["ann"]
    own = {"authorization": f"Bearer {ward.keys['bob']}"}
    assert [one["cost_usd_today"] for one in (await http.get("/v1/agents", headers=own)).json()] == [None, None]
