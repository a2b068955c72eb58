"""What can be listed and described besides agents: one row for each kind of thing."""

from dataclasses import dataclass
from typing import Any, Final

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Noun:
    """A kind of thing: where the API lists it, where it shows one, and which of its members are columns."""

    name: str
    one: str
    list_path: str
    items: str
    key: str
    columns: tuple[tuple[str, str], ...]
    wide: tuple[tuple[str, str], ...] = ()
    show_path: str = ""
    kinds: str = ""  # the events after which a watch looks again
    of_agent: str = ""  # where the API lists those of one agent, if it has a place for that

    def id_of(self, row: Row) -> str:
        return "/".join(str(row[part]) for part in self.key.split("+"))


NOUNS: Final = (
    Noun(
        "runs",
        "run",
        "/v1/runs",
        "runs",
        "run_id",
        (("RUN", "run_id"), ("STATUS", "status"), ("GOAL", "goal")),
        show_path="/v1/runs/{id}",
        kinds="run",
    ),
    Noun(
        "turns",
        "turn",
        "/v1/turns",
        "items",
        "turn_id",
        (
            ("ID", "turn_id"),
            ("AGENT", "agent_id"),
            ("STATUS", "status"),
            ("SENT", "created_at"),
        ),
        (
            ("TYPE", "type"),
            ("FROM", "source_agent_id"),
            ("EPOCH", "epoch"),
            ("STARTS", "starts"),
            ("WORKER", "worker_id"),
            ("TRACE", "trace_id"),
        ),
        "/v1/turns/{id}",
        "turn,deliverable",
        "/v1/agents/{agent}/turns",
    ),
    Noun(
        "heads",
        "head",
        "/v1/heads",
        "heads",
        "agent_id",
        (("AGENT", "agent_id"), ("STATUS", "status"), ("GATE", "gate"), ("QUEUED", "queued"), ("TURN", "turn_id")),
        (("EPOCH", "epoch"), ("WORKER", "worker_id"), ("WAITS", "waiting_tool_count"), ("SINCE", "since")),
        "/v1/agents/{id}/head",
        "turn",
    ),
    Noun(
        "approvals",
        "approval",
        "/v1/immune/approvals",
        "approvals",
        "approval_id",
        (("ID", "approval_id"), ("STATUS", "status"), ("AGENT", "agent_id"), ("ACTION", "action"), ("WHY", "why")),
        (("SIGMA", "sigma"), ("DIAGNOSIS", "diagnosis"), ("BY", "answered_by")),
        "/v1/immune/approvals/{id}",
        kinds="approval",
    ),
    Noun(
        "incidents",
        "incident",
        "/v1/immune/incidents",
        "incidents",
        "incident_id",
        (
            ("ID", "incident_id"),
            ("SPREAD", "spread"),
            ("AGENT", "agent_id"),
            ("SIGMA", "sigma"),
            ("OUTCOME", "outcome"),
            ("OPENED", "opened_at"),
        ),
        (("COHORT", "cohort"), ("HELD", "held"), ("RESUMED", "resumed"), ("LOST", "lost")),
        "/v1/immune/incidents/{id}",
        "phase,alert",
    ),
    Noun(
        "policies",
        "policy",
        "/v1/policies",
        "policies",
        "policy_id",
        (("ID", "policy_id"), ("ACTION", "action"), ("AGENT", "agent_id"), ("ORIGIN", "origin"), ("REASON", "reason")),
        (("CREATED", "created_at"), ("EXPIRES", "expires_at")),
        "/v1/policies/{id}",
        "policy",
    ),
    Noun(
        "budgets",
        "budget",
        "/v1/budgets",
        "budgets",
        "kind+holder",
        (
            ("KIND", "kind"),
            ("HOLDER", "holder"),
            ("USD", "usd"),
            ("SPENT", "usd_spent"),
            ("TOKENS", "tokens"),
            ("USED", "tokens_spent"),
        ),
        (("SECONDS", "seconds"), ("ENDS", "ends_at"), ("HELD", "usd_held"), ("WARNED", "warned_at")),
        "/v1/budgets/{id}",
        "budget",
    ),
    Noun(
        "calls",
        "call",
        "/v1/calls",
        "calls",
        "call_id",
        (
            ("ID", "call_id"),
            ("AGENT", "agent_id"),
            ("MODEL", "model"),
            ("OUTCOME", "outcome"),
            ("MS", "latency_ms"),
            ("USD", "cost_usd"),
            ("STARTED", "started_at"),
        ),
        (("IN", "tokens_in"), ("OUT", "tokens_out"), ("CODE", "code"), ("RUN", "run_id"), ("TRACE", "trace_id")),
        "/v1/calls/{id}",
        kinds="call",
    ),
    Noun(
        "audit",
        "act",
        "/v1/audit",
        "items",
        "seq",
        (
            ("SEQ", "seq"),
            ("AT", "at"),
            ("WHO", "actor"),
            ("WHAT", "verb"),
            ("OBJECT", "object"),
            ("OUTCOME", "outcome"),
            ("WHY", "reason"),
        ),
        (("CHANGES", "changes"), ("TRACE", "trace_id")),
    ),
    Noun(
        "tools",
        "tool",
        "/v1/tools",
        "items",
        "name",
        (("NAME", "name"), ("DESCRIPTION", "description")),
    ),
)
"""Agents have views of their own; `homeostat get` lists all others by this table."""

BY_NAME: Final = {noun.name: noun for noun in NOUNS} | {noun.one: noun for noun in NOUNS}
EVENTS_HINT: Final = "presence, turn, deliverable, call, phase, approval, alert, policy, budget, run"
