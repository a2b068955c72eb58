"""What checks and replays found, in the shape in which it is sent and shown."""

from homeostat.core.wire import ledger as w
from homeostat.runs.replaying.replay import Report
from homeostat.runs.verify import Verdict


def verdict_shape(verdict: Verdict) -> w.VerdictShape:
    found = verdict.finding
    finding = None
    if found is not None:
        finding = w.FindingShape(code=found.code, message=found.message, seq=found.seq, until=found.until)
    return w.VerdictShape(
        valid=verdict.ok,
        run_id=verdict.run_id,
        project=verdict.project,
        entries=verdict.entries,
        root=verdict.root,
        heads=list(verdict.heads),
        signed_by=list(verdict.signed_by),
        unsigned=verdict.unsigned,
        finding=finding,
    )


def replay_shape(report: Report) -> w.ReplayShape:
    found = report.divergence
    divergence = None
    if found is not None:
        divergence = w.DivergenceShape(seq=found.seq, message=found.message, recorded=found.recorded, now=found.now)
    return w.ReplayShape(
        run_id=report.run_id,
        mode=report.mode.value,
        verdict=report.verdict,
        turns=report.turns,
        entries=report.entries,
        live_calls=report.live_calls,
        divergence=divergence,
        changed_code=report.changed_code,
        skipped=report.skipped,
        unreached=report.unreached,
    )
