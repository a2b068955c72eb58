"""What the author of an agent imports: the agent object, its turns and its worker loop."""
