"""Tells the story of a seed from its commits, and counts what made it worth running."""

from typing import TYPE_CHECKING

from homeostat.core.ids import Scope
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.head import Head
from homeostat.core.records.turn import WaitStatus
from homeostat.core.records.writes import Writes
from homeostat.testing.memory import MemoryTurns
from homeostat.testing.simulation.checks import Before
from homeostat.testing.simulation.trace import Trace

if TYPE_CHECKING:
    from homeostat.testing.simulation.process import Process

_ENDED = {HeadStatus.RUNNING: "running", HeadStatus.SUSPENDED: "suspended", HeadStatus.DISPATCHED: "dispatched"}


class Observer:
    """Reads each commit once, before the checks do."""

    def __init__(self, store: MemoryTurns, trace: Trace) -> None:
        self._store = store
        self._trace = trace
        self._announcers: dict[Scope, Process] = {}

    def committed(self, process: "Process", writes: Writes, before: Before) -> None:
        heads = [self._moved(before[key], head, writes) for key, (_, head) in writes.heads.items()]
        self._waits(writes)
        self._outbox(process, writes)
        short = self._trace.short
        parts = [f"{process.domain.name} commits", *heads]
        parts += [f"answer {short(wait.turn_id)} {wait.call_id} {wait.status}" for wait in writes.waits.values()]
        parts += [f"end {short('turn_' + c.scope)}" for c in writes.cards if c.position == 0 and c.reference is None]
        parts += [f"unlease {short(worker_id)}" for worker_id in sorted(writes.leases_ended)]
        self._trace.note(" | ".join(parts))

    def _moved(self, old: Head | None, head: Head, writes: Writes) -> str:
        trace = self._trace
        if old is not None and old.turn_id is not None:
            self._left(old, head)
        if head.turn_id == (old.turn_id if old else None) and old is not None and head.losses > old.losses:
            trace.count("recovery")
        if head.status is HeadStatus.RUNNING and (old is None or old.status is not HeadStatus.DISPATCHED):
            if head.turn_id in writes.turns:
                trace.count("fused_claim")
            elif old is not None and old.status is HeadStatus.RUNNING and old.turn_id != head.turn_id:
                trace.count("next_turn_claimed_with_delivery")
            elif old is not None and old.status is HeadStatus.SUSPENDED:
                trace.count("fused_resume")
        if old is not None and old.gate != head.gate:
            trace.count(f"gate_{head.gate}")
        return (
            f"{head.agent_id} v{head.version} {head.status} {trace.short(head.turn_id)} e{head.epoch} "
            f"{trace.short(head.worker_id)} q{head.queued} {head.gate}"
        )

    def _left(self, old: Head, head: Head) -> None:
        """The turn that was active before: where it is now."""
        turn = self._store.turns[old.turn_id] if old.turn_id else None
        if turn is None:
            return
        line = self._store.lines.get(turn.key, {})
        put_back = turn.seq in line or (head.turn_id == old.turn_id and head.epoch > old.epoch + 1)
        if put_back:
            self._trace.count(f"preempted_{_ENDED[old.status]}")
        elif old.status is HeadStatus.RUNNING and head.turn_id == old.turn_id and head.epoch == old.epoch + 1:
            self._trace.count("handed_back", head.losses == old.losses)

    def _outbox(self, process: "Process", writes: Writes) -> None:
        if writes.outbox is not None:
            self._announcers[writes.outbox.outbox_id] = process
        for outbox_id in sorted(writes.outbox_drop):
            self._trace.count("swept_outbox", self._announcers.pop(outbox_id, process) is not process)

    def _waits(self, writes: Writes) -> None:
        for wait in writes.waits.values():
            turn = self._store.turns[wait.turn_id]
            self._trace.count(f"wait_{wait.status}")
            if wait.status is not WaitStatus.CANCELLED and turn.seq in self._store.lines.get(turn.key, {}):
                self._trace.count("result_while_queued")
