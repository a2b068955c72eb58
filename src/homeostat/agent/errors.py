"""What can go wrong between an agent and its host.

ProtocolViolation
├── StateViolationError   somebody wrote state that belongs to somebody else
├── StateRequired         a method was called in a state that does not allow it
└── NonDeterministic      a resumed turn took another path than the one its stored steps tell of
Unavailable
├── StartupError          the agent did not get ready
└── RequestInterrupted    the agent was shut down in the middle of a request
AgentFault                what an author raises on purpose
├── RecoverableError      this request failed, the agent is fine
└── FatalError            the agent cannot go on and must be replaced
"""

from homeostat.agent.ownership import StateOwnership
from homeostat.core.errors import HomeostatError, IllegalTransition, ProtocolViolation, Unavailable


class StateViolationError(ProtocolViolation):
    """{key!r} belongs to {owner}; {actor} may read it, not write it."""

    code = "state_violation"

    def __init__(self, key: str, owner: StateOwnership, actor: StateOwnership = StateOwnership.AGENT) -> None:
        super().__init__(key=key, owner=owner.value, actor=actor.value)
        self.key = key
        self.owner = owner
        self.actor = actor


class StateRequired(IllegalTransition, RuntimeError):
    """{method}() needs the agent to be {needed}; it is {state}."""

    code = "state_required"


class NonDeterministic(ProtocolViolation):
    """Turn {turn_id} was resumed and did something else than before: {problem}."""

    code = "non_deterministic"
    hint = (
        "A resumed turn runs again from its start. Whatever can differ between two runs (time, chance, reading a file,"
        " the order of a set) belongs inside `await turn.step(name, fn)`."
    )


class StartupError(Unavailable):
    """The agent did not start."""

    code = "startup_failed"

    def __init__(self, message: str = "The agent did not start.") -> None:
        Exception.__init__(self, message)
        self.facts: dict[str, object] = {}


class RequestInterrupted(Unavailable):
    """The agent was shut down while it worked on this request."""

    code = "request_interrupted"


class AgentFault(HomeostatError):
    """The agent reported a fault."""

    code = "agent_fault"

    def __init__(self, message: str = "", **facts: object) -> None:
        super().__init__(**facts)
        if message:
            self.args = (message,)


class RecoverableError(AgentFault):
    """This request failed; the agent is ready for the next."""

    code = "recoverable_error"


class FatalError(AgentFault):
    """The agent cannot go on."""

    code = "fatal_error"
