"""What a configuration is made of, and all that changes while it is learned from."""

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from wanderlust.config import MethodConfig, RunConfig
from wanderlust.envs import Engine, World, make_engine, make_world
from wanderlust.envs.names import focus_entries
from wanderlust.envs.spec import EnvSpec, Transition
from wanderlust.errors import UserError
from wanderlust.methods import Method, View, bonuses, make_method
from wanderlust.methods.skills import SkillSpace, make_skills
from wanderlust.rl import replay as replays
from wanderlust.rl.nets import Policy
from wanderlust.rl.replay import Replay
from wanderlust.rl.sac import Sac, SacState, frozen
from wanderlust.train.autoreset import Diverged, EnvState, no_divergence, start_episodes


class Reward(NamedTuple):
    """Something that SAC learns to get: what computes it, what that sees, and what it is multiplied by."""

    method: Method
    view: View
    scale: float


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
    bonus: Reward | None = None

    @property
    def rewards(self) -> tuple[Reward, ...]:
        """The method's, and the bonus if there is one."""
        main = Reward(self.method, self.view, self.config.method.reward_scale)
        return (main,) if self.bonus is None else (main, self.bonus)

    @property
    def subgoal_steps(self) -> int:
        """Steps between two subgoals of a high-level policy; 0 if there is none."""
        return self.hold if self.method.high_level is not None else 0

    @property
    def command_size(self) -> int:
        """Entries of a command: of a skill, and of the subgoal that a high-level policy sets behind it."""
        high = self.method.high_level
        return self.skills.size + (high.lower.skills.size if high else 0)

    def command(self, skill: Float[Array, "*batch skill"]) -> Float[Array, "*batch command"]:
        """The command of a skill before the first subgoal is set."""
        return jnp.pad(skill, [(0, 0)] * (skill.ndim - 1) + [(0, self.command_size - self.skills.size)])

    def sample_command(self, key: Key[Array, ""]) -> Float[Array, " command"]:
        """The command of a random skill."""
        return self.command(self.skills.sample(key))

    @property
    def waits(self) -> bool:
        """Whether a collection is of whole episodes, and an environment whose own has ended waits for the others."""
        return self.config.schedule.collect == "episodes"

    @property
    def hold(self) -> int:
        """Steps after which training draws another skill or subgoal within an episode; 0 is never."""
        return self.config.schedule.hold if self.method.hold is None else self.method.hold


@functools.lru_cache(maxsize=2)
def assemble(config: RunConfig) -> Setup:
    """The parts a configuration names. Cached, so that a command builds its engine once."""
    world = make_world(config.env)
    skills = make_skills(config.skills)
    spec = world.spec
    method = make_method(config.method, skills).for_world(spec)
    lower = method.high_level.lower if method.high_level else config
    return Setup(
        config=config,
        world=world,
        engine=make_engine(world, config.engine),
        skills=skills,
        method=method,
        view=View(
            spec, config.method.view, lower.sac.position_scale, method.sees, focus_entries(world, config.env.focus)
        ),
        sac=Sac(lower.sac, spec.obs_dim, lower.skills.size, spec.action_dim, config.precision),
        bonus=None if config.bonus is None else _bonus(config.bonus, skills, spec),
    )


def _bonus(config: MethodConfig, skills: SkillSpace, spec: EnvSpec) -> Reward:
    method = make_method(config, skills).for_world(spec)
    if not method.adds:
        raise UserError(
            f"the reward of {config.name} cannot be added to another's; choose one of {', '.join(bonuses())}"
        )
    return Reward(method, View(spec, config.view, sees=method.sees), config.reward_scale)


class Learner(NamedTuple):
    """Everything learned."""

    sac: SacState
    """Under a high-level policy: the frozen policy of an earlier stage alone."""
    method: Any
    bonus: Any = ()
    """What was learned for a reward that is added to the method's."""


class HierarchicalPolicy(NamedTuple):
    """A policy that follows subgoals, and the high-level policy that sets them."""

    policy: Policy
    goal_policy: Any


def skill_policy(parts: Setup, learner: Learner, collecting: bool = False) -> Policy | HierarchicalPolicy:
    """What acts when skills are used, or while data are collected."""
    policy, high = learner.sac.policy, parts.method.high_level
    return HierarchicalPolicy(policy, high.goal_policy(learner.method, collecting)) if high else policy


class TrainState(NamedTuple):
    """All that changes during a run. Saved whole, it resumes to the same end."""

    learner: Learner
    worlds: EnvState
    replay: Replay
    diverged: Diverged
    """NaN guard: the first environment of each seed whose physics broke down, if any did."""
    key: Key[Array, " seeds"]


def init_seed(parts: Setup, key: Key[Array, ""]) -> TrainState:
    """The state of one seed before its first epoch."""
    sac_key, method_key, worlds_key, key = jax.random.split(key, 4)
    schedule, high_level = parts.config.schedule, parts.method.high_level
    # a high-level policy learns from trajectories as they come
    capacity = 0 if high_level else schedule.collection * schedule.replay_collections
    sac = parts.sac.init(sac_key)
    method, bonus = parts.method.init(method_key, parts.view.method_dim), ()
    if parts.bonus is not None:
        bonus = parts.bonus.method.init(jax.random.fold_in(method_key, 1), parts.bonus.view.method_dim)
    return TrainState(
        learner=Learner(frozen(sac.policy) if high_level else sac, method, bonus),
        worlds=fresh_worlds(parts, worlds_key),
        replay=replays.empty(example(parts), capacity),
        diverged=no_divergence(parts.world),
        key=key,
    )


def fresh_worlds(parts: Setup, key: Key[Array, ""]) -> EnvState:
    """The environments of one seed, each at the start of an episode."""
    worlds, keeps_start = parts.config.schedule.worlds, parts.method.keeps_start
    return start_episodes(parts.world, parts.sample_command, key, worlds, keeps_start)


def example(parts: Setup) -> Transition:
    """A transition as it is stored, all zeros."""
    spec = parts.world.spec
    return Transition(
        obs=jnp.zeros(spec.obs_dim),
        action=jnp.zeros(spec.action_dim),
        next_obs=jnp.zeros(spec.obs_dim),
        skill=jnp.zeros(parts.command_size),
        terminated=jnp.zeros((), bool),
        truncated=jnp.zeros((), bool),
        start=jnp.zeros(spec.obs_dim) if parts.method.keeps_start else (),
        drift=jnp.zeros(spec.obs_dim) if parts.method.block else (),
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


def fresh_episodes(parts: Setup, keys: Key[Array, " seeds"]) -> EnvState:
    """The environments of all seeds at the start of episodes that a saved state's keys have not drawn yet."""
    return jax.jit(jax.vmap(lambda key: fresh_worlds(parts, jax.random.fold_in(key, 0))))(keys)


def saved_form(parts: Setup) -> Any:
    """Names, shapes and types of what a checkpoint holds; nothing is allocated."""
    return to_save(jax.eval_shape(lambda: init(parts)))
