"""The bus between processes: NATS, with JetStream behind what must be heard at least once."""

from homeostat.adapters.doorbells.nats.bus import NatsBus

__all__ = ["NatsBus"]
