"""Homeostat in a PostgreSQL database: one statement per save, as durable as the server's disk."""

from homeostat.adapters.stores.postgres.access import PostgresAccess
from homeostat.adapters.stores.postgres.enforcement import PostgresEnforcement
from homeostat.adapters.stores.postgres.engine import PostgresEngine
from homeostat.adapters.stores.postgres.fleet import PostgresFleet
from homeostat.adapters.stores.postgres.gateway import PostgresGateway
from homeostat.adapters.stores.postgres.immune import PostgresImmune
from homeostat.adapters.stores.postgres.ledger import PostgresLedger
from homeostat.adapters.stores.postgres.memory import PostgresMemory
from homeostat.adapters.stores.postgres.runs import PostgresRuns
from homeostat.adapters.stores.postgres.tools import PostgresTools
from homeostat.adapters.stores.postgres.turns import PostgresTurns

__all__ = [
    "PostgresAccess",
    "PostgresEnforcement",
    "PostgresEngine",
    "PostgresFleet",
    "PostgresGateway",
    "PostgresImmune",
    "PostgresLedger",
    "PostgresMemory",
    "PostgresRuns",
    "PostgresTools",
    "PostgresTurns",
]
