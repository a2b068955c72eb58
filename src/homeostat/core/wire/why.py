"""Why something is as it is, as it is sent."""

from homeostat.core.wire.fields import Shape


class WhyShape(Shape, frozen=True, kw_only=True):
    """Cause, evidence, decision and effect, each in words, empty where there is none; `text` is all of it.

    `waits_for` names the agents that have to work again before anything of it goes on.
    """

    noun: str
    id: str
    cause: str
    evidence: str
    decision: str
    effect: str
    text: str
    waits_for: tuple[str, ...] = ()
