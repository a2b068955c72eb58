"""Doorbells: how processes hear of each other."""
