"""The system that notices a sick agent, isolates it, heals it and remembers what helped."""
