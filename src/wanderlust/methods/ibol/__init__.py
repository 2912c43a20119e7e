"""IBOL: a linearizer, and skills on top of it."""
