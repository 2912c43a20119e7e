"""Training: two drivers, one update.

`fused` compiles collection and learning into one program; `split` moves the worlds on the host between compiled
calls, for engines that cannot be compiled. Seeds are an axis: every array of a `TrainState` leads with it, learners
are mapped over it, and an engine sees seeds x worlds as one batch.
"""

import dataclasses
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Float, Int, Key

from wanderlust import replay as replays
from wanderlust.config import IbolConfig, LinearizerConfig, RunConfig
from wanderlust.envs import Engine, Physical, World, make_engine, make_world
from wanderlust.envs.vector import (
    Lost,
    Worlds,
    begin,
    begin_all,
    drift,
    go_on,
    look_for_lost,
    none_lost,
    play,
    record,
    settle,
)
from wanderlust.methods import FROM_THE_START, Method, View, make_method
from wanderlust.methods.base import Metrics
from wanderlust.methods.ibol import Ibol, Trajectories
from wanderlust.nets import Policy
from wanderlust.replay import Replay
from wanderlust.sac import Batch, Sac, SacState, frozen, mode_actions, noisy_actions, sample_actions
from wanderlust.skills import Orders, SkillSpace, make_skills
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

    @property
    def keeps_start(self) -> bool:
        """Whether transitions carry what their episode began with."""
        return self.config.method.name in FROM_THE_START

    @property
    def block(self) -> int:
        """Steps over which transitions carry how far they led, if they do."""
        return self.config.method.block if isinstance(self.config.method, LinearizerConfig) else 0

    @property
    def upper(self) -> Ibol | None:
        """The upper level of a method that has two: it sets goals for a policy that learns no more."""
        return self.method if isinstance(self.method, Ibol) else None

    @property
    def orders(self) -> SkillSpace:
        """What worlds carry: skills, and the goals that an upper level sets."""
        method = self.config.method
        return Orders(self.skills, method.first.skills.size) if isinstance(method, IbolConfig) else self.skills

    @property
    def hold(self) -> int:
        """Steps after which training gives other orders within an episode; 0 is never."""
        method = self.config.method
        if isinstance(method, IbolConfig):
            return method.block
        return method.hold if isinstance(method, LinearizerConfig) else 0


def assemble(config: RunConfig) -> Parts:
    """Build the parts a configuration names."""
    world = make_world(config.env)
    skills = make_skills(config.skills)
    spec = world.spec
    lower = config.method.first if isinstance(config.method, IbolConfig) else config
    return Parts(
        config=config,
        world=world,
        engine=make_engine(world, config.engine),
        skills=skills,
        method=make_method(config.method, skills),
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


def sampler(parts: Parts, learner: Learner) -> Actor:
    """What acts while data are collected."""
    return Actor(learner.sac.policy, parts.upper.lead_sampling(learner.method) if parts.upper else ())


def performer(parts: Parts, learner: Learner) -> Any:
    """What acts when skills are used: a policy, and with it what leads it if there is an upper level."""
    if parts.upper is None:
        return learner.sac.policy
    return Actor(learner.sac.policy, parts.upper.lead_skills(learner.method))


class TrainState(NamedTuple):
    """All that changes during a run. Saved whole, it resumes to the same end."""

    learner: Learner
    worlds: Worlds
    replay: Replay
    lost: Lost
    """The first world of each seed whose physics broke down, if any did."""
    key: Key[Array, " seeds"]


def init_seed(parts: Parts, key: Key[Array, ""]) -> TrainState:
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
        lost=none_lost(parts.world),
        key=key,
    )


def example(parts: Parts) -> Transition:
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


def init(parts: Parts) -> TrainState:
    """The state of all seeds. A seed's state depends on that seed alone."""
    seeds = jnp.arange(parts.config.seed, parts.config.seed + parts.config.seeds)
    return jax.jit(jax.vmap(lambda s: init_seed(parts, jax.random.key(s))))(seeds)


def to_save(state: TrainState) -> Any:
    """What a checkpoint holds: all but the lost worlds, since a run that has any is stopped and not saved."""
    nothing: Any = ()
    return state._replace(lost=nothing)


