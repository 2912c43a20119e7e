"""Zero-shot goal following: at every step the method's own choice of skill towards the goal, no further training."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from wanderlust.downstream.tasks import GoalState, GoalTask
from wanderlust.envs import Physical
from wanderlust.learned import Learned
from wanderlust.methods.views import with_position
from wanderlust.sac import mode_actions
from wanderlust.train import Parts


class Followed(NamedTuple):
    """What came of a batch of episodes."""

    returns: Float[Array, " episodes"]
    skill_norm: Float[Array, ""]
    """Mean norm of the skills chosen while an episode was running."""


def choose_skill(
    parts: Parts, learned: Learned, obs: Float[Array, "worlds obs"], goal: Float[Array, "worlds xy"]
) -> Float[Array, "worlds skill"]:
    """The skill towards a goal position: the goal state is the current one with its position replaced."""
    target = with_position(parts.world.spec, obs, goal)
    return parts.method.towards(learned.method, parts.view.for_method(obs), parts.view.for_method(target))


def act_towards(
    parts: Parts, learned: Learned, state: Physical, goal: Float[Array, "worlds xy"]
) -> tuple[Float[Array, "worlds action"], Float[Array, "worlds skill"]]:
    """What a batch of worlds does, each towards its goal: the mode action of the chosen skill, and the skill."""
    obs = jax.vmap(parts.world.observe)(state)
    skill = choose_skill(parts, learned, obs, goal)
    return mode_actions(learned.policy, parts.view.for_policy(obs), skill), skill


def follow(parts: Parts, learned: Learned, task: GoalTask, episodes: int, key: Key[Array, ""]) -> Followed:
    """Play a goal task; `learned` is one seed's. The world's start is the world's own."""
    start_key, goal_key, step_key = jax.random.split(key, 3)
    position = jnp.array(parts.world.spec.position_dims)

    def where(state: Physical) -> Float[Array, "episodes xy"]:
        return jax.vmap(parts.world.observe)(state)[:, position]

    state = jax.vmap(parts.world.initial)(jax.random.split(start_key, episodes))
    goal = jax.vmap(task.begin)(where(state), jax.random.split(goal_key, episodes))

    class Carry(NamedTuple):
        state: Physical
        goal: GoalState
        over: Bool[Array, " episodes"]
        returns: Float[Array, " episodes"]
        norms: Float[Array, ""]
        steps: Float[Array, ""]

    def step(c: Carry, key: Key[Array, ""]) -> tuple[Carry, None]:
        action, skill = act_towards(parts, learned, c.state, c.goal.goal)
        state = parts.engine.step(c.state, action)
        goal, reward, over = jax.vmap(task.step)(c.goal, where(state), jax.random.split(key, episodes))
        norms = jnp.where(c.over, 0.0, jnp.linalg.norm(skill, axis=1))
        returns = c.returns + jnp.where(c.over, 0.0, reward)
        running = jnp.sum(~c.over, dtype=jnp.float32)
        return Carry(state, goal, c.over | over, returns, c.norms + jnp.sum(norms), c.steps + running), None

    zero = jnp.zeros(())
    carry = Carry(state, goal, jnp.zeros(episodes, bool), jnp.zeros(episodes), zero, zero)
    carry, _ = jax.lax.scan(step, carry, jax.random.split(step_key, task.horizon))
    return Followed(carry.returns, carry.norms / carry.steps)
