"""What a configuration is made of, and all that changes while it is learned from."""

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key

from wanderlust.config import RunConfig
from wanderlust.envs import Engine, World, make_engine, make_world
from wanderlust.envs.spec import Transition
from wanderlust.methods import FROM_THE_START, Method, View, make_method
from wanderlust.methods.base import UpperLevel
from wanderlust.methods.skills import Orders, SkillSpace, make_skills
from wanderlust.rl import replay as replays
from wanderlust.rl.nets import Policy
from wanderlust.rl.replay import Replay
from wanderlust.rl.sac import Sac, SacState, frozen
from wanderlust.train.autoreset import (
    Diverged,
    EnvState,
    begin,
    no_divergence,
)


@dataclasses.dataclass(frozen=True)
class Setup:
    """What a configuration is made of: pure functions, no state."""

    config: RunConfig
    world: World
    engine: Engine
    skills: SkillSpace
    method: Method
    view: View
    sac: Sac

    @property
    def keeps_start(self) -> bool:
        """Whether transitions carry what their episode began with."""
        return self.config.method.name in FROM_THE_START

    @property
    def block(self) -> int:
        """Steps over which transitions carry how far they led, if they do."""
        return self.method.block

    @property
    def upper(self) -> UpperLevel | None:
        """The upper level of a method that has two: it sets goals for a policy that learns no more."""
        return self.method.upper

    @property
    def goals_stand(self) -> int:
        """Steps for which an upper level's goals stand before it sets others; 0 if there is no such level."""
        return self.hold if self.upper is not None else 0

    @property
    def orders(self) -> SkillSpace:
        """What worlds carry: skills, and the goals that an upper level sets."""
        upper = self.method.upper
        return Orders(self.skills, upper.lower.skills.size) if upper else self.skills

    @property
    def waits(self) -> bool:
        """Whether a collection is of whole episodes, and a world whose own has ended waits for the others."""
        return self.config.schedule.collect == "episodes"

    @property
    def hold(self) -> int:
        """Steps after which training gives other orders within an episode; 0 is never."""
        return self.config.schedule.hold if self.method.hold is None else self.method.hold


def assemble(config: RunConfig) -> Setup:
    """Build the parts a configuration names."""
    world = make_world(config.env)
    skills = make_skills(config.skills)
    spec = world.spec
    method = make_method(config.method, skills)
    lower = method.upper.lower if method.upper else config
    return Setup(
        config=config,
        world=world,
        engine=make_engine(world, config.engine),
        skills=skills,
        method=method,
        view=View(spec, config.method.view, lower.sac.position_scale),
        sac=Sac(lower.sac, spec.obs_dim, lower.skills.size, spec.action_dim, config.precision),
    )


class Learner(NamedTuple):
    """Everything learned."""

    sac: SacState
    """Under an upper level: the policy alone, as an earlier stage has left it."""
    method: Any


class Actor(NamedTuple):
    """What chooses actions."""

    policy: Policy
    lead: Any = ()
    """What sets the goals that the policy follows, if there is an upper level."""


def behaviour_policy(parts: Setup, learner: Learner) -> Actor:
    """What acts while data are collected."""
    return Actor(learner.sac.policy, parts.upper.lead_sampling(learner.method) if parts.upper else ())


def skill_policy(parts: Setup, learner: Learner) -> Any:
    """What acts when skills are used: a policy, and with it what leads it if there is an upper level."""
    if parts.upper is None:
        return learner.sac.policy
    return Actor(learner.sac.policy, parts.upper.lead_skills(learner.method))


class TrainState(NamedTuple):
    """All that changes during a run. Saved whole, it resumes to the same end."""

    learner: Learner
    worlds: EnvState
    replay: Replay
    diverged: Diverged
    """The first world of each seed whose physics broke down, if any did."""
    key: Key[Array, " seeds"]


def init_seed(parts: Setup, key: Key[Array, ""]) -> TrainState:
    """The state of one seed before its first epoch."""
    sac_key, method_key, worlds_key, key = jax.random.split(key, 4)
    schedule = parts.config.schedule
    worlds = begin(parts.world, parts.orders, worlds_key, schedule.worlds, parts.keeps_start)
    # an upper level learns from trajectories as they come
    capacity = 0 if parts.upper else schedule.collection * schedule.replay_collections
    sac = parts.sac.init(sac_key)
    return TrainState(
        learner=Learner(
            frozen(sac.policy) if parts.upper else sac, parts.method.init(method_key, parts.view.method_dim)
        ),
        worlds=worlds,
        replay=replays.empty(example(parts), capacity),
        diverged=no_divergence(parts.world),
        key=key,
    )


def example(parts: Setup) -> Transition:
    """A transition as it is stored, all zeros."""
    spec = parts.world.spec
    return Transition(
        obs=jnp.zeros(spec.obs_dim),
        action=jnp.zeros(spec.action_dim),
        next_obs=jnp.zeros(spec.obs_dim),
        skill=jnp.zeros(parts.orders.size),
        terminated=jnp.zeros((), bool),
        truncated=jnp.zeros((), bool),
        start=jnp.zeros(spec.obs_dim) if parts.keeps_start else (),
        drift=jnp.zeros(spec.obs_dim) if parts.block else (),
    )


def init(parts: Setup) -> TrainState:
    """The state of all seeds. A seed's state depends on that seed alone."""
    seeds = jnp.arange(parts.config.seed, parts.config.seed + parts.config.seeds)
    return jax.jit(jax.vmap(lambda s: init_seed(parts, jax.random.key(s))))(seeds)


def to_save(state: TrainState) -> Any:
    """What a checkpoint holds: all but the NaN guard, since a run that diverges is not saved."""
    nothing: Any = ()
    return state._replace(diverged=nothing)


def restore(parts: Setup, saved: Any) -> TrainState:
    """The state that was saved."""
    nothing = jax.vmap(lambda _: no_divergence(parts.world))(jnp.arange(parts.config.seeds))
    state: TrainState = saved._replace(diverged=nothing)
    return state


def saved_form(parts: Setup) -> Any:
    """Names, shapes and types of what a checkpoint holds; nothing is allocated."""
    return to_save(jax.eval_shape(lambda: init(parts)))
