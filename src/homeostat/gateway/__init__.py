"""The one door every model call passes: identity, policy, metering and budgets."""
