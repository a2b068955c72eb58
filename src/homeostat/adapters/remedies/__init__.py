"""Keepers of one port: each treats agents in its own way."""
