"""How a turn leaves an author's code in the middle: raised through it, and no `except Exception` stops it."""


class TurnOver(BaseException):
    """This worker has nothing more to do with the turn. Whatever the author's code still returns or raises is void."""


class Suspended(TurnOver):
    """The turn waits for results and holds nothing; it begins again from its start when they are in."""


class Lost(TurnOver):
    """The turn was stopped, or is another worker's by now."""
