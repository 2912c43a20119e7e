"""What learning leaves behind for use: a policy and the method's state, without critics, replay and environments."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from wanderlust import train
from wanderlust.methods.views import with_position
from wanderlust.rl.sac import frozen
from wanderlust.runs import zoo
from wanderlust.runs.run import Run
from wanderlust.train import memory


class Learned(NamedTuple):
    """All that acting, evaluating and choosing skills need; one seed's, or every array with a leading seed axis."""

    policy: Any
    """What acts: a `Policy`, with the one that sets its subgoals if there is one (`train.skill_policy`)."""
    method: Any
    """The method's state as far as use goes, which only the method understands."""


def load_learner(run: Run, parts: train.Setup) -> tuple[int, Learned]:
    """The epoch it is from, and what all seeds have learned by then, with their seed axis."""
    epoch, stored = load_stored(run, parts)
    return epoch, jax.tree.map(lambda *x: jnp.concatenate(x), *map(make_restore(parts), stored))


def make_restore(parts: train.Setup) -> Callable[[dict[str, Any]], Learned]:
    """`restored` as one program: as single operations, a network's norms take seconds to compile."""
    return jax.jit(partial(restored, parts))


def load_stored(run: Run, parts: train.Setup) -> tuple[int, list[dict[str, Any]]]:
    """The epoch, and what use needs of each seed: of the newest checkpoint nothing else is read."""
    memory.check_use(parts)
    if run.entry:
        one = jax.eval_shape(lambda: train.init_seed(parts, jax.random.key(0))).learner
        epoch, stored = zoo.read_skills(run, needed(parts, one))
        return epoch, [stored]
    every = jax.eval_shape(lambda: train.init(parts)).learner
    epoch, stored = run.load(every, part="learner", only=partial(needed, parts))
    return epoch, [jax.tree.map(lambda x, k=k: x[k], stored) for k in range(parts.config.seeds)]


def needed(parts: train.Setup, learner: train.Learner) -> dict[str, Any]:
    """What use needs of a learner, by the names under which an entry of the zoo stores it."""
    return {"policy": learner.sac.policy, **{name: getattr(learner.method, name) for name in parts.method.kept}}


def restored(parts: train.Setup, stored: dict[str, Any]) -> Learned:
    """What one seed has learned, made of what use needs, with a seed axis of one."""
    state = parts.method.restored({name: stored[name] for name in parts.method.kept})
    policy = train.skill_policy(parts, train.Learner(frozen(stored["policy"]), state))
    return jax.tree.map(lambda x: x[None], Learned(policy, state))


def of_seed(learned: Learned, seed: int) -> Learned:
    """What one seed has learned, without the seed axis."""
    one: Learned = jax.tree.map(lambda x: x[seed], learned)
    return one


def represent(parts: train.Setup, learned: Learned, obs: Float[Array, "n obs"]) -> Float[Array, "n code"]:
    """phi of raw observations."""
    return parts.method.represent(learned.method, parts.view.for_method(obs))


def choose_skill(
    parts: train.Setup, learned: Learned, obs: Float[Array, "worlds obs"], goal: Float[Array, "worlds xy"]
) -> Float[Array, "worlds skill"]:
    """The skill towards a goal position: the goal state is the current one with its position replaced."""
    target = with_position(parts.world.spec, obs, goal)
    return parts.method.towards(learned.method, parts.view.for_method(obs), parts.view.for_method(target))
