"""Tables: every line fits, colours are for terminals, and what agents say cannot command one."""

import io
import re
from typing import Any

import pytest

from homeostat.cli.agent_page import page, sparkline
from homeostat.cli.agents import ListOutput
from homeostat.cli.fleet_view import COLUMNS, TOP_COLUMNS, WIDE_COLUMNS, Beside, cells, headline, state, summary
from homeostat.cli.listing import show_rows
from homeostat.cli.nouns import NOUNS, Noun, Shown
from homeostat.cli.selection import selection
from homeostat.cli.tables import Cell, Column, Screen, ago, cut, distance, measure, money, plain, room, screen, table
from homeostat.cli.top_view import Order, Rate, TopView
from homeostat.cli.yaml import dump

NOW = 1_750_000_000_000
Row = dict[str, Any]


def row(agent_id: str = "inference-1", **changes: object) -> Row:
    return {
        "agent_id": agent_id,
        "agent_type": "inference",
        "tags": ["gpu", "primary"],
        "hostname": "worker-1",
        "pid": 12345,
        "version": "1.4.0",
        "registered_at": "2025-06-15T15:00:00.000Z",
        "presence": "alive",
        "presence_since": "2025-06-15T15:00:00.000Z",
        "phase": "healthy",
        "status": "running",
        "reported_status": "running",
        "last_seen_at": "2025-06-15T15:06:37.000Z",
        "timestamp": "2025-06-15T15:06:37Z",
        "started_at": "2025-06-15T15:00:00Z",
        "uptime_seconds": 397.0,
        "last_action": "Processed observation obs-456",
        "last_action_at": "2025-06-15T15:06:30Z",
        "items_processed": 142,
        "queue_depth": 3,
        "processing_time_avg_ms": 250.5,
        "error_count": 2,
        "memory_mb": 156.3,
        "push_interval_seconds": 5.0,
        "push_interval_source": "tag:gpu",
        **changes,
    }


def silent(agent_id: str) -> Row:
    nothing = ("reported_status", "uptime_seconds", "last_action", "last_action_at", "items_processed", "queue_depth")
    numbers = (
        "processing_time_avg_ms",
        "error_count",
        "memory_mb",
        "hostname",
        "pid",
        "version",
        "timestamp",
        "started_at",
    )
    return row(agent_id, status="registered", tags=[], **dict.fromkeys((*nothing, *numbers)))


@pytest.mark.parametrize("columns", [COLUMNS, WIDE_COLUMNS, TOP_COLUMNS])
@pytest.mark.parametrize("width", [1, 10, 40, 60, 80, 100, 133, 200])
def test_no_line_is_wider_than_the_terminal(columns: tuple[Column, ...], width: int) -> None:
    rows = [row(), silent("s"), row("x" * 200, last_action="語" * 300, tags=["t" * 100] * 9, items_processed=10**15)]
    lines = table(columns, [cells(each, columns, now_ms=NOW) for each in rows], on=Screen(width))
    assert len(lines) == 4
    assert max(map(room, lines)) <= width


def test_what_matters_most_is_shown_to_the_end() -> None:
    lines = table(TOP_COLUMNS, [cells(row(), TOP_COLUMNS, now_ms=NOW)], on=Screen(40))
    assert lines[0].split() == ["ID", "TYPE", "STATUS", "SEEN"]
    assert lines[1].split() == ["inference-1", "inference", "●", "running", "3s"]


def test_a_pipe_gets_everything() -> None:
    [_, line] = table(WIDE_COLUMNS, [cells(row("x" * 200), WIDE_COLUMNS, now_ms=NOW)], on=Screen())
    assert line.startswith("x" * 200)
    assert line.endswith("Processed observation obs-456")
    assert "\x1b" not in line


def test_what_an_agent_says_cannot_command_a_terminal() -> None:
    hostile = row("a\x1b[2J", last_action="\x1b]0;owned\x07\r\nnext\u202e")
    lines = table(TOP_COLUMNS, [cells(hostile, TOP_COLUMNS, now_ms=NOW)], on=Screen(200))
    detail = hostile | {"head": None}
    for line in [*lines, *page(detail, [], now_ms=NOW, on=Screen(200))]:
        assert line.isprintable()
    assert plain("ok") == "ok"


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tty(io.StringIO):
        def isatty(self) -> bool:
            return True

    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert screen(Tty()).colours
    assert not screen(io.StringIO()).colours
    assert screen(io.StringIO()).width is None
    monkeypatch.setenv("NO_COLOR", "1")
    assert not screen(Tty()).colours
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not screen(Tty()).colours
    [_, line] = table((Column("X"),), [[Cell("bad", "red bold")]], on=Screen(80, colours=True))
    assert line == "\x1b[31;1mbad\x1b[0m"


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        ({"presence": "dead", "phase": "quarantined"}, "dead"),
        ({"phase": "quarantined"}, "quarantined"),
        ({"presence": "stale", "phase": "draining", "status": "stale"}, "draining"),
        ({"presence": "stale", "status": "stale", "phase": "probation"}, "stale"),
        ({"phase": "probation"}, "probation"),
        ({"status": "idle"}, "idle"),
        ({"status": "error"}, "error"),  # the agent's own word, where no more is known
        ({"status": "running", "headline": "paused"}, "paused"),  # the server knows
    ],
)
def test_one_word_for_an_agent(facts: Row, word: str) -> None:
    assert headline(row(**facts)) == word


