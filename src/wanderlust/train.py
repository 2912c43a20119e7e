"""Training: two drivers, one update.

`fused` compiles collection and learning into one program; `split` moves the worlds on the host between compiled
calls, for engines that cannot be compiled. Seeds are an axis: every array of a `TrainState` leads with it, learners
are mapped over it, and an engine sees seeds x worlds as one batch.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int, Key

from wanderlust import replay as replays
from wanderlust.config import RunConfig
from wanderlust.envs import Engine, Physical, World, make_engine, make_world
from wanderlust.envs.vector import Worlds, begin, play, settle
from wanderlust.methods import Method, View, make_method
from wanderlust.methods.base import Metrics
from wanderlust.nets import Policy
from wanderlust.replay import Replay
from wanderlust.sac import Batch, Sac, SacState, mode_actions, sample_actions
from wanderlust.skills import SkillSpace, make_skills
from wanderlust.types import Rollout, Transition

# --- the parts and the state -----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Parts:
    """What a configuration is made of: pure functions, no state."""

    config: RunConfig
    world: World
    engine: Engine
    skills: SkillSpace
    method: Method
    view: View
    sac: Sac


def assemble(config: RunConfig) -> Parts:
    """Build the parts a configuration names."""
    world = make_world(config.env)
    skills = make_skills(config.skills)
    spec = world.spec
    return Parts(
        config=config,
        world=world,
        engine=make_engine(world),
        skills=skills,
        method=make_method(config.method, skills),
        view=View(spec, config.method.view),
        sac=Sac(config.sac, spec.obs_dim, skills.size, spec.action_dim),
    )


class Learner(NamedTuple):
    """Everything learned."""

    sac: SacState
    method: Any


class TrainState(NamedTuple):
    """All that changes during a run. Saved whole, it resumes to the same end."""

    learner: Learner
    worlds: Worlds
    replay: Replay
    key: Key[Array, " seeds"]


def init_seed(parts: Parts, key: Key[Array, ""]) -> TrainState:
    """The state of one seed before its first epoch."""
    sac_key, method_key, worlds_key, key = jax.random.split(key, 4)
    schedule = parts.config.schedule
    worlds = begin(parts.world, parts.skills, worlds_key, schedule.worlds)
    spec = parts.world.spec
    example = Transition(
        obs=jnp.zeros(spec.obs_dim),
        action=jnp.zeros(spec.action_dim),
        next_obs=jnp.zeros(spec.obs_dim),
        skill=jnp.zeros(parts.skills.size),
        terminated=jnp.zeros((), bool),
        truncated=jnp.zeros((), bool),
    )
    return TrainState(
        learner=Learner(parts.sac.init(sac_key), parts.method.init(method_key, parts.view.method_dim)),
        worlds=worlds,
        replay=replays.empty(example, schedule.collection * schedule.replay_collections),
        key=key,
    )


def init(parts: Parts) -> TrainState:
    """The state of all seeds. A seed's state depends on that seed alone."""
    seeds = jnp.arange(parts.config.seed, parts.config.seed + parts.config.seeds)
    return jax.jit(jax.vmap(lambda s: init_seed(parts, jax.random.key(s))))(seeds)


# --- one step of collection, in the pieces both drivers share --------------------------------------------------


def act(parts: Parts, policy: Policy, worlds: Worlds, key: Key[Array, ""]) -> Float[Array, "worlds action"]:
    """Actions of one seed's worlds, drawn from its policy."""
    obs = jax.vmap(parts.world.observe)(worlds.state)
    return sample_actions(policy, parts.view.for_policy(obs), worlds.skill, key)[0]


def _epoch_keys(parts: Parts, keys: Key[Array, " seeds"]) -> tuple[Array, Array, Array, Array]:
    """The keys of an epoch: next epoch's [seeds], learning's [seeds], acting's and settling's [steps, seeds]."""
    steps = parts.config.schedule.steps

    def one_seed(key: Key[Array, ""]) -> tuple[Array, Array, Array]:
        key, learn, collect = jax.random.split(key, 3)
        return key, learn, jax.random.split(collect, (steps, 2))

    key, learn, collect = jax.vmap(one_seed)(keys)
    return key, learn, collect[:, :, 0].T, collect[:, :, 1].T