def restore(parts: Parts, saved: Any) -> TrainState:
    """The state that was saved."""
    nothing = jax.vmap(lambda _: none_lost(parts.world))(jnp.arange(parts.config.seeds))
    state: TrainState = saved._replace(lost=nothing)
    return state


def saved_form(parts: Parts) -> Any:
    """Names, shapes and types of what a checkpoint holds; nothing is allocated."""
    return to_save(jax.eval_shape(lambda: init(parts)))


# --- one step of collection, in the pieces both drivers share --------------------------------------------------


def act(
    parts: Parts, actor: Actor, worlds: Worlds, noise: Float[Array, "worlds action"]
) -> Float[Array, "worlds action"]:
    """Actions of one seed's worlds: the ones of its policy that standard-normal noise stands for.

    A policy that an upper level leads takes its mode actions: what is random there is the goal.
    """
    obs = jax.vmap(parts.world.observe)(worlds.state)
    if parts.upper is not None:
        return follow_goals(parts, actor, obs, worlds.skill)
    return noisy_actions(actor.policy, parts.view.for_policy(obs), worlds.skill, noise)


def follow_goals(
    parts: Parts, actor: Actor, obs: Float[Array, "worlds obs"], orders: Float[Array, "worlds orders"]
) -> Float[Array, "worlds action"]:
    """What the lower level does about the goals in its orders."""
    return mode_actions(actor.policy, parts.view.for_policy(obs), orders[:, parts.skills.size :])


def set_goals(
    parts: Parts,
    actor: Actor,
    obs: Float[Array, "worlds obs"],
    orders: Float[Array, "worlds orders"],
    keys: Key[Array, " worlds"] | None,
) -> Float[Array, "worlds orders"]:
    """Orders with the goals that the upper level sets here: the likeliest, or drawn ones."""
    if parts.upper is None:
        raise ValueError("this method has no upper level")
    skill = orders[:, : parts.skills.size]
    seen = parts.view.for_method(obs)
    goal = partial(parts.upper.goal, actor.lead)
    goals = jax.vmap(lambda o, z: goal(o, z, None))(seen, skill) if keys is None else jax.vmap(goal)(seen, skill, keys)
    return jnp.concatenate([skill, goals], axis=1)


def _renew(parts: Parts, actor: Actor, worlds: Worlds, keys: Key[Array, "seeds worlds"] | tuple[()]) -> Worlds:
    """Worlds whose episode has come to a multiple of `hold` steps get other orders; arrays lead with a seed axis."""
    if isinstance(keys, tuple):
        return worlds
    due = (worlds.age % parts.hold == 0) & (worlds.age < parts.world.spec.episode_length)

    def one_seed(actor: Actor, worlds: Worlds, keys: Key[Array, " worlds"]) -> Float[Array, "worlds orders"]:
        if parts.upper is None:
            return jax.vmap(parts.orders.sample)(keys)
        return set_goals(parts, actor, jax.vmap(parts.world.observe)(worlds.state), worlds.skill, keys)

    def renewed(worlds: Worlds) -> Worlds:
        orders = jax.vmap(one_seed)(actor, worlds, keys)
        return worlds._replace(skill=jnp.where(due[..., None], orders, worlds.skill))

    return jax.lax.cond(jnp.any(due), renewed, lambda worlds: worlds, worlds)


def _order_keys(parts: Parts, keys: Key[Array, " seeds"]) -> Key[Array, "seeds worlds"] | tuple[()]:
    """What other orders are drawn by in a step, if any may be."""
    if not parts.hold:
        return ()
    return jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, 1), parts.config.schedule.worlds))(keys)


def _noise(parts: Parts, keys: Key[Array, " seeds"]) -> Float[Array, "seeds worlds action"]:
    shape = (parts.config.schedule.worlds, parts.world.spec.action_dim)
    return jax.vmap(lambda key: jax.random.normal(key, shape))(keys)


def _fresh(parts: Parts, keys: Key[Array, " seeds"]) -> Worlds:
    return begin_all(parts.world, parts.orders, keys, parts.config.schedule.worlds, parts.keeps_start)


