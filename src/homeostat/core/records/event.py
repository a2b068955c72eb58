"""What is announced: commands, events and stream chunks, by subject."""

import re
from enum import StrEnum
from typing import Final
from urllib.parse import quote

from msgspec import Struct

from homeostat.core.codec import Json
from homeostat.core.ids import ProjectId, digest_of
from homeostat.core.limits import SUBJECT_TOKEN_CHARS_MAX

PASSING: Final = frozenset({"wakeup", "served", "revoke", "state"})
"""Kinds that are worth something only at the moment they are said: no bus keeps them for later."""

GATHERED: Final = frozenset({"vitals"})
"""Kinds that are said by the hundred and never repeated: a bus may carry several of one subject in one message."""

_SPECIAL = re.compile(r"[\x00-\x20\x7f-\xa0.*>%\ud800-\udfff]|\s")


class Channel(StrEnum):
    """How a message is treated: commands and events at least once, streams at most once."""

    CMD = "cmd"
    EVT = "evt"
    STR = "str"


class Event(Struct, frozen=True, gc=False):
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
        """Where it is said. No name in it is a wildcard, whatever an agent is called."""
        return f"hs.v1.{token(self.project)}.main.{self.channel}.{self.component}.{token(self.target)}.{self.suffix}"

    @property
    def passing(self) -> bool:
        """Whether it may be thrown away when nobody hears it now."""
        return is_passing(self.channel, self.suffix)


def is_passing(channel: Channel, suffix: str) -> bool:
    return channel is Channel.STR or suffix in PASSING


def subject(project: str, channel: str, component: str, target: str, suffix: str) -> str:
    """What to listen to: `hs.v1.{project}.{channel}.{cmd|evt|str}.{component}.{target}.{suffix}`.

    The channel is always `main`; `*` in the place of a name stands for any.
    """
    return f"hs.v1.{_or_any(project)}.main.{channel}.{component}.{_or_any(target)}.{suffix}"


def token(name: str) -> str:
    """Make any name a single token of a subject: different names give different tokens."""
    if name and _SPECIAL.search(name) is None and len(name) <= SUBJECT_TOKEN_CHARS_MAX:
        return name
    escaped = _SPECIAL.sub(_escape, name) or "%"
    # A protocol line has its limit, and an escaped name may be nine times as long as it was.
    return escaped if len(escaped) <= SUBJECT_TOKEN_CHARS_MAX else "%" + digest_of(escaped)


def _escape(found: re.Match[str]) -> str:
    byte = found.group()
    return f"%{ord(byte):02X}" if byte < "\x7f" else quote(byte, errors="surrogatepass")


def _or_any(name: str) -> str:
    return name if name == "*" else token(name)
