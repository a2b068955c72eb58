"""What was said in a model call, as far as it matters who said it."""

from dataclasses import dataclass
from enum import StrEnum


class Speaker(StrEnum):
    """Where a text came from."""

    MASTER = "master"  # whom the agent serves: the user, and its own instructions
    CALL = "call"  # the agent calls a tool; the text is the arguments
    TOOL = "tool"  # a tool answers


@dataclass(frozen=True, slots=True)
class Utterance:
    """One text of a conversation."""

    speaker: Speaker
    text: str
    tool: str = ""


Conversation = tuple[Utterance, ...]
