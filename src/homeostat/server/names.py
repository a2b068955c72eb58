"""Names from a path or a body, made into ids; one that cannot exist is unknown before anybody looks."""

import re
from typing import Final

from homeostat.core.errors import AgentUnknown, BoxUnknown, CardUnknown, MalformedPayload, TurnUnknown
from homeostat.core.ids import AgentId, BoxId, CardId, ProjectId, RunId, TurnId
from homeostat.core.limits import CURSOR_MAX, NAME_CHARS_MAX
from homeostat.core.records.turn import AgentKey
from homeostat.server.call import Call

_TURN: Final = re.compile(r"turn_[0-9a-f]{24}")
_RUN: Final = re.compile(r"run_[0-9a-f]{24}")
_BOX: Final = re.compile(r"box_[0-9a-f]{24}")
_CARD: Final = re.compile(r"card_[0-9a-f]{24}_[0-9]{1,9}_[0-9a-f]{32}")
_POSITION: Final = re.compile(r"[0-9]{1,16}")
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f]")
OBJECT_CHARS_MAX: Final = 2_000
_NOUNS: Final = {
    "task": "task",
    "run_id": "run",
    "agent_id": "agent",
    "turn_id": "turn",
    "approval_id": "approval",
    "incident_id": "incident",
    "policy_id": "policy",
    "kind": "budget",
    "key_id": "key",
    "name": "webhook",
    "feedback_id": "feedback",
    "tag": "tag",
    "agent_type": "type",
}
"""What the named parts of a path stand for; of several the first here says what the whole is."""


def object_of(call: Call) -> str:
    """What an order is about, as the command line writes names: `agent/ann`, `task/run_1/publish`, `red-button`."""
    named = call.parameters
    noun = next((noun for part, noun in _NOUNS.items() if part in named), None)
    path = str(call.scope["path"]).removeprefix("/v1/").removeprefix("/api/").strip("/")
    return (path if noun is None else "/".join((noun, *named.values())))[:OBJECT_CHARS_MAX]


def agent_key(call: Call) -> AgentKey:
    """The agent a path names, in the request's project."""
    return key_in(call.project, call.parameters["agent_id"])


def key_in(project: ProjectId, agent_id: str) -> AgentKey:
    if not 0 < len(agent_id) <= NAME_CHARS_MAX or _UNPRINTABLE.search(agent_id):
        raise AgentUnknown(agent_id=agent_id[:NAME_CHARS_MAX], project=project)
    return (project, AgentId(agent_id))


def word_in(call: Call, part: str) -> str:
    """A name out of the path, of any that a body may give; what cannot be one is as good as unknown."""
    word = call.parameters[part][:NAME_CHARS_MAX]
    return "?" if _UNPRINTABLE.search(word) else word


def turn_id(text: str) -> TurnId:
    if not _TURN.fullmatch(text):
        raise TurnUnknown(turn_id=text[:NAME_CHARS_MAX])
    return TurnId(text)


def box_id(text: str) -> BoxId:
    if not _BOX.fullmatch(text):
        raise BoxUnknown(box_id=text[:NAME_CHARS_MAX])
    return BoxId(text)


def optional_box_id(text: str | None) -> BoxId | None:
    return None if text is None else box_id(text)


def card_id(text: str) -> CardId:
    if not _CARD.fullmatch(text):
        raise CardUnknown(card_id=text[:NAME_CHARS_MAX])
    return CardId(text)


def run_cursor(cursor: str | None) -> RunId | None:
    """A cursor that is a run."""
    if cursor is not None and not _RUN.fullmatch(cursor):
        raise MalformedPayload(field="cursor", problem="use the next_cursor of the page before")
    return None if cursor is None else RunId(cursor)


def number(cursor: str | None, *, default: int) -> int:
    """A cursor that is a position."""
    if cursor is None:
        return default
    if not _POSITION.fullmatch(cursor) or int(cursor) > CURSOR_MAX:
        raise MalformedPayload(field="cursor", problem="use the next_cursor of the page before")
    return int(cursor)
