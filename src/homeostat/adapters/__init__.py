"""Keepers: each implements one port with one engine."""