class EpochKeys(NamedTuple):
    """The random keys of one epoch."""

    next: Key[Array, " seeds"]
    learn: Key[Array, " seeds"]
    act: Key[Array, "steps seeds"]
    fresh: Key[Array, "steps seeds"]


def _epoch_keys(parts: Parts, keys: Key[Array, " seeds"]) -> EpochKeys:
    steps = parts.config.schedule.steps

    def one_seed(key: Key[Array, ""]) -> tuple[Array, Array, Array]:
        key, learn, collect = jax.random.split(key, 3)
        return key, learn, jax.random.split(collect, (steps, 2))

    key, learn, collect = jax.vmap(one_seed)(keys)
    return EpochKeys(key, learn, collect[:, :, 0].T, collect[:, :, 1].T)


def _settle(
    parts: Parts, worlds: Worlds, action: Array, after: Physical, fresh: Callable[[], Worlds]
) -> tuple[Worlds, Transition, Array]:
    """One step's transitions, and the age at which they were made: that of a whole episode if it was over before."""
    age = worlds.age
    waits = parts.config.schedule.collect == "episodes"
    worlds, transition = settle(parts.world, worlds, action, after, None if waits else fresh)
    return worlds, transition, age


def _running(parts: Parts, age: Int[Array, "*worlds"]) -> Bool[Array, "*worlds"]:
    """Whether an episode of that age is still going on."""
    return age < parts.world.spec.episode_length


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
    learner, metrics = _ORDERS[parts.config.schedule.order](parts, learner, replay, fresh, key)
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


def _joint(
    parts: Parts, learner: Learner, replay: Replay, fresh: Transition, key: Key[Array, ""]
) -> tuple[Learner, Metrics]:
    """A step of phi and a step of SAC at a time, from the same batch: it is gathered once, and the rewards are those
    of the forward pass that phi's gradient needs anyway (the compiler finds that they are the same).
    """
    schedule = parts.config.schedule

    def step(learner: Learner, key: Key[Array, ""]) -> tuple[Learner, Metrics]:
        draw, noise = jax.random.split(key)
        batch = replays.take(replay, replays.draw(replay, draw, schedule.sac_batch))
        seen = parts.view.transition_for_method(batch)
        reward = parts.method.reward(learner.method, seen)
        method, metrics = parts.method.update(learner.method, seen)
        sac, sac_metrics = _sac_step(parts, learner.sac, batch, reward, noise)
        return Learner(sac, method), {**sac_metrics, **metrics}

    learner, metrics = jax.lax.scan(step, learner, jax.random.split(key, schedule.sac_steps))
    return learner, jax.tree.map(jnp.mean, metrics)


_ORDERS = {"sac-first": _sac_first, "interleaved": _interleaved, "joint": _joint}


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
            reward=reward + parts.config.sac.alive_bonus,
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


def each_seed(f: Callable[..., Any]) -> Callable[..., Any]:
    """Map over the seed axis: side by side on an accelerator, one after the other on a CPU.

    A CPU core gains nothing from wider products, and the arrays of one seed fit its caches.
    """
    if jax.default_backend() == "cpu":
        return lambda *args: jax.lax.map(lambda one: f(*one), args)
    return jax.vmap(f)


def _learn_all(
    parts: Parts, state: TrainState, fresh: Transition, age: Array, key: Array
) -> tuple[TrainState, Metrics]:
    """Learn from a collection [steps, seeds, worlds, ...], seed by seed."""
    if parts.block:
        fresh = fresh._replace(drift=drift(fresh, age, parts.block))
    running = _running(parts, age)
    fresh, running = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), (fresh, running))
    learn_from = _learn_from_steps if parts.upper is None else _learn_from_trajectories
    state, metrics = learn_from(parts, state, fresh, running, key)
    steps = jnp.sum(running, axis=(1, 2), dtype=jnp.float32)
    return state, {**metrics, "steps": steps}


