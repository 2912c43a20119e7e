"""Learned skills, ready to use: what `wanderlust.load` gives back."""

from __future__ import annotations  # help() shows ArrayLike by its name, which is a page long otherwise

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from wanderlust import train
from wanderlust.envs import World
from wanderlust.envs.devices import refuse_fork
from wanderlust.envs.spec import EnvSpec
from wanderlust.envs.worlds.body import Twin
from wanderlust.errors import UserError, is_count
from wanderlust.methods.skills import spread
from wanderlust.methods.views import goal_sizes
from wanderlust.runs.learned import Learned, choose_skill, load_learner, needed, of_seed, represent, restored
from wanderlust.runs.run import Run
from wanderlust.runs.zoo import open_run

MOST_NUMBERS = 2**26
"""That `sample` draws at once."""
MOST_SPREAD = 10_000


class Compiled(NamedTuple):
    """What skills compute, compiled on first use; learned arrays are arguments."""

    act: Callable[..., Any]
    decide: Callable[..., Any]
    follow: Callable[..., Any]
    phi: Callable[..., Any]
    towards: Callable[..., Any]
    nearest: Callable[..., Any]


def compiled(parts: train.Setup) -> Compiled:
    """The programs of skills that are made of these parts."""
    return Compiled(
        act=jax.jit(partial(train.actions, parts)),
        decide=jax.jit(partial(train.set_subgoals, parts)),
        follow=jax.jit(partial(train.command_actions, parts)),
        phi=jax.jit(partial(represent, parts)),
        towards=jax.jit(partial(choose_skill, parts)),
        nearest=jax.jit(jax.vmap(parts.skills.nearest)),
    )


