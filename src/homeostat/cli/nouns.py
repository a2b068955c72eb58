"""What can be listed and described besides agents: one row for each kind of thing."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

Row = dict[str, Any]

WORD_CHARS_MIN: Final = 12


class Shown(StrEnum):
    """How a member is written in a cell."""

    WORD = "word"
    NUMBER = "number"
    MONEY = "money"
    TIME = "time"  # how long ago it was, or how soon it comes: a table has no room for more, and people want no more


@dataclass(frozen=True, slots=True)
class Member:
    """A column of a table. Words become narrower where there is little room, numbers and times never do; what has
    `spare` goes before anything is cut, the highest first.
    """

    title: str
    name: str
    shown: Shown = Shown.WORD
    spare: int = 0
    whole: bool = False  # an id is of no use when it is cut


def _id(title: str, name: str) -> Member:
    return Member(title, name, whole=True)


def _word(title: str, name: str, spare: int = 0, *, whole: bool = False) -> Member:
    return Member(title, name, spare=spare, whole=whole)


def _number(title: str, name: str, spare: int = 0) -> Member:
    return Member(title, name, Shown.NUMBER, spare, whole=True)


def _money(title: str, name: str, spare: int = 0) -> Member:
    return Member(title, name, Shown.MONEY, spare, whole=True)


def _time(title: str, name: str, spare: int = 0) -> Member:
    return Member(title, name, Shown.TIME, spare, whole=True)


@dataclass(frozen=True, slots=True)
class Noun:
    """A kind of thing: where the API lists it, where it shows one, and which of its members are columns."""

    name: str
    one: str
    list_path: str
    items: str
    key: str
    columns: tuple[Member, ...]
    wide: tuple[Member, ...] = ()
    show_path: str = ""
    kinds: str = ""  # the events after which a watch looks again
    of_agent: str = ""  # where the API lists those of one agent, if it has a place for that
    holder: str = ""  # what they belong to, where that is part of their names

    @property
    def many(self) -> str:
        return "acts" if self.name == "audit" else self.name

    def within(self, thing: str) -> "Noun":
        """The same kind of thing, as far as it belongs to another."""
        from urllib.parse import quote

        return replace(self, list_path=self.list_path.replace("{id}", quote(thing, safe="")), holder=thing)

    def id_of(self, row: Row) -> str:
        if self.holder:
            return f"{self.holder}/{row[self.key]}"
        return "/".join(str(row[part]) for part in self.key.split("+"))


NOUNS: Final = (
    Noun(
        "runs",
        "run",
        "/v1/runs",
        "runs",
        "run_id",
        (_id("RUN", "run_id"), _word("STATUS", "status"), _word("GOAL", "goal")),
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
            _id("ID", "turn_id"),
            _word("AGENT", "agent_id"),
            _word("STATUS", "status", whole=True),
            _word("TYPE", "type", 1, whole=True),
            _time("AGE", "created_at"),
        ),
        (
            _number("STARTS", "starts", 2),
            _word("FROM", "source_agent_id", 4),
            _number("EPOCH", "epoch", 3),
            _word("WORKER", "worker_id", 5),
            _word("TRACE", "trace_id", 6),
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
        (
            _word("AGENT", "agent_id"),
            _word("STATUS", "status", whole=True),
            _word("GATE", "gate", whole=True),
            _number("QUEUED", "queued"),
            _id("TURN", "turn_id"),
        ),
        (
            _number("EPOCH", "epoch", 2),
            _word("WORKER", "worker_id", 4),
            _number("WAITS", "waiting_tool_count", 3),
            _time("SINCE", "since", 1),
        ),
        "/v1/agents/{id}/head",
        "turn",
    ),
    Noun(
        "approvals",
        "approval",
        "/v1/immune/approvals",
        "approvals",
        "approval_id",
        (
            _id("ID", "approval_id"),
            _word("STATUS", "status", whole=True),
            _word("AGENT", "agent_id"),
            _word("ACTION", "action", whole=True),
            _time("AGE", "asked_at"),
            _word("WHY", "why", 1),
        ),
        (
            _time("EXPIRES", "expires_at", 3),
            _number("SIGMA", "sigma", 4),
            _word("DIAGNOSIS", "diagnosis", 5),
            _word("BY", "answered_by", 2),
        ),
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
            _id("ID", "incident_id"),
            _word("SPREAD", "spread", 2, whole=True),
            _word("AGENT", "agent_id"),
            _number("SIGMA", "sigma", 1),
            _word("OUTCOME", "outcome"),
            _time("AGE", "opened_at"),
        ),
        (
            _word("COHORT", "cohort", 5),
            _time("CLOSED", "closed_at", 4),
            _number("HELD", "held", 3),
            _number("RESUMED", "resumed", 3),
            _number("LOST", "lost", 3),
        ),
        "/v1/immune/incidents/{id}",
        "phase,alert",
    ),
    Noun(
        "policies",
        "policy",
        "/v1/policies",
        "policies",
        "policy_id",
        (
            _id("ID", "policy_id"),
            _word("ACTION", "action", whole=True),
            _word("AGENT", "agent_id", 3),
            _word("ORIGIN", "origin", 2, whole=True),
            _time("ENDS", "expires_at"),
            _word("REASON", "reason", 1),
        ),
        (_time("AGE", "created_at", 4),),
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
            _word("KIND", "kind", whole=True),
            _word("HOLDER", "holder"),
            _money("USD", "usd"),
            _money("SPENT", "usd_spent"),
            _number("TOKENS", "tokens"),
            _number("USED", "tokens_spent"),
        ),
        (
            _number("SECONDS", "seconds", 2),
            _time("ENDS", "ends_at", 1),
            _money("HELD", "usd_held", 3),
            _time("WARNED", "warned_at", 4),
        ),
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
            _id("ID", "call_id"),
            _word("AGENT", "agent_id"),
            _word("MODEL", "model", 3),
            _word("OUTCOME", "outcome", whole=True),
            _number("MS", "latency_ms", 1),
            _money("USD", "cost_usd", 2),
            _time("AGE", "started_at"),
        ),
        (
            _number("IN", "tokens_in", 4),
            _number("OUT", "tokens_out", 4),
            _word("CODE", "code", 5),
            _word("RUN", "run_id", 6),
            _word("TRACE", "trace_id", 7),
        ),
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
            _number("SEQ", "seq"),
            _time("AGE", "at"),
            _word("WHO", "actor"),
            _word("WHAT", "verb", whole=True),
            _word("OBJECT", "object"),
            _word("OUTCOME", "outcome", 2, whole=True),
            _word("WHY", "reason", 1),
        ),
        (_word("CHANGES", "changes", 3), _word("TRACE", "trace_id", 4)),
    ),
    Noun(
        "tools",
        "tool",
        "/v1/tools",
        "items",
        "name",
        (_id("NAME", "name"), _word("DESCRIPTION", "description")),
    ),
)
"""Agents have views of their own; `homeostat get` lists all others by this table."""

TASKS: Final = Noun(
    "tasks",
    "task",
    "/v1/runs/{id}/tasks",
    "tasks",
    "name",
    (
        _id("TASK", "name"),
        _word("STATUS", "status", whole=True),
        _word("TARGET", "target"),
        _word("AGENT", "agent_id", 2),
        _number("ATTEMPT", "attempt"),
        _word("AFTER", "after", 3),
        _word("ERROR", "error", 1),
    ),
    (_word("TURN", "turn_id", 4, whole=True), _time("STARTED", "started_at", 5), _time("ENDED", "ended_at", 6)),
)
"""Tasks are listed run by run, and named with their run: `task/run_1/publish`."""

BY_NAME: Final = {noun.name: noun for noun in NOUNS} | {noun.one: noun for noun in NOUNS}
EVENTS_HINT: Final = "presence, turn, deliverable, call, phase, approval, alert, policy, budget, run"

KINDS: Final = frozenset({"agent", "task", *(noun.one for noun in NOUNS)})

PREFIXES: Final = {"run": "run", "turn": "turn", "apr": "approval", "inc": "incident", "call": "call"}


def kind_of(name: str) -> str:
    """The kind of thing that an id is of, by how ids of that kind begin, or by what `-o name` writes before them.

    >>> kind_of("inc_1"), kind_of("policy/stop"), kind_of("ann")
    ('incident', 'policy', 'agent')
    """
    kind, slash, _ = name.partition("/")
    return kind if slash and kind in KINDS else PREFIXES.get(name.partition("_")[0], "agent")


def bare(name: str) -> str:
    """An id, also as `-o name` writes it: what one command lists, another takes.

    >>> bare("agent/ann"), bare("run_1/publish")
    ('ann', 'run_1/publish')
    """
    kind, slash, rest = name.partition("/")
    return rest if slash and kind in KINDS else name
