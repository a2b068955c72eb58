"""Those who vouch for people."""
