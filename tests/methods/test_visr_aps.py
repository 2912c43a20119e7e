"""VISR and APS: the cosine between phi and the skill, and APS's distance to remembered states."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wanderlust import train
from wanderlust.config import MethodConfig, SkillConfig
from wanderlust.envs.spec import Transition
from wanderlust.errors import UserError
from wanderlust.methods.aps import UPDATES_REMEMBERED, Aps, ApsConfig, ApsState, Memory
from wanderlust.methods.encoder import EncoderState
from wanderlust.methods.skills import ContinuousSkills, DiscreteSkills
from wanderlust.methods.visr import Visr
from wanderlust.recipes import get_recipe
from wanderlust.rl.nets import MLP, Linear

HIDDEN = (16, 16)
BOTH = pytest.mark.parametrize("kind", [Visr, Aps])
SPACES = pytest.mark.parametrize("skills", [ContinuousSkills(2), DiscreteSkills(3)], ids=["continuous", "discrete"])


def make(kind, skills, rate=1e-3, neighbours=5, memory=128):
    if kind is Visr:
        return Visr(MethodConfig("visr", hidden=HIDDEN, learning_rate=rate), skills)
    return Aps(ApsConfig(hidden=HIDDEN, learning_rate=rate, neighbours=neighbours, memory=memory), skills)


def linear(weight, bias):
    return MLP((Linear(jnp.array(weight, jnp.float32), jnp.array(bias, jnp.float32)),), jax.nn.relu)


def visr_state(encoder):
    return EncoderState(encoder, ())


def aps_state(encoder, known, size=None, usual=1.0):
    """APS that remembers these observations, the first `size` of them for real."""
    known = jnp.array(known, jnp.float32)
    memory = Memory(known, jnp.int32(0), jnp.int32(len(known) if size is None else size))
    return ApsState(encoder, (), memory, jnp.float32(usual), jnp.int32(1), jax.random.key(0))


def state_of(kind, encoder):
    return visr_state(encoder) if kind is Visr else aps_state(encoder, jnp.zeros((1, 2)), size=0)


def transitions(obs, next_obs, skill):
    obs, next_obs, skill = (jnp.array(x, jnp.float32) for x in (obs, next_obs, skill))
    no = jnp.zeros(len(obs), bool)
    return Transition(obs, jnp.zeros((len(obs), 1)), next_obs, skill, no, no)


def random_batch(key, skills, obs_dim=3, count=64):
    a, b, c = jax.random.split(key, 3)
    skill = jax.vmap(skills.sample)(jax.random.split(a, count))
    obs = jax.random.normal(b, (count, obs_dim))
    return transitions(obs, obs + jax.random.normal(c, (count, obs_dim)), skill)


@functools.cache
def example(kind, skills):
    """The method, its compiled reward, a fresh state and a random batch."""
    method = make(kind, skills)
    state, batch = jax.jit(lambda key: (method.init(key, 3), random_batch(key, skills)))(jax.random.key(0))
    return method, jax.jit(method.reward), state, batch


def seen_by(kind, batch):
    return batch.obs if kind is Visr else batch.next_obs


def cosines(phi, skill):
    phi, skill = np.asarray(phi, np.float64), np.asarray(skill, np.float64)
    return np.sum(phi * skill, axis=1) / np.linalg.norm(phi, axis=1) / np.linalg.norm(skill, axis=1)


# --- the cosine ---------------------------------------------------------------------------------------------------


def test_visr_reward_by_hand_for_continuous_skills():
    state = visr_state(linear([[3.0, 0.0], [0.0, 4.0]], [0.0, 0.0]))
    elsewhere = [[9.0, -9.0]] * 3
    batch = transitions([[1.0, 1.0], [2.0, 0.0], [1.0, -1.0]], elsewhere, [[0.0, 2.0], [-1.0, 1.0], [0.6, -0.8]])
    # phi of the current states: (3, 4), (6, 0), (3, -4)
    expected = [4 / 5, -1 / np.sqrt(2), 1.0]
    np.testing.assert_allclose(make(Visr, ContinuousSkills(2)).reward(state, batch), expected, rtol=1e-5)


def test_visr_reward_by_hand_for_discrete_skills():
    state = visr_state(linear(np.eye(3), [0.0, 0.0, 12.0]))
    batch = transitions([[3.0, 4.0, 0.0]] * 3, np.zeros((3, 3)), np.eye(3))
    np.testing.assert_allclose(make(Visr, DiscreteSkills(3)).reward(state, batch), np.array([3, 4, 12]) / 13, rtol=1e-5)


@BOTH
@SPACES
def test_visr_reads_the_current_state_and_aps_the_next(kind, skills):
    _, reward, state, batch = example(kind, skills)
    here = reward(state, batch)
    other_obs = reward(state, batch._replace(obs=batch.obs + 1.0))
    other_next = reward(state, batch._replace(next_obs=batch.next_obs + 1.0))
    same, different = (other_next, other_obs) if kind is Visr else (other_obs, other_next)
    np.testing.assert_array_equal(here, same)
    assert not np.allclose(here, different)


@BOTH
@SPACES
def test_neither_the_length_of_phi_nor_that_of_the_skill_counts(kind, skills):
    method, reward, state, batch = example(kind, skills)
    *hidden, last = state.encoder.layers
    longer = MLP((*hidden, Linear(7.0 * last.weight, 7.0 * last.bias)), jax.nn.relu)
    expected = cosines(method.represent(state, seen_by(kind, batch)), batch.skill)
    np.testing.assert_allclose(reward(state, batch), expected, atol=1e-5)
    np.testing.assert_allclose(reward(state._replace(encoder=longer), batch), expected, atol=1e-5)
    np.testing.assert_allclose(reward(state, batch._replace(skill=3.0 * batch.skill)), expected, atol=1e-5)


@BOTH
def test_gradient_of_the_loss_by_hand(kind):
    """Of minus the cosine, by phi: -(z - cos phi) / ||phi||, z and phi of length 1."""
    method, encoder = make(kind, ContinuousSkills(2)), linear(np.eye(2), [0.0, 0.0])
    batch = transitions([[3.0, 4.0], [0.0, 2.0]], [[3.0, 4.0], [0.0, 2.0]], [[2.0, 0.0], [0.0, -5.0]])
    first = -(np.array([1.0, 0.0]) - 0.6 * np.array([0.6, 0.8])) / 5
    second = np.zeros(2)  # opposite: the cosine is at its least
    grads = jax.jit(jax.grad(method.loss))(encoder, batch)
    np.testing.assert_allclose(grads.layers[0].bias, (first + second) / 2, atol=1e-6)
    np.testing.assert_allclose(grads.layers[0].weight, np.outer([3.0, 4.0], first) / 2, atol=1e-6)


@BOTH
@SPACES
def test_a_phi_of_zero_earns_nothing_and_does_not_spoil_the_gradient(kind, skills):
    """Biases start at zero, so phi of the mean state is exactly zero then: PointEnv starts every episode there."""
    method, _, state, batch = example(kind, skills)
    middle = batch._replace(obs=0.0 * batch.obs, next_obs=0.0 * batch.next_obs)

    @jax.jit
    def all_of_it(state):
        nowhere = method.towards(state, middle.obs, middle.obs)
        grads = jax.grad(method.loss)(state.encoder, middle)
        return method.reward(state, middle), grads, method.update(state, middle)[0].encoder, nowhere

    reward, grads, after, nowhere = all_of_it(state)
    np.testing.assert_array_equal(reward, np.zeros(64))
    directions = np.asarray(batch.skill) / np.linalg.norm(batch.skill, axis=1, keepdims=True)
    np.testing.assert_allclose(grads.layers[-1].bias, -directions.mean(axis=0), atol=1e-6)
    assert all(np.all(np.isfinite(x)) for x in (nowhere, *jax.tree.leaves(after)))


@BOTH
@SPACES
def test_phi_finds_the_mean_direction_of_the_skills_seen_at_each_place(kind, skills):
    """The optimum in closed form: the mean over places of ||mean of the unit skills there||.

    With discrete skills phi is then proportional to p(skill | place), and the reward to that probability.
    """
    places = 3
    key = jax.random.key(2)
    place = jnp.repeat(jnp.arange(places), 8)
    drawn = jax.vmap(skills.sample)(jax.random.split(key, 24))
    skill = drawn + 1.5 * jnp.eye(places)[place, : skills.size] if isinstance(skills, ContinuousSkills) else drawn
    seen = jnp.eye(places)[place]
    batch = transitions(seen, seen, skill)
    unit = np.asarray(skill) / np.linalg.norm(skill, axis=1, keepdims=True)
    mean = unit.reshape(places, 8, -1).mean(axis=1)
    best = np.linalg.norm(mean, axis=1)

    method = make(kind, skills, rate=1e-2)

    @jax.jit
    def learn(key):
        start = method.init(key, places)
        state, metrics = method.update(start, batch)
        end = jax.lax.fori_loop(0, 1500, lambda _, s: method.update(s, batch)[0], state)
        losses = [method.loss(s.encoder, batch) for s in (start, state, end)]
        return losses, metrics, method.represent(end, jnp.eye(places))

    (first, second, last), metrics, phi = jax.tree.map(np.asarray, learn(key))
    assert first > second > last
    assert metrics["phi_loss"] == pytest.approx(first, rel=1e-5)  # of the state before the update
    np.testing.assert_allclose(cosines(phi, mean), 1.0, atol=1e-3)
    assert last == pytest.approx(-best.mean(), abs=1e-3)
    assert first > -best.mean() + 0.1
    if isinstance(skills, DiscreteSkills):
        of_place = np.asarray(drawn).reshape(places, 8, 3).mean(axis=1)
        probability = np.repeat(of_place, 8, axis=0)[np.asarray(drawn) == 1]
        expected = probability / np.repeat(np.linalg.norm(of_place, axis=1), 8)
        np.testing.assert_allclose(cosines(phi[np.asarray(place)], drawn), expected, atol=0.02)


@BOTH
def test_the_skill_towards_a_goal_is_the_likeliest_there(kind):
    state = state_of(kind, linear([[2.0, 0.0], [1.0, -1.0]], [0.5, 0.0]))
    obs, goal = jnp.array([[5.0, 6.0], [7.0, 8.0]]), jnp.array([[1.0, 1.5], [0.0, -3.0]])
    phi = np.array([[4.0, -1.5], [-2.5, 3.0]])
    for skills in (ContinuousSkills(2), ContinuousSkills(2, unit_length=True)):
        z = make(kind, skills).towards(state, obs, goal)
        np.testing.assert_allclose(np.linalg.norm(z, axis=1), skills.expected_norm, rtol=1e-5)
        np.testing.assert_allclose(cosines(z, phi), 1.0, rtol=1e-5)
    np.testing.assert_array_equal(make(kind, DiscreteSkills(2)).towards(state, obs, goal), [[1, 0], [0, 1]])


# --- the distance to remembered states ----------------------------------------------------------------------------

ON_A_LINE = [[0.0, 0.0], [1.0, 0.0], [3.0, 0.0], [7.0, 0.0], [15.0, 0.0]]
IDENTITY = linear(np.eye(2), [0.0, 0.0])


@functools.cache
def compiled_reward(neighbours):
    return jax.jit(make(Aps, ContinuousSkills(2), neighbours=neighbours).reward)


def entropy_reward(state, next_obs, neighbours):
    """The reward of reaching these states, less its cosine."""
    next_obs = np.array(next_obs, np.float32)
    sideways = np.stack([-next_obs[:, 1], next_obs[:, 0]], axis=1)  # phi keeps directions: the cosine is 0
    return np.asarray(compiled_reward(neighbours)(state, transitions(0.0 * next_obs, next_obs, sideways)))


def test_aps_reward_by_hand():
    state = aps_state(IDENTITY, ON_A_LINE, usual=2.0)
    # from (1, 0), itself remembered: 1 and 2; from (7, 4): 4 to (7, 0), left out, then 4 sqrt(2) and sqrt(52)
    found = entropy_reward(state, [[1.0, 0.0], [7.0, 4.0]], neighbours=2)
    expected = np.log(1 + np.array([(1 + 2) / 2, (np.sqrt(32) + np.sqrt(52)) / 2]) / 2.0)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    # and with the cosine
    batch = transitions([[5.0, 5.0]], [[1.0, 0.0]], [[0.6, 0.8]])
    reward = compiled_reward(2)(state, batch)
    np.testing.assert_allclose(reward, 0.6 + expected[:1], rtol=1e-5)


@pytest.mark.parametrize(("skills", "neighbours"), [(ContinuousSkills(2), 5), (DiscreteSkills(3), 1)])
def test_aps_neighbours_agree_with_sorting(skills, neighbours):
    method = make(Aps, skills, neighbours=neighbours)
    fresh = method.init(jax.random.key(0), 3)
    known = jax.random.normal(jax.random.key(1), (128, 3))
    memory = Memory(known, jnp.int32(0), jnp.int32(100))
    state = fresh._replace(memory=memory, usual_distance=jnp.float32(0.3))
    batch = random_batch(jax.random.key(2), skills)
    phi, others = (np.asarray(method.represent(state, x), np.float64) for x in (batch.next_obs, known[:100]))
    distances = np.sort(np.linalg.norm(phi[:, None] - others[None], axis=-1), axis=1)[:, 1 : neighbours + 1]
    expected = cosines(phi, batch.skill) + np.log(1 + distances.mean(axis=1) / 0.3)
    np.testing.assert_allclose(jax.jit(method.reward)(state, batch), expected, rtol=1e-4, atol=1e-5)


def test_aps_does_not_count_a_state_as_its_own_neighbour():
    points = jax.random.normal(jax.random.key(0), (20, 2))
    state = aps_state(IDENTITY, points)
    alone = [entropy_reward(aps_state(IDENTITY, np.delete(points, i, axis=0)), points[i : i + 1], 1) for i in range(9)]
    with_itself = entropy_reward(state, points, 1)
    nearest, second = np.sort(np.linalg.norm(points[:, None] - points[None], axis=-1), axis=1)[:, 1:3].T
    np.testing.assert_allclose(with_itself, np.log1p(nearest), rtol=1e-4)
    # a state that is not remembered loses its nearest: the price of not knowing which states are
    np.testing.assert_allclose(np.concatenate(alone), np.log1p(second[:9]), rtol=1e-4)


def test_aps_counts_a_state_that_was_remembered_twice_once():
    twice = [*ON_A_LINE, ON_A_LINE[0], ON_A_LINE[0], ON_A_LINE[1]]
    for here in ([[0.0, 0.0]], [[1.0, 0.0]], [[2.0, 5.0]]):
        once = entropy_reward(aps_state(IDENTITY, ON_A_LINE), here, 2)
        np.testing.assert_array_equal(entropy_reward(aps_state(IDENTITY, twice), here, 2), once)


def test_aps_knows_only_the_rows_that_were_written():
    """Unwritten rows are zeros in memory; they are no states."""
    here = [[0.1, 0.1], [6.0, 1.0]]
    padded = aps_state(IDENTITY, [*ON_A_LINE, *[[0.0, 0.05 * i] for i in range(9)]], size=5)
    np.testing.assert_array_equal(
        entropy_reward(padded, here, 3), entropy_reward(aps_state(IDENTITY, ON_A_LINE), here, 3)
    )
    assert np.all(entropy_reward(padded, here, 4) > 0)
    np.testing.assert_array_equal(entropy_reward(padded, here, 5), [0.0, 0.0])  # the nearest is left out: four remain
    unmeasured = aps_state(IDENTITY, ON_A_LINE, usual=0.0)
    np.testing.assert_array_equal(entropy_reward(unmeasured, here, 3), [0.0, 0.0])


def test_aps_distances_are_relative_to_the_usual_one():
    here = [[2.0, 2.0], [9.0, -1.0]]
    small = entropy_reward(aps_state(IDENTITY, ON_A_LINE, usual=0.7), here, 3)
    larger = entropy_reward(aps_state(linear(5 * np.eye(2), [0.0, 0.0]), ON_A_LINE, usual=3.5), here, 3)
    np.testing.assert_allclose(small, larger, rtol=1e-5)


def test_aps_learns_the_usual_distance_as_the_mean_over_updates():
    skills = ContinuousSkills(2)
    method = make(Aps, skills, rate=1e-2, neighbours=1)
    batches = [random_batch(jax.random.key(i), skills) for i in range(5)]
    state, seen = method.init(jax.random.key(9), 3), []
    reward, update = jax.jit(method.reward), jax.jit(method.update)
    for batch in batches:
        phi, others = (
            np.asarray(method.represent(state, x), np.float64)
            for x in (batch.next_obs, state.memory.obs[: int(state.memory.size)])
        )
        distances = np.sort(np.linalg.norm(phi[:, None] - others[None], axis=-1), axis=1)
        if len(others) > 1:
            seen.append(distances[:, 1].mean())
            entropy = np.log1p(distances[:, 1] / float(state.usual_distance)).mean() if len(seen) > 1 else 0.0
        else:
            entropy = 0.0
        before = reward(state, batch)
        state, metrics = update(state, batch)
        assert float(metrics["entropy_reward"]) == pytest.approx(entropy, rel=1e-4)
        total = float(metrics["entropy_reward"] + metrics["alignment_reward"])
        assert total == pytest.approx(float(jnp.mean(before)), rel=1e-4)
        assert int(state.measured) == len(seen)
        assert float(state.usual_distance) == pytest.approx(np.mean(seen) if seen else 0.0, rel=1e-4)
    assert len(seen) == 4  # the first update found nothing to compare with


@pytest.mark.parametrize("rows", [40, 2], ids=["large batches", "small batches"])
def test_aps_remembers_random_rows_of_the_latest_updates(rows):
    capacity, updates = 3 * UPDATES_REMEMBERED + 8, 160
    share = min(3, rows)  # of the memory, per update; it does not divide the capacity
    method = make(Aps, ContinuousSkills(2), memory=capacity)

    def step(state, t):
        number = jnp.stack([jnp.full(rows, t + 1.0), jnp.arange(rows)], axis=1)
        batch = transitions(-number, number, jnp.ones((rows, 2)))
        state = method.update(state, batch)[0]
        return state, state.memory.size

    state, sizes = jax.jit(lambda s: jax.lax.scan(step, s, jnp.arange(updates)))(method.init(jax.random.key(0), 2))
    ring = np.zeros(capacity)
    for i in range(updates * share):
        ring[i % capacity] = i // share + 1
    np.testing.assert_array_equal(state.memory.obs[:, 0], ring)
    np.testing.assert_array_equal(sizes, np.minimum(share * (np.arange(updates) + 1), capacity))
    drawn = np.unique(state.memory.obs[:, 1])
    assert drawn.min() >= 0
    assert len(drawn) == 2 if rows == 2 else len(drawn) > 30


@SPACES
def test_aps_phi_learns_from_the_cosine_alone(skills):
    method, reward, empty, batch = example(Aps, skills)
    memory = Memory(jax.random.normal(jax.random.key(2), (128, 3)), jnp.int32(0), jnp.int32(128))
    full = empty._replace(memory=memory, usual_distance=jnp.float32(0.2))

    def mean_reward(encoder):
        return jnp.mean(method.reward(full._replace(encoder=encoder), batch))

    by_reward, by_loss = (
        jax.jit(jax.grad(mean_reward))(full.encoder),
        jax.jit(jax.grad(method.loss))(full.encoder, batch),
    )
    for a, b in zip(jax.tree.leaves(by_reward), jax.tree.leaves(by_loss), strict=True):
        np.testing.assert_allclose(a, -b, atol=1e-6)
    update = jax.jit(method.update)
    for a, b in zip(*(jax.tree.leaves(update(s, batch)[0].encoder) for s in (empty, full)), strict=True):
        np.testing.assert_array_equal(a, b)
    assert float(jnp.mean(reward(full, batch) - reward(empty, batch))) > 0.1


def test_aps_refuses_more_neighbours_than_it_can_have():
    assert ApsConfig(neighbours=5, memory=6).neighbours == 5
    with pytest.raises(UserError, match=r"method\.neighbours is 6"):
        ApsConfig(neighbours=6, memory=6)


@BOTH
def test_the_reward_of_what_use_keeps_is_the_cosine(kind):
    method, reward, state, batch = example(kind, ContinuousSkills(2))
    kept = method.restored({"encoder": state.encoder})
    expected = cosines(method.represent(state, seen_by(kind, batch)), batch.skill)
    np.testing.assert_allclose(reward(kept, batch), expected, atol=1e-5)


# --- learning on PointEnv -----------------------------------------------------------------------------------------

SEEDS, EPOCHS = 2, 100


@functools.cache
def learned(name):
    """Where random skills end, and phi of it: their mean cosine to the skill, that to another, and the distance."""
    config = get_recipe("laptop", "point", name, SkillConfig("continuous", 2))
    memory = {"memory": 256} if name == "aps" else {}
    config = dataclasses.replace(
        config,
        seeds=SEEDS,
        env=dataclasses.replace(config.env, start_range=0.0),
        method=dataclasses.replace(config.method, hidden=(32, 32), **memory),
        sac=dataclasses.replace(config.sac, hidden=(32, 32), alpha=0.3, learn_alpha=False),
    )
    parts = train.assemble(config)
    state, metrics = train.make_driver(parts)(train.init(parts), EPOCHS)
    keys = jax.random.split(jax.random.key(0), SEEDS)
    skill = train.sample_skills(parts, keys, 200)
    last = train.make_skill_rollout(parts)(state.learner.sac.policy, skill, keys).obs[:, -1]
    phi = jax.vmap(parts.method.represent)(state.learner.method, parts.view.for_method(last))
    own, another = (cosines(phi.reshape(-1, 2), z.reshape(-1, 2)).reshape(SEEDS, -1) for z in (skill, skill[:, ::-1]))
    return own.mean(axis=1), another.mean(axis=1), np.linalg.norm(last, axis=-1).mean(axis=1), metrics


@pytest.mark.parametrize("name", ["visr", "aps"])
def test_phi_tells_the_skills_apart_by_where_they_end(name):
    own, another, *_ = learned(name)
    assert np.all(own > 0.8)
    assert np.all(np.abs(another) < 0.3)


def test_aps_goes_farther_than_visr():
    """To tell skills apart it is enough to go a little their way; to be far from known states it is not."""
    *_, visr, _ = learned("visr")
    *_, aps, metrics = learned("aps")
    assert np.all(aps > 1.3 * visr)
    assert np.all(metrics["entropy_reward"] > 0.3)
    np.testing.assert_allclose(metrics["alignment_reward"], -metrics["phi_loss"], rtol=1e-6)
