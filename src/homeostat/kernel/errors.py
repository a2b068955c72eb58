"""What can be wrong with an operator's word on a turn.

Conflict: TurnInactive
"""

from homeostat.core.errors import Conflict


class TurnInactive(Conflict):
    """Nobody works on turn {turn_id}: it is {state}."""

    code = "turn_inactive"
    hint = "Only a turn that was given to a worker can be put back into the line; one that has ended can be sent again."
