"""Conformance suites: what every keeper of a port must do, as plain functions that assert."""
