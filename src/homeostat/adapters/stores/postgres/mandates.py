"""Mandates on PostgreSQL: asked for in the transaction that does what they are for, and kept until its commit."""

from typing import Final

from homeostat.adapters.stores.postgres.engine import Transaction
from homeostat.adapters.stores.statements import statements
from homeostat.core.enforcement_errors import AgentMoved
from homeostat.core.records.enforcement import Mandate

HEALTH_VERSION: Final = statements("postgres", "enforcement")["health_version"]


async def require(transaction: Transaction, mandate: Mandate | None) -> None:
    if mandate is None:
        return
    found = await transaction.fetch(HEALTH_VERSION, *mandate.key)
    if found and found[0][0] > mandate.version:
        raise AgentMoved(agent_id=mandate.key[1])
