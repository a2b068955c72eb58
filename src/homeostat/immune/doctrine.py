"""The numbers the immune system acts by: when it suspects, isolates, asks, treats and lets go."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Doctrine:
    """One set of numbers for the whole fleet. A tick of an agent is one sample of it."""

    tick_seconds: float = 1.0
    suspect_ticks: int = 3
    severe_sigma: float = 6.0  # above it nobody waits for a second sign
    approval_sigma: float = 5.0  # from here on an operator is asked before anything is treated
    drain_seconds: float = 30.0
    probation_ticks: int = 10
    settle_seconds: float = 3.0  # how long others get to show the same before one agent is isolated
    correlation_seconds: float = 60.0
    fleet_share: float = 0.30
    fleet_agents: int = 3  # fewer are no fleet, unless they are all there are
    isolated_share: float = 0.20
    quarantine_seconds: float = 30.0  # a second quarantine lasts so long at least, each later one twice as long
    quarantine_memory_seconds: float = 24 * 3600.0
    approval_seconds: float = 24 * 3600.0
    approval_rounds: int = 3  # how often what nobody answers is asked, before operators are told that it rests
    attempts_per_hour: int = 12
    save_seconds: float = 30.0
    forget_seconds: float = 3600.0  # how long an agent that left the fleet is remembered
    reconcile_seconds: float = 2.0
    lease_seconds: float = 10.0
    self_report_seconds: float = 600.0  # how long what the gateway measured outranks what an agent says of itself
