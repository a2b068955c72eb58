"""Stores: where turns are durable."""
