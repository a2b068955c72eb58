"""Mandates on SQLite: asked for in the transaction that does what they are for, so that none is void by its commit."""

import sqlite3
from collections.abc import Iterable
from typing import Final

from homeostat.adapters.stores.statements import statements
from homeostat.core.enforcement_errors import AgentMoved
from homeostat.core.records.enforcement import Mandate

HEALTH_VERSION: Final = statements("sqlite", "enforcement")["health_version"]


def void(connection: sqlite3.Connection, mandates: Iterable[Mandate]) -> frozenset[Mandate]:
    """Those whose agents have moved on since."""
    return frozenset(mandate for mandate in mandates if _moved(connection, mandate))


def require(connection: sqlite3.Connection, mandate: Mandate | None) -> None:
    if mandate is not None and _moved(connection, mandate):
        raise AgentMoved(agent_id=mandate.key[1])


def _moved(connection: sqlite3.Connection, mandate: Mandate) -> bool:
    row = connection.execute(HEALTH_VERSION, mandate.key).fetchone()
    return row is not None and row[0] > mandate.version
