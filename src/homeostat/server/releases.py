"""What an agent is told apart by when it comes back otherwise than it was: its version, its type, its tags."""

from typing import Any, Final

from homeostat.core.codec import to_json
from homeostat.core.records.access import Act, AuditOutcome
from homeostat.fleet.registry import Enrolled
from homeostat.server.call import Call

TOLD: Final = ("agent_type", "tags", "version")


async def note_release(call: Call, enrolled: Enrolled) -> None:
    """Write a new release of a known agent down beside what operators did: whoever asks what changed finds both."""
    was, entry = enrolled.was, enrolled.member.entry
    if was is None:
        return
    pairs = ((name, getattr(was, name), getattr(entry, name)) for name in TOLD)
    changed: dict[str, Any] = {name: [before, after] for name, before, after in pairs if before != after}
    if not changed:
        return
    await call.system.access.store.append(
        Act(
            at_ms=call.system.clock.now_ms(),
            actor=entry.agent_id,
            verb="register",
            object=f"agent/{entry.agent_id}",
            project=entry.project,
            outcome=AuditOutcome.DONE,
            changes=to_json(changed),
            trace_id=call.trace_id or "",
        )
    )
