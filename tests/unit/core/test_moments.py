"""Times as people tell them."""

import pytest

from homeostat.core.clock import Millis, parse_rfc3339
from homeostat.core.moments import moment, span

NOW = parse_rfc3339("2026-03-02T12:00:00Z")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-3, "0 s"),
        (0.4, "0 s"),
        (59, "59 s"),
        (61, "1 min 1 s"),
        (600, "10 min"),
        (659, "10 min"),
        (3_600, "1 h"),
        (9_000, "2 h 30 min"),
        (86_400, "1 day"),
        (180_000, "2 days 2 h"),
        (10_000_000, "115 days"),
    ],
)
def test_a_span_is_told_in_what_people_count_by(seconds: float, words: str) -> None:
    assert span(seconds) == words


@pytest.mark.parametrize(
    ("at", "words"),
    [
        ("2026-03-02T11:57:55Z", "11:57:55 UTC (2 min 5 s ago)"),
        ("2026-03-02T12:01:00Z", "12:01:00 UTC (in 1 min)"),
        ("2026-03-01T09:00:00Z", "1 Mar, 09:00 UTC (1 day 3 h ago)"),
        ("2025-12-31T12:00:00Z", "31 Dec 2025, 12:00 UTC (61 days ago)"),
    ],
)
def test_a_moment_has_its_day_where_that_is_another(at: str, words: str) -> None:
    assert moment(parse_rfc3339(at), Millis(NOW)) == words
