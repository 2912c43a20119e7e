"""AntRotation and AntQuaternion (the paper's appendix): turn to a heading, or to any orientation in space.

Coming closer than a threshold pays once and ends the episode; not in its very first step, as in the goal tasks. The
paper says neither how targets are drawn nor how they are observed: here uniformly over all headings and over all
rotations, and as the point on the circle and the quaternion with which the distance is measured.
"""

import abc
import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from wanderlust.downstream.tasks.base import Score
from wanderlust.envs import World


@dataclasses.dataclass(frozen=True)
class TurnTask(abc.ABC):
    """What both have in common: the distance to the target must fall below `threshold`."""

    name: str
    entries: int
    threshold: float
    env: str = "ant"
    horizon: int = 200
    reward: float = 10.0
    quaternion_dims: tuple[int, ...] = (3, 4, 5, 6)
    """Which entries of the observation say how the body is turned, w first."""

    @property
    def most(self) -> float:
        return self.reward

    def arrange(self, world: World) -> World:
        return world.from_origin()

    def begin(self, obs: Float[Array, " obs"], key: Key[Array, ""]) -> Float[Array, " target"]:
        """Where to turn."""
        return self.draw(key)

    def step(
        self, state: Float[Array, " target"], obs: Float[Array, " obs"], age: Int[Array, ""], key: Key[Array, ""]
    ) -> tuple[Float[Array, " target"], Score]:
        turned = obs[jnp.array(self.quaternion_dims)]
        reached = (self.distance(state, turned) < self.threshold) & (age > 1)
        return state, Score(jnp.where(reached, self.reward, 0.0), reached, (age >= self.horizon) & ~reached)

    def observe(self, state: Float[Array, " target"], obs: Float[Array, " obs"]) -> Float[Array, " target"]:
        return state

    @abc.abstractmethod
    def draw(self, key: Key[Array, ""]) -> Float[Array, " target"]:
        """A target."""

    @abc.abstractmethod
    def distance(self, target: Float[Array, " target"], quaternion: Float[Array, "4"]) -> Float[Array, ""]:
        """How far a body turned like this is from it."""


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class RotationTask(TurnTask):
    """Turn to a heading, a point on the unit circle; the distance is that of two such points."""

    name: str = "ant-rotation"
    entries: int = 2
    threshold: float = 0.05

    def draw(self, key: Key[Array, ""]) -> Float[Array, "2"]:
        angle = jax.random.uniform(key, minval=-jnp.pi, maxval=jnp.pi)
        return jnp.array([jnp.cos(angle), jnp.sin(angle)])

    def distance(self, target: Float[Array, "2"], quaternion: Float[Array, "4"]) -> Float[Array, ""]:
        return jnp.linalg.norm(heading(quaternion) - target)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class QuaternionTask(TurnTask):
    """Turn to an orientation; the distance is 1 - <q1, q2>^2, the same for q and -q, which are one rotation."""

    name: str = "ant-quaternion"
    entries: int = 4
    threshold: float = 0.3

    def draw(self, key: Key[Array, ""]) -> Float[Array, "4"]:
        """Uniform over rotations; of the two quaternions of each, the one with w >= 0, so that it looks one way."""
        drawn = to_unit_length(jax.random.normal(key, (4,)))
        return jnp.where(drawn[0] < 0, -drawn, drawn)

    def distance(self, target: Float[Array, "4"], quaternion: Float[Array, "4"]) -> Float[Array, ""]:
        return 1.0 - jnp.dot(target, to_unit_length(quaternion)) ** 2


def heading(quaternion: Float[Array, "4"]) -> Float[Array, "2"]:
    """Where the body's x-axis points, seen from above: its rotation about z, on the unit circle."""
    w, x, y, z = quaternion
    return to_unit_length(jnp.array([w * w + x * x - y * y - z * z, 2.0 * (x * y + w * z)]))


def to_unit_length(vector: Float[Array, " n"]) -> Float[Array, " n"]:
    """The vector at length 1. Starts are noisy, so that a body's quaternion need not have it; zero stays zero."""
    return vector / jnp.maximum(jnp.linalg.norm(vector), 1e-8)
