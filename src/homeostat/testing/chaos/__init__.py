"""What is done to an installation on purpose, to see what it keeps: power cuts, failing disks, killed processes."""
