"""What every room stands on: time, ids, errors, limits, state machines, records and ports."""
