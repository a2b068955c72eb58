"""The names under which OpenTelemetry hears of us: the GenAI conventions where they have one, our own elsewhere."""

from dataclasses import dataclass
from typing import Final

CHAT: Final = "chat"
INVOKE_AGENT: Final = "invoke_agent"
RUN: Final = "invoke_workflow"
EXECUTE_TOOL: Final = "execute_tool"
STEP: Final = "step"

OPERATION: Final = "gen_ai.operation.name"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
TOKEN_TYPE: Final = "gen_ai.token.type"  # noqa: S105 - no secret
AGENT_ID: Final = "gen_ai.agent.id"
TOOL_NAME: Final = "gen_ai.tool.name"
ERROR_TYPE: Final = "error.type"
RUN_ID: Final = "homeostat.run.id"
PROJECT: Final = "homeostat.project"
COST_USD: Final = "homeostat.cost.usd"
RUN_STATUS: Final = "homeostat.run.status"
TURN_STATUS: Final = "homeostat.turn.status"
TURN_STEPS: Final = "homeostat.turn.steps"
STEP_NAME: Final = "homeostat.step.name"

ATTRIBUTES: Final = {
    OPERATION: "`chat` for a model call, `execute_tool` for a tool, `invoke_agent` for a turn, `invoke_workflow` for a "
    "run",
    PROVIDER: "The upstream that answered",
    REQUEST_MODEL: "The model that was asked for",
    INPUT_TOKENS: "Tokens that went in, as the provider counts them",
    OUTPUT_TOKENS: "Tokens that came out",
    TOKEN_TYPE: "`input` or `output`, on the token metric",
    AGENT_ID: "The agent, on spans only",
    TOOL_NAME: "The tool that was called",
    ERROR_TYPE: "Present where something failed",
    RUN_ID: "The run it was done for, on spans only",
    PROJECT: "The project, on spans only",
    COST_USD: "What the call cost",
    RUN_STATUS: "How the run ended",
    TURN_STATUS: "How the turn ended",
    TURN_STEPS: "How many cards the turn wrote",
    STEP_NAME: "The durable step, as its author named it, on spans only",
}

SPANS: Final = {
    "invoke_workflow {run}": "One run, from its beginning to its end: the root of its trace, with its turns below it",
    "invoke_agent {agent}": "One turn, until its deliverable; a part of its run, or of the turn that asked for it",
    "step {name}": "One durable step of a turn, from the end of what was kept before it to the keeping of its outcome",
    "execute_tool {tool}": "One tool that a turn called, from the call to its answer, or the step that ran it",
    "chat {model}": "One model call through the gateway, to the last byte; a part of the step or turn that made it",
}

ANNOUNCED: Final = {
    "evt.agent.{agent}.task": "A turn has ended, whichever way: `agent_turn_id`, `status`, `output_box_id`, "
    "`deliverable_card_id`, `trace_id`. Its event id is the turn's, and there is one for each turn",
    "evt.agent.{agent}.step": "A turn took a step: `agent_turn_id`, `step_id`, `phase`, `trace_id`. `stored`: the "
    "outcome of the durable step `step_id` is kept. `suspended` and `resumed`, with `turn_epoch`: it waits for the "
    "tool calls in `waiting`, or goes on as the last result is in; `step_id` is what these calls named as theirs, "
    "if anything",
    "evt.agent.{agent}.state": "How an agent's head stands: `agent_turn_id`, `turn_epoch`, `status`, `gate`, `queued`, "
    "and in `metadata` `activity`, `current_tool` and `waiting_tool_count`. A level, heard by those who listen then",
    "cmd.tool.{tool}.call": "A tool is called: `agent_turn_id`, `tool_call_id`, `tool_call_card_id`, `deadline_ms` and "
    "what its service needs besides",
    "str.agent.{agent}.chunk": "A chunk of a turn's output, as its author sent it; whoever is not listening misses it",
}
"""What a turn says on the bus, behind `hs.v1.{project}.main.`."""


@dataclass(frozen=True, slots=True)
class Instrument:
    """A histogram."""

    name: str
    unit: str
    words: str


OPERATION_DURATION: Final = Instrument("gen_ai.client.operation.duration", "s", "How long model calls took")
TOKEN_USAGE: Final = Instrument("gen_ai.client.token.usage", "{token}", "How many tokens model calls used")
TURN_DURATION: Final = Instrument("homeostat.turn.duration", "s", "How long turns were worked on")
METRICS: Final = (OPERATION_DURATION, TOKEN_USAGE, TURN_DURATION)

MODELS_TOLD_APART_MAX: Final = 100  # callers name models as they like; beyond these they are one label
OTHER: Final = "other"
