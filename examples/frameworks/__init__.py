"""Other frameworks under control: each by its base URL alone, and each hosted in a durable turn."""
