"""MUSIC-u (Zhao, Gao, Abbeel, Tresp, Xu, ICLR 2021): a reward for steps in which hand and object have to do with each
other: the mutual information of the agent's state and that of its surroundings, as a neural network estimates it.

I(X; Y) >= E[T(x, y)] - log E[exp T(x, y')], where y' is the object at another time (Donsker and Varadhan). The network
T learns to make the right side large over whole episodes; the reward is the right side over the two states of a step.
"""

import dataclasses
from typing import ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key

from wanderlust.config import Count, MethodConfig, Positive, RunConfig, require
from wanderlust.envs.spec import EnvSpec, Transition
from wanderlust.methods.base import NOTHING, GoalRule, Method, Metrics
from wanderlust.methods.skills import SkillSpace
from wanderlust.rl.nets import GLOROT_UNIFORM, MLP, descend, init_mlp


@dataclasses.dataclass(frozen=True)
class MusicConfig(MethodConfig):
    """MUSIC-u: the mutual information of agent and object."""

    name: str = "music"
    hidden: tuple[int, ...] = (512,)
    learning_rate: float = 1e-3
    coefficient: Positive = 5000.0
    """Of the mutual information, before it is clipped to [0, 1]."""
    shuffle: Literal["swap", "shared"] = "swap"
    """How the object's states come beside other states of the agent. swap: each beside one of another time, in every
    episode by itself. shared: one random order for the whole batch, which leaves the two states of a step as they are
    every other time, so that nothing in the batch is rewarded (published code)."""
    episodes: Count = 256
    """Whole episodes of a gradient step."""

    def check(self, run: RunConfig) -> None:
        schedule, length = run.schedule, run.env.episode_length
        require(
            schedule.collect == "steps" and schedule.steps == length,
            f"music learns from whole episodes: schedule.steps ({schedule.steps}) must equal env.episode_length "
            f"({length}), and schedule.collect must be steps (it is {schedule.collect})",
        )


class MusicState(NamedTuple):
    """The network T, its optimiser, and what draws shuffles."""

    statistics: MLP = NOTHING
    """(agent, object) -> a number, whose tanh is T; with one hidden layer W relu(A x + B y + b) + c."""
    opt: optax.OptState = ()
    key: Key[Array, ""] = NOTHING


@dataclasses.dataclass(frozen=True)
class Music(Method):
    """The reward does not depend on the skill: alone, it is a baseline whose skills are all alike."""

    config: MusicConfig
    skills: SkillSpace
    agent: int = 0
    """How many of the entries it sees are the agent's; the others are the object's."""

    Config = MusicConfig
    State = MusicState
    takes = ("continuous", "discrete", "box")
    sees = ("agent", "object")
    adds = True

    @property
    def episodes(self) -> int:
        return self.config.episodes

    def for_world(self, spec: EnvSpec) -> "Music":
        super().for_world(spec)
        return dataclasses.replace(self, agent=len(spec.groups["agent"]))

    def init(self, key: Key[Array, ""], obs_dim: int) -> MusicState:
        weights, draws = jax.random.split(key)
        statistics = init_mlp(weights, (obs_dim, *self.config.hidden, 1), GLOROT_UNIFORM)
        return MusicState(statistics, self._optimizer.init(statistics), draws)

    def information(
        self, statistics: MLP, states: Float[Array, "batch time seen"], key: Key[Array, ""]
    ) -> Float[Array, " batch"]:
        """Of every sequence, in nats: mean T(x, y) - log mean exp T(x, y'), where y' is y in another order."""
        agent, thing = states[..., : self.agent], states[..., self.agent :]
        together = _apply(statistics, agent, thing)
        apart = _apply(statistics, agent, self.shuffled(thing, key))
        return jnp.mean(together, axis=1) - jnp.log(jnp.mean(jnp.exp(apart), axis=1))

    def shuffled(self, thing: Float[Array, "batch time n"], key: Key[Array, ""]) -> Float[Array, "batch time n"]:
        """The object's states in another order of time.

        swap: every sequence turned by a number of steps of its own, never none; two states change places.
        """
        count, time = thing.shape[:2]
        if self.config.shuffle == "shared":
            return jax.random.permutation(key, thing, axis=1)
        by = jax.random.randint(key, (count, 1), 1, time)
        index = (jnp.arange(time)[None] + by) % time
        return jnp.take_along_axis(thing, index[..., None], axis=1)

    def reward(self, state: MusicState, batch: Transition) -> Float[Array, " batch"]:
        """r = clip(coefficient I, 0, 1) - 1 over the two states of a step: at most 0, and -1 where I <= 0."""
        step, draw = jnp.stack([batch.obs, batch.next_obs], axis=1), jax.random.fold_in(state.key, 1)
        information = self.information(state.statistics, step, draw)
        return jnp.clip(self.config.coefficient * information, 0.0, 1.0) - 1.0

    def loss(self, statistics: MLP, states: Float[Array, "batch time seen"], key: Key[Array, ""]) -> Float[Array, ""]:
        """Minus the mean estimate."""
        return -jnp.mean(self.information(statistics, states, key))

    def update(self, state: MusicState, batch: Transition) -> tuple[MusicState, Metrics]:
        """One step from whole episodes [episodes, steps], all of their states."""
        key, draw = jax.random.split(state.key)
        states = jnp.concatenate([batch.obs, batch.next_obs[:, -1:]], axis=1)
        loss, grads = jax.value_and_grad(self.loss)(state.statistics, states, draw)
        statistics, opt = descend(self._optimizer, grads, state.opt, state.statistics)
        return MusicState(statistics, opt, key), {"information": -loss}

    kept = ()
    goal_rule: ClassVar[GoalRule] = None


def _apply(statistics: MLP, agent: Float[Array, "batch time n"], thing: Array) -> Float[Array, "batch time"]:
    return jnp.tanh(jax.vmap(jax.vmap(statistics))(jnp.concatenate([agent, thing], axis=-1))[..., 0])
