"""How light it is: packages, megabytes, and seconds of CPU until it answers. Time that others take does not count."""

import re
import resource
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import httpx2
import psutil
import pytest

from homeostat.testing.homeostat import HomeostatServer

ROOT = Path(__file__).parents[2]
PACKAGES_MAX = 45
MEGABYTES_MAX = 150
HELP_SECONDS_MAX = 0.3
ANSWER_SECONDS_MAX = 3.0
HEAVY = ("asyncpg", "fastapi", "nats", "numpy", "redis", "sqlite3", "starlette", "uvicorn")
OURS = ("homeostat.server", "homeostat.app", "homeostat.adapters", "homeostat.kernel", "homeostat.immune")
CLIENT_COMMANDS = (
    ("get", "agents"),
    ("get", "approvals"),
    ("describe", "turn", "turn_0"),
    ("why", "agent", "ann"),
    ("cordon", "ann", "--reason", "x"),
    ("quarantine", "ann", "--reason", "x"),
    ("release", "ann"),
    ("approve", "x"),
    ("logs", "ann"),
    ("key", "list"),
    ("ui", "--print"),
    ("enqueue", "ann", "1"),
)


def locked() -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements" / "runtime.lock").read_text(), re.MULTILINE))


def size_of(path: Path) -> int:
    return path.stat().st_size if path.is_file() and path.suffix != ".pyc" else 0


def test_few_packages_are_installed() -> None:
    assert len(locked()) <= PACKAGES_MAX


def test_few_megabytes_are_installed() -> None:
    """What wheels unpack to; the bytecode that Python makes of it is a cache."""
    size = sum(map(size_of, (ROOT / "src").rglob("*")))
    for name in locked():
        try:
            files = distribution(name).files or []
        except PackageNotFoundError:
            continue  # for another platform
        size += sum(size_of(Path(str(one.locate()))) for one in files)
    assert size / 1e6 <= MEGABYTES_MAX, f"{size / 1e6:.0f} MB"


def test_help_is_quick() -> None:
    taken: list[float] = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "homeostat", "--help"], capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(taken) <= HELP_SECONDS_MAX, f"{taken} seconds of CPU"


def test_the_first_answer_comes_soon() -> None:
    with HomeostatServer("--ephemeral", command="up") as server:
        assert httpx2.get(f"{server.url}/livez", trust_env=False).status_code == 200
        spent = psutil.Process(server.pid).cpu_times()
        assert spent.user + spent.system <= ANSWER_SECONDS_MAX, f"{spent.user + spent.system:.1f} seconds of CPU"


@pytest.mark.parametrize("command", CLIENT_COMMANDS, ids=" ".join)
def test_client_commands_import_no_server_code(command: tuple[str, ...]) -> None:
    asked = [sys.executable, "-X", "importtime", "-m", "homeostat", *command, "--url", "http://127.0.0.1:9"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert told.returncode == 1, "nobody listens there"
    imported = {line.rsplit("|", 1)[-1].strip() for line in told.stderr.splitlines() if line.startswith("import time:")}
    assert "typer" in imported
    assert not [name for name in imported if name in HEAVY or name.startswith(OURS)]
