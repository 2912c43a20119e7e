"""What each network sees of an observation: the fixed normalisation, a world's focus, and the variants -XY, -O, -XYO.

A world may say what a method's network sees by default (`EnvSpec.focus`): in Fetch's the object, in metres. A method
may say what its network sees in any world (`Method.sees`).

A configuration may name any entries for it (`env.focus`, `--focus`).

-XY: the method's network sees only where the body is (the x-y prior), as with ``--focus position``.
-O: policy and critics do not see where it is; the entries are zeroed, not removed, as in the published code.
-XYO: both. All three go with any method.
"""

import dataclasses

import jax.numpy as jnp
from jaxtyping import Array, Float

from wanderlust.envs.spec import EnvSpec, Transition
from wanderlust.errors import UserError


@dataclasses.dataclass(frozen=True)
class View:
    """Which entries of an observation reach the policy and which reach the method."""

    spec: EnvSpec
    variant: str = ""
    position_scale: float = 1.0
    """Where the body is, is divided by this for policy and critics: far from the start it would drown the rest."""
    sees: tuple[str, ...] = ()
    """Groups that the method's network sees, one behind the other and not normalised, whatever else is said."""
    focus: tuple[int, ...] | None = None
    """The entries that the configuration lets the method's network see (`--focus`); None to leave it to the world."""

    def __post_init__(self) -> None:
        if self.focus is not None and "xy" in self.variant:
            raise UserError(f"-{self.variant} is short for --focus position: leave one of them out")
        if self.variant and not self.spec.position:
            raise UserError(
                f"-{self.variant} is about the position, and {self.spec.name} has none that is known; name it with "
                "--focus"
            )

    @property
    def method_entries(self) -> tuple[int, ...] | None:
        """The entries of an observation that the method's network sees; None for all of them."""
        if self.sees:
            return tuple(entry for name in self.sees for entry in self.spec.groups[name])
        if self.focus is not None:
            return self.focus
        if "xy" in self.variant:
            return self.spec.position
        return self.spec.groups[self.spec.focus] if self.spec.focus else None

    @property
    def method_sees_raw(self) -> bool:
        """Whether it sees them as they are observed, not normalised."""
        if self.sees or not self.spec.focus:
            return bool(self.sees)
        of_world = self.focus in (None, self.spec.groups[self.spec.focus]) and "xy" not in self.variant
        return self.spec.raw_focus and of_world

    @property
    def method_dim(self) -> int:
        """How many entries the method's network sees."""
        return self.spec.obs_dim if self.method_entries is None else len(self.method_entries)

    def places(self, entries: tuple[int, ...]) -> tuple[int, ...]:
        """Where entries of an observation stand among what the method's network sees."""
        seen = self.method_entries
        if seen is None:
            return entries
        if not set(entries) <= set(seen):
            raise UserError(f"the method's network does not see all of the entries {list(entries)} of {self.spec.name}")
        return tuple(seen.index(entry) for entry in entries)

    def for_policy(self, obs: Float[Array, "*batch obs"]) -> Float[Array, "*batch obs"]:
        """What policy and critics see."""
        obs = self._normalised(obs)
        factor = 0.0 if self.variant.endswith("o") else 1.0 / self.position_scale
        position = self.spec.position
        return obs if factor == 1.0 or not position else obs.at[..., jnp.array(position)].multiply(factor)

    def for_method(self, obs: Float[Array, "*batch obs"]) -> Float[Array, "*batch seen"]:
        """What the method's network sees."""
        obs = obs if self.method_sees_raw else self._normalised(obs)
        return obs if self.method_entries is None else obs[..., jnp.array(self.method_entries)]

    def transition_for_method(self, batch: Transition) -> Transition:
        """A batch as the method sees it."""
        start = batch.start if isinstance(batch.start, tuple) else self.for_method(batch.start)
        drift = batch.drift if isinstance(batch.drift, tuple) else self._change_for_method(batch.drift)
        obs, next_obs = self.for_method(batch.obs), self.for_method(batch.next_obs)
        return batch._replace(obs=obs, next_obs=next_obs, start=start, drift=drift)

    def _change_for_method(self, change: Float[Array, "*batch obs"]) -> Float[Array, "*batch seen"]:
        """A difference of observations is scaled as they are, and not shifted."""
        return self.for_method(change) - self.for_method(jnp.zeros_like(change))

    def _normalised(self, obs: Float[Array, "*batch obs"]) -> Float[Array, "*batch obs"]:
        shape = (1,) * (obs.ndim - 1) + (-1,)
        mean = jnp.array(self.spec.obs_mean).reshape(shape)
        std = jnp.array(self.spec.obs_std).reshape(shape)
        return (obs - mean) / std


def _goals(spec: EnvSpec) -> tuple[tuple[int, ...], ...]:
    """The groups of entries that goals replace: the position, and the focus if there is one."""
    position = spec.position
    return (position, spec.groups[spec.focus]) if spec.focus else (position,)


def goal_sizes(spec: EnvSpec) -> list[int]:
    """How many numbers a goal may be."""
    if not spec.position:
        raise UserError(f"a goal is a position, and {spec.name} has none that is known; name it with --focus")
    return sorted({len(entries) for entries in _goals(spec)})


def goal_entries(spec: EnvSpec, size: int) -> tuple[int, ...]:
    """The entries of an observation that a goal of so many numbers replaces: the position, or all of the focus."""
    for entries in _goals(spec):
        if len(entries) == size and size:
            return entries
    raise UserError(f"a goal of {spec.name} is {' or '.join(map(str, goal_sizes(spec)))} numbers, not {size}")


def with_position(
    spec: EnvSpec, obs: Float[Array, "*batch obs"], position: Float[Array, "*batch goal"]
) -> Float[Array, "*batch obs"]:
    """The observation moved elsewhere, or its focus put elsewhere: the goal state of zero-shot goal following."""
    return obs.at[..., jnp.array(goal_entries(spec, position.shape[-1]))].set(position)


NEAR = 15.0
"""Metres at which `seen_from_body` puts goals that are farther away."""


def seen_from_body(
    spec: EnvSpec, obs: Float[Array, "worlds obs"], goal: Float[Array, "worlds xy"]
) -> tuple[Float[Array, "worlds obs"], Float[Array, "worlds xy"]]:
    """The observation as if the body stood at the origin, and the goal as seen from there, no farther than `NEAR`.

    The floor is the same everywhere, but what was learned knows the places around the start best: with this a body can
    be driven anywhere.
    """
    way = goal - obs[..., jnp.array(spec.groups["position"])]
    length = jnp.linalg.norm(way, axis=-1, keepdims=True)
    here = with_position(spec, obs, jnp.zeros_like(way))
    return here, way * jnp.minimum(1.0, NEAR / jnp.maximum(length, 1e-6))
