"""Our environments as Gymnasium environments, and Gymnasium's for us."""