HEAD = {
    "status": "idle",
    "gate": "open",
    "worker_id": None,
    "queued": 7,
    "waiting_tool_count": 0,
    "resume_deadline": None,
}


@pytest.mark.parametrize(
    ("facts", "head", "asked", "word"),
    [
        ({}, {}, False, "idle"),
        ({}, {"status": "running"}, False, "idle"),  # it says it runs, and nobody holds the lease
        ({}, {"status": "running", "worker_id": "wrk_1"}, False, "running"),
        ({}, {"gate": "cordoned"}, False, "paused"),
        ({"phase": "quarantined"}, {}, True, "quarantined"),
        ({"phase": "suspected", "presence": "stale"}, {}, True, "approval waiting"),
        ({"phase": "healing"}, {}, True, "healing"),
        ({"presence": "dead"}, {"status": "running", "worker_id": "wrk_1"}, True, "dead"),
        ({"phase": "suspected", "presence": "stale"}, {}, False, "suspected"),
    ],
)
def test_nothing_runs_without_a_lease(facts: Row, head: Row, asked: bool, word: str) -> None:  # noqa: FBT001
    beside = Beside({"inference-1": HEAD | head}, frozenset({"inference-1"} if asked else ()))
    assert headline(row(**facts), beside) == word


def test_an_agent_that_somebody_is_asked_about_says_that_it_is_held() -> None:
    told = state(row(phase="quarantined"), Beside({}, frozenset({"inference-1"})), now_ms=NOW)
    assert told.text == "● quarantined (approval waiting)"


def test_a_turn_that_waits_says_for_how_long() -> None:
    head = HEAD | {"status": "suspended", "waiting_tool_count": 1, "resume_deadline": "2025-06-15T15:07:20.000Z"}
    told = state(row(), Beside({"inference-1": head}), now_ms=NOW)
    assert told.text == "● suspended (waiting for a tool, 40s left)"
    [_, line] = table(COLUMNS, [cells(row(), COLUMNS, now_ms=NOW, beside=Beside({"inference-1": HEAD}))], on=Screen())
    assert " 7 " in line, "what waits is what the inbox has, not what the agent counts"


def test_a_fleet_in_one_sentence() -> None:
    rows = [row("a"), row("b", status="idle"), row("c", presence="dead", status="dead")]
    assert summary(rows) == "3 agents: 1 dead, 1 running, 1 idle"
    assert summary([]) == "no agents"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "0s"), (0.9, "0s"), (59, "59s"), (60, "1m"), (100, "1m40s"), (3599, "59m"), (5400, "1h30m"), (10**6, "11d")],
)
def test_spans_of_time(seconds: float, words: str) -> None:
    assert ago(seconds) == words


def test_times_of_the_api_are_told_by_their_distance() -> None:
    assert distance("2025-06-15T15:00:00.000Z", NOW) == "6m40s"
    assert distance("2025-06-15T15:07:40.000Z", NOW) == "in 1m"
    assert [money(one) for one in (0, 0.000026, 0.0099, 0.01, 1234.5)] == [
        "$0.00",
        "$0.000026",
        "$0.009900",
        "$0.01",
        "$1,234.50",
    ]


