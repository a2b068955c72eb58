"""The command starts a server that says where it is, keeps what it was given, and stops without dropping anything."""

import asyncio
import fcntl
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from homeostat import Client, SyncClient
from homeostat.core.errors import ServerUnreachable, Unavailable
from homeostat.testing.crews import eventually
from homeostat.testing.homeostat import HomeostatServer
from homeostat.testing.servers import free_port


@pytest.fixture
def server() -> Iterator[HomeostatServer]:
    with HomeostatServer() as server:
        yield server


def homeostat(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "homeostat", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, **environment},
    )


def metrics(server: HomeostatServer) -> str:
    return httpx2.get(f"{server.url}/metrics").text


def test_the_banner_names_the_url_the_docs_and_the_data(server: HomeostatServer) -> None:
    assert re.search(r"^Homeostat \S+ is up at http://127\.0\.0\.1:\d+$", server.log, re.MULTILINE)
    assert f"{server.url}/docs" in server.log
    assert str(server.data_dir / "homeostat.db") in server.log
    assert httpx2.get(f"{server.url}/livez").text == "ok\n"
    assert httpx2.get(f"{server.url}/readyz").text == "ok\n"


def test_a_restart_keeps_everything(server: HomeostatServer) -> None:
    with SyncClient(server.url) as client:
        client.register("echo", agent_id="echo-1")
        box_id = client.create_box([("note", {"n": 1})])
        accepted = client.enqueue("echo-1", {"text": "hello"}, context_box_id=box_id, idempotency_key="once")
        before = client.turn(accepted.turn_id)
        server.restart()
        assert client.turn(accepted.turn_id) == before
        assert client.enqueue("echo-1", {"text": "hello"}, context_box_id=box_id, idempotency_key="once") == accepted
        assert [card.value for card in client.box(box_id)] == [{"n": 1}]
        assert client.head("echo-1").head.turn_id == accepted.turn_id


def test_a_kill_loses_nothing_that_was_acknowledged(server: HomeostatServer) -> None:
    with SyncClient(server.url) as client:
        client.register("echo", agent_id="echo-1")
        sent = [client.enqueue("echo-1", number).turn_id for number in range(20)]
        server.kill()
        server.start()
        inbox = client.inbox("echo-1")
        assert inbox.active is not None
        assert [inbox.active.turn_id, *(item.turn_id for item in inbox.items)] == sent


def test_an_ephemeral_server_leaves_nothing_behind() -> None:
    with HomeostatServer("--ephemeral") as server, SyncClient(server.url) as client:
        client.register("echo", agent_id="echo-1")
        assert "memory" in server.log
        server.restart()
        assert httpx2.get(f"{server.url}/v1/agents/echo-1/head").json()["code"] == "agent_unknown"
        assert not server.data_dir.exists()


async def test_a_stop_answers_requests_that_are_held_open(server: HomeostatServer) -> None:
    async with Client(server.url, retry_seconds=0) as client:
        await client.register("echo", agent_id="echo-1")
        accepted = await client.enqueue("echo-1", "never answered")
        waiting = asyncio.create_task(client.deliverable(accepted.turn_id, wait=30))
        while "homeostat_http_requests_held 1.0" not in (await asyncio.to_thread(metrics, server)):
            assert not waiting.done()
        await asyncio.to_thread(server.stop)
        with pytest.raises(Unavailable):
            await waiting


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_success(server: HomeostatServer, number: signal.Signals) -> None:
    process = server._process
    assert process is not None
    process.send_signal(number)
    assert process.wait(20) == 0
    assert "Stopping" in server.log


@pytest.mark.parametrize("function", ["plain", "blocks"])
def test_a_planning_function_that_hangs_keeps_no_process(tmp_path: Path, function: str) -> None:
    hangs = "import time, pathlib\n\ndef plain(run):\n    pathlib.Path('begun').touch()\n    time.sleep(600)\n"
    (tmp_path / "plans.py").write_text(f"{hangs}\nasync def blocks(run):\n    plain(run)\n")
    port = free_port()
    command = [sys.executable, "-m", "homeostat", "server", "--ephemeral", "--port", str(port)]
    with subprocess.Popen([*command, "--planners", f"it=plans:{function}"], cwd=tmp_path, stdout=subprocess.PIPE) as up:
        assert up.stdout is not None
        url = up.stdout.readline().split()[-1].decode()
        run = httpx2.post(f"{url}/v1/runs", json={"goal": "x", "planner": {"function": "it"}})
        assert run.status_code == 201, run.text
        while not (tmp_path / "begun").exists():
            assert up.poll() is None
        assert httpx2.get(f"{url}/v1/runs/{run.json()['run_id']}").json()["status"] == "planning"
        up.send_signal(signal.SIGTERM)
        try:
            assert up.wait(20) == 0
        finally:
            up.kill()


