"""Every target there is."""

from tests.fuzz import bodies, connections, streams
from tests.fuzz.harness import TARGETS, Target

__all__ = ["TARGETS", "Target", "bodies", "connections", "streams"]