def _flat(tree: Any) -> Any:
    """[seeds, worlds, ...] -> [seeds * worlds, ...]: what an engine sees."""
    return jax.tree.map(lambda x: x.reshape((x.shape[0] * x.shape[1], *x.shape[2:])), tree)


def _per_seed(tree: Any, seeds: int) -> Any:
    return jax.tree.map(lambda x: x.reshape((seeds, x.shape[0] // seeds, *x.shape[1:])), tree)


# --- one epoch of learning -------------------------------------------------------------------------------------


def learn(
    parts: Parts, learner: Learner, replay: Replay, fresh: Transition, key: Key[Array, ""]
) -> tuple[Learner, Metrics]:
    """All gradient steps of one epoch of one seed. `fresh` is this epoch's collection, already in the replay."""
    order = _sac_first if parts.config.schedule.order == "sac-first" else _interleaved
    learner, metrics = order(parts, learner, replay, fresh, key)
    if parts.config.sac.target_update == "epoch":
        learner = learner._replace(sac=parts.sac.move_targets(learner.sac))
    return learner, metrics


def _sac_first(
    parts: Parts, learner: Learner, replay: Replay, fresh: Transition, key: Key[Array, ""]
) -> tuple[Learner, Metrics]:
    """The published code's order: every SAC step under the phi that collected, then phi."""
    schedule = parts.config.schedule
    sac_key, method_key = jax.random.split(key)
    reward_of = _reward_reader(parts, learner.method, replay)

    def sac_step(sac: SacState, key: Key[Array, ""]) -> tuple[SacState, Metrics]:
        draw, noise = jax.random.split(key)
        index = replays.draw(replay, draw, schedule.sac_batch)
        batch = replays.take(replay, index)
        return _sac_step(parts, sac, batch, reward_of(index, batch), noise)

    def method_step(method: Any, key: Key[Array, ""]) -> tuple[Any, Metrics]:
        return parts.method.update(method, _method_batch(parts, replay, fresh, key))

    sac, sac_metrics = jax.lax.scan(sac_step, learner.sac, jax.random.split(sac_key, schedule.sac_steps))
    method, metrics = jax.lax.scan(method_step, learner.method, jax.random.split(method_key, schedule.method_steps))
    return Learner(sac, method), jax.tree.map(jnp.mean, {**sac_metrics, **metrics})


def _interleaved(
    parts: Parts, learner: Learner, replay: Replay, fresh: Transition, key: Key[Array, ""]
) -> tuple[Learner, Metrics]:
    """A step of phi, then a step of SAC under the phi just updated, in turn."""
    schedule = parts.config.schedule

    def step(learner: Learner, key: Key[Array, ""]) -> tuple[Learner, Metrics]:
        draw, draw_method, noise = jax.random.split(key, 3)
        method, metrics = parts.method.update(learner.method, _method_batch(parts, replay, fresh, draw_method))
        batch = replays.take(replay, replays.draw(replay, draw, schedule.sac_batch))
        reward = parts.method.reward(method, parts.view.transition_for_method(batch))
        sac, sac_metrics = _sac_step(parts, learner.sac, batch, reward, noise)
        return Learner(sac, method), {**sac_metrics, **metrics}

    learner, metrics = jax.lax.scan(step, learner, jax.random.split(key, schedule.sac_steps))
    return learner, jax.tree.map(jnp.mean, metrics)


def _sac_step(
    parts: Parts, sac: SacState, batch: Transition, reward: Float[Array, " batch"], key: Key[Array, ""]
) -> tuple[SacState, Metrics]:
    terminal = batch.terminated
    if parts.config.sac.time_limit_is_terminal:
        terminal = terminal | batch.truncated
    sac, metrics = parts.sac.update(
        sac,
        Batch(
            obs=parts.view.for_policy(batch.obs),
            skill=batch.skill,
            action=batch.action,
            reward=reward,
            next_obs=parts.view.for_policy(batch.next_obs),
            terminal=terminal,
        ),
        key,
    )
    if parts.config.sac.target_update == "step":
        sac = parts.sac.move_targets(sac)
    return sac, {"reward": jnp.mean(reward), **metrics}


def _method_batch(parts: Parts, replay: Replay, fresh: Transition, key: Key[Array, ""]) -> Transition:
    count = parts.config.schedule.method_batch
    batch = replays.take(replay, replays.draw(replay, key, count)) if count else fresh
    return parts.view.transition_for_method(batch)


def _reward_reader(
    parts: Parts, method: Any, replay: Replay
) -> Callable[[Int[Array, " batch"], Transition], Float[Array, " batch"]]:
    """Rewards of drawn transitions: per draw, or for the whole ring at once where that is less work."""
    schedule = parts.config.schedule
    if replay.data.obs.shape[0] <= schedule.sac_steps * schedule.sac_batch:
        everything = parts.method.reward(method, parts.view.transition_for_method(replay.data))
        return lambda index, _: everything[index]
    return lambda _, batch: parts.method.reward(method, parts.view.transition_for_method(batch))


def _each_seed(f: Callable[..., Any]) -> Callable[..., Any]:
    """Map over the seed axis: side by side on an accelerator, one after the other on a CPU.

    A CPU core gains nothing from wider products, and the arrays of one seed fit its caches.
    """
    if jax.default_backend() == "cpu":
        return lambda *args: jax.lax.map(lambda one: f(*one), args)
    return jax.vmap(f)


def _learn_all(
    parts: Parts, state: TrainState, worlds: Worlds, fresh: Transition, key: Array, learn_key: Array
) -> tuple[TrainState, Metrics]:
    """Store a collection [steps, seeds, worlds, ...] and learn from it, seed by seed."""

    def one_seed(
        learner: Learner, replay: Replay, fresh: Transition, key: Key[Array, ""]
    ) -> tuple[Learner, Replay, Metrics]:
        fresh = _flat(fresh)
        replay = replays.append(replay, fresh)
        learner, metrics = learn(parts, learner, replay, fresh, key)
        return learner, replay, metrics

    fresh = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), fresh)
    learner, replay, metrics = _each_seed(one_seed)(state.learner, state.replay, fresh, learn_key)
    return TrainState(learner, worlds, replay, key), metrics


# --- drivers ---------------------------------------------------------------------------------------------------

Advance = Callable[[TrainState, int], tuple[TrainState, Metrics]]
"""Run a number of epochs; metrics are means over them, one value per seed."""


def make_driver(parts: Parts) -> Advance:
    """The driver a configuration asks for, compiled on first use."""
    return fused_driver(parts) if parts.config.driver == "fused" else split_driver(parts)


def fused_driver(parts: Parts) -> Advance:
    """Everything in one program; seeds are spread over the devices there are."""
    if not parts.engine.compiles:
        raise ValueError("this engine cannot be compiled: use the split driver")

    def epoch(state: TrainState) -> tuple[TrainState, Metrics]:
        seeds = state.key.shape[0]
        key, learn_key, act_keys, settle_keys = _epoch_keys(parts, state.key)

        def step(worlds: Worlds, keys: tuple[Array, Array]) -> tuple[Worlds, Transition]:
            act_key, settle_key = keys
            action = jax.vmap(partial(act, parts))(state.learner.sac.policy, worlds, act_key)
            after = _per_seed(parts.engine.step(_flat(worlds.state), _flat(action)), seeds)
            return settle(parts.world, parts.skills, worlds, action, after, settle_key)

        worlds, fresh = jax.lax.scan(step, state.worlds, (act_keys, settle_keys))
        return _learn_all(parts, state, worlds, fresh, key, learn_key)

    def chunk(state: TrainState, epochs: Int[Array, ""]) -> tuple[TrainState, Metrics]:
        zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(epoch, state)[1])

        def body(_: int, carry: tuple[TrainState, Metrics]) -> tuple[TrainState, Metrics]:
            state, total = carry
            state, metrics = epoch(state)
            return state, jax.tree.map(jnp.add, total, metrics)

        state, total = jax.lax.fori_loop(0, epochs, body, (state, zeros))
        return state, jax.tree.map(lambda x: x / epochs, total)

    mesh = seed_mesh(parts.config.seeds)
    across, same = PartitionSpec("seeds"), PartitionSpec()
    spread = jax.shard_map(chunk, mesh=mesh, in_specs=(across, same), out_specs=across, check_vma=False)
    compiled = jax.jit(spread, donate_argnums=0)

    def advance(state: TrainState, epochs: int) -> tuple[TrainState, Metrics]:
        state = jax.device_put(state, NamedSharding(mesh, across))
        return compiled(state, jnp.int32(epochs))

    return advance


