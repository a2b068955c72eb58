"""Reference pages that follow from the code are up to date."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_generated_pages_are_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_the_arithmetic_of_scaling_follows_from_its_figures() -> None:
    done = subprocess.run([sys.executable, "docs/scaling.py", "--check"], cwd=ROOT, check=False)
    assert done.returncode == 0, "run `python docs/scaling.py`"


def test_a_new_figure_moves_what_follows_from_it() -> None:
    specification = importlib.util.spec_from_file_location("scaling", ROOT / "docs" / "scaling.py")
    assert specification is not None
    assert specification.loader is not None
    scaling = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(scaling)
    found = json.loads(scaling.FIGURES.read_text())
    scaling.put(found, {"heartbeats.per_second": 5_000, "calls.cpu_us": 100}, "2027-01-01")
    text = scaling.page(scaling.PAGE.read_text(), found)
    assert "÷ 5,000 a node | 7 servers; with an interval of 120 s, 2 |" in text
    assert "0.10 ms | 3.3 cores: 4 gateways" in text
    assert text.count("| 2027-01-01 |") == 2
    with pytest.raises(SystemExit, match="none of"):
        scaling.put(found, {"heartbeats.colour": 1}, "2027-01-01")
