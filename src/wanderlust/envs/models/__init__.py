"""Models from files: collecting, checking and keeping them, and what is decided about them by rule."""
