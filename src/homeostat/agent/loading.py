"""Finding what an author wrote by its name on the command line: `package.module:Attribute`."""

import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from homeostat.core.errors import ProtocolViolation


class TargetInvalid(ProtocolViolation):
    """{target!r} cannot be used: {problem}."""

    code = "target_invalid"

    def __init__(self, *, target: str, problem: str, fix: str) -> None:
        super().__init__(target=target, problem=problem)
        self.fix = fix


def load(target: str) -> Any:
    """Import a module, from the current directory as well, and take one attribute of it."""
    module_name, separator, attribute = target.partition(":")
    if not separator or not module_name or not attribute:
        raise TargetInvalid(
            target=target, problem="it names no attribute", fix="Write it as module:Class or module:function."
        )
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    module = _import(target, module_name)
    found: Any = module
    for name in attribute.split("."):
        found = getattr(found, name, None)
        if found is None:
            public = ", ".join(_written_in(module)) or "nothing that could be one"
            raise TargetInvalid(
                target=target,
                problem=f"module {module_name!r} has no {name!r}",
                fix=f"It has: {public}.",
            )
    return found


def _written_in(module: ModuleType) -> list[str]:
    """The public names a module has of its own; what it imported is not what its author means."""
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not inspect.ismodule(value)
        and not ((inspect.isclass(value) or inspect.isroutine(value)) and value.__module__ != module.__name__)
    )


def _import(target: str, module_name: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as problem:
        missing = problem.name or module_name
        if module_name == missing or module_name.startswith(missing + "."):
            fix = f"Run the command where {missing.split('.')[0]}.py lies, or install the package that has it."
        else:
            fix = f"{module_name} imports {missing}, which is not installed here."
        raise TargetInvalid(target=target, problem=str(problem), fix=fix) from problem
    except Exception as problem:
        raise TargetInvalid(
            target=target,
            problem=f"importing {module_name} raised {type(problem).__name__}: {problem}",
            fix=f"See that `python -c 'import {module_name}'` works.",
        ) from problem
