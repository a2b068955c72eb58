"""Goals with a plan, a budget and a ledger: what agents are asked to achieve together."""
