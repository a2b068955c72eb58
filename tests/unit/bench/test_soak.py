"""A soak that did not keep its rate, or whose server grew, says so: its promises can be broken."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks import _soak as soak
from benchmarks._http_load import Measured
from benchmarks._measure import Report
from benchmarks._operator import TURN

LEAK = "import sys\nkept = []\nfor _ in sys.stdin: kept.append(b'x' * {bytes}); print(flush=True)"
LOOKS = 24


class Fed(soak.Scales):
    """Looks at a process whenever it has taken something more, as if every look were two seconds after the last."""

    def look(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        for number in range(LOOKS):
            process.stdin.write(b"more\n")
            process.stdin.flush()
            process.stdout.readline()
            self.samples.append((number * soak.SAMPLE_SECONDS, self._process.memory_info().rss / 1e6))
        self.cpu.append(0.5)


@contextmanager
def kept(each: int) -> Generator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-c", LEAK.format(bytes=each)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process


@pytest.mark.parametrize(("each", "held"), [(1, True), (200_000, False)])
def test_a_server_that_keeps_what_it_is_sent_is_found_out(each: int, held: bool) -> None:  # noqa: FBT001
    """100 kB a second are 360 MB an hour."""
    with kept(each) as process:
        scales = Fed(process.pid)
        scales.look(process)
    (promise,) = soak._weight(Report("soak"), scales, judged=True)
    assert promise.held is held, promise
    assert not [*soak._weight(Report("soak"), scales, judged=False)], "histories still fill"


@pytest.mark.parametrize(("rate", "failures", "held"), [(1.0, 0, True), (0.98, 0, False), (1.0, 1, False)])
def test_a_load_that_was_not_had_is_no_load(rate: float, failures: int, held: bool) -> None:  # noqa: FBT001
    had = {
        name: Measured(wanted * rate, 1.0, 2.0, answers=9, failures=failures, asked=9)
        for name, wanted in soak.LOAD.items()
    }
    assert [promise.held for promise in soak._rates(Report("soak"), had)] == [held] * 3


def test_who_waits_longer_than_a_quarter_of_a_second_breaks_the_promise(tmp_path: Path) -> None:
    disk = soak.Disk(tmp_path)
    orders = {"kill an agent": [(5.0, 9.0), (7.0, 251.0)], TURN: [(6.0, 999.0)]}
    promises = [*soak._operations(Report("soak"), orders, [], disk)]
    assert [promise.held for promise in promises] == [False, True], "how long a turn takes is told, not promised"
    assert not [*soak._operations(Report("soak"), {}, ["kill a run: 500"], disk)][-1].held


def test_it_is_told_for_how_long_the_disk_kept_an_order(tmp_path: Path) -> None:
    disk = soak.Disk(tmp_path)
    disk.took += [(1.0, 500.0), (6.9, 150.0), (7.2, 400.0), (9.0, 800.0)]  # before, into, out of, and after
    (promise, _) = soak._operations(Report("soak"), {"kill a run": [(7.0, 300.0)]}, [], disk)
    assert not promise.held, "an excuse is none"
    assert promise.found.endswith("1 of 1 later; 300 ms, 150 of them in a bare sync")


def test_turns_that_are_accepted_and_not_done_are_no_turns() -> None:
    assert soak._done(Report("soak"), 300).held
    assert not soak._done(Report("soak"), 301).held
