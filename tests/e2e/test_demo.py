"""The demonstration finds, isolates and heals every fault, and says so by its exit code."""

import json
import subprocess
import sys

from homeostat.core.records.immune import Diagnosis


def test_the_demonstration_cures_everybody_and_loses_nothing() -> None:
    command = [sys.executable, "-m", "homeostat", "demo", "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["turns"]["lost"] == 0
    assert told["turns"]["enqueued"] == told["turns"]["delivered"] > 0
    assert told["false_quarantines"] == 0
    assert told["outage"]["quarantined"] == 0
    assert told["outage"]["agents_hit"] >= 10
    kinds = {fault["kind"] for fault in told["faults"]}
    assert kinds == {kind.value for kind in Diagnosis if kind is not Diagnosis.UNKNOWN}
    assert set(told) == {"turns", "faults", "false_quarantines", "outage"}
    for fault in told["faults"]:
        assert fault["cured_by"], fault
        assert 0 < fault["detected_after_seconds"] < fault["recovered_after_seconds"], fault
