"""EDL: explore, discover, learn."""