def _learn_from_trajectories(
    parts: Parts, state: TrainState, fresh: Transition, running: Array, key: Array
) -> tuple[TrainState, Metrics]:
    """The upper level learns from what it decided and in which states: one step out of every `hold`."""
    upper, schedule = parts.upper, parts.config.schedule
    if upper is None:
        raise ValueError("this method has no upper level")
    count = min(schedule.sac_batch, schedule.worlds)

    def one_seed(learner: Learner, fresh: Transition, running: Array, key: Array) -> tuple[Learner, Metrics]:
        decisions, valid = jax.tree.map(lambda x: jnp.swapaxes(x[:: parts.hold], 0, 1), (fresh, running))
        everything = Trajectories(
            obs=jnp.where(valid[..., None], parts.view.for_method(decisions.obs), 0.0),
            goal=decisions.skill[..., parts.skills.size :],
            parameter=decisions.skill[:, 0, : parts.skills.size],
            valid=valid,
        )

        def step(method: Any, key: Key[Array, ""]) -> tuple[Any, Metrics]:
            draw, noise = jax.random.split(key)
            some = jax.random.permutation(draw, schedule.worlds)[:count]
            return upper.learn(method, jax.tree.map(lambda x: x[some], everything), noise)

        method, metrics = jax.lax.scan(step, learner.method, jax.random.split(key, schedule.sac_steps))
        metrics = jax.tree.map(jnp.mean, metrics)
        return learner._replace(method=upper.follow(method, everything)), {**metrics, "learned": jnp.ones(())}

    learner, metrics = each_seed(one_seed)(state.learner, fresh, running, key)
    return state._replace(learner=learner), metrics


def _learn_from_steps(
    parts: Parts, state: TrainState, fresh: Transition, running: Array, key: Array
) -> tuple[TrainState, Metrics]:
    """Store a collection [seeds, steps, worlds, ...], and learn from what is stored."""
    schedule = parts.config.schedule

    def store(replay: Replay, fresh: Transition, running: Array) -> Replay:
        if schedule.collect == "steps":
            return replays.append(replay, _flat(fresh))
        return replays.append_valid(replay, _flat(fresh), _flat(running))

    def one_seed(learner: Learner, replay: Replay, fresh: Transition, key: Key[Array, ""]) -> tuple[Learner, Metrics]:
        def go(learner: Learner) -> tuple[Learner, Metrics]:
            learner, metrics = learn(parts, learner, replay, _flat(fresh), key)
            return learner, {**metrics, "learned": jnp.ones(())}

        if schedule.learn_from == 1:
            return go(learner)
        nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(go, learner)[1])
        return jax.lax.cond(replay.size >= schedule.learn_from, go, lambda learner: (learner, nothing), learner)

    state = state._replace(replay=jax.vmap(store)(state.replay, fresh, running))
    learner, metrics = each_seed(one_seed)(state.learner, state.replay, fresh, key)
    return state._replace(learner=learner), metrics


# --- drivers ---------------------------------------------------------------------------------------------------

Advance = Callable[[TrainState, int], tuple[TrainState, Metrics]]
"""Run a number of epochs; metrics are means over them, one value per seed. For 0 epochs: compile, change nothing."""


def _means(total: Metrics, epochs: Any) -> Metrics:
    """Sums over epochs as means: of what is learned, over the epochs that learned."""
    learned = jnp.maximum(total["learned"], 1.0)
    rest = {name: value for name, value in total.items() if name not in ("learned", "steps")}
    return {**{name: value / learned for name, value in rest.items()}, "steps": total["steps"] / epochs}


def make_driver(parts: Parts) -> Advance:
    """The driver a configuration asks for, compiled on first use."""
    return fused_driver(parts) if parts.config.driver == "fused" else split_driver(parts)


