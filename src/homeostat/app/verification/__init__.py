"""Reads everything a store remembers and names what is not as it was promised; what it holds in memory is bounded."""

from homeostat.app.verification.findings import Report, Violation
from homeostat.app.verification.verify import verify_all

__all__ = ["Report", "Violation", "verify_all"]
