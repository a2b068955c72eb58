"""Who takes part when gateways are measured: an upstream, nginx, and ours in both forms in which it is run.

The subject has a core to itself, and the other core holds everybody else: the clients, the upstream and, where the
gateway is a process of its own, its store, its bus and the server beside it.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import psutil

from benchmarks._http_load import post
from homeostat.testing.children import child
from homeostat.testing.homeostat import HomeostatServer
from homeostat.testing.servers import NatsServer, PostgresServer, free_port

CHAT: Final[dict[str, Any]] = {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "hello " * 40}]}
PATH: Final = "/openai/v1/chat/completions"
BODY: Final = json.dumps(CHAT, separators=(",", ":")).encode()


@dataclass(frozen=True)
class Place:
    """Something that answers, and the process whose CPU counts."""

    title: str
    port: int
    path: str
    process: psutil.Process | None


@dataclass(frozen=True)
class Ours:
    """A gateway of ours with an agent under a budget, a token cap and a rate limit; orders are given at `url`."""

    title: str
    url: str
    port: int
    process: psutil.Process
    key: str

    @property
    def place(self) -> Place:
        return Place(self.title, self.port, PATH, self.process)

    @property
    def request(self) -> bytes:
        return post(PATH, BODY, key=self.key)


@contextmanager
def alone(model: int) -> Generator[Ours, None, None]:
    """`homeostat gateway`: ledger, policies and call log in PostgreSQL, vitals by NATS to a server that watches."""
    with tempfile.TemporaryDirectory() as folder, PostgresServer() as store, NatsServer() as bus:
        for one in (store, bus):
            pin(one.pid, 0)  # and whatever it starts from here on
        options = ("--store-url", store.url, "--bus-url", bus.url, "--upstreams", f"openai=http://127.0.0.1:{model}")
        with HomeostatServer(*options, command="server", data_dir=Path(folder) / "server") as server:
            pin(server.pid, 0)
            with HomeostatServer(*options, command="gateway", data_dir=Path(folder) / "gateway") as gateway:
                pin(gateway.pid, 1)
                yield _ours("gateway", server.url, gateway)


@contextmanager
def all_in_one(model: int) -> Generator[Ours, None, None]:
    """`homeostat up`: the same, with the immune system, the kernel, the pages and SQLite in one process."""
    with tempfile.TemporaryDirectory() as folder:
        options = ("--upstreams", f"openai=http://127.0.0.1:{model}")
        with HomeostatServer(*options, command="up", data_dir=Path(folder) / "data") as server:
            pin(server.pid, 1)
            yield _ours("all in one", server.url, server)


FORMS: Final[tuple[Callable[[int], AbstractContextManager[Ours]], ...]] = (alone, all_in_one)


def _ours(title: str, url: str, gateway: HomeostatServer) -> Ours:
    spare(url)
    key = register(url, "ann")
    put(url, "/v1/budgets/agent/ann", {"tokens": 1 << 50, "usd": 1e6})
    put(url, "/v1/policies/cap", {"action": "token_cap", "max_tokens": 4_000})
    put(url, "/v1/policies/rate", {"action": "rate_limit", "requests_per_minute": 1 << 40})
    return Ours(title, url, int(gateway.url.rsplit(":", 1)[1]), psutil.Process(gateway.pid), key)


@contextmanager
def fast_model() -> Generator[int, None, None]:
    port = free_port()
    with child([sys.executable, "-m", "benchmarks._models", str(port)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        pin(process.pid, 0)
        yield port


@contextmanager
def nginx(folder: Path, model: int) -> Generator[int | None, None, None]:
    """One nginx worker with a pool of connections, where nginx is installed."""
    program = shutil.which("nginx")
    if program is None:
        print("  nginx is not installed: its share of these figures is left out")
        yield None
        return
    port = free_port()
    config = folder / "nginx.conf"
    config.write_text(
        f"worker_processes 1; daemon off; pid {folder}/nginx.pid; error_log stderr crit;\n"
        "events { worker_connections 1024; }\n"
        f"http {{ access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;\n"
        f"  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;\n"
        f"  upstream model {{ server 127.0.0.1:{model}; keepalive 128; }}\n"
        f"  server {{ listen 127.0.0.1:{port}; keepalive_requests 10000000; location / {{ proxy_pass http://model;\n"
        '    proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; } } }\n'
    )
    with child([program, "-p", str(folder), "-c", str(config)], stderr=subprocess.DEVNULL) as process:
        time.sleep(0.5)
        for one in (psutil.Process(process.pid), *psutil.Process(process.pid).children()):
            pin(one.pid, 1)
        yield port


def pin(pid: int, core: int) -> None:
    """The subject has a core to itself, as far as there are two."""
    if (os.cpu_count() or 1) > 1:
        for one in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
            for thread in Path(f"/proc/{one.pid}/task").iterdir():
                os.sched_setaffinity(int(thread.name), {core})


def cpu_seconds(process: psutil.Process | None) -> float:
    if process is None:
        return 0.0
    family = [process, *process.children(recursive=True)]
    return sum(times.user + times.system for times in (one.cpu_times() for one in family))


# --- orders ----------------------------------------------------------------------------------------------------


def spare(url: str) -> None:
    """Load like this looks ill. With one agent isolated the immune system may not isolate a second of so few."""
    register(url, "decoy")
    _send(url, "POST", "/v1/agents/decoy/quarantine", {"reason": "so that nobody else is"})


def register(url: str, agent_id: str) -> str:
    return _send(url, "POST", "/v1/agents/register", {"agent_type": "bench", "agent_id": agent_id})["api_key"]


def put(url: str, path: str, body: dict[str, Any]) -> None:
    _send(url, "PUT", path, body)


def get(url: str, path: str) -> dict[str, Any]:
    return _send(url, "GET", path, None)


def _send(url: str, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"content-type": "application/json"}, method=method)  # noqa: S310
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        return cast("dict[str, Any]", json.load(answer))
