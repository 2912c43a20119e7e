"""A meta-controller over frozen skills (the paper's appendix): every K steps it chooses the skill that is held next.

It learns from the task's reward alone (`learners.py`). Seeds are an axis, as in discovery: one program plays and learns
for all of them.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int, Key

from wanderlust.downstream.controllers.learners import Learner, Metrics, Statistics, fresh_statistics
from wanderlust.downstream.controllers.playing import Chosen, Game, Hand, Turns, make_play, returns
from wanderlust.downstream.settings import Setting
from wanderlust.runs.learned import Learned
from wanderlust.train import Setup, decide, follow, seed_mesh

# --- hands ---------------------------------------------------------------------------------------------------------


class Controller(NamedTuple):
    """What a controller is at one moment; of one seed, or every array with a leading seed axis."""

    policy: Any
    statistics: Statistics
    """By which it sees observations."""


class Player(NamedTuple):
    """A controller, and the skills it chooses from."""

    controller: Any
    """A `Controller`, or nothing for hands that need none."""
    learned: Learned


def exploring_hand(parts: Setup, learner: Learner, hold: int) -> Hand:
    """Plays as learning asks for it."""

    def choose(player: Player, seen: Array, key: Key[Array, ""]) -> Chosen:
        controller = player.controller
        return learner.explore(controller.policy, controller.statistics.shown(seen), key)

    return _hand(parts, choose, hold)


def deciding_hand(parts: Setup, learner: Learner, hold: int) -> Hand:
    """Plays as well as it can."""

    def choose(player: Player, seen: Array, key: Key[Array, ""]) -> Chosen:
        controller = player.controller
        return Chosen(learner.decide(controller.policy, controller.statistics.shown(seen)))

    return _hand(parts, choose, hold)


def random_hand(parts: Setup, hold: int) -> Hand:
    """Chooses skills by chance, as discovery drew them."""

    def choose(player: Player, seen: Array, key: Key[Array, ""]) -> Chosen:
        return Chosen(jax.vmap(parts.skills.sample)(jax.random.split(key, len(seen))))

    return _hand(parts, choose, hold)


def _hand(parts: Setup, choose: Callable[[Player, Array, Key[Array, ""]], Chosen], hold: int) -> Hand:
    """Holds what is chosen; goals that an upper level sets meanwhile stand for as long as they did in training."""

    def act(player: Player, obs: Array, orders: Array) -> Array:
        return follow(parts, player.learned.policy, obs, orders)

    def set_goals(player: Player, obs: Array, orders: Array) -> Array:
        return decide(parts, player.learned.policy, obs, orders)

    return Hand(choose, act, hold, set_goals, parts.goals_stand)


# --- training ------------------------------------------------------------------------------------------------------


class Training(NamedTuple):
    """All that changes while controllers learn; every array leads with the seed axis."""

    learner: Any
    statistics: Statistics
    memory: Any
    key: Key[Array, " seeds"]


Advance = Callable[[Training, Learned, int], tuple[Training, dict[str, Float[Array, "epochs seeds"]]]]
"""Trains for some epochs, at most `log_every` of the setting; the metrics of each."""


def begin(learner: Learner, seeds: Array) -> Training:
    """Before the first epoch. A seed's state depends on that seed alone."""

    def one(seed: Array) -> Training:
        own, key = jax.random.split(jax.random.key(seed))
        return Training(learner.init(own), fresh_statistics(learner.sees), learner.memory(), key)

    return jax.jit(jax.vmap(one))(seeds)


def controllers(learner: Learner, training: Training) -> Controller:
    """What has been learned so far."""
    return Controller(learner.policy(training.learner), training.statistics)


def make_advance(parts: Setup, game: Game, learner: Learner, setting: Setting, hold: int) -> Advance:
    """Epochs of play and learning: one program if the engine compiles, else the engine between compiled pieces."""
    play = make_play(game, exploring_hand(parts, learner, hold))

    def split(training: Training) -> tuple[Training, Array, Array]:
        keys = jax.vmap(lambda key: jax.random.split(key, 3), out_axes=1)(training.key)
        return training._replace(key=keys[0]), keys[1], keys[2]

    def learn(training: Training, turns: Turns, keys: Array) -> tuple[Training, Metrics]:
        of_seeds = jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), turns)
        learned, memory, metrics = jax.vmap(learner.learn)(
            training.learner, training.memory, of_seeds, training.statistics, keys
        )
        # moved only now: what was chosen was chosen by what the old ones showed
        moved = jax.vmap(partial(Statistics.moved, rate=setting.statistics_rate))(
            training.statistics, of_seeds.seen, of_seeds.valid
        )
        earned, steps = jnp.mean(returns(turns), axis=1), jnp.sum(turns.steps, axis=(0, 2))
        metrics = {**metrics, "return": earned, "env_steps": steps.astype(jnp.float32)}
        return Training(learned, moved, memory, training.key), metrics

    if not game.engine.compiles:
        splitting, learning = jax.jit(split), jax.jit(learn, donate_argnums=0)

        def on_host(training: Training, learned: Learned, epochs: int) -> tuple[Training, Any]:
            log = []
            for _ in range(epochs):
                training, play_keys, learn_keys = splitting(training)
                turns = play(Player(controllers(learner, training), learned), play_keys, setting.episodes)
                training, metrics = learning(training, turns, learn_keys)
                log.append(metrics)
            return training, jax.tree.map(lambda *x: jnp.stack(x), *log)

        return on_host

    def one(training: Training, learned: Learned) -> tuple[Training, Metrics]:
        training, play_keys, learn_keys = split(training)
        turns = play(Player(controllers(learner, training), learned), play_keys, setting.episodes)
        return learn(training, turns, learn_keys)

    def many(training: Training, learned: Learned, epochs: Int[Array, ""]) -> tuple[Training, Any]:
        """How many is not part of the program: the last ones before the end may be fewer, and compile nothing anew."""

        def epoch(n: Array, so_far: tuple[Training, Any]) -> tuple[Training, Any]:
            training, metrics = one(so_far[0], learned)
            return training, jax.tree.map(lambda log, now: log.at[n].set(now), so_far[1], metrics)

        _, shapes = jax.eval_shape(one, training, learned)
        log = jax.tree.map(lambda x: jnp.zeros((setting.log_every, *x.shape), x.dtype), shapes)
        return jax.lax.fori_loop(0, epochs, epoch, (training, log))

    across = PartitionSpec("seeds")

    @partial(jax.jit, donate_argnums=0)
    def in_one(training: Training, learned: Learned, epochs: Int[Array, ""]) -> tuple[Training, Any]:
        part = jax.shard_map(
            many,
            mesh=seed_mesh(len(training.key)),
            in_specs=(across, across, PartitionSpec()),
            out_specs=(across, PartitionSpec(None, "seeds")),
            check_vma=False,
        )
        return part(training, learned, epochs)

    def advance(training: Training, learned: Learned, epochs: int) -> tuple[Training, Any]:
        spread = NamedSharding(seed_mesh(len(training.key)), across)  # as it comes back: another form compiles anew
        if epochs > setting.log_every:
            raise ValueError(f"{epochs} epochs at once are more than log_every, {setting.log_every}")
        training, log = in_one(jax.device_put(training, spread), jax.device_put(learned, spread), jnp.int32(epochs))
        return training, jax.tree.map(lambda x: x[:epochs], log)

    return advance
