"""What can go wrong between an agent and a model: rules and budgets that are not there or say no, upstreams that fail.

ProtocolViolation: PolicyUnknown · BudgetUnknown
Refused:           BudgetExceeded · ModelUnpriced
Unavailable:       UpstreamFailed: UpstreamUnreachable · UpstreamTimedOut · UpstreamBroke
"""

from homeostat.core.errors import ProtocolViolation, Refused, Unavailable


class PolicyUnknown(ProtocolViolation):
    """There is no policy {policy_id!r}."""

    code = "policy_unknown"
    http_status = 404
    hint = "GET /v1/policies lists those in force; expired ones are gone."


class BudgetUnknown(ProtocolViolation):
    """There is no budget of {kind} {holder!r}."""

    code = "budget_unknown"
    http_status = 404
    hint = "Set one: PUT /v1/budgets/agent/ID or /v1/budgets/run/ID."


class BudgetExceeded(Refused):
    """The {limit} budget of {kind} {holder!r} has no room for {wanted}: {spent} of {most} are spent, {held} held."""

    code = "budget_exceeded"
    http_status = 402
    hint = "Raise the budget, or wait until calls under way have returned what they do not use."

    @property
    def why(self) -> str:
        """The same in the words of whoever is held by it."""
        facts, limit = self.facts, self.facts.get("limit")
        cap = "time" if limit == "seconds" else limit
        spent = f"{facts.get('spent')} of {facts.get('most')} are spent"
        return f"the {cap} cap leaves no room for {facts.get('wanted')}: {spent}"


class ModelUnpriced(Refused):
    """Nobody knows what the model {model!r} costs, so it cannot be used {where}."""

    code = "model_unpriced"
    http_status = 402
    hint = "Name its price in the settings, or choose a model that has one."


class UpstreamFailed(Unavailable):
    """The upstream {upstream!r} failed: {problem}."""

    code = "upstream_failed"
    http_status = 502
    hint = ""


class UpstreamUnreachable(UpstreamFailed):
    """The upstream {upstream!r} cannot be reached: {problem}. Nothing was sent."""

    code = "upstream_unreachable"


class UpstreamTimedOut(UpstreamFailed):
    """The upstream {upstream!r} was silent for {seconds} s ({problem})."""

    code = "upstream_timed_out"
    http_status = 504


class UpstreamBroke(UpstreamFailed):
    """The answer of the upstream {upstream!r} broke off: {problem}."""

    code = "upstream_broke"
