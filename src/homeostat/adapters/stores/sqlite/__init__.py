"""Homeostat in one SQLite file: write-ahead log, synchronous=FULL, one writer thread."""

from homeostat.adapters.stores.sqlite.access import SqliteAccess
from homeostat.adapters.stores.sqlite.enforcement import SqliteEnforcement
from homeostat.adapters.stores.sqlite.engine import SqliteEngine
from homeostat.adapters.stores.sqlite.fleet import SqliteFleet
from homeostat.adapters.stores.sqlite.gateway import SqliteGateway
from homeostat.adapters.stores.sqlite.immune import SqliteImmune
from homeostat.adapters.stores.sqlite.ledger import SqliteLedger
from homeostat.adapters.stores.sqlite.memory import SqliteMemory
from homeostat.adapters.stores.sqlite.runs import SqliteRuns
from homeostat.adapters.stores.sqlite.tools import SqliteTools
from homeostat.adapters.stores.sqlite.turns import SqliteTurns

__all__ = [
    "SqliteAccess",
    "SqliteEnforcement",
    "SqliteEngine",
    "SqliteFleet",
    "SqliteGateway",
    "SqliteImmune",
    "SqliteLedger",
    "SqliteMemory",
    "SqliteRuns",
    "SqliteTools",
    "SqliteTurns",
]
