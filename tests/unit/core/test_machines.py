"""State machines are tables: what construction refuses, and what is read off them."""

from enum import StrEnum
from typing import Any

import pytest

from homeostat.core.errors import IllegalTransition
from homeostat.core.machines import ALL, HEAD, ITEM, ITEM_OF_HEAD, HeadStatus, ItemStatus, Machine, Row, TurnEvent


class Light(StrEnum):
    RED = "red"
    GREEN = "green"
    OFF = "off"


class Signal(StrEnum):
    GO = "go"
    HALT = "halt"
    BREAK = "break"


ROWS = (
    Row(Light.RED, Signal.GO, Light.GREEN, "the road is free"),
    Row(Light.GREEN, Signal.HALT, Light.RED, "somebody crosses"),
    Row(Light.RED, Signal.BREAK, Light.OFF, "lightning"),
)


def light(*rows: Row[Light, Signal], final: tuple[Light, ...] = (Light.OFF,)) -> Machine[Light, Signal]:
    return Machine("light", initial=Light.RED, final=final, rows=rows)


def test_a_table_answers_for_itself() -> None:
    machine = light(*ROWS)
    assert machine.next(Light.RED, Signal.GO) is Light.GREEN
    assert machine.allows(Light.GREEN, Signal.HALT)
    assert not machine.allows(Light.OFF, Signal.GO)
    assert machine.sources(Signal.BREAK) == {Light.RED}
    assert machine.events(Light.RED) == (Signal.GO, Signal.BREAK)


def test_a_lookup_miss_is_the_error() -> None:
    with pytest.raises(IllegalTransition, match="light: there is no way from off by go"):
        light(*ROWS).next(Light.OFF, Signal.GO)


@pytest.mark.parametrize(
    ("rows", "final", "complaint"),
    [
        ((*ROWS, ROWS[0]), (Light.OFF,), "two rows"),
        ((*ROWS, Row(Light.RED, Signal.GO, Light.OFF, "otherwise")), (Light.OFF,), "two rows"),
        ((*ROWS, Row(Light.OFF, Signal.GO, Light.RED, "repaired")), (Light.OFF,), "final"),
        (ROWS[:2], (), "nothing leads to"),
        ((ROWS[0], ROWS[1], Row(Light.OFF, Signal.HALT, Light.OFF, "stays off")), (), "nothing leads to"),
        ((*ROWS[:2], Row(Light.RED, Signal.BREAK, Light.OFF, "")), (Light.OFF,), "does not say why"),
    ],
)
def test_construction_refuses(rows: tuple[Any, ...], final: tuple[Light, ...], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        light(*rows, final=final)


def test_a_table_draws_itself() -> None:
    assert light(*ROWS).mermaid().splitlines() == [
        "stateDiagram-v2",
        "    [*] --> red",
        "    red --> green : go",
        "    green --> red : halt",
        "    red --> off : break",
        "    off --> [*]",
    ]


@pytest.mark.parametrize("machine", ALL, ids=lambda machine: machine.name)
def test_every_machine_of_the_system_is_whole(machine: Machine[Any, Any]) -> None:
    for state in machine.states:
        assert machine.events(state) or state in machine.final, f"{state} is a trap that nobody called final"
    assert set(machine.sources(machine.rows[0].event)) >= {machine.rows[0].state}


def test_the_item_on_a_head_goes_where_the_head_goes() -> None:
    """Whatever moves a head moves the item it holds, to the place that follows from the head."""
    for row in HEAD.rows:
        if row.event is TurnEvent.LEASE:
            assert ITEM.next(ItemStatus.QUEUED, row.event) is ITEM_OF_HEAD[row.target]
            continue
        after = ITEM.next(ITEM_OF_HEAD[row.state], row.event)
        if row.event is TurnEvent.PREEMPT:
            assert after is ItemStatus.QUEUED
        elif row.target is HeadStatus.IDLE:
            assert after in ITEM.final
        else:
            assert after is ITEM_OF_HEAD[row.target]


def test_every_way_out_of_work_ends_in_a_deliverable_or_in_line() -> None:
    ways_out = {row.event for row in HEAD.rows if row.target is HeadStatus.IDLE}
    assert ways_out == {TurnEvent.DELIVER, TurnEvent.STOP, TurnEvent.REAP, TurnEvent.PREEMPT}
