"""EDL: SMM explores, a VQ-VAE sums up what it found, skills reach the codes; and stages, one after the other."""

import dataclasses
import itertools
import json
import shutil
from contextlib import contextmanager

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import tiny_config
from wanderlust import api, train
from wanderlust.config import SkillConfig, StageConfig, from_json, to_json, with_changes
from wanderlust.envs.spec import Transition
from wanderlust.errors import UserError
from wanderlust.evaluation.metrics import coverage as measure_coverage
from wanderlust.methods.edl import vqvae
from wanderlust.methods.edl.edl import Edl, with_goals
from wanderlust.methods.edl.vqvae import EdlConfig, States, VqVae
from wanderlust.methods.skills import ContinuousSkills, DiscreteSkills
from wanderlust.methods.smm import Autoencoder, Smm, SmmConfig, SmmState
from wanderlust.recipes import get_recipe, usual_skills
from wanderlust.rl.moments import Moments
from wanderlust.rl.nets import MLP, Linear
from wanderlust.runs.files import ArrayFile, write_arrays
from wanderlust.runs.run import Run
from wanderlust.sweeps import grid
from wanderlust.train import loop, stages
from wanderlust_experiments import coverage

TWO = DiscreteSkills(2)


def linear(weight, bias):
    return MLP((Linear(jnp.array(weight, jnp.float32), jnp.array(bias, jnp.float32)),), jax.nn.relu)


def transitions(next_obs, skill):
    next_obs, skill = (jnp.array(x, jnp.float32) for x in (next_obs, skill))
    no = jnp.zeros(len(skill), bool)
    return Transition(next_obs + 50.0, jnp.zeros((len(skill), 1)), next_obs, skill, no, no)  # s plays no part


# --- SMM ----------------------------------------------------------------------------------------------------------

RATES = {"learning_rate": 1e-2, "density_learning_rate": 1e-2}
SMM = SmmConfig(hidden=(8,), skill_weight=3.0, density_weight=0.5, code=1, **RATES)
BATCH = transitions([[1.0], [-2.0]], [[1, 0], [0, 1]])


def smm_state(log_variance, key=0):
    """s in one dimension; logits (2 s, 0); code = s + 2 z_1 and its log-variance; x rebuilt as (code, 0, 1)."""
    encoder = linear([[1.0, 0.0], [2.0, 0.0], [0.0, 0.0]], [0.0, log_variance])
    density = Autoencoder(encoder, linear([[1.0, 0.0, 0.0]], [0.0, 0.0, 1.0]))
    return SmmState(linear([[2.0, 0.0]], [0.0, 0.0]), density, jax.random.key(key), (), ())


LOG_Q = -np.log1p(np.exp([-2.0, -4.0]))  # of (2, 0) at its first entry, and of (-4, 0) at its second
ERROR = np.array([[4.0, 1.0, 1.0], [0.0, 0.0, 0.0]])  # x = (1, 1, 0) and (-2, 0, 1) from codes 3 and -2


def test_smm_reward_by_hand():
    sharp = smm_state(-1e6)  # no variance to speak of
    expected = 3.0 * (LOG_Q + np.log(2)) + 0.5 * ERROR.sum(axis=1)
    np.testing.assert_allclose(jax.jit(Smm(SMM, TWO).reward)(sharp, BATCH), expected, rtol=1e-3)


def test_smm_reward_draws_one_code_of_every_state_by_the_key():
    smm, noise = Smm(SMM, TWO), np.asarray(jax.random.normal(jax.random.key(7), (2, 1)))[:, 0]
    rewards = jax.jit(smm.reward)(smm_state(np.log(4.0), key=7), BATCH)
    codes = np.array([3.0, -2.0]) + 2.0 * noise
    error = (np.array([1.0, -2.0]) - codes) ** 2 + [2.0, 0.0]
    np.testing.assert_allclose(rewards, 3.0 * (LOG_Q + np.log(2)) + 0.5 * error, rtol=1e-5)
    assert np.all(rewards != jax.jit(smm.reward)(smm_state(np.log(4.0), key=8), BATCH))


