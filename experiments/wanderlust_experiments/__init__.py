"""The paper's tables and figures, and measurements of speed: one file or folder each."""