def fused_driver(parts: Parts) -> Advance:
    """Everything in one program; seeds are spread over the devices there are."""
    if not parts.engine.compiles:
        raise ValueError("this engine cannot be compiled: use the split driver")

    def epoch(state: TrainState) -> tuple[TrainState, Metrics]:
        seeds = state.key.shape[0]
        keys = _epoch_keys(parts, state.key)
        actor = sampler(parts, state.learner)

        def step(
            carry: tuple[Worlds, Lost], keys: tuple[Array, Array]
        ) -> tuple[tuple[Worlds, Lost], tuple[Transition, Array]]:
            (worlds, lost), (act_key, fresh_key) = carry, keys
            worlds = _renew(parts, actor, worlds, _order_keys(parts, act_key))
            action = jax.vmap(partial(act, parts))(actor, worlds, _noise(parts, act_key))
            after = _per_seed(parts.engine.step(_flat(worlds.state), _flat(action)), seeds)
            before = worlds.state
            worlds, transition, age = _settle(parts, worlds, action, after, lambda: _fresh(parts, fresh_key))
            lost = look_for_lost(lost, before, action, after, _running(parts, age))
            return (worlds, lost), (transition, age)

        (worlds, lost), (fresh, age) = jax.lax.scan(step, (state.worlds, state.lost), (keys.act, keys.fresh))
        if parts.config.schedule.collect == "episodes":
            worlds = _fresh(parts, keys.fresh[0])
        state = state._replace(worlds=worlds, lost=lost, key=keys.next)
        return _learn_all(parts, state, fresh, age, keys.learn)

    def chunk(state: TrainState, epochs: Int[Array, ""]) -> tuple[TrainState, Metrics]:
        zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(epoch, state)[1])

        def body(_: int, carry: tuple[TrainState, Metrics]) -> tuple[TrainState, Metrics]:
            state, total = carry
            state, metrics = epoch(state)
            return state, jax.tree.map(jnp.add, total, metrics)

        state, total = jax.lax.fori_loop(0, epochs, body, (state, zeros))
        return state, _means(total, jnp.maximum(epochs, 1))

    mesh = seed_mesh(parts.config.seeds)
    across, same = PartitionSpec("seeds"), PartitionSpec()
    spread = jax.shard_map(chunk, mesh=mesh, in_specs=(across, same), out_specs=across, check_vma=False)
    compiled = jax.jit(spread, donate_argnums=0)

    def advance(state: TrainState, epochs: int) -> tuple[TrainState, Metrics]:
        state = jax.device_put(state, NamedSharding(mesh, across))
        return compiled(state, jnp.int32(epochs))

    return advance


class _Desk(NamedTuple):
    """What a device holds of one group of worlds while the host moves them."""

    worlds: Worlds
    """As they stood before the step, but for their states, which are with the host."""
    at: Int[Array, ""]
    """The step of the collection."""


class _Draws(NamedTuple):
    """All that is random in a collection, [steps, seeds, worlds, ...]."""

    noise: Float[Array, "steps seeds worlds action"]
    fresh: Worlds
    orders: Key[Array, "steps seeds worlds"] | tuple[()]


class _Log(NamedTuple):
    """The steps of one group of worlds as the host saw them."""

    turns: Any
    """[steps, seeds, worlds, ...] Before each step: states, skills, ages and the actions chosen (`_pack`)."""
    after: Any
    """[steps, seeds, worlds, ...] The states it led to."""
    last: Any
    """What would have come next."""


DESK_ON_HOST = 32
"""Up to so many worlds it is quicker to choose actions on the CPU than to send every step to a GPU and back."""


def desk_device(parts: Parts) -> jax.Device | None:
    """Where the split driver chooses actions, if that is not where it learns."""
    worlds = parts.config.schedule.worlds * parts.config.seeds
    if jax.default_backend() == "cpu" or worlds > DESK_ON_HOST:
        return None
    try:
        return jax.devices("cpu")[0]
    except RuntimeError:  # JAX was told to use the GPU alone
        return None


