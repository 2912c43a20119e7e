"""Pictures of a run, and the progress line of a command."""