@pytest.mark.parametrize("noun", [one for one in NOUNS if one.name != "runs"], ids=lambda one: one.name)
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("width", [80, 120])
def test_times_and_ids_are_never_cut(
    noun: Noun,
    wide: bool,  # noqa: FBT001
    width: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("homeostat.cli.tables.screen", lambda: Screen(width))
    words = {Shown.TIME: "2020-01-01T00:00:00.000Z", Shown.NUMBER: 12345, Shown.MONEY: 0.000123}
    made: Row = {
        one.name: words.get(one.shown, "reset_memory" if one.whole else "a rather long word, or many")
        for one in (*noun.columns, *noun.wide)
    }
    made |= {part: "x" * 29 for part in noun.key.split("+") if isinstance(made.get(part), str)}
    show_rows(noun, [made], ListOutput.WIDE if wide else ListOutput.TABLE, body=None)
    heading, line = capsys.readouterr().out.splitlines()
    assert max(room(heading), room(line)) <= width
    times = [one for one in noun.columns if one.shown is Shown.TIME and not one.spare]
    assert all(re.search(r"\b\d+d\b", line) for _ in times), "an age is told whole"
    first = noun.columns[0]
    assert not first.whole or first.shown is Shown.NUMBER or "x" * 29 in line, "an id is told whole"


def test_numbers() -> None:
    assert [measure(n) for n in (None, 0, 3.25, 142, 1234567.8)] == ["-", "0", "3.2", "142", "1,234,568"]
    assert cut("abcdef", 4) == "abc…"
    assert cut("語語語", 5) == "語語…"
    assert sparkline([0, 1, 2]) == "▁▄█"
    assert sparkline([5, 5]) == "▁▁"


def test_yaml_says_what_json_says() -> None:
    document = {
        "a": "yes",
        "b": [1, {"c": None, "d": []}],
        "e": {"f": True, "g h": "x: y"},
        "i": "plain words",
        "j": {},
    }
    assert dump(document).splitlines() == [
        'a: "yes"',
        "b:",
        "- 1",
        "- c: null",
        "  d: []",
        "e:",
        "  f: true",
        '  g h: "x: y"',
        "i: plain words",
        "j: {}",
    ]


def test_a_page_tells_both_that_an_agent_is_dead_and_that_it_holds_a_turn() -> None:
    head = {
        "turn_id": "turn_1",
        "status": "running",
        "starts": 1,
        "epoch": 2,
        "worker_id": "wrk_1",
        "lease_expires_at": "2025-06-15T15:06:45.000Z",
        "waiting_tool_count": 0,
        "queued": 4,
        "gate": "open",
        "gate_reason": None,
    }
    text = "\n".join(page(row(presence="dead", status="dead") | {"head": head}, [], now_ms=NOW, on=Screen(120)))
    assert "Presence    dead for 6m40s; last heard 3s ago, every 5 s by tag:gpu" in text
    assert "Turn        running turn_1 (start 1, epoch 2) on wrk_1, lease ends in 5 s" in text
    assert "Inbox       4 waiting, gate open" in text


def test_selectors() -> None:
    wanted = selection("inference", ["gpu,!old", "primary"])
    assert wanted.tag == "gpu"
    assert wanted.covers(row())
    assert not wanted.covers(row(tags=["gpu"]))
    assert not wanted.covers(row(tags=["gpu", "primary", "old"]))
    assert not wanted.covers(row(agent_type="cli"))
    assert selection(None, None, "stale").covers(row(presence="stale", status="stale"))


# --- the live table --------------------------------------------------------------------------------------------


def frame(view: TopView, rows: list[Row], *, width: int = 80, height: int = 10, problem: str = "") -> list[str]:
    return view.frame(rows, on=Screen(width), height=height, now_ms=NOW, rate=1.5, problem=problem)


@pytest.mark.parametrize(("width", "height"), [(80, 24), (20, 3), (200, 50), (5, 1)])
def test_a_frame_has_the_size_of_the_terminal(width: int, height: int) -> None:
    rows = [row(f"agent-{number}") for number in range(30)]
    lines = frame(TopView("http://127.0.0.1:7700"), rows, width=width, height=height)
    assert len(lines) == height
    assert max(map(room, lines)) <= width


def test_trouble_comes_first_and_keys_are_heeded() -> None:
    rows = [row(f"a{number}", queue_depth=number) for number in range(20)]
    rows.append(row("zz", presence="dead", status="dead"))
    rows.reverse()
    view = TopView("here")

    def shown() -> list[str]:
        return [line.split()[0] for line in frame(view, rows)[3:-1]]

    assert shown()[0] == "zz"
    assert view.press("\x1b[B")
    assert shown()[0] == "a0"
    for _ in range(50):
        view.press(" ")
    assert shown()[-1] == "a9"  # the end is the end
    view.press("g")
    view.press("s")
    assert view.order is Order.ID
    assert shown()[0] == "a0"
    view.press("s")
    assert shown()[0] == "a19"
    view.press("r")
    assert shown()[0] in {"a0", "a3", "zz"}
    assert view.press("x")
    assert not any(view.press(key) for key in ("q", "\x03", "\x04"))


def test_a_lost_connection_is_said_in_the_place_of_the_summary() -> None:
    lines = frame(TopView("here"), [row()], problem="Connection refused")
    assert lines[1] == "not connected: Connection refused"
    assert "inference-1" in lines[3]


def test_heartbeats_per_second() -> None:
    rate = Rate()
    assert rate.per_second(0) == 0
    for second in range(20):
        rate.add(5, second)
    assert rate.per_second(19) == pytest.approx(5.5)
    assert rate.per_second(100) == 0
