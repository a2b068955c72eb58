"""Every example runs, and every agent class among them keeps the lifecycle contract."""

import importlib
import inspect
import pkgutil
import sys
from pathlib import Path
from typing import Any

import pytest

from homeostat import ManagedAgent, ReActAgent
from homeostat.core.codec import from_json
from homeostat.testing.compliance import Finding, verdicts
from homeostat.testing.workbench import Workbench

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))
NAMES = sorted(module.name for module in pkgutil.iter_modules([str(ROOT / "examples")]) if not module.ispkg)
MODULES = {name: importlib.import_module(f"examples.{name}") for name in NAMES}
CLASSES = [
    found
    for module in MODULES.values()
    for _, found in inspect.getmembers(module, inspect.isclass)
    if issubclass(found, ManagedAgent) and found.__module__ == module.__name__
]


@pytest.mark.parametrize("kind", [ManagedAgent, ReActAgent, *CLASSES])
async def test_an_agent_class_keeps_the_contract(kind: Any) -> None:
    assert [verdict for verdict in await verdicts(kind) if verdict.finding is not Finding.KEPT] == []


def test_every_example_is_run_below() -> None:
    source = Path(__file__).read_text()
    assert [name for name in NAMES if f'MODULES["{name}"]' not in source] == []


@pytest.fixture
async def bench() -> Any:
    async with Workbench() as bench:
        yield bench


async def test_hello(bench: Workbench) -> None:
    async with bench.working(hello=MODULES["hello"].hello):
        assert await bench.ask("hello", {"name": "Ada"}) == {"greeting": "Hello, Ada!"}
        assert await bench.ask("hello", "Bob") == {"greeting": "Hello, Bob!"}
        assert await bench.ask("hello") == {"greeting": "Hello, whoever you are!"}


async def test_notebook(bench: Workbench) -> None:
    notebook = MODULES["notebook"].Notebook
    async with bench.working(notebook=notebook):
        assert await bench.ask("notebook", {"note": "milk"}) == {"kept": 1}
    async with bench.working(notebook=notebook):
        assert await bench.ask("notebook", {"read": True}) == {"notes": ["milk"]}
        assert (await bench.fails("notebook", "?"))["code"] == "recoverable_error"


async def test_order(bench: Workbench) -> None:
    module = MODULES["order"]
    async with bench.working(order=module.order, courier=module.courier), bench.serving(MODULES["payments"].charge):
        turn_id = await bench.send("order", {"item": "lamp", "price": 3})
        ended = await bench.end(turn_id)
        assert from_json(ended.result) == {"ordered": True, "delivery": "tomorrow, with the lamp"}
        refused = await bench.ask("order", {"item": "lamp", "price": 0})
        assert refused["ordered"] is False


async def test_researcher(bench: Workbench) -> None:
    async with bench.working(researcher=MODULES["researcher"].Researcher):
        result = await bench.ask("researcher", "What raises tides?", result_fields=[{"name": "answer"}])
        assert set(result) == {"answer"}


async def test_blocking(bench: Workbench) -> None:
    async with bench.working(thumbnailer=MODULES["blocking"].Thumbnailer):
        assert len((await bench.ask("thumbnailer", "picture"))["thumbnail"]) == 16
