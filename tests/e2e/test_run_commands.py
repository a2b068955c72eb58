"""What operators type about runs, with a server and a worker that work for them."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest
from typer.testing import CliRunner, Result

from homeostat import SyncClient
from homeostat.cli.application import application
from homeostat.core.errors import HomeostatError
from homeostat.testing.homeostat import HomeostatServer

AGENT = """
async def echo(turn):
    await turn.step("count", len, str(turn.input))
    if turn.input.get("goal") == "fail":
        raise ValueError("as you wish")
    return turn.input
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("runs")
    (found / "parrots.py").write_text(AGENT)
    return found


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[HomeostatServer]:
    with HomeostatServer("--ephemeral") as server, SyncClient(server.url) as client:
        environment = {**os.environ, "HOMEOSTAT_URL": server.url, "XDG_DATA_HOME": str(folder / "share")}
        command = [sys.executable, "-m", "homeostat", "worker", "parrots:echo"]
        with subprocess.Popen(command, cwd=folder, env=environment) as worker:
            try:
                wait_for(client, "echo")
                yield server
            finally:
                worker.terminate()


def wait_for(client: SyncClient, agent_id: str) -> None:
    until = time.monotonic() + 30
    while True:
        with suppress(HomeostatError):
            client.head(agent_id)
            return
        assert time.monotonic() < until, "the worker did not come"
        time.sleep(0.05)


