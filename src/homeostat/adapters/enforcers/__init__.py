"""Keepers of one port: each holds agents in its own way."""
