"""The end of a box, and what may stand in its way."""

from typing import Final

from msgspec import Struct

from homeostat.core.ids import AgentId, BoxId, ProjectId, TurnId

BoxKey = tuple[ProjectId, BoxId]

NOBODY: Final = AgentId("")
"""Whom a box belongs to that has ended, as long as there are cards of it to take away."""


class BoxEnding(Struct, frozen=True, gc=False):
    """What stands in the way of a box's end: that there is no such box, an unfinished turn that needs it, the finished
    turn it was born with, or a box that refers to its cards. Empty means that it has ended.
    """

    unknown: bool = False
    needed_by: TurnId | None = None
    born_of: TurnId | None = None
    referred_by: BoxId | None = None