class Operator:
    """Somebody who types commands, and keeps files in a folder."""

    def __init__(self, server: HomeostatServer, folder: Path) -> None:
        self.url, self.folder = server.url, folder

    def __call__(self, *arguments: str, code: int | None = 0) -> Result:
        told = CliRunner(env={"HOMEOSTAT_URL": self.url}).invoke(application, arguments)
        assert code in (None, told.exit_code), f"{arguments}\n{told.output}\n{told.exception}"
        return told

    def file(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return str(self.folder / name)


@pytest.fixture
def homeostat(server: HomeostatServer, folder: Path) -> Operator:
    return Operator(server, folder)


def test_a_red_button_is_lifted_where_it_was_pressed(homeostat: Operator) -> None:
    try:
        homeostat("red-button", "--in", "default", "--yes", "--reason", "smoke")
        homeostat("red-button", "--yes", "--reason", "fire")
        assert "--in PROJECT" in homeostat("run", "x", "--agent", "echo", code=1).stderr
        unknown = homeostat("red-button", "--in", "teamA", "--lift", code=1).stderr
        assert "of project 'teamA' is not pressed; pressed: the whole system, project 'default'" in unknown
        held = homeostat("red-button", "--in", "default", "--lift", "--reason", "the smoke is gone").stdout
        assert "no run may begin yet: still pressed for the whole system" in held
        homeostat("run", "x", "--agent", "echo", code=1)
        assert homeostat("red-button", "--lift").stdout == "Runs of the whole system may begin again\n"
        assert "completed" in homeostat("run", "x", "--agent", "echo").stdout
        assert "the smoke is gone" in homeostat("get", "audit", "-o", "json").stdout
        assert "names no project" in homeostat("red-button", "--in", "", "--yes", "--reason", "x", code=2).stderr
    finally:
        for button in (["--in", "default"], []):
            homeostat("red-button", *button, "--lift", code=None)


GATE = {"name": "a", "agent": "echo", "input": {}, "approval": True}


def test_a_red_button_is_seen(homeostat: Operator) -> None:
    """Nothing begins while it is pressed: whoever wonders why must be able to ask."""
    nothing = homeostat("red-button").stdout
    assert nothing == "No red button is pressed.\n"
    tried = homeostat("red-button", "--dry-run", "--in", "other").stderr
    assert tried == "No run is under way in project other: none would be killed, and none would begin.\n"
    assert "needs a reason" in homeostat("red-button", "--yes", code=2).stderr
    try:
        homeostat("red-button", "--in", "other", "--yes", "--reason", "smoke", "--actor", "kim")
        told = homeostat("red-button").stdout.splitlines()
        assert told[0].startswith("The red button of project other was pressed by kim ")
        assert told[0].endswith(" ago: smoke")
        assert told[1:] == ["  homeostat red-button --in other --lift lets runs begin again."]
        assert homeostat("red-button", "--in", "else").stdout == "No red button holds runs of project else.\n"
        assert json.loads(homeostat("red-button", "-o", "json").stdout)["pressed"][0]["project"] == "other"
        noted = homeostat("doctor", code=None).stdout
        assert "red button     that of project other was pressed by kim" in noted
        assert "→ homeostat red-button --in other --lift" in noted
    finally:
        homeostat("red-button", "--in", "other", "--lift", code=None)
    assert "red button     none is pressed" in homeostat("doctor", code=None).stdout


def test_the_exit_code_says_how_a_run_stands(homeostat: Operator) -> None:
    """A run that is held is not done: a script that goes on after 0 must not go on after it."""
    gated = homeostat.file("gate.json", '[{"name": "a", "agent": "echo", "input": {}, "approval": true}]')
    done = json.loads(homeostat("run", "x", "--agent", "echo", "-o", "json").stdout)
    assert done["status"] == "completed"
    gate = json.loads(homeostat("run", "x", "--tasks", gated, "-o", "json", code=3).stdout)
    assert (gate["status"], gate["paused_by"]) == ("paused", "gate")
    spent = homeostat("run", "x", "--agent", "echo", "--budget", "time=0", code=3).stdout
    assert "homeostat resume" in spent
    assert "failed" in homeostat("run", "fail", "--agent", "echo", code=1).stdout
    assert "homeostat apply" in homeostat("run", "x", "--agent", "echo", "--wait-for-apply").stdout
    homeostat("run", "x", "--tasks", gated, "--detach")
    for told in (homeostat("--help").stdout, homeostat("run", "--help").stdout):
        assert "3" in told
        assert "held" in told


PLAN = '{"tasks": [{"name": "one", "agent": "echo", "input": {}}, {"name": "two", "agent": "echo", "after": ["one"]}]}'


def test_a_run_is_planned_by_hand_and_its_tasks_and_ledger_are_read(homeostat: Operator) -> None:
    with SyncClient(homeostat.url) as client:
        client.register("planner", agent_id="thinker")  # it never answers
    begun = homeostat("run", "x", "--planner", "thinker", "-d", "-o", "json", "--reason", "the quarter ends").stdout
    run_id = json.loads(begun)["run_id"]
    assert json.loads(begun)["moved"]["reason"] == "the quarter ends"
    file = homeostat.file("plan.json", PLAN)
    told = homeostat(
        "plan", f"run/{run_id}", "--tasks", file, "--reason", "it thinks too long", "--actor", "kim"
    ).stdout
    assert told == f"{run_id} has 2 tasks and is applying\n"
    followed = homeostat("ledger", run_id, "--follow", "-o", "json").stdout.splitlines()
    entries = [json.loads(line) for line in followed]
    assert [one["seq"] for one in entries] == list(range(1, len(entries) + 1))
    planned = next(one["payload"] for one in entries if one["payload"].get("to") == "planned")
    assert (planned["actor"], planned["reason"]) == ("kim", "it thinks too long")
    page = json.loads(homeostat("ledger", run_id, "--limit", "2", "-o", "json").stdout)
    assert page == {"entries": entries[:2], "next_cursor": 2}
    shown = homeostat("ledger", run_id, "--after", "2", "--limit", "1")
    assert shown.stdout.split()[0] == "3"
    assert "--after 3" in shown.stderr
    newest = homeostat("ledger", run_id, "--newest", "--limit", "1", "-q", "kind:run.moved").stdout
    assert newest.split()[0] == str(max(one["seq"] for one in entries if one["kind"] == "run.moved"))
    assert homeostat("tasks", run_id, "-o", "name").stdout == f"task/{run_id}/one\ntask/{run_id}/two\n"
    listed = homeostat("tasks", run_id, "-q", "task:two").stdout
    assert "succeeded" in listed
    assert "one " not in listed.splitlines()[1][:4]
    assert len(json.loads(homeostat("tasks", run_id, "--limit", "1", "-o", "json").stdout)["tasks"]) == 1
    again = homeostat("plan", run_id, "--tasks", file, code=1).stderr
    assert "cannot be planned" in again


def test_a_run_is_told_to_hold_at_a_warning(homeostat: Operator) -> None:
    begun = homeostat("run", "x", "--agent", "echo", "--pause-on-warning", "-o", "json", "--budget", "tokens=5").stdout
    run_id = json.loads(begun)["run_id"]
    created = json.loads(homeostat("ledger", run_id, "--limit", "1", "-o", "json").stdout)["entries"][0]
    assert created["payload"]["config"]["policy"]["pause_on_warning"] is True


def test_a_task_is_answered_as_it_is_listed(homeostat: Operator) -> None:
    gated = homeostat.file("gate.json", '[{"name": "a", "agent": "echo", "input": {}, "approval": true}]')
    run_id = json.loads(homeostat("run", "x", "--tasks", gated, "-o", "json", code=3).stdout)["run_id"]
    name = homeostat("tasks", run_id, "-q", "status:held", "-o", "name").stdout.strip()
    assert "is approved; the run is applying" in homeostat("approve", name, "--reason", "fine").stdout
    homeostat("ledger", run_id, "--follow")
    assert "succeeded" in homeostat("tasks", run_id).stdout


def test_tasks_that_wait_are_told_of_wherever_approvals_are_asked_for(homeostat: Operator) -> None:
    """A script that reads the list, or says yes to all of it, must not take them for nothing."""
    gated = homeostat.file("gates.json", json.dumps([GATE, GATE | {"name": "b"}]))
    run_id = json.loads(homeostat("run", "x", "--tasks", gated, "-o", "json", code=3).stdout)["run_id"]
    words = f"homeostat approve {run_id}/b"
    for output in ("table", "json", "name"):
        assert words in homeostat("get", "approvals", "-o", output).stderr
    assert json.loads(homeostat("get", "approvals", "-o", "json").stdout)["approvals"] == []
    for verb, done in (("approve", "approved"), ("reject", "rejected")):
        for rehearsed in ([], ["--dry-run"]):
            said = homeostat(verb, "all", "--reason", "fine", *rehearsed).stderr
            assert f"No treatment is open, and nothing was {done}. " in said
            assert words in said
    resumed = homeostat("resume", run_id)
    assert resumed.stdout == f"{run_id} is applying, by {os.environ.get('USER', 'operator')}\n"
    assert f"{run_id} is held up: 2 tasks wait for approval." in resumed.stderr
    assert f"  {words}, or reject" in resumed.stderr.splitlines()
    homeostat("kill", run_id, "--reason", "enough")


def test_an_answer_to_a_task_is_rehearsed(homeostat: Operator) -> None:
    gated = homeostat.file("gates.json", json.dumps([GATE, GATE | {"name": "b"}]))
    run_id = json.loads(homeostat("run", "x", "--tasks", gated, "-o", "json", code=3).stdout)["run_id"]
    tried = homeostat("approve", f"{run_id}/a", f"{run_id}/b", "--dry-run")
    assert [line.split()[0] for line in tried.stdout.splitlines()] == ["RUN", run_id, "Task", "Task"]
    assert "Task 'b' is for echo." in tried.stdout
    assert tried.stderr.startswith("1 run. The task is given to whom it is for; ")
    assert tried.stderr.endswith(" Nothing was done.\n")
    assert "The task fails without being tried" in homeostat("reject", f"{run_id}/a", "--dry-run").stderr
    assert json.loads(homeostat("tasks", run_id, "-q", "status:held", "-o", "json").stdout)["tasks"][1]["name"] == "b"
    homeostat("approve", f"{run_id}/a")
    assert "waits for no approval" in homeostat("reject", f"{run_id}/a", "--dry-run", code=1).stderr
    homeostat("kill", run_id, "--reason", "enough")


def test_a_run_that_is_not_to_be_replayed_tells_no_steps_and_says_so(homeostat: Operator) -> None:
    kinds: dict[str, set[str]] = {}
    for wish in ("--replay", "--no-replay"):
        ended = json.loads(homeostat("run", "x", "--agent", "echo", wish, "-o", "json").stdout)
        assert ended["replay"] is (wish == "--replay")
        lines = homeostat("ledger", ended["run_id"], "--follow", "-o", "json").stdout.splitlines()
        kinds[wish] = {json.loads(line)["kind"] for line in lines}
        assert "are as they were written" in homeostat("verify", ended["run_id"]).stdout
    assert kinds["--replay"] - kinds["--no-replay"] == {"step"}
    assert "turn.ended" in kinds["--no-replay"]
    refused = homeostat("replay", ended["run_id"], code=1).stderr
    assert "was begun without `replay`" in refused
    told = httpx2.post(f"{homeostat.url}/v1/runs/{ended['run_id']}/replay", json={})
    assert (told.status_code, told.json()["code"]) == (409, "run_not_recorded")
