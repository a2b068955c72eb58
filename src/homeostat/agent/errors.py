"""What can go wrong between an agent and its host.

ProtocolViolation
├── StateViolationError   somebody wrote state that belongs to somebody else
├── StateRequired         a method was called in a state that does not allow it
├── NotJson               an author's code gave what cannot be stored
└── NonDeterministic      a resumed turn took another path than the one its stored steps tell of
Unavailable
├── StartupError          the agent did not get ready
├── RequestInterrupted    the agent was shut down in the middle of a request
└── ModelUnavailable      no model answered; the turn is tried again
AgentFault                what an author raises on purpose, or may catch
├── RecoverableError      this request failed, the agent is fine
│   ├── CallFailed        a tool, or an agent that was asked, failed or was late
│   ├── StepFailed        a step failed, and does so again whenever the turn is resumed
│   └── ModelRefused      the model's API did not take the request
├── CannotTreat           a remedy means nothing to this agent
└── FatalError            the agent cannot go on and must be replaced
"""

from typing import Any, cast

from homeostat.agent.ownership import StateOwnership
from homeostat.core.codec import Json, to_json
from homeostat.core.errors import HomeostatError, IllegalTransition, MalformedPayload, ProtocolViolation, Unavailable
from homeostat.core.limits import ERROR_CHARS_MAX


class StateViolationError(ProtocolViolation):
    """{key!r} belongs to {owner}; {actor} may read it, not write it."""

    code = "state_violation"

    def __init__(
        self,
        key: str,
        owner: StateOwnership,
        actor: StateOwnership = StateOwnership.AGENT,
    ) -> None:
        super().__init__(key=key, owner=owner.value, actor=actor.value)
        self.key = key
        self.owner = owner
        self.actor = actor


class StateRequired(IllegalTransition, RuntimeError):
    """{method}() needs the agent to be {needed}; it is {state}."""

    code = "state_required"


class NotJson(MalformedPayload):
    """{field} is not valid: {problem}."""

    hint = (
        "JSON holds dicts with text as keys, lists, texts, finite numbers, booleans, None, dataclasses and dates."
        " Of anything else, give the part that matters as one of these."
    )


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


class CannotTreat(AgentFault):
    """This remedy means nothing to the agent; another one is tried."""

    code = "cannot_treat"


class FatalError(AgentFault):
    """The agent cannot go on."""

    code = "fatal_error"


class CallFailed(RecoverableError):
    """{tool} ended with {status}: {problem}."""

    code = "call_failed"

    def __init__(self, *, tool: str, status: str, result: Any = None) -> None:
        super().__init__(tool=tool, status=status, problem=_short(result))
        self.tool = tool
        self.status = status
        self.result = result


class StepFailed(RecoverableError):
    """Step {step!r} failed with {kind}: {problem}."""

    code = "step_failed"

    def __init__(self, *, step: str, kind: str, problem: str) -> None:
        super().__init__(step=step, kind=kind, problem=problem)
        self.step = step
        self.kind = kind


class ModelRefused(RecoverableError):
    """The model's API answered {status}: {problem}."""

    code = "model_refused"

    def __init__(self, *, status: int, problem: str) -> None:
        super().__init__(status=status, problem=problem)
        self.status = status


class ModelUnavailable(Unavailable):
    """The model did not answer: {problem}."""

    code = "model_unavailable"


def as_json(value: object, *, what: str) -> Json:
    """What an author's code returned or handed over, to be stored; raises `NotJson` if it cannot be."""
    try:
        return to_json(value, what=what)
    except MalformedPayload as problem:
        raise NotJson(**problem.facts) from problem.__cause__


def _short(value: Any) -> str:
    """What went wrong elsewhere, in its own words if it has any."""
    told: object = cast("dict[str, Any]", value).get("message") if isinstance(value, dict) else value
    text = (told if isinstance(told, str) and told else repr(cast(object, value))).removesuffix(".")
    return text if len(text) <= ERROR_CHARS_MAX else text[:ERROR_CHARS_MAX] + "…"
