"""What a run's skills measure to."""
