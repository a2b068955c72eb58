"""What the rooms ask of the world; adapters keep one port each."""
