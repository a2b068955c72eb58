"""Programs that tests need and no wheel holds: found here or, where that was allowed, installed from Debian once.

`python -m homeostat.testing.packages` does so ahead of the tests, so that no test's time is spent on it.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from homeostat.core.clock import SystemClock

ALLOWED_BY: Final = ("HOMEOSTAT_TEST_INSTALL", "CI")  # the first that is set decides
STEP_SECONDS: Final = 240.0  # an index, or two large packages, over a slow line
REFUSED_SECONDS: Final = 900.0  # whoever runs beside or soon after does not try again in vain
TAIL_CHARACTERS: Final = 300


@dataclass(frozen=True, slots=True)
class Needed:
    """A Debian package, and the names under which a program of it may be found."""

    package: str
    programs: tuple[str, ...]


DOCKER: Final = Needed("docker.io", ("dockerd",))  # a machine may have the client alone
CHROMIUM: Final = Needed("chromium", ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"))
PODMAN: Final = Needed("podman", ("podman",))
ALL: Final = (DOCKER, PODMAN, CHROMIUM)
SEARCHED: Final = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"  # where daemons are, and not everybody looks


class ProgramMissing(Exception):
    """A program is not here, and why it was not installed."""


def installing_allowed(environment: Mapping[str, str]) -> bool:
    """Whether packages may be installed: on a machine that is there for tests, never by surprise."""
    said = next((environment[name] for name in ALLOWED_BY if environment.get(name)), "")
    return said.lower() in {"1", "true", "yes", "on"}


def program(needed: Needed) -> str:
    """The path of a program. Where it is missing and may be installed it is, once however many ask at the same time."""
    if found := _found(needed):
        return found
    if problem := _cannot_install():
        raise ProgramMissing(f"no {needed.programs[0]} (Debian: apt-get install {needed.package}); {problem}")
    with _alone():
        if found := _found(needed):  # whoever had the lock before has installed it
            return found
        problem = _install([needed.package])
    if found := _found(needed):
        return found
    raise ProgramMissing(
        f"no {needed.programs[0]}; apt-get install {needed.package} failed: {problem or 'it holds none'}"
    )


def _found(needed: Needed) -> str | None:
    return next((found for name in needed.programs if (found := shutil.which(name, path=SEARCHED))), None)


def _cannot_install() -> str:
    if not installing_allowed(os.environ):
        return "it is installed by the tests only where CI or HOMEOSTAT_TEST_INSTALL is 1"
    if os.geteuid() != 0:
        return "only root can install it"
    return "" if shutil.which("apt-get") else "there is no apt-get here to install it with"


@contextmanager
def _alone() -> Generator[None]:
    with (_place() / "packages.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _place() -> Path:
    own = Path(tempfile.gettempdir()) / f"homeostat-packages-{os.geteuid()}"
    own.mkdir(mode=0o700, exist_ok=True)
    return own


def _install(packages: Sequence[str]) -> str:
    """Install packages; what was wrong, or nothing. What failed a moment ago fails again without being tried."""
    failed = _place() / f"{'+'.join(packages)}.failed"
    if failed.exists() and SystemClock().now_ms() / 1000 - failed.stat().st_mtime < REFUSED_SECONDS:
        return failed.read_text()
    for step in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        try:
            done = subprocess.run(
                ["apt-get", "-q", *step],  # noqa: S607 - wherever this machine has it
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"},  # and no service is started
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=STEP_SECONDS,
                check=False,
            )
            problem = "" if done.returncode == 0 else " ".join((done.stderr or done.stdout).split())[-TAIL_CHARACTERS:]
        except subprocess.TimeoutExpired:
            problem = f"it took longer than {STEP_SECONDS:g} s"
        if problem:
            failed.write_text(problem)
            return problem
    failed.unlink(missing_ok=True)
    return ""


def main() -> None:
    """Install what is missing where that is allowed. What cannot be had is told by the tests that need it."""
    if _cannot_install():
        return
    with _alone():
        missing = [needed.package for needed in ALL if _found(needed) is None]
        if missing:
            sys.stderr.write(f"tests: installing {' and '.join(missing)} from Debian\n")
            if problem := _install(missing):
                sys.stderr.write(f"tests: that failed, and what needs it is skipped: {problem}\n")


if __name__ == "__main__":
    main()
