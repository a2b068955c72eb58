"""Turns in one SQLite file: write-ahead log, synchronous=FULL, one writer thread."""

from homeostat.adapters.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
