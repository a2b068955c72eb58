"""What is announced: commands, events and stream chunks, by subject."""

from dataclasses import dataclass
from enum import StrEnum

from homeostat.core.codec import Json
from homeostat.core.ids import ProjectId

_ESCAPES = str.maketrans({".": "%2E", "*": "%2A", ">": "%3E", " ": "%20", "%": "%25"})


class Channel(StrEnum):
    """How a message is treated: commands and events at least once, streams at most once."""

    CMD = "cmd"
    EVT = "evt"
    STR = "str"


@dataclass(frozen=True, slots=True)
class Event:
    """One announcement. Its id is what it is about, so a consumer can drop repeats."""

    event_id: str
    project: ProjectId
    channel: Channel
    component: str
    target: str
    suffix: str
    payload: Json

    @property
    def subject(self) -> str:
        return subject(self.project, self.channel, self.component, self.target, self.suffix)


def subject(project: str, channel: str, component: str, target: str, suffix: str) -> str:
    """`hs.v1.{project}.{channel}.{cmd|evt|str}.{component}.{target}.{suffix}`; the channel is always `main`."""
    return f"hs.v1.{token(project)}.main.{channel}.{component}.{token(target)}.{suffix}"


def token(name: str) -> str:
    """Make any name a single subject token; `*` stays the wildcard where it is the whole name."""
    return name if name == "*" else name.translate(_ESCAPES)
