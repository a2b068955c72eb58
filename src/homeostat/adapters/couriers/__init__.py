"""Those who carry alerts elsewhere."""
