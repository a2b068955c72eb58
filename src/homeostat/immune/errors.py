"""What can be wrong with a question about an incident or an approval.

ProtocolViolation: IncidentUnknown · ApprovalUnknown · FeedbackUnknown · VetoUnknown
Conflict: ApprovalSettled · DrillRefused
Refused: TreatmentKept
"""

from homeostat.core.errors import Conflict, ProtocolViolation, Refused


class IncidentUnknown(ProtocolViolation):
    """There is no incident {incident_id!r}."""

    code = "incident_unknown"
    http_status = 404


class ApprovalUnknown(ProtocolViolation):
    """There is no approval {approval_id!r}."""

    code = "approval_unknown"
    http_status = 404


class FeedbackUnknown(ProtocolViolation):
    """There is no feedback {feedback_id!r}."""

    code = "feedback_unknown"
    http_status = 404


class VetoUnknown(ProtocolViolation):
    """Nobody has vetoed {action} against {diagnosis} for {whom}."""

    code = "veto_unknown"
    http_status = 404
    hint = "`homeostat memory show` lists the vetoes. One for everybody is not lifted for a single agent."


class DrillRefused(Conflict):
    """Agent {agent_id!r} cannot be drilled: {problem}."""

    code = "drill_refused"
    hint = "Drills are for agents that are healthy, whose normal is known, and that nobody holds."


class ApprovalSettled(Conflict):
    """Approval {approval_id!r} cannot be answered any more: it is {state}."""

    code = "approval_settled"
    hint = "The first answer stands, and it is bound to what was seen when the question was asked."


class TreatmentKept(Refused):
    """What the immune system keeps in the memory of agent {agent_id!r} is not the agent's to change: {problem}."""

    code = "treatment_kept"
    hint = "A remedy ends by itself, or an operator lifts it: `homeostat treatment lift AGENT --reason WHY`."
