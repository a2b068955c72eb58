"""What fuzzing has found stays found: every target holds over its seeds, its corpus, and a slice of new attempts."""

import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from homeostat.core.ids import chance
from tests.fuzz.harness import Target, TooSlow, in_time, keeping, mutations
from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
ATTEMPTS = 300


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_what_was_found_holds(target: Target) -> None:
    for seed in target.seeds:
        target.check(seed)
    for found in sorted((CORPUS / target.name).glob("*")):
        target.check(found.read_bytes())


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_a_slice_of_what_could_be_found_holds(target: Target) -> None:
    rng = chance("fuzz", target.name)
    for seed in target.seeds:
        for attempt in islice(mutations(seed, rng.randrange, target.words), ATTEMPTS // len(target.seeds)):
            target.check(attempt)


def test_nobody_keeps_a_corpus_for_a_target_that_is_gone() -> None:
    assert {folder.name for folder in CORPUS.iterdir() if any(folder.iterdir())} <= {*TARGETS}


def test_what_breaks_a_target_is_kept(tmp_path: Path) -> None:
    def check(data: bytes) -> None:
        assert data != b"bad", "it broke"

    kept = keeping(Target("one", check, ()), tmp_path)
    kept(b"good")
    with pytest.raises(AssertionError, match="it broke"):
        kept(b"bad")
    assert [found.read_bytes() for found in tmp_path.iterdir()] == [b"bad"]


def test_what_keeps_the_processor_busy_is_kept_too(tmp_path: Path) -> None:
    def check(data: bytes) -> None:
        while data == b"slow":
            pass

    before = signal.getsignal(signal.SIGVTALRM)
    timed = in_time(keeping(Target("one", check, ()), tmp_path), 0.05)
    try:
        timed(b"quick")
        with pytest.raises(TooSlow):
            timed(b"slow")
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    assert [found.read_bytes() for found in tmp_path.iterdir()] == [b"slow"]


def test_atheris_drives_a_target() -> None:
    pytest.importorskip("atheris")
    command = [sys.executable, "-m", "tests.fuzz", "heartbeats", "--runs", "200"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert "1 of 1 targets held" in done.stdout, done.stdout + done.stderr