def split_driver(parts: Parts, desk_at: jax.Device | None = None) -> Advance:
    """Worlds on the host, learning on the device.

    Per step there is one call of the engine, and one compiled call that starts the episodes that are due and chooses
    the next actions: one array goes there and one comes back. What happened is put together when all steps are done.
    The worlds go in two groups, each on a thread of its own: while one is with the engine, the other is at the desk.
    """
    steps, length, cuts = parts.config.schedule.steps, parts.world.spec.episode_length, _cuts(parts)
    groups = 2 if parts.config.schedule.worlds % 2 == 0 else 1
    engine = parts.engine.for_callers(groups)
    move = jax.jit(engine.step) if engine.compiles else engine.step
    desk_at = desk_at or desk_device(parts)
    prepared = jax.jit(partial(_prepare, parts, groups))
    turned = jax.jit(partial(_turn, parts))
    finishing = jax.jit(partial(_finish, parts), donate_argnums=0)
    finished: Callable[..., tuple[TrainState, Metrics]] = finishing
    threads = ThreadPoolExecutor(groups)

    def collect(actor: Actor, count: int, desk: _Desk, draws: _Draws, first: Array) -> _Log:
        turns, after = [np.asarray(first)], []
        for _ in range(count):
            worlds, action = _unpack(cuts, turns[-1])
            if (worlds.age >= length).all():  # every episode of this collection has ended early
                break
            after.append(np.concatenate(move(*_flat((worlds.state, action))), axis=1))
            desk, turn = turned(actor, desk, draws, after[-1])
            turns.append(np.asarray(turn))
        missing = count - len(after)  # steps of episodes that have ended: not stored
        seen = np.stack(turns[:-1] + missing * turns[-1:])
        led = np.stack(after + missing * after[-1:])
        return _Log(seen, led.reshape(*seen.shape[:3], -1), turns[-1])

    def collect_all(state: TrainState, count: int) -> tuple[EpochKeys, tuple[_Log, ...]]:
        actor, worlds, key = sampler(parts, state.learner), state.worlds, state.key
        if desk_at is not None:
            actor, worlds, key = jax.device_put((actor, worlds, key), desk_at)
        keys, *given = prepared(actor, worlds, key)
        logs = tuple(threads.map(partial(collect, actor, count), *given))
        return (keys if desk_at is None else jax.device_put(keys, jax.devices()[0])), logs

    def compile_all(state: TrainState) -> None:
        nonlocal finished
        keys, logs = collect_all(state, 1)

        def whole(x: Array) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct((steps, *x.shape[1:]), x.dtype)

        logs = tuple(_Log(whole(log.turns), whole(log.after), log.last) for log in logs)
        finished = finishing.lower(state, keys, logs).compile()

    def advance(state: TrainState, epochs: int) -> tuple[TrainState, Metrics]:
        if epochs == 0:
            compile_all(state)
        total: Metrics = {}
        for _ in range(epochs):
            state, metrics = finished(state, *collect_all(state, steps))
            total = {name: total[name] + value if total else value for name, value in metrics.items()}
        return state, _means(total, epochs) if total else {}

    return advance


def _pack(worlds: Worlds, action: Float[Array, "seeds worlds action"]) -> Float[Array, "seeds worlds turn"]:
    """All of a turn in one array: that is one transfer."""
    start = [] if isinstance(worlds.start, tuple) else [worlds.start]
    age = worlds.age[..., None].astype(jnp.float32)
    return jnp.concatenate([*worlds.state, worlds.skill, *start, age, action], axis=-1)


class _Cuts(NamedTuple):
    """Where the pieces of a turn end."""

    qpos: int
    state: int
    skill: int
    start: int


def _cuts(parts: Parts) -> _Cuts:
    initial = jax.eval_shape(parts.world.initial, jax.random.key(0))
    nq, nv = initial.qpos.shape[0], initial.qvel.shape[0]
    skill = nq + nv + parts.orders.size
    return _Cuts(nq, nq + nv, skill, skill + parts.world.spec.obs_dim if parts.keeps_start else skill)


def _unpack(cuts: _Cuts, turn: Any) -> tuple[Worlds, Any]:
    """The worlds and actions of a turn, [..., entries]; NumPy or JAX."""
    state = Physical(turn[..., : cuts.qpos], turn[..., cuts.qpos : cuts.state])
    start = turn[..., cuts.skill : cuts.start] if cuts.start > cuts.skill else ()
    age = turn[..., cuts.start].astype(np.int32)
    return Worlds(state, turn[..., cuts.state : cuts.skill], age, start), turn[..., cuts.start + 1 :]


