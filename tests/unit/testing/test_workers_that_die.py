"""A test that takes its worker with it ends the run, and does not keep it for ever."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
DEADLY = "import os\n\n\ndef test_it_ends() -> None:\n    os._exit(1)\n\n\ndef test_is_never_run() -> None: ...\n"
PLUGINS = "xdist.plugin,pytest_timeout,anyio.pytest_plugin"  # what the settings name; the others only take time
SECONDS_MAX = 100  # it hangs without end where workers are replaced


def test_a_run_whose_worker_died_fails(tmp_path: Path) -> None:
    (tmp_path / "test_deadly.py").write_text(DEADLY)
    (tmp_path / "test_other.py").write_text("def test_nothing() -> None: ...\n")
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path)]
    alone = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": PLUGINS}
    options = ["-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(
        [*command, *options],
        env={**os.environ, **alone},
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "crashed while running 'test_deadly.py::test_it_ends'" in done.stdout
    assert "1 failed" in done.stdout
