"""Other gateways beside ours, where `make peers` has installed them: LiteLLM's proxy and Portkey's gateway."""

import http.client
import json
import os
import shutil
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from benchmarks._http_load import post
from homeostat.testing.servers import free_port

PEERS = Path(__file__).parents[1] / ".peers"
PATIENCE_SECONDS = 300


@dataclass(frozen=True)
class Peer:
    """A gateway that runs, and what it has to be asked."""

    title: str
    port: int
    request: bytes
    process: psutil.Process


@contextmanager
def standing_still(peer: psutil.Process | None) -> Generator[None, None, None]:
    """Keep a peer from its core for as long as we are on it.

    LiteLLM goes on working on requests that it has answered; it does so when it is its turn again, at its own cost.
    """
    processes = [] if peer is None else [peer, *peer.children(recursive=True)]
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            process.resume()


@contextmanager
def litellm(folder: Path, model: int, body: bytes) -> Generator[Peer | None, None, None]:
    """LiteLLM's proxy with one worker, as its documentation starts it."""
    program = PEERS / "litellm" / "bin" / "litellm"
    if not program.exists():
        print("  LiteLLM is not installed (make peers): its share of these figures is left out")
        yield None
        return
    name = json.loads(body)["model"]
    route = {"model": f"openai/{name}", "api_base": f"http://127.0.0.1:{model}/v1", "api_key": "sk-x"}
    config = folder / "litellm.json"
    config.write_text(json.dumps({"model_list": [{"model_name": name, "litellm_params": route}]}))
    port = free_port()
    command = [str(program), "--config", str(config), "--port", str(port), "--host", "127.0.0.1", "--num_workers", "1"]
    quiet = {
        "LITELLM_LOG": "ERROR",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_TELEMETRY": "False",
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",  # it listens on loopback, for a minute
    }
    with _running(command, folder / "litellm.log", quiet) as process:
        yield _ready(Peer("litellm", port, post("/v1/chat/completions", body, key="sk-x"), process))


@contextmanager
def portkey(folder: Path, model: int, body: bytes) -> Generator[Peer | None, None, None]:
    """Portkey's gateway, told by headers where the model is."""
    script = PEERS / "portkey" / "node_modules" / "@portkey-ai" / "gateway" / "build" / "start-server.js"
    node = shutil.which("node")
    if node is None or not script.exists():
        print("  Portkey's gateway is not installed (make peers): its share of these figures is left out")
        yield None
        return
    port = free_port()
    command = [node, str(script), f"--port={port}", "--headless"]
    lines = {"x-portkey-provider": "openai", "x-portkey-custom-host": f"http://127.0.0.1:{model}/v1"}
    request = post("/v1/chat/completions", body, key="sk-x")
    head, _, rest = request.partition(b"\r\n")
    named = b"".join(f"{name}: {value}\r\n".encode() for name, value in lines.items())
    with _running(command, folder / "portkey.log", {"NODE_ENV": "production"}) as process:
        yield _ready(Peer("portkey", port, head + b"\r\n" + named + rest, process))


@contextmanager
def _running(command: list[str], log: Path, environment: Mapping[str, str]) -> Generator[psutil.Process, None, None]:
    output: IO[bytes]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **environment})
        whole = psutil.Process(process.pid)
        try:
            yield whole
        finally:
            for one in (*whole.children(recursive=True), whole):
                one.kill()
            process.wait()


def _ready(peer: Peer) -> Peer | None:
    """Wait until it answers as it should; one that does not is left out, and said so."""
    head, _, body = peer.request.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    until = time.monotonic() + PATIENCE_SECONDS
    said = "nothing"
    while time.monotonic() < until and peer.process.is_running():
        try:
            connection = http.client.HTTPConnection("127.0.0.1", peer.port, timeout=10)
            connection.request("POST", first.split(" ")[1], body, headers)
            answer = connection.getresponse()
            said = f"{answer.status} {answer.read()[:200]!r}"
            connection.close()
            if answer.status == 200:
                return peer
        except OSError as problem:
            said = str(problem)
        time.sleep(0.5)
    print(f"  {peer.title} does not answer as it should and is left out: {said}")
    return None
