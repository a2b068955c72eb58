"""Agents to read, run and change."""
