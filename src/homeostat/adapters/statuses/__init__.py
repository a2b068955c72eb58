"""Status keepers: where heartbeats go."""
