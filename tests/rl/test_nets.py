import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from scipy import integrate, stats

from wanderlust.config import MethodConfig
from wanderlust.envs.spec import Transition
from wanderlust.methods import lsd
from wanderlust.methods.lsd import Lsd
from wanderlust.methods.skills import ContinuousSkills, DiscreteSkills
from wanderlust.rl.nets import (
    MLP,
    ROUNDING,
    SQUARINGS,
    Linear,
    TanhNormal,
    init_critic,
    init_policy,
    measure_spectral,
    normalise,
)

OBS, BATCH, UPDATES = 4, 64, 400
RATES = [1e-3, 3e-2]


def batches(key, skills, updates):
    """Steps that drift with the skill by a map that changes now and then, so that phi has to turn."""
    keys = jax.random.split(key, 4)
    skill = jax.vmap(skills.sample)(jax.random.split(keys[0], updates * BATCH)).reshape(updates, BATCH, -1)
    maps = jnp.repeat(jax.random.normal(keys[1], (-(-updates // 50), skill.shape[-1], OBS)), 50, axis=0)[:updates]
    obs = 5.0 * jax.random.normal(keys[2], (updates, BATCH, OBS))
    noise = jax.random.normal(keys[3], (updates, BATCH, OBS))
    moved = obs + jnp.einsum("ubz,uzo->ubo", skill, maps) + 0.5 * noise
    no = jnp.zeros((updates, BATCH), bool)
    return Transition(obs, jnp.zeros((updates, BATCH, 1)), moved, skill, no, no)


PLANE = ContinuousSkills(2)


def method(rate=1e-3, skills=PLANE):
    return Lsd(MethodConfig("lsd", hidden=(32, 32), learning_rate=rate), skills)


@pytest.fixture(scope="module", params=RATES, ids=lambda r: f"rate={r}")
def history(request):
    """The state of LSD after 0, 1, 2, ... updates, all along a training."""
    lsd_ = method(request.param)

    def step(state, batch):
        return lsd_.update(state, batch)[0], (state.encoder, state.spectral)

    def whole(key):
        first = lsd_.init(key, OBS)
        last, (encoders, vectors) = jax.lax.scan(step, first, batches(key, lsd_.skills, UPDATES))
        add = lambda xs, x: jnp.concatenate([xs, x[None]])  # noqa: E731
        return jax.tree.map(add, encoders, last.encoder), jax.tree.map(add, vectors, last.spectral)

    encoders, vectors = jax.jit(whole)(jax.random.key(3))
    return jax.jit(jax.vmap(normalise))(encoders, vectors)


@pytest.fixture(scope="module")
def fresh():
    """An untrained LSD with a state and a batch."""
    lsd_ = method()
    batch = jax.jit(lambda key: nth(batches(key, lsd_.skills, 1), 0))(jax.random.key(1))
    return lsd_, jax.jit(lambda key: lsd_.init(key, OBS))(jax.random.key(0)), batch


def nth(tree, n):
    return jax.tree.map(lambda x: x[n], tree)


def exact(phi, x):
    """phi in double precision."""
    for i, layer in enumerate(phi.layers):
        x = x @ np.asarray(layer.weight, np.float64) + np.asarray(layer.bias, np.float64)
        x = np.maximum(x, 0.0) if i < len(phi.layers) - 1 else x
    return x


@jax.jit
def stretched_pairs(phi, key):
    """Pairs of points that gradient ascent on ||phi(x) - phi(y)|| / ||x - y|| ends at, from many starts and scales."""

    def log_ratio(pair):
        x, y = pair
        return jnp.log(jnp.linalg.norm(phi(x) - phi(y)) + 1e-9) - jnp.log(jnp.linalg.norm(x - y) + 1e-9)

    keys = jax.random.split(key, 3)
    x = 10.0 * jax.random.normal(keys[0], (128, OBS))
    scale = 10.0 ** jax.random.uniform(keys[1], (128, 1), minval=-1.0, maxval=2.0)
    start = (x, x + scale * jax.random.normal(keys[2], (128, OBS)))
    optimizer = optax.adam(0.1)

    def climb(carry, _):
        pairs, opt = carry
        grads = jax.grad(lambda p: -jnp.sum(jax.vmap(log_ratio)(p)))(pairs)
        updates, opt = optimizer.update(grads, opt)
        return (optax.apply_updates(pairs, updates), opt), None

    (pairs, _), _ = jax.lax.scan(climb, (start, optimizer.init(start)), None, length=300)
    return start, pairs


def ratios(phi, pairs):
    x, y = (np.asarray(p, np.float64) for p in pairs)
    distance = np.linalg.norm(x - y, axis=1)
    far = distance > 1e-3
    assert far.mean() > 0.9
    return np.linalg.norm(exact(phi, x) - exact(phi, y), axis=1)[far] / distance[far]


# --- the Lipschitz constraint -------------------------------------------------------------------------------------


def test_true_spectral_norms_stay_at_one_through_all_of_training(history):
    for layer in history.layers:
        norms = np.linalg.svd(np.asarray(layer.weight, np.float64), compute_uv=False)[:, 0]
        assert norms.shape == (UPDATES + 1,)
        assert norms.max() <= 1.0
        assert norms.min() > 0.99  # brought to 1, not merely made small


@pytest.mark.parametrize("after", [0, 10, UPDATES])
def test_phi_never_stretches_a_distance(history, after):
    phi = nth(history, after)
    start, found = stretched_pairs(phi, jax.random.key(after))
    assert ratios(phi, start).max() <= 1.0
    assert ratios(phi, found).max() <= 1.0
    assert ratios(phi, found).mean() > ratios(phi, start).mean()  # the ascent did look for a violation


def test_phi_never_stretches_a_distance_at_the_worst_moment(history):
    """Where the layers' true norms multiply to the most, e.g. while the leading singular vector changes places."""
    norms = [np.linalg.svd(np.asarray(layer.weight), compute_uv=False)[:, 0] for layer in history.layers]
    phi = nth(history, int(np.prod(norms, axis=0).argmax()))
    _, found = stretched_pairs(phi, jax.random.key(0))
    assert ratios(phi, found).max() <= 1.0


def test_single_precision_phi_never_stretches_a_distance(history):
    phi = nth(history, -1)
    a, b = jax.random.split(jax.random.key(0))
    x, y = 10.0 * jax.random.normal(a, (4096, OBS)), 10.0 * jax.random.normal(b, (4096, OBS))
    image = np.linalg.norm(jax.vmap(phi)(x) - jax.vmap(phi)(y), axis=1)
    assert np.all(image <= (1.0 + 1e-5) * np.linalg.norm(x - y, axis=1))


def test_training_uses_the_freedom_that_the_constraint_leaves(history):
    _, found = stretched_pairs(nth(history, -1), jax.random.key(1))
    assert ratios(nth(history, -1), found).max() > 0.5


# --- the spectral state -------------------------------------------------------------------------------------------


def test_spectral_state_advances_once_per_update_and_only_there(fresh, monkeypatch):
    calls = []
    monkeypatch.setattr(lsd, "measure_spectral", lambda *a: calls.append("measure") or measure_spectral(*a))
    monkeypatch.setattr(lsd, "normalise", lambda *a: calls.append("normalise") or normalise(*a))
    lsd_, state, batch = fresh
    jax.eval_shape(lsd_.reward, state, batch)
    assert calls == ["normalise"]  # once: phi(s) and phi(s') share the normalised weights
    calls.clear()
    after, _ = jax.jit(lsd_.update)(state, batch)
    assert calls == ["normalise", "measure"]
    expected = jax.jit(measure_spectral)(after.encoder)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), after.spectral, expected)
    with pytest.raises(AssertionError):
        jax.tree.map(np.testing.assert_array_equal, after.spectral, state.spectral)


def test_standing_still_is_worth_exactly_nothing_and_going_back_undoes(fresh):
    lsd_, state, batch = fresh
    reward = jax.jit(lsd_.reward)
    np.testing.assert_array_equal(reward(state, batch._replace(next_obs=batch.obs)), 0.0)
    back = batch._replace(obs=batch.next_obs, next_obs=batch.obs)
    np.testing.assert_array_equal(reward(state, back), -reward(state, batch))


def test_a_fresh_network_is_scaled_by_its_true_norms():
    keys = jax.random.split(jax.random.key(5), 2)
    mlp = MLP(tuple(Linear(jax.random.normal(k, (6, 4)), jnp.ones(4)) for k in keys), jax.nn.relu)
    spectral = measure_spectral(mlp)
    scaled = normalise(mlp, spectral)
    for raw, layer, norm in zip(mlp.layers, scaled.layers, spectral.norm, strict=True):
        values = np.linalg.svd(np.asarray(raw.weight, np.float64), compute_uv=False)
        order = 4 * 2**SQUARINGS  # the Schatten norm of this order
        schatten = values[0] * np.sum((values / values[0]) ** order) ** (1 / order)
        np.testing.assert_allclose(norm, schatten * (1 + ROUNDING), rtol=2e-6)
        np.testing.assert_allclose(layer.weight, raw.weight / norm, rtol=1e-6)
        np.testing.assert_array_equal(layer.bias, raw.bias)  # a shift does not stretch


@pytest.mark.parametrize("shape", [(40, 40), (2, 40), (40, 2)])
@pytest.mark.parametrize("case", ["random", "equal", "overtaking", "zero", "tiny", "huge"])
def test_the_norm_is_never_below_the_largest_singular_value(shape, case):
    u, values, vt = np.linalg.svd(np.random.default_rng(0).normal(size=shape), full_matrices=False)
    if case == "equal":
        values = np.ones_like(values)
    elif case == "overtaking":
        values[1] = values[0] * (1 + 1e-6)
    weight = (u * values) @ vt * {"zero": 0.0, "tiny": 1e-6, "huge": 1e6}.get(case, 1.0)
    mlp = MLP((Linear(jnp.asarray(weight, jnp.float32), jnp.zeros(shape[1])),), jax.nn.relu)
    spectral = jax.jit(measure_spectral)(mlp)
    scaled = np.asarray(normalise(mlp, spectral).layers[0].weight, np.float64)
    largest = np.linalg.svd(scaled, compute_uv=False)[0]
    assert largest <= 1.0
    if case == "zero":
        assert largest == 0.0
    else:
        # brought to 1, not merely made small: the norm is of order 4 * 2^k, so r equal values look r^(1/order) larger
        assert largest > 0.9999 * len(values) ** (-1 / (4 * 2**SQUARINGS))
        top = np.linalg.norm(np.asarray(mlp.layers[0].weight, np.float64), 2)
        np.testing.assert_allclose(spectral.left[0] @ weight @ spectral.right[0], top, rtol=2e-2)


def test_gradient_flows_through_the_norm():
    key = jax.random.key(2)
    weight = jax.random.normal(key, (3, 2))
    x, c = jnp.array([1.0, -2.0, 0.5]), jnp.array([0.7, -1.3])
    mlp = MLP((Linear(weight, jnp.zeros(2)),), jax.nn.relu)
    spectral = measure_spectral(mlp)
    grad = jax.grad(lambda m: normalise(m, spectral)(x) @ c)(mlp).layers[0].weight

    def value(w):  # the same in double precision, with the true norm and the slack of the weights in use
        scale = np.linalg.svd(np.asarray(normalise(mlp, spectral).layers[0].weight, np.float64))[1][0]
        return scale * (np.asarray(x, np.float64) @ w @ np.asarray(c, np.float64)) / np.linalg.svd(w)[1][0]

    w, h = np.asarray(weight, np.float64), 1e-6
    expected = np.zeros_like(w)
    for i in np.ndindex(*w.shape):
        e = np.zeros_like(w)
        e[i] = h
        expected[i] = (value(w + e) - value(w - e)) / (2 * h)
    np.testing.assert_allclose(grad, expected, rtol=1e-3, atol=1e-4)
    assert abs(float(jnp.sum(grad * weight))) < 1e-4  # scaling the weights changes nothing


def test_discrete_phi_is_constrained_too():
    lsd_ = method(skills=DiscreteSkills(5))
    state = jax.jit(lambda key: lsd_.init(key, OBS))(jax.random.key(0))
    norms = [np.linalg.svd(np.asarray(la.weight))[1][0] for la in normalise(state.encoder, state.spectral).layers]
    assert max(norms) <= 1.0
    assert state.encoder.layers[-1].weight.shape == (32, 5)


# --- actor and critics --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (0.8, 0.3), (-2.0, 0.7)])
def test_tanh_normal_density_matches_the_change_of_variables(mean, std):
    noise = jnp.linspace(-3.5, 3.5, 101)[:, None]
    dist = TanhNormal(jnp.array([mean]), jnp.log(jnp.array([std])))
    action, log_prob = jax.vmap(dist.sample)(noise)
    u = mean + std * np.asarray(noise, np.float64)[:, 0]
    np.testing.assert_allclose(action[:, 0], np.tanh(u), rtol=1e-5, atol=1e-6)
    expected = stats.norm(mean, std).logpdf(u) + 2 * np.log(np.cosh(u))
    np.testing.assert_allclose(log_prob, expected, rtol=1e-4, atol=1e-4)


def test_tanh_normal_density_integrates_to_one():
    mean, std = 0.4, 0.6
    dist = TanhNormal(jnp.array([mean]), jnp.log(jnp.array([std])))
    noise = jnp.linspace(-6.0, 6.0, 20_001)
    action, log_prob = jax.vmap(dist.sample)(noise[:, None])
    total = integrate.trapezoid(np.exp(np.asarray(log_prob, np.float64)), np.asarray(action[:, 0], np.float64))
    assert total == pytest.approx(1.0, abs=1e-3)


def test_tanh_normal_sums_over_dimensions_and_its_mode_is_the_squashed_mean():
    mean, log_std, noise = jnp.array([0.3, -1.0]), jnp.array([-0.5, 0.2]), jnp.array([0.4, 1.1])
    both = TanhNormal(mean, log_std).sample(noise)[1]
    single = [float(TanhNormal(mean[i : i + 1], log_std[i : i + 1]).sample(noise[i : i + 1])[1]) for i in range(2)]
    assert float(both) == pytest.approx(sum(single), rel=1e-5)
    np.testing.assert_allclose(TanhNormal(mean, log_std).mode(), np.tanh(mean), rtol=1e-6)


@pytest.mark.parametrize("mean", [-60.0, -20.0, 20.0, 60.0])
def test_tanh_normal_is_finite_far_in_the_tails(mean):
    def log_prob(m):
        return TanhNormal(m, jnp.zeros(1)).sample(jnp.array([0.5]))[1]

    value, grad = jax.value_and_grad(log_prob)(jnp.array([mean]))
    # log(1 - tanh(u)^2) -> log 4 - 2|u|
    expected = stats.norm.logpdf(0.5) - (np.log(4.0) - 2 * abs(mean + 0.5))
    assert float(value) == pytest.approx(expected, rel=1e-5)
    assert float(grad[0]) == pytest.approx(2.0 * np.sign(mean), rel=1e-5)


def test_policy_starts_near_the_middle_with_standard_deviation_near_one():
    policy = jax.jit(lambda key: init_policy(key, 8, 2, 4, (256, 256), jnp.tanh))(jax.random.key(0))
    obs, skill = jax.random.normal(jax.random.key(1), (512, 8)), jax.random.normal(jax.random.key(2), (512, 2))
    dist = jax.vmap(policy)(obs, skill)
    assert float(jnp.abs(dist.mean).max()) < 0.5
    assert float(jnp.abs(dist.log_std).max()) < 0.5
    head = np.asarray(policy.mlp.layers[-1].weight)
    assert head.shape == (256, 8)
    assert head.std() == pytest.approx(0.1 * np.sqrt(2 / (256 + 4)), rel=0.05)
    assert all(not np.any(layer.bias) for layer in policy.mlp.layers)


def test_policy_reads_observation_and_skill_and_bounds_its_spread():
    policy = jax.jit(lambda key: init_policy(key, 3, 2, 1, (16,), jnp.tanh))(jax.random.key(0))
    obs, skill = jnp.ones(3), jnp.ones(2)
    base = policy(obs, skill).mean
    assert not np.allclose(base, policy(obs + 1.0, skill).mean)
    assert not np.allclose(base, policy(obs, skill + 1.0).mean)
    loud = jax.tree.map(lambda w: 1e6 * w, policy)
    log_std = jax.vmap(loud)(jax.random.normal(jax.random.key(1), (64, 3)), jnp.ones((64, 2))).log_std
    assert float(log_std.max()) <= 2.0
    assert float(log_std.min()) >= np.log(1e-6) - 1e-3
    assert float(log_std.max()) > float(log_std.min())


def test_critics_are_glorot_normal():
    critic = jax.jit(lambda key: init_critic(key, 100, 2, 6, (200, 300)))(jax.random.key(0))
    for layer, (inputs, outputs) in zip(critic.mlp.layers[:2], [(108, 200), (200, 300)], strict=True):
        assert layer.weight.shape == (inputs, outputs)
        assert np.asarray(layer.weight).std() == pytest.approx(np.sqrt(2 / (inputs + outputs)), rel=0.05)
    assert critic(jnp.ones(100), jnp.ones(2), jnp.ones(6)).shape == ()