def test_smm_losses_by_hand():
    config = dataclasses.replace(SMM, beta=0.25)
    loss, novelty = jax.jit(Smm(config, TWO).density_loss)(smm_state(-20.0).density, BATCH, jax.random.key(0))
    divergence = 0.5 * (np.array([9.0, 4.0]) + np.exp(-20.0) - 1 + 20)  # codes 3 and -2 from N(0, 1)
    np.testing.assert_allclose(loss, 0.25 * divergence.mean() + ERROR.mean(), rtol=1e-3)
    np.testing.assert_allclose(novelty, ERROR.sum(axis=1).mean(), rtol=1e-3)
    np.testing.assert_allclose(Smm(config, TWO).loss(smm_state(0.0).encoder, BATCH), -LOG_Q.mean(), rtol=1e-5)


def test_smm_finds_rare_states_novel_and_tells_skills_apart():
    """Skill 0 is found at -1, skill 1 at 1, and neither at 8."""
    config = dataclasses.replace(SMM, hidden=(16,), code=2, beta=0.01)
    smm = Smm(config, TWO)
    seen = transitions([[-1.0], [1.0]] * 16, [[1, 0], [0, 1]] * 16)
    tried = transitions([[-1.0], [1.0], [8.0]], [[1, 0], [1, 0], [0, 1]])

    @jax.jit
    def learn(key):
        first = smm.init(key, 1)
        last, metrics = jax.lax.scan(lambda s, _: smm.update(s, seen), first, length=400)
        novelties = [jnp.sum(smm._rebuilt(s.density, tried, key)[0], axis=1) for s in (first, last)]
        return last, metrics, smm.reward(last, tried), novelties, first.key

    state, metrics, reward, (_, after), key = learn(jax.random.key(0))
    assert set(metrics) == {"phi_loss", "density_loss", "novelty"}
    assert metrics["phi_loss"][0] > 0.3
    assert metrics["phi_loss"][-1] < 0.05  # log 2 is what a guess of nothing loses
    assert metrics["novelty"][-1] < 0.3 * metrics["novelty"][0]
    assert after[2] > 20 * after[0]  # far away
    assert after[1] > 2 * after[0]  # where the other skill goes
    assert reward[2] > reward[0] > reward[1]
    assert not np.array_equal(jax.random.key_data(state.key), jax.random.key_data(key))
    picked = smm.towards(state, tried.obs, jnp.array([[-1.0], [1.0], [0.9]]))
    np.testing.assert_array_equal(picked, [[1, 0], [0, 1], [0, 1]])


def test_a_state_far_from_all_others_does_not_overflow():
    far = transitions([[1e4]], [[1, 0]])
    state = smm_state(0.0)._replace(density=Autoencoder(linear([[0.0, 1.0]] * 3, [0, 0]), smm_state(0).density.decoder))
    assert np.isfinite(jax.jit(Smm(SMM, TWO).reward)(state, far)).all()


# --- EDL's skills --------------------------------------------------------------------------------------------------

GOALS = jnp.array([[1.0, 0.0], [6.0, 0.0], [0.0, -2.0]])


def edl():
    return Edl(edl_config().method, DiscreteSkills(3))


def edl_config(**changes):
    """Exploration of four epochs, codes of three steps, skills of four epochs, each run ready within seconds."""
    small = {"sac_hidden": (8,), "method_hidden": (8,), "env_episode_length": 9}  # of 5 its states need no scaling
    smm, last = tiny_config("smm", discrete=2, **small), tiny_config("diayn", discrete=3, **small)
    first = StageConfig(smm.method, smm.skills, smm.sac, smm.schedule)
    method = EdlConfig(hidden=(8,), learning_rate=1e-3, first=first, code=4, code_steps=3, code_batch=8)
    return dataclasses.replace(last, method=method, **changes)


def test_edl_reward_by_hand():
    batch = transitions([[1.0, 0.0], [2.0, 3.0], [0.0, 0.0]], [[1, 0, 0], [0, 1, 0], [0, 0, 1]])
    state = with_goals(GOALS, jnp.array(2.0))
    np.testing.assert_allclose(edl().reward(state, batch), [0.0, -(16 + 9) / 2, -4 / 2])
    after, metrics = edl().update(state, batch)
    assert after is state
    np.testing.assert_allclose(metrics["goal_distance"], (0 + 5 + 2) / 3, rtol=1e-6)


