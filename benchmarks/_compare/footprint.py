"""What each costs before it does anything: packages, size, the time to its first answer, and memory at rest."""

import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks._compare.kept import Figures
from benchmarks._compare.peers_at import PEERS_AT, Peer, install, install_portkey, python_of, weigh
from homeostat.testing.servers import free_port

STARTS = 2
REST_SECONDS = 5.0
PATIENCE_SECONDS = 300.0

Command = Callable[[Path, Path, int], list[str]]


@dataclass(frozen=True, slots=True)
class Installed:
    """Something with a server: how it is started, where it answers, and whether people can look at it."""

    peer: Peer
    command: Command
    ready: str
    dashboard: bool
    package: str = ""
    environment: Callable[[Path, int], dict[str, str]] = field(default=lambda _folder, _port: {})


def _homeostat(programs: Path, folder: Path, port: int) -> list[str]:
    return [str(programs / "homeostat"), "up", "--port", str(port), "--data-dir", str(folder)]


def _litellm(programs: Path, folder: Path, port: int) -> list[str]:
    config = folder / "config.yaml"
    config.write_text("model_list: []\n")
    return [str(programs / "litellm"), "--config", str(config), "--port", str(port), "--host", "127.0.0.1"]


def _prefect(programs: Path, folder: Path, port: int) -> list[str]:
    del folder
    return [str(programs / "prefect"), "server", "start", "--host", "127.0.0.1", "--port", str(port)]


def _phoenix(programs: Path, folder: Path, port: int) -> list[str]:
    del folder, port
    return [str(programs / "phoenix"), "serve"]


LITELLM = Peer("litellm", ("litellm[proxy]",))
SERVERS = (
    Installed(Peer("homeostat", (".",)), _homeostat, "/livez", dashboard=True),
    Installed(
        LITELLM,
        _litellm,
        "/health/liveliness",
        dashboard=True,
        environment=lambda _folder, _port: {
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "LITELLM_TELEMETRY": "False",
            "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
        },
    ),
    Installed(
        # Later releases of FastAPI know no `min_items`, by which its server's routes are described.
        Peer("prefect", ("prefect", "fastapi>=0.140,<0.151")),
        _prefect,
        "/api/health",
        dashboard=True,
        environment=lambda folder, _port: {
            "PREFECT_HOME": str(folder),
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "DO_NOT_TRACK": "1",
        },
    ),
    Installed(
        Peer("phoenix", ("arize-phoenix",)),
        _phoenix,
        "/healthz",
        dashboard=True,
        package="arize-phoenix",
        environment=lambda folder, port: {
            "PHOENIX_WORKING_DIR": str(folder),
            "PHOENIX_PORT": str(port),
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_GRPC_PORT": str(free_port()),
            "PHOENIX_TELEMETRY_ENABLED": "false",
        },
    ),
)


def measure(one: Installed) -> Figures:
    """Weigh, then start a few times: the first start writes its byte code, and does not count."""
    install(PEERS_AT, one.peer)
    interpreter = python_of(PEERS_AT, one.peer)
    weight = weigh(interpreter, one.package or one.peer.name, imported=one.peer.name)
    starts = [_started(one, interpreter.parent) for _ in range(STARTS + 1)][1:]
    return {
        "version": weight.version,
        "packages": weight.packages,
        "megabytes": weight.megabytes,
        "dashboard": one.dashboard,
        **_times(starts),
    }


def _times(starts: list[tuple[float, float, float]]) -> Figures:
    return {
        "start_seconds": statistics.median(start for start, _, _ in starts),
        "start_cpu_seconds": statistics.median(cpu for _, cpu, _ in starts),
        "idle_megabytes": statistics.median(resident for _, _, resident in starts),
    }


def _started(one: Installed, programs: Path) -> tuple[float, float, float]:
    """Seconds to the first answer, processor time until then, and megabytes resident a while later."""
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        environment = {**os.environ, **one.environment(folder, port)}
        began = time.perf_counter()
        with (folder / "log").open("wb") as log:
            command = one.command(programs.absolute(), folder, port)
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=folder)
        try:
            while not _answers(f"http://127.0.0.1:{port}{one.ready}"):
                waited = time.perf_counter() - began
                if process.poll() is not None or waited > PATIENCE_SECONDS:
                    raise RuntimeError(f"{one.peer.name} does not start: {(folder / 'log').read_text()[-800:]}")
                time.sleep(0.02)
            took = time.perf_counter() - began
            whole = psutil.Process(process.pid)
            cpu = sum(sum(each.cpu_times()[:2]) for each in (whole, *whole.children(recursive=True)))
            time.sleep(REST_SECONDS)
            resident = sum(each.memory_info().rss for each in (whole, *whole.children(recursive=True)))
            return took, cpu, resident / 1e6
        finally:
            with suppress(psutil.NoSuchProcess):
                for each in psutil.Process(process.pid).children(recursive=True):
                    each.kill()
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:  # noqa: S310 - it is ours
            return answer.status == 200
    except OSError:
        return False


def portkey() -> Figures:
    """Portkey's gateway comes from npm: its packages are those of its tree."""
    install_portkey(PEERS_AT)
    root = PEERS_AT / "portkey" / "node_modules"
    node = shutil.which("node")
    script = root / "@portkey-ai" / "gateway" / "build" / "start-server.js"
    if node is None or not script.exists():
        return {"missing": "npm or the package is not there"}
    size = sum(path.stat().st_size for path in root.rglob("*") if path.is_file() and not path.is_symlink())

    def command(programs: Path, folder: Path, port: int) -> list[str]:
        del programs, folder
        return [node, str(script.absolute()), f"--port={port}", "--headless"]

    starts = [_started(Installed(Peer("portkey", ()), command, "/", dashboard=False), root) for _ in range(STARTS + 1)]
    version = json.loads((script.parents[1] / "package.json").read_text())["version"]
    packages = len(list(root.glob("[!.@]*"))) + len(list(root.glob("@*/*")))
    return {"version": version, "packages": packages, "megabytes": size / 1e6, "dashboard": False, **_times(starts[1:])}
