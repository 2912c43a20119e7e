"""Statistics of a random policy: against what can be counted by hand, and against the published presets."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wanderlust
from wanderlust.envs import WorldState, make_engine, make_world, statistics
from wanderlust.envs.engines.formula import JaxEngine
from wanderlust.envs.spec import EnvSpec, Groups
from wanderlust.envs.statistics import random_statistics
from wanderlust.envs.worlds.body import BodyConfig
from wanderlust.envs.worlds.point import Point, PointConfig
from wanderlust.errors import UserError


@dataclasses.dataclass(frozen=True)
class Stairs:
    """Starts on step 0, goes up by `factor` and one more, is over from step 2 on; the second entry never moves."""

    factor: float = 1.0

    @property
    def spec(self):
        return EnvSpec("stairs", 2, 1, 2, Groups(position=(0,)), (0.0, 0.0), (1.0, 1.0))

    def initial(self, key):
        return WorldState(physics=jnp.array([0.0, 7.0]), sensors=jnp.zeros(0))

    def observe(self, state):
        return state.physics

    def terminated(self, state):
        return state.physics[0] >= 2.0

    def measure(self, state):
        return self.observe(state)

    def from_origin(self):
        return self

    def step(self, state, action):
        return state._replace(physics=state.physics.at[0].set(self.factor * state.physics[0] + 1.0))


@dataclasses.dataclass(frozen=True)
class Outside(JaxEngine):
    """The same engine, outside of compiled programs."""

    compiles: bool = False


@pytest.mark.parametrize("kind", [JaxEngine, Outside])
def test_states_after_a_step_count_also_beyond_a_termination_and_starts_do_not(kind):
    mean, std = random_statistics(Stairs(), kind(Stairs()), rollouts=4, steps=3)
    assert mean == pytest.approx((2.0, 7.0))  # of 1, 2, 3
    assert std == pytest.approx((math.sqrt(2 / 3), 1.0))  # what never moves may still be divided by


def test_pointenv_has_the_deviation_of_its_formula():
    world = Point(PointConfig(start_range=1.0, episode_length=10))
    mean, std = random_statistics(world, make_engine(world), rollouts=4_000, steps=10)
    # The mean of an episode has deviation 1.27 (it is mostly where its first steps went), so 4,000 have 0.020. The
    # deviation of a nearly normal sum is known to 1 part in sqrt(2 n), n being somewhat more than the episodes.
    assert np.abs(mean).max() < 4 * 0.020
    np.testing.assert_allclose(std, world.spec.obs_std, rtol=4 / math.sqrt(2 * 4_000))


def test_batches_hosts_and_seeds(monkeypatch):
    world = Point(PointConfig())
    inside = random_statistics(world, JaxEngine(world), rollouts=60, steps=5, seed=3)
    outside = random_statistics(world, Outside(world), rollouts=60, steps=5, seed=3)
    np.testing.assert_allclose(inside, outside, rtol=1e-5, atol=1e-6)
    other = random_statistics(world, JaxEngine(world), rollouts=60, steps=5, seed=4)
    assert np.abs(np.subtract(inside, other)).min() > 1e-4

    seen = []

    def step(self, state, action):
        after = jax.vmap(self.world.step)(state, action)
        seen.append(np.asarray(after.physics))
        return after

    monkeypatch.setattr(statistics, "WORLDS", 25)
    monkeypatch.setattr(Outside, "step", step)
    mean, std = random_statistics(world, Outside(world), rollouts=60, steps=5, seed=3)
    assert [len(batch) for batch in seen] == [20] * 15  # three batches of 20, five steps each
    visited = np.concatenate(seen)
    assert len(np.unique(visited, axis=0)) == len(visited)  # no batch repeats another
    np.testing.assert_allclose(mean, visited.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(std, visited.std(axis=0), rtol=1e-6)


def test_what_cannot_be_is_refused():
    world = Point(PointConfig())
    with pytest.raises(UserError, match="rollouts is 1; a standard deviation needs at least 2"):
        wanderlust.normalise("point", rollouts=1)
    with pytest.raises(UserError, match="steps is 0"):
        random_statistics(world, make_engine(world), steps=0)
    with pytest.raises(UserError, match="stairs to where its state is not finite"):
        random_statistics(Stairs(1e20), make_engine(Stairs(1e20)), rollouts=2, steps=4)


ROLLOUTS = 150


@pytest.mark.parametrize(
    ("name", "ratio", "joint_noise", "root_noise", "mean_noise"),
    [
        ("ant", (0.93, 1.04), 0.04, 0.29, 0.21),
        ("half-cheetah", (0.99, 1.05), 0.04, 0.62, 0.25),
        ("humanoid", (0.97, 1.09), 0.14, 0.18, 0.19),
    ],
)
def test_the_published_statistics_come_out_again(name, ratio, joint_noise, root_noise, mean_noise):
    """With 1,500 rollouts, deviations were found to be `ratio` of the published ones, and means within 0.11 of them.

    With fewer there is noise on top, for 300 four times the largest deviation between six seeds: of the ratios for
    joints (and their velocities), for the root (how often a body turns over is a matter of luck), and of the means.
    """
    world = make_world(BodyConfig(name))
    mean, std = map(np.array, random_statistics(world, make_engine(world, "c"), ROLLOUTS, 50))
    published_mean, published_std = map(np.array, world.statistics)
    positions = {"ant": 15, "half-cheetah": 9, "humanoid": 24}[name]
    root_q, root_v = (3, 3) if name == "half-cheetah" else (7, 6)
    root = np.zeros(world.spec.obs_dim, bool)
    root[:root_q] = root[positions : positions + root_v] = True
    more = math.sqrt(300 / ROLLOUTS)
    noise = more * np.where(root, root_noise, joint_noise)
    found = std / published_std
    assert np.all((ratio[0] - noise < found) & (found < ratio[1] + noise))
    assert np.all(np.abs(mean - published_mean) < (0.11 + more * mean_noise) * published_std)
