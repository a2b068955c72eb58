"""Who is out there: registration, heartbeats and the liveness derived from them."""
