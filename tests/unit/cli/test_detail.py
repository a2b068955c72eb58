"""One thing in full: for people, whole, and no way for an agent to command a terminal."""

from homeostat.cli.detail import page
from homeostat.cli.incident_page import digest
from homeostat.cli.tables import room
from homeostat.core.clock import Millis

NOW = Millis(1_763_409_600_000)
ROW = {
    "incident_id": "inc_1",
    "opened_at": "2025-11-17T19:58:00.000Z",
    "closed_at": None,
    "agents": ["ann", "bob"],
    "cost_usd": 0.0000312,
    "share": 0.7240923710534592,
    "killed": False,
    "evidence": [
        {"why": "cost is high", "sigma": 11.9},
        {"why": "it calls \x1b[31msearch with the same arguments again and again and again", "sigma": 5.0},
    ],
    "moved": {"actor": "bea", "reason": ""},
    "treatments": [],
}


def test_members_are_said_as_people_say_them() -> None:
    assert page(ROW, now_ms=NOW, width=None)[:6] == [
        "Incident id  inc_1",
        "Opened at    19:58:00 UTC (2 min ago)",
        "Agents       ann, bob",
        "Cost usd     $0.000031",
        "Share        0.7241",
        "Killed       no",
    ]


def test_parts_stand_below_their_name_and_nothing_is_cut_or_commands() -> None:
    lines = page(ROW, now_ms=NOW, width=40)
    assert lines[6:9] == ["Evidence", "  Why    cost is high", "  Sigma  11.9"]
    assert lines[-2:] == ["Moved", "  Actor  bea"], "what says nothing is left out"
    assert max(map(room, lines)) <= 40
    assert "again and again and again" in " ".join(" ".join(lines).split())
    assert "\x1b" not in "".join(lines)


def test_what_was_seen_of_an_incident_is_told_once_and_so_is_what_guesses_rest_on() -> None:
    def seen(vital: str, sigma: float, second: int) -> dict[str, object]:
        at = f"2025-11-17T19:57:{second:02d}.000Z"
        return {"kind": "spike", "vital": vital, "sigma": sigma, "at": at, "why": f"{vital} is {sigma:g}"}

    because = ["latency is 9.6"]
    guesses = [
        {"diagnosis": "external_cause", "confidence": 0.55, "because": because},
        {"diagnosis": "unknown", "confidence": 0.2, "because": because},
    ]
    row = {
        "evidence": [seen("latency", 7.5, 4), seen("tokens", 8.4, 5), seen("latency", 9.6, 2)],
        "hypotheses": guesses,
    }
    assert page(digest(row), now_ms=NOW, width=None) == [
        "Evidence    9.6 sigma  latency is 9.6 (2 times, 19:57:02 to 19:57:04 UTC)",
        "            8.4 sigma  tokens is 8.4",
        "Hypotheses  55%  external_cause: latency is 9.6",
        "            20%  unknown: by the same signs",
    ]
