"""Skill spaces: priors over skills. A skill is the vector of length `size` that networks take as input.

`sample` draws one, `code` is the vector by which an inner-product reward measures it, `nearest` is the skill nearest to
a vector that need not be one.
"""

import dataclasses
import math
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from wanderlust.config import SkillConfig

SkillKind = Literal["continuous", "discrete", "box"]


@dataclasses.dataclass(frozen=True)
class ContinuousSkills:
    """z ~ N(0, I_d), or its direction alone; the reward uses z itself."""

    kind: ClassVar[SkillKind] = "continuous"
    size: int
    unit_length: bool = False

    @property
    def expected_norm(self) -> float:
        """E||z|| in closed form: sqrt(2) Gamma((d+1)/2) / Gamma(d/2), 1.2533 for d = 2; 1 on the sphere."""
        if self.unit_length:
            return 1.0
        return math.sqrt(2.0) * math.exp(math.lgamma((self.size + 1) / 2) - math.lgamma(self.size / 2))

    def sample(self, key: Key[Array, ""]) -> Float[Array, " skill"]:
        z = jax.random.normal(key, (self.size,))
        return z / jnp.linalg.norm(z) if self.unit_length else z

    def code(self, skill: Float[Array, " skill"]) -> Float[Array, " skill"]:
        return skill

    def nearest(self, vector: Float[Array, " skill"]) -> Float[Array, " skill"]:
        """The vector itself, or its direction alone: a policy that has known one length fails at others."""
        if not self.unit_length:
            return vector
        largest = jnp.max(jnp.abs(vector))
        scaled = vector / jnp.where(largest == 0, 1.0, largest)  # squares of very long or short vectors are not numbers
        anywhere = jnp.eye(self.size)[0]  # all directions are as near to 0, so one of them will do
        return jnp.where(largest == 0, anywhere, scaled / jnp.linalg.norm(scaled))


@dataclasses.dataclass(frozen=True)
class DiscreteSkills:
    """One of N skills, uniformly. Networks read the one-hot; rewards use the zero-centred code.

    The code is 1 at the skill and -1/(N-1) elsewhere (the paper's equation 13): the codes sum to zero,
    so no single behaviour is rewarded under all skills at once.
    """

    kind: ClassVar[SkillKind] = "discrete"
    size: int

    def sample(self, key: Key[Array, ""]) -> Float[Array, " skill"]:
        return jax.nn.one_hot(jax.random.randint(key, (), 0, self.size), self.size)

    def code(self, skill: Float[Array, " skill"]) -> Float[Array, " skill"]:
        return (skill - 1.0 / self.size) * (self.size / (self.size - 1))

    def nearest(self, vector: Float[Array, " skill"]) -> Float[Array, " skill"]:
        return jax.nn.one_hot(jnp.argmax(vector), self.size)

    def all(self) -> Float[Array, "skills skill"]:
        """Every skill, in order."""
        return jnp.eye(self.size)


@dataclasses.dataclass(frozen=True)
class BoxSkills:
    """Goals, uniform in [-1, 1]^d: by how much each entry of the state should grow or shrink, against the others."""

    kind: ClassVar[SkillKind] = "box"
    size: int

    def sample(self, key: Key[Array, ""]) -> Float[Array, " skill"]:
        return jax.random.uniform(key, (self.size,), minval=-1.0, maxval=1.0)

    def code(self, skill: Float[Array, " skill"]) -> Float[Array, " skill"]:
        return skill

    def nearest(self, vector: Float[Array, " skill"]) -> Float[Array, " skill"]:
        return jnp.clip(vector, -1.0, 1.0)


SkillSpace = ContinuousSkills | DiscreteSkills | BoxSkills


def along(skills: SkillSpace, direction: Float[Array, "batch skill"]) -> Float[Array, "batch skill"]:
    """The skills that point along directions in the space of codes: of the usual length, or the one that does so best.

    For discrete skills code_k^T x = (x_k - mean of x) N/(N-1), so the largest entry wins.
    """
    if isinstance(skills, ContinuousSkills):
        return skills.expected_norm * direction / (jnp.linalg.norm(direction, axis=1, keepdims=True) + 1e-12)
    return guessed(skills, direction)


def guessed(skills: SkillSpace, guess: Float[Array, "batch skill"]) -> Float[Array, "batch skill"]:
    """The skills that a discriminator's output stands for: itself, or the likeliest one."""
    if isinstance(skills, DiscreteSkills):
        return jax.vmap(skills.nearest)(guess)
    return guess


def spread(skills: SkillSpace, count: int, key: Key[Array, ""]) -> Float[Array, "skills skill"]:
    """Skills to show: all discrete ones; directions all around on the plane; else of random ones the most different."""
    if isinstance(skills, DiscreteSkills):
        return skills.all()
    length = skills.expected_norm if isinstance(skills, ContinuousSkills) else 1.0
    if skills.size == 2:
        angle = 2 * jnp.pi * jnp.arange(count) / count
        return length * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=1)
    if skills.size == 1:
        return jax.vmap(skills.nearest)(jnp.linspace(-1.6 * length, 1.6 * length, count)[:, None])
    drawn = jax.vmap(skills.sample)(jax.random.split(key, 64 * count))
    if isinstance(skills, ContinuousSkills):
        drawn = length * drawn / jnp.linalg.norm(drawn, axis=1, keepdims=True)
    chosen = [0]
    for _ in range(count - 1):
        away = jnp.linalg.norm(drawn[:, None] - drawn[jnp.array(chosen)][None], axis=-1)
        chosen.append(int(jnp.argmax(away.min(axis=1))))
    return drawn[jnp.array(chosen)]


def log_likelihood(
    skills: SkillSpace, guess: Float[Array, "batch skill"], skill: Float[Array, "batch skill"]
) -> Float[Array, " batch"]:
    """Of skills under a discriminator's output, without its constants: a normal of variance 1, or a softmax."""
    if isinstance(skills, ContinuousSkills):
        return -0.5 * jnp.sum((skill - guess) ** 2, axis=1)
    return jnp.sum(jax.nn.log_softmax(guess, axis=1) * skill, axis=1)


def make_skills(config: SkillConfig) -> SkillSpace:
    """The skill space a configuration describes."""
    if config.kind == "continuous":
        return ContinuousSkills(config.size, config.unit_length)
    return DiscreteSkills(config.size) if config.kind == "discrete" else BoxSkills(config.size)
