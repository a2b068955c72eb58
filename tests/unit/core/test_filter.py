"""The one filter grammar: what it covers, and how it says what is wrong."""

from dataclasses import dataclass
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from homeostat.core.clock import Millis, parse_rfc3339
from homeostat.core.filter import Filter, FilterInvalid
from homeostat.core.filter_fields import NOUNS, READERS
from homeostat.core.limits import FILTER_CHARS_MAX, FILTER_TERMS_MAX
from homeostat.core.wire.access import ActShape
from homeostat.core.wire.answers import HeadShape, TurnShape
from homeostat.core.wire.fleet import AgentRow
from homeostat.core.wire.gateway import BudgetShape, CallShape, PolicyShape
from homeostat.core.wire.immune import ApprovalShape, IncidentShape
from homeostat.core.wire.ledger import EntryShape
from homeostat.core.wire.runs import RunShape, TaskShape

NOW = parse_rfc3339("2026-01-31T12:00:00.000Z")
AGENT = {
    "agent_id": "billing-7",
    "agent_type": "Billing",
    "tags": ["gpu", "team:pay"],
    "phase": "quarantined",
    "last_action": "Paid the weekly bill",
    "queue_depth": 12,
    "started_at": "2026-01-31T11:30:00Z",
    "hostname": None,
    "version": None,
}
RUN = {
    "goal": "Write it",
    "budget": {"usd_spent": 2.5, "tokens_spent": 12_000, "warned": True},
    "moved": {"actor": "ann"},
}
INCIDENT = {"hypotheses": [{"diagnosis": "prompt_injection"}, {"diagnosis": "loop"}], "closed_at": None, "lost": 0}
SHAPES = {
    "agents": AgentRow,
    "runs": RunShape,
    "tasks": TaskShape,
    "turns": TurnShape,
    "heads": HeadShape,
    "incidents": IncidentShape,
    "approvals": ApprovalShape,
    "calls": CallShape,
    "policies": PolicyShape,
    "budgets": BudgetShape,
    "audit": ActShape,
    "ledger": EntryShape,
}


def read(noun: str, text: str) -> Filter:
    return READERS[noun].read(text, now_ms=Millis(NOW))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "phase:quarantined tag:gpu queue>2 started>-1h",
        "phase:QUARANTINED",
        "phase=quarantined",
        "phase:healthy,quarantined",
        "tag:team:pay",
        "tag:team:*",
        "agent:bill*-7",
        "agent:*7",
        "agent:*",
        "-phase:healthy",
        "!phase:healthy",
        "phase!=healthy",
        "-phase!=quarantined",
        'action:"weekly bill"',
        "action:bill",
        "queue:12",
        "queue>=12 queue<=12",
        "queue<1k",
        "started>2026-01-31 started<2026-01-31T11:45:00Z",
        "started<-10m",
        "host:none",
        "errors:none",
        "-host:*",
        "weekly",
        "TEAM",
        "-weakly",
    ],
)
def test_a_row_is_covered(text: str) -> None:
    assert read("agents", text).covers(AGENT)


@pytest.mark.parametrize(
    "text",
    [
        "phase:quarantine",
        "phase:healthy,suspected",
        "tag:team",
        "agent:billing-7*7",
        "agent:*8",
        "-phase:quarantined",
        "phase!=quarantined",
        'action:"bill weekly"',
        "queue:11",
        "queue>12",
        "errors>0",
        "errors<1",
        "started>-10m",
        "host:x",
        "agent:none",
        "phase:quarantined tag:cpu",
        "monthly",
        "-weekly",
    ],
)
def test_a_row_is_not_covered(text: str) -> None:
    assert not read("agents", text).covers(AGENT)


def test_what_lies_deeper_is_found_too() -> None:
    assert read("runs", "cost>2 tokens>=12k warned:yes moved_by:ann").covers(RUN)
    assert not read("runs", "cost>$2.5").covers(RUN)
    assert not read("runs", "warned:no").covers(RUN)
    assert read("incidents", "diagnosis:loop closed:none lost:0").covers(INCIDENT)
    assert not read("incidents", "-diagnosis:loop").covers(INCIDENT)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("colour:red", "no field 'colour'"),
        ("phase:", "no value"),
        ('phase:""', "no value"),
        ("queue>many", "no number"),
        ("started>soon", "no time"),
        ("started:2026-01-31", "> or <"),
        ("phase>healthy", "no order"),
        ('action:"weekly', "not closed"),
        ("-", "says nothing"),
        ("x" * (FILTER_CHARS_MAX + 1), "longer"),
        ("a " * (FILTER_TERMS_MAX + 1), "more than"),
    ],
)
def test_what_is_wrong_is_told_with_the_fields_there_are(text: str, says: str) -> None:
    with pytest.raises(FilterInvalid) as refused:
        read("agents", text)
    assert says in refused.value.message
    assert "phase" in refused.value.message
    fields: Any = refused.value.facts["fields"]
    assert fields["queue"] == "number"


def test_every_field_stands_where_the_api_shows_it() -> None:
    """A field that no answer has would fit nothing, silently."""
    assert {reader.noun for reader in NOUNS} == {*SHAPES, "events"}
    for noun, shape in SHAPES.items():
        for field in READERS[noun].fields:
            kinds = _types(shape, field.member.split("."))
            assert kinds, f"{noun} have no {field.member}"


def _types(kind: Any, parts: list[str]) -> list[Any]:
    """The types found along a path, through lists and options."""
    found = [msgspec.inspect.type_info(kind)]
    for part in parts:
        following: list[Any] = []
        for one in _plain(found):
            following += [field.type for field in getattr(one, "fields", ()) if field.name == part]
        found = following
    return found


def _plain(kinds: list[Any]) -> list[Any]:
    found: list[Any] = []
    for kind in kinds:
        if isinstance(kind, msgspec.inspect.UnionType):
            found += _plain(list(kind.types))
        elif hasattr(kind, "item_type"):
            found += _plain([kind.item_type])
        else:
            found.append(kind)
    return found


@dataclass
class Thing:
    """A record with the members that agents have."""

    agent_id: str
    tags: tuple[str, ...]


@given(st.text(max_size=60))
def test_whatever_is_typed_is_a_filter_or_is_refused(text: str) -> None:
    try:
        wanted = read("agents", text)
    except FilterInvalid:
        return
    assert wanted.covers(Thing("ann", ("gpu",))) in (True, False)


@given(st.text(st.characters(exclude_characters='",*'), min_size=1, max_size=20))
def test_a_value_finds_itself(name: str) -> None:
    if name.casefold() != "none":
        assert read("agents", f'agent:"{name}"').covers(Thing(name, ()))
