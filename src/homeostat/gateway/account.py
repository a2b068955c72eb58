"""A gateway's part of one budget, while calls are made from it."""

from homeostat.core.limits import BUDGET_FLOAT_CALLS, BUDGET_FLOAT_SECONDS
from homeostat.core.records.budget import ZERO, Amount, Budget, Spend, amount_of


class Account:
    """This gateway's part of one budget: what it has at hand, what is set aside for calls, and what is to be posted.

    Plain numbers, for each call changes all of them, and comparisons, for `max` and `min` take ten times as long.
    """

    __slots__ = (
        "budget",
        "earmarked_micros",
        "earmarked_tokens",
        "free_micros",
        "free_tokens",
        "last_used",
        "let_go_micros",
        "let_go_tokens",
        "most_open",
        "need_micros",
        "need_tokens",
        "open",
        "reserved_micros",
        "reserved_tokens",
        "spent_micros",
        "spent_tokens",
        "stale",
        "unposted",
    )

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.free_tokens = self.free_micros = 0
        self.earmarked_tokens = self.earmarked_micros = 0
        self.reserved_tokens = self.reserved_micros = 0
        self.spent_tokens = self.spent_micros = 0
        self.let_go_tokens = self.let_go_micros = 0
        self.need_tokens = self.need_micros = 0
        self.open = 0
        self.most_open = 0
        self.last_used = 0.0
        self.stale = False
        self.unposted = False

    @property
    def free(self) -> Amount:
        return Amount(self.free_tokens, self.free_micros)

    def take(self, amount: Amount, now: float) -> Amount | None:
        """Set as much of an amount aside as has to be held, if so much is at hand."""
        budget = self.budget
        tokens = 0 if budget.tokens_max is None else amount[0]
        micros = 0 if budget.micros_max is None else amount[1]
        self.last_used = now
        if tokens > self.need_tokens or micros > self.need_micros:
            self.need_tokens = max(self.need_tokens, tokens)
            self.need_micros = max(self.need_micros, micros)
        if self.free_tokens < tokens or self.free_micros < micros:
            return None
        self.free_tokens -= tokens
        self.free_micros -= micros
        self.reserved_tokens += tokens
        self.reserved_micros += micros
        self.open = now_open = self.open + 1
        if now_open > self.most_open:  # noqa: PLR1730
            self.most_open = now_open
        return amount if tokens == amount[0] and micros == amount[1] else amount_of(tokens, micros)

    def untake(self, held: Amount) -> None:
        """What was set aside is at hand again."""
        tokens, micros = held
        self.reserved_tokens -= tokens
        self.reserved_micros -= micros
        self.free_tokens += tokens
        self.free_micros += micros
        self.open -= 1

    def add(self, amount: Amount) -> None:
        """More is at hand."""
        self.free_tokens += amount[0]
        self.free_micros += amount[1]

    def earmark(self, amount: Amount) -> Amount:
        """Hand out what there is towards an amount, so that nobody else counts on it meanwhile."""
        part = self.free.least(self.budget.mask(amount))
        self.free_tokens -= part.tokens
        self.free_micros -= part.micros
        self.earmarked_tokens += part.tokens
        self.earmarked_micros += part.micros
        return part

    def unmark(self, part: Amount) -> None:
        """What was handed out towards an amount is at hand again."""
        self.earmarked_tokens -= part.tokens
        self.earmarked_micros -= part.micros
        self.add(part)

    def hold(self, held: Amount) -> None:
        """Believe the ledger about what is held in all: what is not in use is at hand."""
        self.free_tokens = max(0, held.tokens - self.reserved_tokens - self.earmarked_tokens - self.let_go_tokens)
        self.free_micros = max(0, held.micros - self.reserved_micros - self.earmarked_micros - self.let_go_micros)

    def settle(self, held: Amount, actual: Amount) -> None:
        """Turn what was set aside into what was used. What is used is no longer held, the rest is at hand again."""
        budget = self.budget
        self.untake(held)
        tokens, micros = actual
        self.spent_tokens += tokens
        self.spent_micros += micros
        if budget.tokens_max is not None:
            if tokens > self.free_tokens:  # noqa: PLR1730
                tokens = self.free_tokens
            self.free_tokens -= tokens
            self.let_go_tokens += tokens
        if budget.micros_max is not None:
            if micros > self.free_micros:  # noqa: PLR1730
                micros = self.free_micros
            self.free_micros -= micros
            self.let_go_micros += micros

    def post(self) -> Spend:
        """What was spent and let go since the last posting."""
        spent, released = Amount(self.spent_tokens, self.spent_micros), Amount(self.let_go_tokens, self.let_go_micros)
        self.spent_tokens = self.spent_micros = self.let_go_tokens = self.let_go_micros = 0
        self.unposted = False
        return Spend(self.budget.key, spent, released)

    @property
    def spare_calls(self) -> int:
        """How many calls' worth is kept at hand: a few, and as many more as were open at a time lately.

        Should this process be killed, it is charged with all it holds: little is at hand that no call may need.
        """
        return BUDGET_FLOAT_CALLS + self.most_open - self.open

    def surplus(self, now: float) -> Amount:
        """Take out what is at hand beyond what the next calls will need."""
        need = Amount(self.need_tokens, self.need_micros)
        idle = now - self.last_used > BUDGET_FLOAT_SECONDS
        if idle:
            self.most_open = self.open
            self.need_tokens = self.need_micros = 0
        keep = ZERO if idle or self.stale else self.free.least(need.times(self.spare_calls))
        released = self.free.minus(keep)
        self.free_tokens, self.free_micros = keep
        return released
