"""Homeostat beside its peers: the same work, on the same machine, in the same run."""
