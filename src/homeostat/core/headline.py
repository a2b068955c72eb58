"""One word for an agent in lists: of all that holds for it, what comes first here.

Servers, the command line and the dashboard read this order; a test holds the dashboard's copy to it.
"""

from typing import Final

ASKED: Final = "approval waiting"
ORDER: Final = (
    "dead",
    "gone",
    "exhausted",
    "quarantined",
    "healing",
    "draining",
    ASKED,
    "suspected",
    "stale",
    "probation",
    "paused",
    "running",
    "suspended",
    "dispatched",
    "idle",
    "registered",
)
RANK: Final = {word: number for number, word in enumerate(ORDER)}


def headline(presence: str, phase: str, work: str, *, asked: bool) -> str:
    """The first of what holds; presences and phases that are as they should be are no headlines.

    `work` is as `work_of` tells it; whoever may not know that has the agent's own word for it.

    >>> headline("alive", "healthy", "running", asked=False), headline("stale", "quarantined", "idle", asked=True)
    ('running', 'quarantined')
    """
    held = {presence, phase, work, ASKED if asked else work}
    return min(held & RANK.keys(), key=RANK.__getitem__, default=work)


def work_of(gate: str, status: str, *, leased: bool) -> str:
    """How an agent stands with its turns. Nothing runs without a lease.

    >>> work_of("open", "running", leased=False), work_of("closed", "running", leased=True)
    ('idle', 'paused')
    """
    if gate != "open":
        return "paused"
    return status if leased or status != "running" else "idle"
