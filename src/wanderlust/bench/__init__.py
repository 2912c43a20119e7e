"""How fast the parts are on this machine."""
