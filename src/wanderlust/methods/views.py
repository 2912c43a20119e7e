"""What each network sees of an observation: the fixed normalisation, and the variants -XY, -O and -XYO.

-XY: the method's network sees only where the body is (the x-y prior).
-O: policy and critics do not see where it is; the entries are zeroed, not removed, as in the published code.
-XYO: both. All three go with any method.
"""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float

from wanderlust.envs.spec import EnvSpec, Transition

VIEWS = {
    "xy": "the method's network sees the position only",
    "o": "policy and critics do not see the position",
    "xyo": "both",
}
"""Suffixes that any method takes."""


@dataclasses.dataclass(frozen=True)
class View:
    """Which entries of an observation reach the policy and which reach the method."""

    spec: EnvSpec
    variant: str = ""
    position_scale: float = 1.0
    """Where the body is, is divided by this for policy and critics: far from the start it would drown the rest."""

    @property
    def method_dim(self) -> int:
        """How many entries the method's network sees."""
        return len(self.spec.groups["position"]) if "xy" in self.variant else self.spec.obs_dim

    def for_policy(self, obs: Float[Array, "*batch obs"]) -> Float[Array, "*batch obs"]:
        """What policy and critics see."""
        obs = self._normalised(obs)
        factor = 0.0 if self.variant.endswith("o") else 1.0 / self.position_scale
        return obs if factor == 1.0 else obs.at[..., self._position].multiply(factor)

    def for_method(self, obs: Float[Array, "*batch obs"]) -> Float[Array, "*batch seen"]:
        """What the method's network sees."""
        obs = self._normalised(obs)
        return obs[..., self._position] if "xy" in self.variant else obs

    def transition_for_method(self, batch: Transition) -> Transition:
        """A batch as the method sees it."""
        start = batch.start if isinstance(batch.start, tuple) else self.for_method(batch.start)
        drift = batch.drift if isinstance(batch.drift, tuple) else self._change_for_method(batch.drift)
        obs, next_obs = self.for_method(batch.obs), self.for_method(batch.next_obs)
        return batch._replace(obs=obs, next_obs=next_obs, start=start, drift=drift)

    def _change_for_method(self, change: Float[Array, "*batch obs"]) -> Float[Array, "*batch seen"]:
        """A difference of observations is scaled as they are, and not shifted."""
        return self.for_method(change) - self.for_method(jnp.zeros_like(change))

    @property
    def _position(self) -> Array:
        return jnp.array(self.spec.groups["position"])

    def _normalised(self, obs: Float[Array, "*batch obs"]) -> Float[Array, "*batch obs"]:
        shape = (1,) * (obs.ndim - 1) + (-1,)
        mean = jnp.array(self.spec.obs_mean).reshape(shape)
        std = jnp.array(self.spec.obs_std).reshape(shape)
        return (obs - mean) / std


def with_position(
    spec: EnvSpec, obs: Float[Array, "*batch obs"], position: Float[Array, "*batch xy"]
) -> Float[Array, "*batch obs"]:
    """The observation moved elsewhere: the goal state of zero-shot goal following."""
    return obs.at[..., jnp.array(spec.groups["position"])].set(position)
