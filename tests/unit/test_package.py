"""Importing the package is quick, honest about its names, and loads no server."""

import ast
import subprocess
import sys
from pathlib import Path
from typing import TypeGuard

import pytest

import homeostat

SERVER_SIDE = {"asyncpg", "fastapi", "nats", "numpy", "redis", "sqlite3", "starlette", "typer", "uvicorn"}


def loaded_by(code: str) -> set[str]:
    """The top-level modules that this code brings into a fresh interpreter."""
    script = f"import sys\n{code}\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(result.stdout.splitlines()[-1].split())


def test_importing_the_package_loads_no_server() -> None:
    assert loaded_by("import homeostat") & SERVER_SIDE == set()


def test_what_holds_agents_again_waits_for_no_route() -> None:
    """After a restart agents are held as soon as the system stands, so nothing before that loads what serves routes."""
    assert loaded_by("import homeostat.cli.up, homeostat.server.serving") & {"fastapi", "starlette"} == set()


def test_every_public_name_is_there() -> None:
    tree = ast.parse(Path(homeostat.__file__).read_text())
    typed = {alias.name for node in ast.walk(tree) if _is_own_import(node) for alias in node.names}
    assert {"__version__", *homeostat._HOMES} == set(homeostat.__all__) == {"__version__", *typed}
    for name in homeostat.__all__:
        assert getattr(homeostat, name) is not None
        assert name in dir(homeostat)


def _is_own_import(node: ast.AST) -> TypeGuard[ast.ImportFrom]:
    return isinstance(node, ast.ImportFrom) and (node.module or "").startswith("homeostat.")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        homeostat.nonsense  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


def test_a_lazy_name_is_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(homeostat._HOMES, "OrderedDict", "collections")
    monkeypatch.setitem(homeostat.__dict__, "OrderedDict", None)  # so that what is loaded is forgotten afterwards
    monkeypatch.delitem(homeostat.__dict__, "OrderedDict")
    from collections import OrderedDict

    assert getattr(homeostat, "OrderedDict") is OrderedDict  # noqa: B009
    assert homeostat.__dict__["OrderedDict"] is OrderedDict
