"""Keepers of the price list."""
