"""What operators type: lists, details, orders with their rehearsal, events, doctor, settings and the dashboard."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import httpx2
import pytest
from typer.testing import CliRunner

from homeostat import SyncClient
from homeostat.cli.application import application
from homeostat.cli.nouns import BY_NAME, NOUNS
from homeostat.testing.homeostat import HomeostatServer

WORD = "sesame"


@pytest.fixture(scope="module")
def server() -> Iterator[HomeostatServer]:
    with HomeostatServer("--ephemeral") as server, SyncClient(server.url) as client:
        for agent in ("ann", "bob", "cid"):
            client.register("echo", agent_id=agent, tags=["gpu"] if agent != "cid" else ["cpu"])
        yield server


def homeostat(server: HomeostatServer, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "homeostat", *arguments]
    env = {**os.environ, "HOMEOSTAT_URL": server.url, **environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100, env=env)


def test_a_turn_is_listed_described_explained_and_logged(server: HomeostatServer) -> None:
    with SyncClient(server.url) as client:
        turn_id = client.enqueue("cid", {"text": "hello"}).turn_id
    listed = homeostat(server, "get", "turns", "--agent", "cid")
    assert turn_id in listed.stdout, listed.stderr
    assert homeostat(server, "get", "turns", "--agent", "cid", "-o", "name").stdout == f"turn/{turn_id}\n"
    row = json.loads(homeostat(server, "get", "turns", turn_id, "-o", "json").stdout)
    assert row["turn_id"] == turn_id
    shown = homeostat(server, "describe", turn_id).stdout
    assert re.search(rf"^Turn id +{turn_id}$", shown, re.MULTILINE)
    assert f"turn_id: {turn_id}" in homeostat(server, "describe", "turn", turn_id, "-o", "yaml").stdout
    assert "asked for from outside" in homeostat(server, "why", "turn", turn_id).stdout
    assert "hello" in homeostat(server, "logs", "cid").stdout
    assert "cid" in homeostat(server, "get", "heads").stdout
    assert f"turn/{turn_id}" in homeostat(server, "get", "turns", "-o", "name").stdout.splitlines(), "of all agents"


@pytest.mark.parametrize("output", ["table", "wide", "json", "yaml", "name"])
def test_every_noun_can_be_listed(server: HomeostatServer, output: str) -> None:
    for noun in ("agents", *(noun.name for noun in NOUNS)):
        asked = ["get", noun, "-o", output, "--url", server.url, *([] if noun == "agents" else ["--limit", "3"])]
        listed = CliRunner().invoke(application, asked)
        assert listed.exit_code == 0, listed.output
        if output == "json":
            found = json.loads(listed.stdout)
            assert isinstance(found if noun == "agents" else found[BY_NAME[noun].items], list)
        if output == "name":
            assert all("/" in line for line in listed.stdout.splitlines()), listed.stdout


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["get", "agents", "-o", "xml"], "'xml' is not one of 'table', 'wide', 'json', 'yaml', 'name'"),
        (["get", "agents", "--url", "localhost:1"], "'localhost:1' does not begin with http:// or https://."),
        (["enqueue", "ann", "{nonsense"], "the message is not valid: it is not JSON"),
        (["get", "agents", "-q", "colour:red"], "no field 'colour'"),
        (["reject", "apr_1"], "say why"),
        (["baseline", "reset", "ann"], "say why"),
        (["treatment", "lift", "ann"], "say why"),
        (["kill", "ann"], "say why"),
    ],
)
def test_what_was_typed_wrongly_is_told_in_our_own_words(server: HomeostatServer, asked: list[str], said: str) -> None:
    told = CliRunner(env={"HOMEOSTAT_URL": server.url}).invoke(application, asked)
    assert told.exit_code == 2, told.output
    assert said in told.stderr
    assert "Value error" not in told.stderr
    assert ".." not in told.stderr.replace("…", "").replace("...", "")


def test_what_is_listed_can_be_filtered(server: HomeostatServer) -> None:
    assert homeostat(server, "get", "agents", "-q", "tag:gpu agent:a*", "-o", "name").stdout == "agent/ann\n"
    assert homeostat(server, "get", "heads", "-q", "agent:bob", "-o", "name").stdout == "head/bob\n"
    wrong = homeostat(server, "get", "agents", "-q", "colour:red")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "no field 'colour'" in wrong.stderr
    assert "phase" in wrong.stderr
    events = homeostat(server, "get", "events", "-q", "kind:presence agent:bob", "-o", "json")
    assert {json.loads(line)["data"]["agent_id"] for line in events.stdout.splitlines()} == {"bob"}


def test_an_order_to_many_is_rehearsed_asked_for_and_given(server: HomeostatServer) -> None:
    silent = homeostat(server, "cordon", "ann")
    assert (silent.returncode, "--reason" in silent.stderr) == (2, True)
    tried = homeostat(server, "cordon", "-l", "gpu", "--dry-run")
    assert tried.returncode == 0, tried.stderr
    assert "ann" in tried.stdout
    assert "bob" in tried.stdout
    assert "cid" not in tried.stdout
    assert "Undone by: homeostat uncordon. Nothing was done." in tried.stderr
    many = homeostat(server, "cordon", "-l", "gpu", "--reason", "a release")
    assert (many.returncode, "--yes" in many.stderr) == (2, True)
    assert "open" in homeostat(server, "get", "heads", "ann").stdout
    given = homeostat(server, "cordon", "-l", "gpu", "--reason", "a release", "--yes")
    assert given.stdout.count("is cordoned and drained") == 2, given.stdout + given.stderr
    drained = homeostat(server, "drain", "ann", "--reason", "a release", "--timeout", "30")
    assert drained.returncode == 0, drained.stderr
    assert "drained" in drained.stdout
    back = homeostat(server, "uncordon", "ann", "bob", "--yes")
    assert back.stdout.count("gets turns again") == 2
    assert homeostat(server, "cordon", "nobody", "--reason", "x").returncode == 1
    acts = json.loads(homeostat(server, "get", "audit", "-o", "json").stdout)["items"]
    assert {"cordon_agent", "uncordon_agent", "drain_agent"} <= {act["verb"] for act in acts}


def test_what_happened_is_told_as_events(server: HomeostatServer) -> None:
    told = homeostat(server, "events", "--kinds", "presence", "--agent", "bob", "-o", "json")
    assert told.returncode == 0, told.stderr
    events = [json.loads(line) for line in told.stdout.splitlines()]
    assert events[0]["data"]["event"] == "registered"
    assert {event["data"]["agent_id"] for event in events} == {"bob"}
    assert homeostat(server, "events", "--kinds", "nonsense").returncode == 1


def test_what_happens_is_followed(server: HomeostatServer) -> None:
    """Turns are told while somebody reads, so messages are sent until the first line comes."""
    command = [sys.executable, "-m", "homeostat", "events", "-w", "--kinds", "turn", "--agent", "bob"]
    env = {**os.environ, "HOMEOSTAT_URL": server.url, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as watching:
        assert watching.stdout is not None
        ended = threading.Event()

        def keep_sending() -> None:
            with SyncClient(server.url) as client:
                while not ended.wait(0.3):
                    client.stop(client.enqueue("bob", 1).turn_id)

        sending = threading.Thread(target=keep_sending)
        sending.start()
        try:
            assert "bob" in watching.stdout.readline()
        finally:
            ended.set()
            sending.join()
            watching.terminate()


def test_the_doctor_says_what_to_do(server: HomeostatServer) -> None:
    healthy = homeostat(server, "doctor", "-o", "json")
    assert healthy.returncode == 0, healthy.stdout + healthy.stderr
    found = {one["check"]: one for one in json.loads(healthy.stdout)["findings"]}
    assert found["server"]["state"] == "ok"
    ill = homeostat(server, "doctor", HOMEOSTAT_HOST="0.0.0.0", HOMEOSTAT_DATA_DIR="/proc/nowhere")  # noqa: S104
    assert ill.returncode == 1
    assert "HOMEOSTAT_AUTH=keys" in ill.stdout
    for one in found.values():
        assert one["state"] == "ok" or one["fix"], f"{one} has no fix"
    gone = homeostat(server, "doctor", HOMEOSTAT_URL="http://127.0.0.1:9")
    assert "homeostat up" in gone.stdout


def test_settings_say_where_they_come_from(server: HomeostatServer) -> None:
    told = homeostat(
        server,
        *("config", "show", "--origin"),
        HOMEOSTAT_PORT="7701",
        HOMEOSTAT_OIDC_CLIENT_SECRET=WORD,
        HOMEOSTAT_STORE_URL="postgresql://ann:" + WORD + "@db/homeostat",
    )
    assert told.returncode == 0, told.stderr
    lines = {line.split()[0]: line for line in told.stdout.splitlines()}
    assert "environment" in lines["port"]
    assert "7701" in lines["port"]
    assert "default" in lines["host"]
    assert WORD not in told.stdout


def test_the_dashboard_is_opened_where_it_is(server: HomeostatServer) -> None:
    assert homeostat(server, "ui", "--print").stdout.strip() == f"{server.url}/"


@pytest.mark.parametrize(
    "asked",
    [
        {"_HOMEOSTAT_COMPLETE": "complete_bash", "COMP_WORDS": "homeostat quaran", "COMP_CWORD": "1"},
        {"_HOMEOSTAT_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "homeostat quaran"},
        {
            "_HOMEOSTAT_COMPLETE": "complete_fish",
            "_TYPER_COMPLETE_ARGS": "homeostat quaran",
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        },
    ],
    ids=["bash", "zsh", "fish"],
)
def test_a_shell_can_complete_commands(server: HomeostatServer, asked: dict[str, str]) -> None:
    assert "quarantine" in homeostat(server, **asked).stdout


def test_whoever_interrupts_an_order_to_many_hears_how_far_it_came(server: HomeostatServer) -> None:
    """Three agents are drained that have something in hand and nobody who would end it."""
    names = ["dan", "eve", "fay"]
    with SyncClient(server.url) as client:
        for name in names:
            client.register("echo", agent_id=name)
        for name in names[1:]:
            client.enqueue(name, 1)
    command = [sys.executable, "-m", "homeostat", "drain", *names, "--reason", "a release", "--yes", "--timeout", "90"]
    env = {**os.environ, "HOMEOSTAT_URL": server.url, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as draining:
        assert draining.stdout is not None
        assert draining.stdout.readline() == "[1/3] dan is cordoned and drained, 0 waiting\n"
        draining.send_signal(signal.SIGINT)
        _, said = draining.communicate(timeout=60)
    assert said == "1 done, 0 refused, 2 not answered\n"
    assert draining.returncode == 130


def test_a_watch_is_sifted_by_what_agents_cost(server: HomeostatServer) -> None:
    with SyncClient(server.url) as client:
        key = client.register("echo", agent_id="gus").api_key
        client.register("echo", agent_id="hal")
    asked = {"model": "gpt-4o", "messages": [{"role": "user", "content": "How are you? " * 40}]}
    said = {"authorization": f"Bearer {key}"}
    answered = httpx2.post(f"{server.url}/openai/v1/chat/completions", json=asked, headers=said, timeout=60)
    assert answered.status_code == 200, answered.text
    command = [sys.executable, "-m", "homeostat", "get", "agents", "-w", "-q", "cost>0", "-o", "name"]
    env = {**os.environ, "HOMEOSTAT_URL": server.url, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline() == "agent/gus\n"
        watching.terminate()


@pytest.mark.parametrize("asked", [("get", "agents", "-w"), ("get", "heads", "-w"), ("events", "-w")], ids="-".join)
def test_a_watch_whose_reader_has_left_ends_quietly(server: HomeostatServer, asked: tuple[str, ...]) -> None:
    """As with `| head`: the first line is one too many."""
    reading, writing = os.pipe()
    os.close(reading)
    env = {**os.environ, "HOMEOSTAT_URL": server.url}
    command = [sys.executable, "-m", "homeostat", *asked]
    try:
        done = subprocess.run(
            command, stdout=writing, stderr=subprocess.PIPE, text=True, env=env, timeout=60, check=False
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")
