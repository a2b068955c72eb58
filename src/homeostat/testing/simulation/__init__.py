"""A small universe per seed: kernels that crash and stall on one store, and checks on what they may never do."""

from homeostat.testing.simulation.run import Outcome, simulate

__all__ = ["Outcome", "simulate"]
