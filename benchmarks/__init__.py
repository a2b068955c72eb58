"""What `make bench` runs: one module per subject, each with a `run` that prints its table and writes its JSON."""