def test_edl_picks_the_skill_whose_goal_is_nearest():
    """Which is not the one with the largest inner product."""
    state, goals = with_goals(GOALS, jnp.array(1.0)), jnp.array([[3.0, 0.0], [4.0, 0.0], [0.0, -1.5], [9.0, 9.0]])
    picked = edl().towards(state, goals + 5.0, goals)
    np.testing.assert_array_equal(picked, np.eye(3)[[0, 1, 2, 1]])
    gaps = np.asarray(edl().represent(state, goals)) + 0.5 * ((goals[:, None] - GOALS[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(gaps, np.repeat(gaps[:, :1], 3, axis=1), rtol=1e-5)  # but for what all have in common


def test_edl_without_goals_earns_no_number():
    state = edl().init(jax.random.key(0), 2)
    assert np.isnan(edl().reward(state, transitions([[1.0, 0.0]], [[1, 0, 0]]))).all()


@pytest.mark.parametrize(("method", "advice"), [("smm", "--discrete 4"), ("edl", "--discrete 10")])
def test_continuous_skills_are_refused_in_one_line(command_line, tmp_path, method, advice):
    with pytest.raises(UserError, match=advice):
        (Smm(SMM, ContinuousSkills(2)) if method == "smm" else Edl(edl_config().method, ContinuousSkills(2)))
    code, _, err = command_line("discover", "point", "--method", method, "--skills", 2, "--out", tmp_path / "run")
    said = "takes discrete skills, not continuous ones; say how many with"
    assert (code, err) == (2, f"wanderlust: {method} {said} {advice}\n")
    assert not (tmp_path / "run").exists()


def test_skills_are_discrete_unless_said():
    assert str(api.configure("point", "smm").skills) == "n4"
    assert str(api.configure("point", "edl-xy").skills) == "n10"
    assert str(api.configure("point", "edl", discrete=6).skills) == "n6"
    assert usual_skills("lsd") == SkillConfig("continuous", 2)


# --- the VQ-VAE ----------------------------------------------------------------------------------------------------

UNIT = Moments(jnp.zeros(1), jnp.ones(1))


def test_the_nearest_code_is_chosen():
    codebook = jnp.array([[0.0, 0.0], [4.0, 0.0], [0.0, 1.0]])
    encoded = jnp.array([[1.9, 0.0], [2.1, 0.0], [0.2, 0.7], [9.0, 9.0]])
    np.testing.assert_array_equal(vqvae.nearest(codebook, encoded), [0, 1, 2, 1])


def test_the_loss_and_every_gradient_by_hand():
    """One dimension: encoded w x, its code c, rebuilt v c."""
    x, w, v, c, commitment = 2.0, 0.7, 3.0, 1.0, 1.5
    model = VqVae(linear([[w]], [0.0]), linear([[v]], [0.0]), jnp.array([[c], [-c]]))
    compiled = jax.jit(jax.value_and_grad(vqvae.loss, has_aux=True), static_argnums=3)
    (loss, error), grads = compiled(model, UNIT, jnp.array([[x]]), commitment)
    gap = w * x - c
    np.testing.assert_allclose(error, (x - v * c) ** 2, rtol=1e-5)
    np.testing.assert_allclose(loss, (x - v * c) ** 2 + gap**2 + commitment * gap**2, rtol=1e-5)
    of_decoder, of_code = 2 * (v * c - x) * c, 2 * (c - w * x)
    of_encoder = 2 * (v * c - x) * v * x + commitment * 2 * gap * x  # the first as if w x were c
    np.testing.assert_allclose(grads.decoder.layers[0].weight, [[of_decoder]], rtol=1e-4)
    np.testing.assert_allclose(grads.encoder.layers[0].weight, [[of_encoder]], rtol=1e-4)
    np.testing.assert_allclose(grads.codebook, [[of_code], [0.0]], rtol=1e-4)


def test_losses_are_summed_over_entries_and_averaged_over_states():
    both = linear(np.zeros((2, 2)), np.zeros(2))
    model, scale = VqVae(both, both, jnp.array([[1.0, 1.0]])), Moments(jnp.zeros(2), jnp.ones(2))
    loss, error = vqvae.loss(model, scale, jnp.array([[3.0, 4.0], [0.0, 1.0]]), 0.5)
    np.testing.assert_allclose([error, loss], [(25 + 1) / 2, 13 + 2 + 0.5 * 2], rtol=1e-6)


def test_the_encoder_sees_standardised_states_and_the_decoder_gives_them_back():
    same = linear(np.eye(2), np.zeros(2))
    model, scale = VqVae(same, same, jnp.zeros((1, 2))), Moments(jnp.array([10.0, 0.0]), jnp.array([4.0, 1.0]))
    obs = jnp.array([[12.0, -3.0], [200.0, -200.0]])
    np.testing.assert_allclose(vqvae.encode(model, scale, obs), [[1.0, -3.0], [5.0, -5.0]], rtol=1e-5)
    np.testing.assert_allclose(vqvae.decode(model, scale, jnp.array([[1.0, -3.0]])), [[12.0, -3.0]], rtol=1e-6)


def test_only_the_states_there_are_count():
    obs = jnp.array([[1.0], [3.0], [1e6], [jnp.nan]])
    states = States(obs, jnp.int32(2))
    np.testing.assert_allclose(vqvae.moments_of_states(states), [[2.0], [1.0]])
    model = VqVae(linear([[1.0]], [0.0]), linear([[1.0]], [0.0]), jnp.array([[-1.0], [0.5], [9.0]]))
    found = jax.jit(vqvae.summarise)(model, states)  # standardised: -1 and 1; their codes stand for 1 and 2.5
    np.testing.assert_allclose(found.goal[:, 0], [1.0, 2.5, 11.0], rtol=1e-5)
    np.testing.assert_allclose(found.share, [0.5, 0.5, 0.0])
    np.testing.assert_allclose(found.spread, (0.0 + 0.25) / 2, rtol=1e-4)


def test_codes_settle_where_the_states_are():
    config = dataclasses.replace(edl_config().method, hidden=(32,), code=8, learning_rate=3e-3, code_batch=64)
    places = jnp.array([[0.0, 8.0], [8.0, 0.0], [-8.0, 0.0], [0.0, -8.0]])
    noise = jax.random.normal(jax.random.key(1), (400, 2))
    obs = jnp.concatenate([jnp.repeat(places, 100, axis=0) + 0.3 * noise, jnp.full((50, 2), 1e4)])  # the last: empty
    states = States(obs, jnp.int32(400))

    @jax.jit
    def run(key):
        first = vqvae.init(config, 8, 2, key)
        last, error = vqvae.fit(config, states, first, jnp.int32(1500))
        untouched, _ = vqvae.fit(config, states, first, jnp.int32(0))
        return first, last, error, untouched, vqvae.summarise(last.model, states)

    first, _, _, untouched, found = run(jax.random.key(1))
    assert 0.1 < float(jnp.abs(first.model.codebook).max()) <= 1 / 8
    np.testing.assert_array_equal(untouched.model.codebook, first.model.codebook)
    used = np.asarray(found.share) > 0  # a code that starts far from all states may never be chosen
    apart = np.linalg.norm(np.asarray(found.goal)[used][:, None] - np.asarray(places)[None], axis=2)
    assert set(apart.argmin(axis=1)) == {0, 1, 2, 3}
    assert apart.min(axis=1).max() < 0.5
    for k in range(4):
        assert np.asarray(found.share)[used][apart.argmin(axis=1) == k].sum() == pytest.approx(0.25)
    assert found.spread < 0.5


# --- stages --------------------------------------------------------------------------------------------------------


def arrays(run):
    file = ArrayFile(run.checkpoints()[max(run.checkpoints())])
    return {name: file.read(name) for name in file.shapes()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run of all three stages, two seeds, without interruption; never changed."""
    run = stages.start(edl_config(seeds=2), tmp_path_factory.mktemp("edl") / "run")
    assert stages.train_run(run, quiet=True) == loop.Outcome(4, "finished")
    return run


def test_a_run_in_stages_leaves_a_run_within_a_run(whole):
    explore = Run.open(whole.path / "explore")
    assert (explore.config.method, explore.config.skills.size) == (whole.config.method.first.method, 2)
    assert (explore.config.env, explore.config.seeds) == (whole.config.env, 2)
    assert explore.metrics()[-1]["epoch"] == whole.metrics()[-1]["epoch"] == 4
    assert (explore.evaluation / "trajectories.png").exists()
    measured = json.loads((explore.evaluation / "evaluation.json").read_text())["metrics"]
    assert len(measured["coverage_sampled"]["per_seed"]) == 2
    assert stages.runs(whole) == [explore, whole]
    assert not whole.path.joinpath("explore", "explore").exists()


def test_the_skills_begin_with_the_states_exploration_found(whole):
    """Goals are those of a VQ-VAE of the states in the replay: seen again here, seed by seed."""
    file = ArrayFile(whole.path / "codes.safetensors")
    goals, share = file.read("goal"), file.read("share")
    assert (goals.shape, file.about["epoch"]) == ((2, 3, 2), "4")
    np.testing.assert_allclose(share.sum(axis=1), 1.0, rtol=1e-5)
    replay = arrays(Run.open(whole.path / "explore"))
    std = np.array(train.assemble(whole.config).world.spec.obs_std)
    for k in range(2):
        states = States(jnp.asarray(replay["replay/data/next_obs"][k] / std), jnp.asarray(replay["replay/size"][k]))
        config, key = whole.config.method, jax.random.fold_in(jax.random.key(k), 2)
        fitted, _ = vqvae.fit(config, states, vqvae.init(config, 3, 2, key), jnp.int32(3))
        found = vqvae.summarise(fitted.model, states)
        np.testing.assert_allclose(goals[k], found.goal, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(file.read("spread")[k], found.spread, rtol=1e-4)
    learned = arrays(whole)  # four epochs later they are the same
    np.testing.assert_array_equal(learned["learner/method/encoder/layers/0/weight"], goals.transpose(0, 2, 1))
    np.testing.assert_array_equal(learned["learner/method/spread"], file.read("spread"))
    assert np.isfinite([row["reward"] for row in whole.metrics()]).all()


def test_a_run_stopped_in_every_stage_ends_as_one_that_was_not(whole, tmp_path, monkeypatch):
    pressed = iter(())

    @contextmanager
    def stop_signals():
        answer = next(pressed)
        yield lambda: answer

    for module in (loop, stages):
        monkeypatch.setattr(module, "stop_signals", stop_signals)
    run, ended = stages.start(whole.config, tmp_path / "run"), []
    # Ctrl-C while exploring; in the second stage, which comes after the first; in the third; and never
    for answers in ([True], [False, True], [False, False, True], [False]):
        pressed = iter(answers)
        ended.append(stages.train_run(loop.resume(run.path), quiet=True))
        assert next(pressed, None) is None
        if len(ended) < 3:
            assert not run.checkpoints()
            assert not (run.path / "codes.safetensors").exists()
    places = [(outcome.stage, outcome.reason, outcome.epoch) for outcome in ended]
    stopped = [("explore", "interrupted", 2), ("codes", "interrupted", 0), ("", "interrupted", 2)]
    assert places == [*stopped, ("", "finished", 4)]
    for ours, theirs in zip(stages.runs(run), stages.runs(whole), strict=True):
        expected = arrays(theirs)
        for name, array in arrays(ours).items():
            np.testing.assert_array_equal(array, expected[name], err_msg=name)


def test_killed_between_the_stages_it_goes_on_from_the_codes(whole, tmp_path, monkeypatch):
    run = Run.create(tmp_path / "run", whole.config)
    (run.path / "explore").symlink_to(whole.path / "explore")
    (run.path / "codes.safetensors").write_bytes((whole.path / "codes.safetensors").read_bytes())
    monkeypatch.setattr(vqvae, "fit", lambda *_: pytest.fail("learned again"))
    monkeypatch.setattr(loop, "run_training", lambda *_, **__: loop.Outcome(0, "finished"))
    stages.train_run(run, quiet=True)
    begun, method = arrays(run), "learner/method/encoder/layers/0/weight"
    np.testing.assert_array_equal(begun[method], arrays(whole)[method])
    assert list(run.checkpoints()) == [0]
    # and a file that is of something else is refused
    run.checkpoints()[0].unlink()
    file = ArrayFile(run.path / "codes.safetensors")
    write_arrays(file.path, {"goal": file.read("goal")[:1]}, {"format": file.about["format"]})
    with pytest.raises(UserError, match="or move the file away to learn the codes again"):
        stages.train_run(run, quiet=True)


def test_a_budget_is_shared_by_the_stages(tmp_path, capsys):
    config = with_changes(edl_config(seeds=2), ("method.first.schedule.epochs=12",))
    run = stages.start(config, tmp_path / "run")
    asked = []

    def fake(run, budget_seconds, *_, **__):
        asked.append((run.path.name, budget_seconds))
        return loop.Outcome(4, "interrupted")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "run_training", fake)
        assert stages.train_run(run, 60.0) == loop.Outcome(4, "interrupted", "explore")
    assert asked == [("explore", 45.0)]  # 12 epochs of 16
    assert "stage 1 of 3, explore: 12 epochs or 45 s of the budget" in capsys.readouterr().err
    # a first stage that has spent its share hands over what it has
    assert stages.train_run(run, 1e-9, quiet=True) == loop.Outcome(2, "budget")
    assert [list(one.checkpoints()) for one in stages.runs(run)] == [[2], [0, 2]]
    assert ArrayFile(run.path / "codes.safetensors").about["epoch"] == "2"


def test_steps_are_shared_by_the_stages():
    config = edl_config()
    for steps, expected in ((320, (8, 8)), (321, (9, 8)), (300, (8, 7)), (1, (1, 1))):  # 20 an epoch
        made = stages.with_steps(config, steps)
        assert (made.method.first.schedule.epochs, made.schedule.epochs) == expected
    assert stages.with_steps(tiny_config(), 41).schedule.epochs == 3
    for name in ("edl", "smm"):
        made = api.configure("point", name, budget_steps=5000)
        assert sum(c.schedule.epochs for c in (made, stages.earlier(made)) if c) == 10


def test_configurations_of_stages(tmp_path):
    config = get_recipe("laptop", "ant", "edl-xyo", SkillConfig("discrete", 5))
    assert from_json(type(config), to_json(config), "here") == config
    assert stages.earlier(config).method.view == "xyo"
    changed = with_changes(config, ("method.first.sac.alpha=7", "method.first.schedule.epochs=3"))
    assert (stages.earlier(changed).sac.alpha, changed.sac.alpha) == (7.0, config.sac.alpha)
    for change, message in {
        "method.first.method.view=xy": "they must be the same",
        "method.code_steps=0": "method.code_steps is 0; it must be at least 1",
        "method.first.skills.kind=continuous": "",
    }.items():
        with pytest.raises(UserError) as caught:
            stages.start(with_changes(dataclasses.replace(config, engine="c"), (change,)), tmp_path / "run")
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)
        assert not (tmp_path / "run").exists()


def test_the_published_numbers():
    for env, alpha, density, alive in (("ant", 1.0, 0.5, 0.0), ("humanoid", 3.0, 0.05, 30.0)):
        for recipe, method in itertools.product(("paper", "fast", "laptop"), ("smm", "edl")):
            config = get_recipe(recipe, env, method, SkillConfig("discrete", 4))
            explores = stages.earlier(config) or config
            assert (explores.sac.alpha, explores.sac.learn_alpha, explores.sac.alive_bonus) == (alpha, False, alive)
            assert (explores.method.density_weight, explores.method.skill_weight) == (density, 1.0)
            assert (explores.method.beta, explores.method.code, explores.skills.size) == (1.0, 64, 4)
            assert recipe != "paper" or explores.sac.discount == 0.99
    vq = get_recipe("paper", "ant", "edl", SkillConfig("discrete", 10)).method
    assert (vq.code, vq.commitment, vq.hidden, vq.learning_rate) == (16, 1.5, (128, 128), 2e-4)
    assert (vq.code_steps, vq.code_batch) == (50_000, 256)


# --- in the comparison, and for real -------------------------------------------------------------------------------


def test_the_rows_of_the_comparison():
    changes = ("sac.hidden=[8]", "schedule.worlds=4")
    shared = api.configure("point", set=changes, budget_steps=200)
    row = coverage.row_config("edl", shared, "laptop", SkillConfig(), changes)
    first = stages.earlier(row)
    assert shared.schedule.epochs == 5
    assert (first.schedule.epochs, row.schedule.epochs) == (3, 2)
    remembered = dataclasses.replace(shared.schedule, replay_collections=200)
    assert dataclasses.replace(first.schedule, epochs=5) == remembered
    assert row.schedule == dataclasses.replace(shared.schedule, epochs=2)
    assert (first.sac.alpha, row.sac.alpha, first.sac.hidden) == (3.0, 0.3, (8,))
    assert (str(first.skills), str(row.skills)) == ("n4", "n10")
    assert grid.Row(row, {}).plan == "1 seed, 5 epochs"
    smm = coverage.row_config("smm", shared, "laptop", SkillConfig(), changes)
    assert (smm.schedule, str(smm.skills)) == (remembered, "n4")
    sixteen = SkillConfig("discrete", 16)
    assert str(coverage.row_config("edl", shared, "laptop", sixteen, changes).skills) == "n16"


def test_a_row_of_the_comparison_counts_both_stages(whole, tmp_path):
    shutil.copytree(whole.path, tmp_path / "edl")
    facts = grid.Row(whole.config, {}).measured(tmp_path / "edl", 20, quiet=True)
    assert (facts["epochs"], facts["env_steps_per_seed"]) == (8, 160)  # of 20 steps and 2 updates
    assert facts["updates_per_seed"] == {"sac": 16, "phi": 8}
    seconds = [run.metrics()[-1]["train_seconds"] for run in stages.runs(whole)]
    assert facts["training_seconds_per_1000_updates"] == pytest.approx(sum(seconds) / 16 * 1000)
    left = [list(run.checkpoints()) for run in stages.runs(Run.open(tmp_path / "edl"))]
    assert left == [[4], [4]]


def test_on_point_exploration_covers_more_than_chance_and_skills_reach_their_codes():
    small = [f"{where}.hidden=[64]" for where in ("method", "method.first.method")]
    config = with_changes(get_recipe("laptop", "point", "edl", SkillConfig("discrete", 10)), ("engine=jax", *small))
    explorer, learner = train.assemble(stages.earlier(config)), train.assemble(config)
    key = jax.random.split(jax.random.key(0), 1)

    explored, _ = train.make_driver(explorer)(train.init(explorer), 120)
    skill = train.sample_skills(explorer, key, 200)
    rollout = train.make_skill_rollout(explorer, mode=False)(explored.learner.sac.policy, skill, key)
    covered = measure_coverage(np.asarray(rollout.obs[0]))
    random = np.random.default_rng(0).uniform(-1, 1, (10, 200, 2)).cumsum(axis=0)
    assert covered > 1.5 * measure_coverage(random) > 100

    @jax.jit
    def summarise(replay):
        states = States(learner.view.for_method(replay.data.next_obs[0]), replay.size[0])
        fitted = vqvae.init(config.method, 10, 2, key[0])
        return vqvae.summarise(vqvae.fit(config.method, states, fitted, jnp.int32(1500))[0].model, states)

    found = summarise(explored.replay)
    assert (found.share > 0).sum() >= 7

    begun, method = train.init(learner), jax.jit(jax.vmap(with_goals))(found.goal[None], found.spread[None])
    learned, _ = train.make_driver(learner)(begun._replace(learner=begun.learner._replace(method=method)), 200)
    ends = train.make_skill_rollout(learner)(learned.learner.sac.policy, jnp.eye(10)[None], key).obs[0, -1]
    goals = np.asarray(found.goal) * np.array(learner.world.spec.obs_std)
    assert np.linalg.norm(goals, axis=1).mean() > 2.0  # there was a way to go
    assert np.linalg.norm(ends - goals, axis=1).mean() < 0.5
