"""The pages for whoever is paged or asked for proof: their commands run, in order, and print what the pages show."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx2
import msgspec

from homeostat.core.wire.ledger import ReplayBody, ReplayShape
from homeostat.testing.homeostat import HomeostatServer

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
DEFAULT_URL = "http://127.0.0.1:7700"
RUN = "run_01a1e3966e1e730bca26eb50"
TRIES = 600

AGENT = """
async def helper(turn):
    return await turn.step("look", lambda: {"text": "21 °C"})
"""


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (HOWTO / page).read_text(), re.DOTALL)


def environment(server: HomeostatServer, **more: str) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "HOMEOSTAT_URL": server.url, "PATH": path, "XDG_DATA_HOME": str(server.data_dir), **more}


def shell(command: str, folder: Path, env: dict[str, str]) -> str:
    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=100
    )
    assert done.returncode == 0, (command, done.stdout, done.stderr)
    return done.stdout


def until(look: Callable[[], bool | None]) -> None:
    for _ in range(TRIES):
        if look():
            return
    raise AssertionError("it never came")


def test_an_agent_is_held_and_the_receipt_says_so(tmp_path: Path) -> None:
    (console,) = blocks("hold-an-agent.md", "console")
    commands = [line[2:].split("  # ")[0] for line in console.splitlines() if line.startswith("$ ")]
    shown = [line for line in console.splitlines() if not line.startswith("$ ")]
    (tmp_path / "my_agent.py").write_text("import signal\nsignal.pause()\n")
    with HomeostatServer() as server:
        env = environment(server, HOMEOSTAT_DATA_DIR=str(server.data_dir))
        worker = subprocess.Popen(["/bin/sh", "-c", f"exec {commands[0]}"], cwd=tmp_path, env=env)
        try:
            url = f"{server.url}/v1/agents/researcher"
            until(lambda: httpx2.get(url).status_code == 200 or None)
            said = shell(commands[1], tmp_path, env)
            assert shown[0] in said
            for line in shown[2:5]:
                strategy, wanted, effect = line.split()[:3]
                assert re.search(rf"^ +{strategy} +{wanted} +{effect} ", said, re.MULTILINE), said
            shell("homeostat release researcher --reason 'it is well'", tmp_path, env)
        finally:
            worker.send_signal(signal.SIGTERM)
            worker.wait(30)


def test_the_hooks_of_the_page_are_those_that_orders_reach() -> None:
    (program,) = blocks("hold-an-agent.md", "python")
    told: dict[str, object] = {}
    exec(compile(program, "hold-an-agent.md", "exec"), told)  # noqa: S102 - our own page
    from homeostat import ManagedAgent

    hooks = set(re.findall(r"`(_do_\w+)`", (HOWTO / "hold-an-agent.md").read_text()))
    assert len(hooks) == 4
    assert all(hasattr(ManagedAgent, hook) for hook in hooks)


def pattern(shown: str, run_id: str) -> str:
    """What the page shows, for any run: its numbers and keys are others."""
    text = re.sub(r"[0-9a-f]{4}(:[0-9a-f]{4}){7}", "KEY", shown.strip())
    text = re.sub(r"(?<![\w.])\d[\d,]*(?![\w:])", "NUMBER", text)
    return re.escape(text.replace(RUN, run_id)).replace("KEY", "[0-9a-f:]+").replace("NUMBER", r"[\d,]+")


def test_a_run_is_proved_and_replayed(tmp_path: Path) -> None:
    page = "prove-and-replay-a-run.md"
    (tmp_path / "helpdesk.py").write_text(AGENT)
    with HomeostatServer() as server:
        env = environment(server, PYTHONPATH=str(tmp_path))
        hosting = ["homeostat", "worker", "helpdesk:helper", "--agent-id", "helper"]
        worker = subprocess.Popen(["/usr/bin/env", *hosting], cwd=tmp_path, env=env)
        try:
            until(lambda: httpx2.get(f"{server.url}/v1/agents/helper/head").status_code == 200 or None)
            asked = {"goal": "the weather", "tasks": [{"name": "paris", "agent": "helper", "input": {}}]}
            run = str(httpx2.post(f"{server.url}/v1/runs", json=asked).json()["run_id"])
            at = f"{server.url}/v1/runs/{run}"
            until(lambda: httpx2.get(at).json()["status"] == "completed" or None)
            key = httpx2.get(f"{at}/head").json()["public_key"]
            env = {**env, "RUN": run, "PUBLIC_KEY": key}
            for block in blocks(page, "console"):
                for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                    command, _, shown = part.partition("\n")
                    said = shell(command.replace(RUN, run).replace(DEFAULT_URL, server.url), tmp_path, env)
                    if shown.strip():
                        assert re.search(pattern(shown, run), said), (command, said, pattern(shown, run))
            (tmp_path / "helpdesk.py").write_text(AGENT.replace("21 °C", "Mild.").replace('"look"', '"gaze"'))
            other = subprocess.run(
                ["/bin/sh", "-c", f"homeostat replay {run}.homeostat"],
                cwd=tmp_path,
                env=env,
                capture_output=True,
                text=True,
                check=False,
            )
            assert other.returncode == 1, other
            assert re.search(r"^diverged at entry \d+: task 0 \(paris\)", other.stdout), other.stdout
        finally:
            worker.send_signal(signal.SIGTERM)
            worker.wait(30)


def test_the_bodies_of_the_page_are_those_of_the_api() -> None:
    asked, told = blocks("prove-and-replay-a-run.md", "json")
    assert msgspec.json.decode(asked, type=ReplayBody).prompt == "Answer in one sentence."
    assert msgspec.json.decode(told, type=ReplayShape).verdict == "diverged"
