"""Upstreams: whoever answers model calls."""
