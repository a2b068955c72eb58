"""Running the code of a run's agents again on what was recorded of it."""
