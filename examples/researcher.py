"""A ready-made agent: a model, a prompt, and functions as tools.

homeostat worker examples.researcher:Researcher --agent-id researcher --simulate-models
homeostat enqueue researcher '"What raises tides?"' --wait --result-field answer
"""

from typing import Annotated

import msgspec

from homeostat import Profile, ReActAgent

LIBRARY = {
    "tides": "Tides are raised by the moon, and by the sun at a bit less than half its strength.",
    "foxes": "The red fox lives on every continent of the northern hemisphere.",
}


def search(query: str, limit: Annotated[int, msgspec.Meta(ge=1, le=5)] = 2) -> list[str]:
    """Find topics of the library that a query speaks of."""
    return [topic for topic in LIBRARY if topic in query.lower()][:limit]


def read(topic: str) -> str:
    """Read what the library has on a topic."""
    return LIBRARY.get(topic, "There is nothing on that.")


class Researcher(ReActAgent):
    """Answers questions from a small library."""

    profile = Profile(
        model="gpt-4.1-mini",
        system_prompt="You answer questions from the library. Search first, then read, then submit your result.",
        tools=(search, read),
        must_end_with="submit_result",
        max_steps=8,
    )