def split_driver(parts: Parts) -> Advance:
    """Worlds on the host, learning on the device: one compiled call to act, one to settle, one to learn."""
    keys_of = jax.jit(partial(_epoch_keys, parts))
    act_all = jax.jit(jax.vmap(partial(act, parts)))
    settle_all = jax.jit(partial(settle, parts.world, parts.skills))
    learn_all = jax.jit(partial(_learn_all, parts))
    engine_step = jax.jit(parts.engine.step) if parts.engine.compiles else parts.engine.step
    stack = jax.jit(lambda transitions: jax.tree.map(lambda *x: jnp.stack(x), *transitions))

    def epoch(state: TrainState) -> tuple[TrainState, Metrics]:
        key, learn_key, act_keys, settle_keys = keys_of(state.key)
        worlds, transitions = state.worlds, []
        for act_key, settle_key in zip(act_keys, settle_keys, strict=True):
            action = act_all(state.learner.sac.policy, worlds, act_key)
            on_host: tuple[Physical, np.ndarray] = jax.device_get((worlds.state, action))
            after = _per_seed(jax.device_get(engine_step(_flat(on_host[0]), _flat(on_host[1]))), parts.config.seeds)
            worlds, transition = settle_all(worlds, action, after, settle_key)
            transitions.append(transition)
        return learn_all(state, worlds, stack(tuple(transitions)), key, learn_key)

    def advance(state: TrainState, epochs: int) -> tuple[TrainState, Metrics]:
        total: Metrics = {}
        for _ in range(epochs):
            state, metrics = epoch(state)
            total = {name: total[name] + value if total else value for name, value in metrics.items()}
        return state, {name: value / epochs for name, value in total.items()}

    return advance


