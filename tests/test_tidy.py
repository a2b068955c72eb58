"""Reads the source the way a strict reviewer would: size, names, clocks, prints and leftovers."""

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "homeostat"

MODULE_LINES_MAX = 400
FUNCTION_LINES_MAX = 60

# What is larger than it should be, and how large it is. A number here only ever goes down; an entry that
# is no longer needed must go.
LONG_MODULES: dict[str, int] = {}
LONG_FUNCTIONS: dict[str, int] = {}

# Time, ids and randomness come in through these two doors.
DOORS = {"core/clock.py", "core/ids.py"}
CHANCE_MODULES = {"random", "secrets", "uuid"}
CLOCK_CALLS = {
    ("time", name)
    for name in ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep")
} | {(name, call) for name in ("datetime", "date") for call in ("now", "utcnow", "today")}
# Passwords of servers that live as long as a test are nothing a replay has to see again.
CHANCE_ALLOWED = {"testing/servers.py": {"secrets"}}

BANNED_NAMES = re.compile(r"(^|_)(utils?|helpers?|managers?)($|_)|(Util|Helper|Manager)s?$")
# Names that a library, not this project, has given.
BANNED_NAMES_ALLOWED = {
    "asynccontextmanager",
    "contextmanager",
    "AbstractAsyncContextManager",
    "AbstractContextManager",
}

LEFTOVERS = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
# Paths of somebody's machine and addresses of package registries; written so that this file does not match.
FOREIGN = re.compile(
    r"(?<![\w.])/(?:home|Users|root|work|opt)/[a-z]|[\w.-]*(?:pypi|pythonhosted|npmjs|artifactory)\.(?:org|com|io)"
)


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def short(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{prefix}{node.name}", node
        name = getattr(node, "name", None)
        yield from functions(node, f"{prefix}{name}." if isinstance(name, str) else prefix)


def lines_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def clock_uses(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in CHANCE_MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in CHANCE_MODULES:
            yield node.module
        elif isinstance(node, ast.ImportFrom) and node.module == "time":
            yield from (f"time.{alias.name}" for alias in node.names if ("time", alias.name) in CLOCK_CALLS)
        elif isinstance(node, ast.Attribute):
            owner = node.value
            name = owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else ""
            if (name, node.attr) in CLOCK_CALLS or (name, node.attr) == ("os", "urandom"):
                yield f"{name}.{node.attr}"


def defined_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def tracked_files() -> list[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listing.returncode:  # a tree without its history, such as an unpacked source distribution
        hidden = re.compile(r"/(\.(?!ci/)[^/]+|__pycache__|node_modules)/")
        return [path for path in ROOT.rglob("*") if path.is_file() and not hidden.search(path.as_posix())]
    return [ROOT / name for name in listing.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def foreign_words(text: str) -> list[str]:
    return [match.group() for match in FOREIGN.finditer(text)]


@pytest.mark.parametrize("path", modules(), ids=short)
def test_a_module_says_why_it_exists_and_is_small(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    docstring = ast.get_docstring(tree)
    assert docstring, f"{short(path)} does not open with its reason to exist"
    assert docstring.splitlines()[0].endswith((".", "?")), f"{short(path)} opens with something else than a sentence"

    lines = len(text.splitlines())
    assert lines <= LONG_MODULES.get(short(path), MODULE_LINES_MAX), f"{short(path)} has {lines} lines"
    for name, node in functions(tree):
        address = f"{short(path)}:{name}"
        limit = LONG_FUNCTIONS.get(address, FUNCTION_LINES_MAX)
        assert lines_of(node) <= limit, f"{address} has {lines_of(node)} lines"


@pytest.mark.parametrize("path", modules(), ids=short)
def test_a_module_keeps_to_the_rules(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    if short(path) not in DOORS:
        uses = set(clock_uses(tree)) - CHANCE_ALLOWED.get(short(path), set())
        assert not uses, f"{short(path)} reaches past core/clock.py and core/ids.py: {sorted(uses)}"
    if not short(path).startswith("cli/"):
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
        prints = [node.lineno for node in calls if isinstance(node.func, ast.Name) and node.func.id == "print"]
        assert not prints, f"{short(path)} prints in line {prints}; only the command line speaks"
    names = {*path.relative_to(PACKAGE).with_suffix("").parts, *defined_names(tree)}
    banned = {name for name in names if BANNED_NAMES.search(name)} - BANNED_NAMES_ALLOWED
    assert not banned, f"{short(path)} uses names that say nothing: {sorted(banned)}"


def test_the_exceptions_are_still_needed_and_only_shrink() -> None:
    for name, limit in LONG_MODULES.items():
        lines = len((PACKAGE / name).read_text().splitlines())
        assert MODULE_LINES_MAX < lines == limit, f"{name} has {lines} lines now: lower or remove its entry"
    for address, limit in LONG_FUNCTIONS.items():
        name, function = address.split(":")
        lengths = {found: lines_of(node) for found, node in functions(ast.parse((PACKAGE / name).read_text()))}
        lines = lengths.get(function, 0)
        assert FUNCTION_LINES_MAX < lines == limit, f"{address} has {lines} lines now: lower or remove its entry"


def test_nothing_is_left_to_do_and_nothing_belongs_to_another_machine() -> None:
    found: list[str] = []
    for path in tracked_files():
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue  # a picture or a font
        words = foreign_words(text)
        if path != Path(__file__):
            words += LEFTOVERS.findall(text)
        found += [f"{path.relative_to(ROOT)}: {word}" for word in words]
    assert found == []


@pytest.mark.parametrize("lock", sorted((ROOT / "requirements").glob("*.lock")), ids=lambda lock: lock.name)
def test_a_lock_holds_names_versions_and_hashes_and_nothing_else(lock: Path) -> None:
    pinned = re.compile(r"[a-z0-9-]+==[\w.+!]+( ; [^:]+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?|\s*#.*")
    lines = lock.read_text().splitlines()
    assert [line for line in lines if not pinned.fullmatch(line)] == []
    assert not any("://" in line for line in lines)


def test_every_dependency_is_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "requirements" / "dev.lock").read_text(), re.MULTILINE))
    extras = project["optional-dependencies"]
    wanted = {re.split(r"[^\w.-]", need)[0] for need in [*project["dependencies"], *extras["test"], *extras["dev"]]}
    assert wanted - locked == {"homeostat"}


@pytest.mark.parametrize(
    ("source", "uses"),
    [
        ("import time\ntime.time()", {"time.time"}),
        ("import time as t", set[str]()),
        ("from time import monotonic", {"time.monotonic"}),
        ("import datetime\ndatetime.datetime.now()", {"datetime.now"}),
        ("from uuid import uuid4", {"uuid"}),
        ("import os\nos.urandom(3)", {"os.urandom"}),
    ],
)
def test_the_clock_rule_sees_what_it_should(source: str, uses: set[str]) -> None:
    assert set(clock_uses(ast.parse(source))) == uses


def test_the_other_rules_see_what_they_should() -> None:
    assert foreign_words("see /" + "home/ann/x and files." + "pythonhosted" + ".org/a") != []
    assert foreign_words("see docs/" + "home/page.md and /v1/agents") == []
    assert BANNED_NAMES.search("string_utils")
    assert BANNED_NAMES.search("TurnManager")
    assert not BANNED_NAMES.search("ManagedAgent")
    tree = ast.parse("class A:\n    def b(self):\n        def c():\n            pass\n")
    assert [(name, lines_of(node)) for name, node in functions(tree)] == [("A.b", 3), ("A.b.c", 2)]