class Skills:
    """The skills of one seed of a run, or of a zoo entry; `wanderlust.load` makes them.

    skills = wanderlust.load("zoo:ant")
    z = skills.sample(1)[0]                  # a skill: a vector, or a one-hot row
    z = skills.towards(obs, [12.0, 4.0])     # the skill that leads to a place
    action = skills.act(obs, z)              # what it does here

    Observations are raw, as the environment gives them; arrays may be one example or a batch of them, and come back
    as NumPy arrays of the same form.
    """

    def __init__(self, parts: train.Setup, learned: Learned) -> None:
        refuse_fork()
        self._parts = parts
        self._learned = learned
        self._compiled = compiled(parts)

    def __getstate__(self) -> dict[str, Any]:
        """For processes that are handed skills: the configuration, and what was learned."""
        return {"config": self._parts.config, "learned": jax.device_get(jax.tree.leaves(self._learned))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        parts = train.assemble(state["config"])
        form = jax.eval_shape(lambda: restored(parts, needed(parts, train.init_seed(parts, jax.random.key(0)).learner)))
        Skills.__init__(self, parts, jax.tree.unflatten(jax.tree.structure(form), map(jnp.asarray, state["learned"])))

    def __repr__(self) -> str:
        kind = f"{self.skill_dim} discrete" if self.discrete else f"{self.skill_dim}-D continuous"
        sizes = f"observations of {self.spec.obs_dim}, actions of {self.spec.action_dim} numbers"
        return f"<Skills of {self.spec.name}: {kind}, learned by {self._parts.config.rewards}; {sizes}>"

    @property
    def spec(self) -> EnvSpec:
        """Sizes, position entries and normalisation of the environment."""
        return self._parts.world.spec

    @property
    def world(self) -> World:
        """The world they were learned in."""
        return self._parts.world

    @property
    def skill_dim(self) -> int:
        """Length of a skill vector z."""
        return self._parts.skills.size

    @property
    def discrete(self) -> bool:
        """Whether a skill is one of `skill_dim`, and not a vector."""
        return self._parts.config.skills.kind == "discrete"

    def sample(self, n: int, seed: int = 0) -> NDArray[np.float32]:
        """Draw `n` skills from the prior: [n, skill_dim]; one-hot rows for discrete skills."""
        most = MOST_NUMBERS // self.skill_dim
        if not is_count(n) or not 1 <= n <= most:
            raise UserError(f"cannot sample {n!r} skills; ask for a whole number from 1 to {most:,}")
        return np.asarray(jax.vmap(self._parts.skills.sample)(jax.random.split(jax.random.key(_seed(seed)), n)))

    def spread(self, n: int = 9, seed: int = 0) -> NDArray[np.float32]:
        """Skills to show: all discrete ones; else `n` directions all around, or of random skills the most different."""
        if not is_count(n) or not 1 <= n <= MOST_SPREAD:
            raise UserError(f"cannot spread {n!r} skills; ask for a whole number from 1 to {MOST_SPREAD:,}")
        return np.asarray(spread(self._parts.skills, int(n), jax.random.key(_seed(seed))))

    def nearest(self, z: ArrayLike) -> NDArray[np.float32]:
        """The skills nearest to any vectors `z`: of length 1 where all skills are, one-hot rows for discrete ones."""
        return self._each(self._compiled.nearest, z, self.skill_dim, "z")

    def act(self, obs: ArrayLike, z: ArrayLike, seed: int | None = None) -> NDArray[np.float32]:
        """The action in [-1, 1] that skill `z` takes at `obs`: its mode, or a sample if a seed is given.

        A high-level policy sets a new subgoal at every call; to keep it, use `decide` and `follow`.
        """
        key = None if seed is None else jax.random.key(_seed(seed))
        return self._each(lambda obs: self._compiled.act(self._learned.policy, obs, self._skill(z, len(obs)), key), obs)

    @property
    def decides_every(self) -> int:
        """Steps between two subgoals of a method like IBOL; 0 for methods that set none."""
        return self._parts.subgoal_steps

    def decide(self, obs: ArrayLike, z: ArrayLike) -> NDArray[np.float32]:
        """The command of skill `z` from `obs` on: the skill, and the subgoal that a high-level policy sets here."""
        if not self.decides_every:
            return self._each(lambda obs: self._skill(z, len(obs)).copy(), obs)
        return self._each(lambda obs: self._compiled.decide(self._learned.policy, obs, self._skill(z, len(obs))), obs)

    def follow(self, obs: ArrayLike, command: ArrayLike) -> NDArray[np.float32]:
        """The mode action at `obs` under a command that was decided there or some steps earlier."""
        policy, size = self._learned.policy, self._parts.command_size
        return self._each(
            lambda obs: self._compiled.follow(policy, obs, _rows(command, size, len(obs), "command")), obs
        )

    def phi(self, obs: ArrayLike) -> NDArray[np.float32]:
        """Where an observation lies on the learned map."""
        return self._each(partial(self._compiled.phi, self._learned), obs)

    def towards(self, obs: ArrayLike, goal: ArrayLike) -> NDArray[np.float32]:
        """The skill that leads from `obs` to `goal`, a position (its entries are `spec.groups["position"]`).

        In a world with a focus, such as Fetch's object, a goal may also be all of that group.
        """
        goal_sizes(self.spec)  # a world without places has no goals
        sizes = [len(self.spec.groups[name]) for name in (self.spec.focus, "position") if name]
        shape = _shape_of(goal) or ()
        size = next((size for size in sizes if shape[-1:] == (size,)), sizes[-1])
        towards = partial(self._compiled.towards, self._learned)
        return self._each(lambda obs: towards(obs, _rows(goal, size, len(obs), "goal")), obs)

    def _each(
        self, function: Callable[[NDArray[np.float32]], Any], x: ArrayLike, size: int | None = None, name: str = "obs"
    ) -> NDArray[np.float32]:
        """Apply a function of a batch to a batch, or to one example."""
        array = _checked(x, size or self.spec.obs_dim, name, "" if size else _how_to_observe(self.world))
        found = np.asarray(function(np.atleast_2d(array)))
        return found[0] if array.ndim == 1 else found

    def _skill(self, z: ArrayLike, count: int) -> NDArray[np.float32]:
        """A skill vector per row. A whole number names a discrete skill."""
        refuse_fork()
        array: Any = z
        if self.discrete and _shape_of(z) == () and np.issubdtype(np.asarray(z).dtype, np.integer):
            array = np.asarray(z)
            if not 0 <= array < self.skill_dim:
                raise UserError(f"there is no skill {array}; this run has skills 0 to {self.skill_dim - 1}")
            array = np.eye(self.skill_dim, dtype=np.float32)[array]
        return _rows(array, self.skill_dim, count, "z")


def load(run: Run | Path | str, seed: int = 0) -> Skills:
    """Load skills: of a run, from its newest checkpoint, or of a zoo entry, e.g. ``"zoo:ant"``.

    `seed` counts from 0 within the run; a zoo entry has one.
    """
    refuse_fork()
    if not isinstance(run, Run | Path | str):
        raise UserError(f"run is {run!r}; it must be a run, the folder of one, or the name of a zoo entry")
    opened = run if isinstance(run, Run) else open_run(run)
    opened.check_seed(seed)
    parts = train.assemble(dataclasses.replace(opened.config, engine="auto"))  # nothing is stepped here
    return Skills(parts, of_seed(load_learner(opened, parts)[1], seed))


def _seed(seed: Any) -> int:
    if not is_count(seed) or not 0 <= seed < 2**31:
        raise UserError(f"seed is {seed!r}; it must be a whole number in [0, 2^31)")
    return int(seed)


def _how_to_observe(world: World) -> str:
    """How Gymnasium's environment of the same body is made to observe as many numbers."""
    twin: Twin | None = getattr(world, "gymnasium", None)
    if twin is None:
        return ""
    options = ", ".join(f"{name}={value}" for name, value in twin.options.items() if "observation" in name)
    return f"; Gymnasium's environment observes that with gymnasium.make({twin.id!r}, {options})"


def _shape_of(x: Any) -> tuple[int, ...] | None:
    """The shape of an array; None for rows of different lengths."""
    try:
        return np.shape(x)
    except ValueError:
        return None


def _checked(x: ArrayLike, size: int, name: str, advice: str = "") -> NDArray[np.float32]:
    try:
        with np.errstate(over="ignore"):  # what float32 cannot hold is infinite there, and refused
            given = np.asarray(x)
            array = given.astype(np.float32) if given.dtype.kind in "biuf" else None
    except (TypeError, ValueError):  # rows of different lengths
        array = None
    if array is None:
        raise UserError(f"{name} is no array of numbers; it must have the shape ({size},) or (n, {size})")
    if array.ndim not in (1, 2) or array.shape[-1] != size:
        raise UserError(f"{name} has shape {array.shape}; it must be ({size},) or (n, {size}){advice}")
    if not np.isfinite(array).all():
        where = np.argwhere(~np.isfinite(array))[0].tolist()
        raise UserError(f"{name}{where} is {given[tuple(where)]}; it must be a finite number")
    return array


def _rows(x: ArrayLike, size: int, count: int, name: str) -> NDArray[np.float32]:
    """One row for each of `count` observations: as many as that, or one for all."""
    array = np.atleast_2d(_checked(x, size, name))
    if len(array) not in (1, count):
        raise UserError(f"{name} has {len(array)} rows for {count} observations; give one row, or one for each")
    return np.broadcast_to(array, (count, size))
