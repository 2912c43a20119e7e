"""Runs on disk: folders, checkpoints, provenance, loading for use, the zoo."""
