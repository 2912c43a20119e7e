"""What chooses skills on a task: zero-shot, a learned high-level policy, planning."""