def test_a_second_ctrl_c_leaves_at_once() -> None:
    with HomeostatServer() as server:
        process = server._process
        assert process is not None
        with socket.create_connection(("127.0.0.1", int(server.url.rsplit(":", 1)[1]))) as connection:
            # A request whose body never comes keeps an orderly stop waiting.
            connection.sendall(b"POST /v1/boxes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
            httpx2.get(f"{server.url}/livez")
            process.send_signal(signal.SIGINT)
            while "Stopping" not in server.log:
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            assert process.wait(5) == 130


async def test_a_server_whose_words_nobody_reads_goes_on_serving(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    command = [sys.executable, "-m", "homeostat", "server", "--data-dir", str(tmp_path), "--port", str(free_port())]
    process = subprocess.Popen(command, stdout=writing, stderr=writing)  # noqa: ASYNC220
    with process, os.fdopen(reading) as words:
        os.close(writing)
        url = words.readline().split()[-1]
        asked = [{"name": f"task-{number:03}-{'x' * 40}", "agent": "a", "approval": True} for number in range(20)]
        async with Client(url) as client:
            await client.register("echo", agent_id="a")
            for _ in range(3):  # sixty questions of two hundred letters each
                run = await client.runs.create("to be asked", tasks=asked)

                async def held(run_id: str = run.run_id) -> bool:
                    return (await client.runs.get(run_id)).tasks.get("held") == len(asked)

                await eventually(held)
            assert (await client.read_json("/v1/runs"))["runs"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        assert "waits for your word" in words.read()


def test_a_taken_port_moves_to_the_next_one_and_says_so() -> None:
    port = free_port()
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", port))
        squatter.listen()
        with HomeostatServer("--port", str(port)) as server:
            assert f"Port {port} is taken" in server.log
            assert server.url != f"http://127.0.0.1:{port}"
            assert httpx2.get(f"{server.url}/livez").status_code == 200


def test_a_second_server_on_the_same_data_is_told_where_the_first_one_is(server: HomeostatServer) -> None:
    refused = homeostat("up", "--data-dir", str(server.data_dir), "--port", str(free_port()))
    assert refused.returncode == 2
    assert server.url in refused.stderr
    assert str(server.pid) in refused.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.org"])  # noqa: S104 — it is refused
def test_only_loopback_is_listened_on(host: str, tmp_path: Path) -> None:
    refused = homeostat("up", "--host", host, "--data-dir", str(tmp_path))
    assert refused.returncode == 2
    assert host in refused.stderr
    assert "127.0.0.1" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "environment", "word"),
    [
        (["--port", "70000"], {}, "--port"),
        ([], {"HOMEOSTAT_PORT": "many"}, "HOMEOSTAT_PORT"),
        ([], {"HOMEOSTAT_LEASE_SECONDS": "nan"}, "HOMEOSTAT_LEASE_SECONDS"),
        ([], {"HOMEOSTAT_STORE_URL": "mysql://x"}, "HOMEOSTAT_STORE_URL"),
        (["--log-level", "loud"], {}, "--log-level"),
    ],
)
def test_a_wrong_setting_is_named(arguments: list[str], environment: dict[str, str], word: str, tmp_path: Path) -> None:
    refused = homeostat("up", "--data-dir", str(tmp_path), *arguments, **environment)
    assert refused.returncode == 2
    assert word in refused.stderr
    assert "Traceback" not in refused.stderr


def test_an_unwritable_data_directory_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    refused = homeostat("up", "--data-dir", str(blocked / "below"))
    assert refused.returncode == 2
    assert str(blocked) in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_message_goes_in_and_its_turn_comes_out_on_the_command_line(server: HomeostatServer) -> None:
    with SyncClient(server.url) as client:
        client.register("echo", agent_id="echo-1")
    sent = homeostat("enqueue", "echo-1", '{"text": "hello"}', "-o", "json", HOMEOSTAT_URL=server.url)
    assert sent.returncode == 0, sent.stderr
    turn_id = re.search(r'"turn_id": "(turn_[0-9a-f]{24})"', sent.stdout)
    assert turn_id is not None
    shown = homeostat("turn", turn_id[1], "-o", "json", "--url", server.url)
    assert (shown.returncode, '"status": "dispatched"' in shown.stdout) == (0, True), shown.stderr
    assert "dispatched" in homeostat("turn", turn_id[1], "--url", server.url).stdout
    unknown = homeostat("turn", "turn_" + "0" * 24, "--url", server.url)
    assert (unknown.returncode, "There is no turn" in unknown.stderr) == (1, True)
    late = homeostat("enqueue", "echo-1", '"x"', "--wait", "--timeout", "0.2", "--url", server.url)
    assert (late.returncode, "no deliverable yet" in late.stderr) == (1, True)
    bad = homeostat("enqueue", "echo-1", "{not json", "--url", server.url)
    assert (bad.returncode, "not JSON" in bad.stderr) == (2, True)


def test_a_server_that_is_not_there_is_named() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    refused = homeostat("turn", "turn_" + "0" * 24, "--url", url)
    assert refused.returncode == 1
    assert url in refused.stderr
    assert "homeostat up" in refused.stderr
    with SyncClient(url, retry_seconds=0.2) as client, pytest.raises(ServerUnreachable):
        client.head("ann")
