"""Rotations: quaternions, matrices and angles."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


def matrix_of(quaternion: Float[Array, "*batch 4"]) -> Float[Array, "*batch 3 3"]:
    """The rotation matrix of a quaternion, w first."""
    w, x, y, z = jnp.moveaxis(quaternion / jnp.linalg.norm(quaternion, axis=-1, keepdims=True), -1, 0)
    rows = (
        (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)


def euler_of(matrix: Float[Array, "*batch 3 3"]) -> Float[Array, "*batch 3"]:
    """The same as angles about x, y and z, in the convention of gym's robots."""
    across = jnp.hypot(matrix[..., 2, 2], matrix[..., 1, 2])
    level = across > 4 * np.finfo(np.float32).eps
    x = jnp.where(level, -jnp.arctan2(matrix[..., 1, 2], matrix[..., 2, 2]), 0.0)
    y = -jnp.arctan2(-matrix[..., 0, 2], across)
    upright = -jnp.arctan2(matrix[..., 0, 1], matrix[..., 0, 0])
    z = jnp.where(level, upright, -jnp.arctan2(-matrix[..., 1, 0], matrix[..., 1, 1]))
    return jnp.stack([x, y, z], axis=-1)
