"""Durable turns: an inbox, one active turn per agent, waits, and exactly one deliverable."""
