"""A run is exported, verified and replayed by command, without the server that made it."""

import asyncio
import json
import os
import sys
from pathlib import Path

import httpx2
import pytest

from homeostat.testing.crews import eventually
from homeostat.testing.homeostat import HomeostatServer

AGENT = """
async def look_up(city):
    return {"city": city, "degrees": 21.0}


async def helper(turn):
    found = await turn.step("look up", look_up, turn.input["city"])
    return {"found": found, "lucky": turn.random.randrange(100), "at": await turn.now()}
"""


async def homeostat(*arguments: str, cwd: Path, url: str = "") -> tuple[int, str]:
    environment = {
        **os.environ,
        "HOMEOSTAT_URL": url,
        "XDG_DATA_HOME": str(cwd / "share"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "homeostat", *arguments,
        cwd=cwd, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


async def recorded(url: str, folder: Path, *, module: str = "helpdesk", city: str = "Paris") -> str:
    """A run of an agent that a worker of its own hosts."""
    environment = {**os.environ, "HOMEOSTAT_URL": url, "XDG_DATA_HOME": str(folder / "share")}
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "homeostat", "worker", f"{module}:helper", cwd=folder, env=environment
    )
    try:
        async with httpx2.AsyncClient(base_url=url, trust_env=False) as http:

            async def known() -> bool:
                return (await http.get("/v1/agents/helper/head")).status_code == 200

            await eventually(known)
            tasks = [{"name": "ask", "agent": "helper", "input": {"city": city}}]
            made = await http.post("/v1/runs", json={"goal": "weather", "tasks": tasks, "seed": 5})
            assert made.status_code == 201, made.text
            run_id = made.json()["run_id"]

            async def resting() -> bool:
                return (await http.get(f"/v1/runs/{run_id}")).json()["at_rest"]

            await eventually(resting)
            return run_id
    finally:
        worker.terminate()
        await worker.wait()


@pytest.mark.timeout(300)
async def test_a_run_is_proven_and_replayed_far_from_its_server(tmp_path: Path) -> None:
    (tmp_path / "helpdesk.py").write_text(AGENT)
    with HomeostatServer() as server:
        run_id = await recorded(server.url, tmp_path)
        code, said = await homeostat("export", run_id, cwd=tmp_path, url=server.url)
        assert code == 0, said
        code, said = await homeostat("verify", f"run/{run_id}", cwd=tmp_path, url=server.url)
        assert (code, "are as they were written" in said) == (0, True), said
    bundle = f"{run_id}.homeostat"
    code, said = await homeostat("verify", bundle, "-o", "json", cwd=tmp_path)
    assert code == 0, said
    assert json.loads(said)["valid"]
    code, said = await homeostat("replay", bundle, cwd=tmp_path)
    assert (code, said.startswith("identical: 1 turns")) == (0, True), said
    (tmp_path / "helpdesk.py").write_text(AGENT.replace('turn.input["city"])', 'turn.input["city"] + "!")'))
    code, said = await homeostat("replay", bundle, cwd=tmp_path)
    assert code == 1
    assert 'took step `look up` with other arguments (args[0]): recorded "Paris", now "Paris!"' in said, said


ASKING = """
async def helper(turn):
    said = await turn.llm(turn.input["city"], model="gpt-4o-mini")
    return {"text": said.text}
"""


@pytest.mark.timeout(300)
async def test_whoever_replays_without_an_agent_s_key_hears_where_it_is(tmp_path: Path) -> None:
    """Keys are kept for a server's address: under another one, nothing is known of what the code would have done."""
    (tmp_path / "asker.py").write_text(ASKING)
    with HomeostatServer() as server:
        run_id = await recorded(server.url, tmp_path, module="asker")
        anew = ("replay", run_id, "--mode", "re-model")
        code, said = await homeostat(*anew, cwd=tmp_path, url=server.url)
        assert "no model answered" not in said, said
        assert "1 live model calls" in said or "delivered (text)" in said, said
        other = server.url.replace("127.0.0.1", "localhost")
        code, said = await homeostat(*anew, cwd=tmp_path, url=other)
    assert code == 1
    assert "no model answered 'helper'. The model's API answered 401" in said, said
    assert f"no key of agent helper for {other} is here; there is one for {server.url}, which --url can name" in said
    assert "incomplete: " in said
    assert "diverged" not in said