def _prepare(
    parts: Parts, groups: int, actor: Actor, worlds: Worlds, key: Array
) -> tuple[EpochKeys, tuple[_Desk, ...], tuple[_Draws, ...], tuple[Array, ...]]:
    """For each group of worlds: its desk, all that will be random, and its first turn."""
    keys = _epoch_keys(parts, key)
    orders = jax.vmap(partial(_order_keys, parts))(keys.act)
    draws = _Draws(jax.vmap(partial(_noise, parts))(keys.act), jax.vmap(partial(_fresh, parts))(keys.fresh), orders)
    worlds = _renew(parts, actor, worlds, jax.tree.map(lambda x: x[0], orders))
    first = _pack(worlds, jax.vmap(partial(act, parts))(actor, worlds, draws.noise[0]))

    def part(tree: Any, group: int, axis: int) -> Any:
        return jax.tree.map(lambda x: jnp.split(x, groups, axis)[group], tree)

    away: Any = ()
    desks = tuple(_Desk(part(worlds._replace(state=away), g, 1), jnp.int32(0)) for g in range(groups))
    return keys, desks, tuple(part(draws, g, 2) for g in range(groups)), tuple(part(first, g, 1) for g in range(groups))


def _turn(
    parts: Parts, actor: Actor, desk: _Desk, draws: _Draws, after: Float[Array, "all state"]
) -> tuple[_Desk, Float[Array, "seeds worlds turn"]]:
    """Go on from where a step has led: start the episodes that are due, and choose what comes next."""
    waits = parts.config.schedule.collect == "episodes"
    led = Physical(*jnp.split(_per_seed(after, parts.config.seeds), [_cuts(parts).qpos], axis=-1))
    begun = jax.tree.map(lambda x: x[desk.at], draws.fresh)
    worlds = go_on(parts.world, desk.worlds._replace(state=led), None if waits else lambda: begun)
    coming = jnp.minimum(desk.at + 1, draws.noise.shape[0] - 1)
    worlds = _renew(parts, actor, worlds, jax.tree.map(lambda x: x[coming], draws.orders))
    action = jax.vmap(partial(act, parts))(actor, worlds, draws.noise[coming])
    away: Any = ()
    return _Desk(worlds._replace(state=away), desk.at + 1), _pack(worlds, action)


def _finish(parts: Parts, state: TrainState, keys: EpochKeys, logs: tuple[_Log, ...]) -> tuple[TrainState, Metrics]:
    """Put together what happened, and learn."""
    turns, after = (jnp.concatenate(x, axis=2) for x in zip(*((log.turns, log.after) for log in logs), strict=True))
    cuts = _cuts(parts)
    before, action = _unpack(cuts, turns)
    led = Physical(*jnp.split(after, [cuts.qpos], axis=-1))
    fresh = jax.vmap(partial(record, parts.world))(before, action, led)
    running = _running(parts, before.age)

    def in_order(tree: Any) -> Any:
        """[steps, seeds, worlds, ...] -> [seeds, steps * worlds, ...]: the first is the first in time."""
        return jax.vmap(_flat, in_axes=1)(tree)

    lost = look_for_lost(state.lost, *in_order((before.state, action, led, running)))
    worlds = _unpack(cuts, jnp.concatenate([log.last for log in logs], axis=1))[0]
    if parts.config.schedule.collect == "episodes":
        worlds = _fresh(parts, keys.fresh[0])
    return _learn_all(parts, state._replace(worlds=worlds, lost=lost, key=keys.next), fresh, before.age, keys.learn)


def seed_mesh(seeds: int) -> Mesh:
    """As many devices as divide the seeds evenly: one seed stays on one device."""
    devices = jax.devices()
    count = max(n for n in range(1, min(seeds, len(devices)) + 1) if seeds % n == 0)
    return Mesh(np.array(devices[:count]), ("seeds",))


# --- looking at a learner --------------------------------------------------------------------------------------

