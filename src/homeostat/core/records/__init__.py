"""Frozen records: the one shape of each thing the rooms pass to each other."""
