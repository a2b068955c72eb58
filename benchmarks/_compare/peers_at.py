"""Peers: what each is installed from, and the environment of its own in which it runs."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

PEERS_AT = Path(".peers")


@dataclass(frozen=True, slots=True)
class Peer:
    """Somebody to be measured beside."""

    name: str
    packages: tuple[str, ...]
    engines: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()


def python_of(folder: Path, peer: Peer) -> Path:
    return folder / peer.name / "bin" / "python"


def install(folder: Path, peer: Peer) -> None:
    """Nothing of a peer comes near our own environment or its locks."""
    if not peer.packages or python_of(folder, peer).exists():
        return
    print(f"  installing {peer.name}", flush=True)
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([str(uv), "venv", "--quiet", "--python", sys.executable, str(folder / peer.name)], check=True)
    subprocess.run(
        [str(uv), "pip", "install", "--quiet", "--python", str(python_of(folder, peer)), *peer.packages], check=True
    )


def install_portkey(folder: Path) -> None:
    """Portkey's gateway is a package of npm's; without npm it is left out."""
    npm = shutil.which("npm")
    if npm is None or (folder / "portkey" / "node_modules").exists():
        return
    print("  installing portkey", flush=True)
    arguments = ("install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder / "portkey"))
    subprocess.run([npm, *arguments, "@portkey-ai/gateway"], check=True)


@dataclass(frozen=True, slots=True)
class Weight:
    """What an installation weighs."""

    version: str
    packages: int
    megabytes: float
    import_cpu_seconds: float


def weigh(interpreter: Path, package: str, *, imported: str = "") -> Weight:
    """Count what is installed, and how much processor time the first import takes."""
    code = (
        "import importlib.metadata as m, json, resource, sys;"
        f"__import__({imported or package!r});"
        "use = resource.getrusage(resource.RUSAGE_SELF);"
        f"print(json.dumps([m.version({package!r}), len(list(m.distributions())), use.ru_utime + use.ru_stime]))"
    )
    done = subprocess.run([str(interpreter), "-c", code], capture_output=True, text=True, check=True)
    version, packages, seconds = json.loads(done.stdout)
    site = next((interpreter.parent.parent / "lib").glob("python*")) / "site-packages"
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file() and not path.is_symlink())
    return Weight(version, packages, size / 1e6, seconds)
