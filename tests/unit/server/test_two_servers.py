"""Two servers on one store with nothing between them: what one was told, the other finds when it is asked."""

from pathlib import Path

import httpx2
import pytest

from homeostat.app.assemble import System, assemble
from homeostat.app.settings import Settings
from homeostat.core.errors import AgentUnknown
from homeostat.core.ids import DEFAULT_PROJECT, AgentId
from homeostat.core.machines.phase import Phase
from homeostat.server.serving import bind, serving, url_of
from homeostat.testing.crews import crew
from homeostat.testing.servers import free_port
from tests.unit.server.talkers import Talkers, begin, reached, talk


async def test_an_agent_is_isolated_wherever_it_was_registered(
    system: System, http: httpx2.AsyncClient, tmp_path: Path
) -> None:
    async with assemble(Settings(data_dir=tmp_path)) as other:
        assert (await http.post("/v1/agents/register", json={"agent_type": "t", "agent_id": "kim"})).is_success
        kim = (DEFAULT_PROJECT, AgentId("kim"))
        assert other.fleet.registry.get(kim[1]) is None, "it has looked already, and nothing is shown"
        await other.immune.quarantine(kim, reason="odd", actor="ann")
        assert (await system.immune.patient(kim)).phase is not Phase.INITIALIZING
        with pytest.raises(AgentUnknown):
            await other.immune.quarantine((DEFAULT_PROJECT, AgentId("nobody")), reason="odd", actor="ann")


async def test_an_order_is_judged_by_what_the_store_says(
    system: System, http: httpx2.AsyncClient, tmp_path: Path
) -> None:
    async with assemble(Settings(data_dir=tmp_path)) as other:
        assert (await http.post("/v1/agents/register", json={"agent_type": "t", "agent_id": "kim"})).is_success
        kim = (DEFAULT_PROJECT, AgentId("kim"))
        leader, follower = (system, other) if system.immune.leading else (other, system)
        assert leader.immune.leading
        await leader.immune.quarantine(kim, reason="odd", actor="ann")
        await follower.immune.release(kim, reason="fine", actor="bob")
        again = await leader.immune.quarantine(kim, reason="odd again", actor="ann")
        assert again.phase in (Phase.DRAINING, Phase.QUARANTINED)
        assert again.quarantines == 2


async def test_what_was_called_through_the_other_server_is_in_the_ledger_of_its_run(
    system: System, http: httpx2.AsyncClient, tmp_path: Path
) -> None:
    async with assemble(Settings(data_dir=tmp_path)) as other:
        listener = bind("127.0.0.1", free_port())
        async with serving(other, listener), httpx2.AsyncClient(base_url=url_of(listener), trust_env=False) as there:
            talkers = Talkers(http, through=there)
            await talkers.register("ann")
            for _ in range(2):
                async with crew(system.kernel, "ann", work=talkers.work):
                    run_id = await begin(http, tasks=[talk(2)])
                    done = await reached(http, run_id, "completed")
                calls = (await http.get("/v1/calls", params={"run_id": run_id})).json()["calls"]
                told = (await http.get(f"/v1/runs/{run_id}/ledger", params={"limit": 100})).json()["entries"]
                assert [entry["kind"] for entry in told].count("gateway.call") == len(calls) == 2
                assert done["budget"]["tokens_spent"] == sum(one["tokens_in"] + one["tokens_out"] for one in calls)
                assert (await http.get(f"/v1/runs/{run_id}/verify")).json()["valid"]


async def test_a_run_is_paused_by_its_cap_though_another_servers_gateway_refused_the_call(
    system: System, http: httpx2.AsyncClient, tmp_path: Path
) -> None:
    async with assemble(Settings(data_dir=tmp_path, store_url=f"sqlite://{tmp_path}/homeostat.db")) as other:
        listener = bind("127.0.0.1", free_port())
        async with serving(other, listener), httpx2.AsyncClient(base_url=url_of(listener), trust_env=False) as there:
            talkers = Talkers(http, through=there)
            for name in ("ann", "bob", "eve"):
                await talkers.register(name)
                async with crew(system.kernel, name, work=talkers.work):
                    run_id = await begin(http, tasks=[{**talk(30), "agent": name}], budget={"tokens": 60})
                    held = await reached(http, run_id, "paused", "failed")
                    assert (held["paused_by"], held["tasks"], talkers.calls[-1]) == ("budget", {"waiting": 1}, 402)
