"""Environments of others, in processes of their own: needs Gymnasium and NumPy, and nothing else of this package."""
