"""Finds the code of recorded agents: what somebody names for them, or what the recording names, if that is allowed."""

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path

from homeostat.agent.hosting import factory_of
from homeostat.agent.loading import load
from homeostat.agent.orchestrator import Factory
from homeostat.core.errors import InvalidRequest
from homeostat.runs.replaying.replay import FindFactory
from homeostat.runs.replaying.tape import TurnEnded

EVERYBODY = "*"
"""Stands for every agent that is not named itself."""


class CodeUnknown(InvalidRequest):
    """The code of agent {agent_id!r} is not at hand: {problem}."""

    code = "code_unknown"
    hint = "Name it: homeostat replay … --agent {id}=module:Class, where the module can be imported."


def cast_from(named: Mapping[str, str], allowed: Callable[[str], bool], *, setting: str | None = None) -> FindFactory:
    """Take the code that is named for an agent, else what the recording names. Who wrote a recording names what is
    imported here, so only modules that are allowed are taken from it. Where a setting says which are, it holds for what
    is named as well.
    """

    def check(agent_id: str, target: str, problem: str) -> None:
        if not allowed(target.partition(":")[0]):
            fix = "" if setting is None else f": the setting {setting} does not name its module"
            raise CodeUnknown(agent_id=agent_id, problem=problem + fix)

    def find(end: TurnEnded) -> Factory:
        agent_id = end.agent_id
        target = named.get(agent_id) or named.get(EVERYBODY)
        if target is None:
            if end.code is None:
                fix = f"name it with --agent {agent_id}=MODULE:NAME"
                raise CodeUnknown(agent_id=agent_id, problem=f"the recording does not name it; {fix}")
            target = end.code.target
            if "<" in target:
                raise CodeUnknown(agent_id=agent_id, problem=f"{target} cannot be imported")
            check(agent_id, target, f"the recording names {target}, which is not taken")
        elif setting is not None:
            check(agent_id, target, f"{target}, which is named for it, is not allowed")
        return factory_of(target, load(target))

    return find


def lies_below(folder: Path) -> Callable[[str], bool]:
    """Allow modules whose files lie below a folder, and those of Homeostat itself."""
    root = folder.resolve()

    def allowed(module: str) -> bool:
        if module.partition(".")[0] == "homeostat":
            return True
        top = root / module.partition(".")[0]
        if not (top.is_dir() or top.with_suffix(".py").is_file()):
            return False
        try:
            spec = importlib.util.find_spec(module)
        except (ImportError, ValueError):
            return True  # it is looked for again where its name is known, and the answer is better there
        return spec is None or spec.origin is None or Path(spec.origin).resolve().is_relative_to(root)

    return allowed
