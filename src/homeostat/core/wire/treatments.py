"""Remedies that are in force, as they are sent."""

from homeostat.core.records.immune import RemedyAction
from homeostat.core.wire.fields import Instant, Shape
from homeostat.core.wire.immune import ReasonBody


class RemedyShape(Shape, frozen=True, kw_only=True):
    """A remedy in force: kept by the `agent` itself, wherever it is hosted, or by a rule of the `gateway`."""

    action: RemedyAction
    kept_by: str
    since: Instant
    until: Instant | None
    policy_id: str | None = None


class RemediesShape(Shape, frozen=True, kw_only=True):
    """The remedies of an agent that are in force, oldest first."""

    agent_id: str
    treatments: list[RemedyShape]


class LiftBody(ReasonBody, frozen=True, kw_only=True):
    """Why, on whose word, and which remedy; without an action all of them."""

    action: RemedyAction | None = None


class LiftedShape(Shape, frozen=True, kw_only=True):
    """What was lifted. An agent is made anew without it before its next turn."""

    agent_id: str
    lifted: list[RemedyShape]
