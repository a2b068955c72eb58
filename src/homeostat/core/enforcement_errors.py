"""What can go wrong while an agent is held or treated; none of it is ever told as success.

Refused: CustodyRefused · ControlRefused · EngineDenied
Conflict: CustodyTaken · DeploymentChanged · AgentKilled · AgentMoved
ProtocolViolation: ReceiptUnknown · ControlUnknown · ContainerUnknown
Unavailable: EngineUnreachable · EngineFailed · ProcessGone · ControlUnreachable
"""

from homeostat.core.errors import Conflict, ProtocolViolation, Refused, Unavailable


class CustodyRefused(Refused):
    """Process {pid} is not taken into custody: {problem}."""

    code = "custody_refused"


class CustodyTaken(Conflict):
    """Agent {agent_id!r} is in custody as process {pid}, which is alive."""

    code = "custody_taken"
    hint = "Only whoever started that process may name another one; end it first."


class AgentMoved(Conflict):
    """The health of agent {agent_id!r} has changed meanwhile."""

    code = "agent_moved"
    hint = "Look at it again, and repeat what you want."


class AgentKilled(Conflict):
    """Agent {agent_id!r} was killed, and what was killed is not treated."""

    code = "agent_killed"
    hint = "Release it first: homeostat release AGENT."


class ReceiptUnknown(ProtocolViolation):
    """Nothing was ever asked about holding agent {agent_id!r}."""

    code = "receipt_unknown"
    http_status = 404


class ControlUnknown(ProtocolViolation):
    """Agent {agent_id!r} takes no orders: no address of it is known."""

    code = "control_unknown"
    http_status = 404
    hint = "Say where it takes them: PUT /v1/agents/{id}/control."


class ContainerUnknown(ProtocolViolation):
    """No {kind} belongs to agent {agent_id!r}: {problem}."""

    code = "container_unknown"
    http_status = 404


class EngineDenied(Refused):
    """{engine} does not allow {verb}: {problem}."""

    code = "engine_denied"
    hint = "Give it the role under deploy/kubernetes/, or access to the engine's socket."


class DeploymentChanged(Conflict):
    """{name} was changed by somebody else meanwhile: {problem}."""

    code = "deployment_changed"


class EngineUnreachable(Unavailable):
    """{engine} cannot be reached: {problem}."""

    code = "engine_unreachable"


class EngineFailed(Unavailable):
    """{engine} failed to {verb}: {problem}."""

    code = "engine_failed"


class ProcessGone(Unavailable):
    """The process of agent {agent_id!r} is gone."""

    code = "process_gone"


class ControlRefused(Refused):
    """An order for agent {agent_id!r} is refused: {problem}."""

    code = "control_refused"


class ControlUnreachable(Unavailable):
    """Agent {agent_id!r} cannot be given orders at {url}: {problem}."""

    code = "control_unreachable"
