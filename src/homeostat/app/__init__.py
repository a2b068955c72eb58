"""Settings, the assembly that chooses every adapter, and the supervisor that keeps the parts running."""
