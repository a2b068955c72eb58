"""Keepers of the ports: each module below speaks to one engine on behalf of one port."""
