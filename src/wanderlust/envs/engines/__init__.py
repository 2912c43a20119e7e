"""What steps the environments: JAX, MuJoCo on CPU cores, MuJoCo Warp on a GPU."""
