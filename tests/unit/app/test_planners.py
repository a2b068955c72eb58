"""Planning functions are found by name, may await or not, and are told apart from what is none."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from homeostat.app import planners
from homeostat.app.planners import load_planners, read_planners
from homeostat.app.settings import read_settings
from homeostat.core.errors import MalformedPayload, SettingInvalid
from homeostat.core.records.run import RunConfig
from homeostat.core.run_errors import PlanInvalid

PLANS = """
import threading

NUMBER = 3

def plain(run):
    return [{"name": run.goal, "agent": "ann"}]

async def awaiting(run):
    return {"tasks": plain(run)}

class Halves:
    async def __call__(self, run):
        return plain(run)

halves = Halves()

gate = threading.Event()

def waits(run):
    gate.wait(30)
    return plain(run)

def nonsense(run):
    return [{"name": run.goal}]

def unsayable(run):
    return object()
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"plans_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(PLANS)
    monkeypatch.syspath_prepend(tmp_path)
    return name


@pytest.mark.parametrize("name", ["plain", "awaiting", "halves"])
async def test_a_function_plans_whether_it_awaits_or_not(module: str, name: str) -> None:
    settings = read_settings({"HOMEOSTAT_PLANNERS": f"it={module}:{name}"})
    ((called, function),) = load_planners(settings.planners)
    assert called == "it"
    (spec,) = await function(RunConfig(goal="north", seed=1))
    assert (spec.name, spec.target.name) == ("north", "ann")


@pytest.mark.parametrize(("name", "error"), [("nonsense", PlanInvalid), ("unsayable", MalformedPayload)])
async def test_what_is_no_plan_is_told(module: str, name: str, error: type[Exception]) -> None:
    ((_, function),) = load_planners([("it", f"{module}:{name}")])
    with pytest.raises(error):
        await function(RunConfig(goal="north", seed=1))


@pytest.mark.parametrize("target", ["{}:absent", "{}:NUMBER", "no_such_module:plan"])
def test_what_cannot_be_called_keeps_a_server_from_starting(module: str, target: str) -> None:
    with pytest.raises(SettingInvalid, match="planners"):
        list(load_planners([("it", target.format(module))]))


@pytest.mark.parametrize("text", ["plans:weekly", "it=", "it=plans", "it=:f", "=plans:f", "a=m:f,a=m:g"])
def test_a_setting_that_names_no_function_is_refused(text: str) -> None:
    with pytest.raises(SettingInvalid, match="--planners"):
        read_settings({}, {"planners": text})


@pytest.mark.parametrize("text", ["a=m:f,b=m:g", "a=m:f b=m:g", " a=m:f, b=m:g "])
def test_several_are_read(text: str) -> None:
    found: Any = read_planners(text)
    assert found == (("a", "m:f"), ("b", "m:g"))


async def test_one_that_was_given_up_takes_its_room_until_it_ends(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planners, "PLANNER_THREADS_MAX", 1)
    (_, hangs), (_, plain) = load_planners([("hangs", f"{module}:waits"), ("plain", f"{module}:plain")])
    config = RunConfig(goal="north", seed=1)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(hangs(config), 0.05)
    second = asyncio.ensure_future(plain(config))
    assert not (await asyncio.wait({second}, timeout=0.05))[0]
    __import__(module).gate.set()
    (spec,) = await asyncio.wait_for(second, 10)
    assert spec.name == "north"
