"""The compliance kit finds what it should: correct agents keep every promise, a wrong one breaks exactly its own."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from homeostat.agent.managed import ManagedAgent
from homeostat.testing.compliance import CHECKS, Finding, verdicts


def _neighbour(name: str) -> ModuleType:
    """Tests are imported one by one, without packages around them."""
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


wrong_agents = _neighbour("wrong_agents")
NAMES = [getattr(check, "__name__", "") for check in CHECKS]


class Plain(ManagedAgent):
    """Nothing but what is inherited."""


class Blocking(ManagedAgent):
    def _do_startup(self, config: object) -> None: ...

    def _do_shutdown(self, timeout_seconds: float) -> None: ...

    def _do_process(self, request: object) -> object:
        return request


@pytest.mark.parametrize("kind", [Plain, Blocking])
async def test_a_managed_agent_keeps_every_promise(kind: type[ManagedAgent]) -> None:
    assert [verdict for verdict in await verdicts(kind) if verdict.finding is not Finding.KEPT] == []


async def test_an_agent_of_ones_own_keeps_every_promise_it_can_be_asked_for() -> None:
    found = {verdict.name: verdict for verdict in await verdicts(wrong_agents.Handmade)}
    assert {name for name, verdict in found.items() if verdict.finding is not Finding.KEPT} == {
        "memory_outlives_the_agent",
        "every_transition_is_told_with_its_trace",
    }
    assert Finding.BROKEN not in {verdict.finding for verdict in found.values()}


@pytest.mark.parametrize("name", NAMES)
async def test_a_wrong_agent_breaks_exactly_its_promise(name: str) -> None:
    broken = {
        verdict.name: verdict.words
        for verdict in await verdicts(wrong_agents.WRONG[name])
        if verdict.finding is Finding.BROKEN
    }
    assert set(broken) == {name}, broken


def test_every_check_has_its_wrong_agent() -> None:
    assert set(wrong_agents.WRONG) == set(NAMES)


# --- the pytest plugin -------------------------------------------------------------------------------------

MODULE = """
from homeostat import ManagedAgent

class Good(ManagedAgent):
    async def process(self, request):
        return request

class Bad(Good):
    async def startup(self, config=None):
        if self.get_state() != "initializing":
            await super().startup(config)
"""


def run_pytest(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (directory / "mine.py").write_text(MODULE)
    (directory / "test_other.py").write_text("def test_other():\n    pass\n")
    command = [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


def test_the_plugin_shows_each_promise_as_a_test(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, "--homeostat-agent", "mine:Good")
    assert result.returncode == 0, result.stdout
    assert f"{len(CHECKS)} passed" in result.stdout
    assert "test_other" not in result.stdout


def test_the_plugin_names_the_promise_that_was_broken(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, "--homeostat-agent", "mine:Bad")
    assert result.returncode == 1, result.stdout
    assert f"1 failed, {len(CHECKS) - 1} passed" in result.stdout
    assert "startup() returns when the agent is ready; 2 of 3 came back before" in result.stdout


def test_the_plugin_goes_along_with_other_tests(tmp_path: Path) -> None:
    result = run_pytest(tmp_path, "--homeostat-agent", "mine:Good", "test_other.py")
    assert f"{len(CHECKS) + 1} passed" in result.stdout, result.stdout


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("mine:Nobody", "module 'mine' has no 'Nobody'. It has: Bad, Good."),
        ("nowhere:Agent", "Run the command where nowhere.py lies"),
        ("mine", "Write it as module:Class"),
    ],
)
def test_the_plugin_says_what_it_could_not_load(tmp_path: Path, target: str, words: str) -> None:
    result = run_pytest(tmp_path, "--homeostat-agent", target)
    assert result.returncode == 4, result.stdout
    assert words in result.stderr
