"""The environments, one file each."""