def seed_mesh(seeds: int) -> Mesh:
    """As many devices as divide the seeds evenly: one seed stays on one device."""
    devices = jax.devices()
    count = max(n for n in range(1, min(seeds, len(devices)) + 1) if seeds % n == 0)
    return Mesh(np.array(devices[:count]), ("seeds",))


# --- looking at a learner --------------------------------------------------------------------------------------


def rollout(parts: Parts, policy: Policy, skill: Array, key: Key[Array, ""], mode: bool = True) -> Rollout:
    """One episode per skill under one seed's policy, from the origin, with mode actions or sampled ones."""

    def choose(obs: Array, skill: Array, key: Key[Array, ""]) -> Array:
        seen = parts.view.for_policy(obs)
        return mode_actions(policy, seen, skill) if mode else sample_actions(policy, seen, skill, key)[0]

    return play(parts.world.from_origin(), parts.engine, choose, skill, key, parts.world.spec.episode_length)


def make_probe(parts: Parts, episodes: int) -> Callable[[Policy], Float[Array, "seeds time worlds xy"]]:
    """A compiled look at all seeds: where random skills go, with mode actions, always the same skills and starts."""
    position = jnp.array(parts.world.spec.position_dims)

    def one_seed(policy: Policy, key: Key[Array, ""]) -> Array:
        skill_key, play_key = jax.random.split(key)
        skill = jax.vmap(parts.skills.sample)(jax.random.split(skill_key, episodes))
        return rollout(parts, policy, skill, play_key).obs[..., position]

    seeds = jnp.arange(parts.config.seed, parts.config.seed + parts.config.seeds)
    keys = jax.vmap(lambda s: jax.random.fold_in(jax.random.key(s), 1))(seeds)
    return jax.jit(lambda policy: jax.vmap(one_seed)(policy, keys))