Player = Callable[[Any, Float[Array, "seeds worlds skill"], Key[Array, " seeds"]], Rollout]
"""Plays one episode per skill under every seed's `performer`; arrays of the rollout lead with the seed axis."""


def actions(
    parts: Parts, performer: Any, obs: Float[Array, "worlds obs"], skill: Array, key: Key[Array, ""] | None = None
) -> Float[Array, "worlds action"]:
    """What skills do in some states: their mode, or a sample if there is a key. An upper level decides here and now."""
    if parts.upper is not None:
        return follow_goals(parts, performer, obs, _decided(parts, performer, obs, skill, key))
    seen = parts.view.for_policy(obs)
    return mode_actions(performer, seen, skill) if key is None else sample_actions(performer, seen, skill, key)[0]


def _decided(parts: Parts, actor: Actor, obs: Array, orders: Array, key: Key[Array, ""] | None) -> Array:
    """Orders of a batch of worlds with the goals set here; with a key they are drawn."""
    return set_goals(parts, actor, obs, orders, None if key is None else jax.random.split(key, len(obs)))


def make_player(parts: Parts, mode: bool = True) -> Player:
    """Episodes from the origin with mode actions or sampled ones, compiled on first use."""
    world, steps = parts.world.from_origin(), parts.world.spec.episode_length
    led, without_goal = parts.upper is not None, lambda skill: skill
    if isinstance(parts.orders, Orders):
        without_goal = parts.orders.without_goal

    def choose(performer: Any, obs: Array, skill: Array, key: Key[Array, ""]) -> Array:
        if led:
            return follow_goals(parts, performer, obs, skill)
        return actions(parts, performer, obs, skill, None if mode else key)

    def decide(performer: Any, obs: Array, orders: Array, key: Key[Array, ""]) -> Array:
        return _decided(parts, performer, obs, orders, None if mode else key)

    def episodes(choose: Any, decide: Any, performer: Any, skill: Array, key: Key[Array, ""]) -> Rollout:
        by = (partial(decide, performer), parts.hold) if led else ()
        orders = without_goal(skill)
        rollout = play(world, parts.engine, partial(choose, performer), orders, key, steps, *by)
        return rollout._replace(skill=skill)

    if parts.engine.compiles:
        return jax.jit(jax.vmap(partial(episodes, choose, decide)))
    compiled = partial(episodes, jax.jit(choose), jax.jit(decide))

    def seed_by_seed(performer: Any, skill: Array, keys: Key[Array, " seeds"]) -> Rollout:
        def one(k: int) -> Rollout:
            return compiled(jax.tree.map(lambda x: x[k], performer), skill[k], keys[k])

        return jax.tree.map(lambda *x: np.stack(x), *(one(k) for k in range(len(skill))))

    return seed_by_seed


def rollout(parts: Parts, performer: Any, skill: Array, key: Key[Array, ""], mode: bool = True) -> Rollout:
    """One episode per skill under one seed's `performer`, from the origin, with mode actions or sampled ones."""
    one = jax.tree.map(lambda x: x[None], (performer, skill, key))
    return jax.tree.map(lambda x: x[0], make_player(parts, mode)(*one))


def sample_skills(parts: Parts, keys: Key[Array, " seeds"], count: int) -> Float[Array, "seeds count skill"]:
    """Random skills for every seed."""
    return jax.vmap(lambda key: jax.vmap(parts.skills.sample)(jax.random.split(key, count)))(keys)


def make_probe(parts: Parts, episodes: int) -> Callable[[Any], Rollout]:
    """A look at all seeds: what random skills do, with mode actions, always the same skills and starts."""
    seeds = range(parts.config.seed, parts.config.seed + parts.config.seeds)
    keys = jnp.stack([jax.random.fold_in(jax.random.key(s), 1) for s in seeds])
    skill_keys, play_keys = jax.vmap(jax.random.split, out_axes=1)(keys)
    skill = sample_skills(parts, skill_keys, episodes)
    player = make_player(parts)
    return lambda performer: player(performer, skill, play_keys)
