"""Drive learned skills in a browser: a simulation that people steer, drawn by viser (extra `explorer`)."""
