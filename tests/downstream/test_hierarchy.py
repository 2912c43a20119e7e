"""Controllers over skills: decisions, statistics, learners; learning that pays; files, and what is refused."""

import dataclasses
import functools
import json
import tempfile
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from helpers import Outside, tiny_config
from trained import copy_of, trained
from wanderlust import recipes, train
from wanderlust.config import SkillConfig
from wanderlust.downstream import request, saved, settings, solve, training
from wanderlust.downstream.controllers import hierarchy, learners
from wanderlust.downstream.controllers.learners import make_learner, normalised, update_moments
from wanderlust.downstream.controllers.options import (
    Choice,
    ControlledSkills,
    Decisions,
    HighLevelPolicy,
    make_option_rollout,
    random_policy,
    returns,
    set_up_task,
)
from wanderlust.downstream.settings import SETTINGS, ControllerSetting, get_setting
from wanderlust.downstream.tasks import make_task
from wanderlust.errors import UserError
from wanderlust.rl.moments import Moments, unit_moments
from wanderlust.rl.ppo import PpoConfig
from wanderlust.runs.learned import Learned
from wanderlust.runs.run import Run

KEY = jax.random.key(0)
KEYS = jax.random.split(KEY, 2)


def setup_of(parts, **changes):
    return set_up_task(parts, make_task("point-goal", **changes))


PARTS = train.assemble(tiny_config())
DIRECT = HighLevelPolicy(
    choose=lambda parameters, seen, key: Choice(jnp.clip(seen[:, 2:] - seen[:, :2], -1, 1), seen[:, 2:]),
    act=lambda parameters, obs, skill: skill,
    option_length=4,
)
"""Goes towards the goal; whatever it began it holds for four steps."""


# --- rollouts ---------------------------------------------------------------------------------------------------------


def test_a_skill_is_held_and_then_chosen_anew():
    setup = setup_of(PARTS, slot=10, radius=0.01, goal_range=100.0)
    fixed = HighLevelPolicy(
        lambda _, seen, key: Choice(jax.random.uniform(key, (3, 2))), lambda _, obs, skill: skill, option_length=4
    )
    decisions = jax.jit(lambda keys: make_option_rollout(setup, fixed, paths=True)((), keys, 3))(KEYS)
    assert decisions.seen.shape == (3, 2, 3, 4) and decisions.path.shape == (
        3,
        4,
        2,
        3,
        4,
    )  # 10 steps are three decisions of four
    skill = np.asarray(decisions.choice.skill)
    steps = np.asarray(decisions.steps)
    assert steps[:, 0, 0].tolist() == [4, 4, 2]
    np.testing.assert_allclose(
        decisions.seen_next[..., :2] - decisions.seen[..., :2], skill * steps[..., None], rtol=1e-5
    )
    np.testing.assert_array_equal(decisions.seen[1:], decisions.seen_next[:-1])
    np.testing.assert_array_equal(decisions.path[:, -1], decisions.seen_next)
    np.testing.assert_allclose(decisions.path[0, 0, ..., :2], skill[0], rtol=1e-6)
    assert len({tuple(z) for z in skill.reshape(-1, 2)}) == 18  # every seed, world and turn has its own
    assert np.asarray(decisions.truncated).sum(axis=0).tolist() == [[1] * 3] * 2 and not np.any(decisions.terminated)


def test_rewards_are_summed_until_an_episode_ends_and_nothing_counts_after_it():
    setup = setup_of(PARTS, slot=40, goal_range=5.0, radius=1.0)
    decisions = jax.jit(lambda keys: make_option_rollout(setup, DIRECT)((), keys, 20))(KEYS)
    np.testing.assert_array_equal(returns(decisions), np.ones((2, 20)))
    valid, over = np.asarray(decisions.valid), np.asarray(decisions.terminated)
    assert valid[0].all() and not valid[-1].any()
    np.testing.assert_array_equal(valid[1:], valid[:-1] & ~over[:-1])
    away = np.linalg.norm(np.asarray(decisions.seen_next)[..., :2] - np.asarray(decisions.seen_next)[..., 2:], axis=-1)
    assert np.all(away[over] <= 1.0) and np.all(np.asarray(decisions.steps)[~valid] == 0)


def test_an_engine_outside_gives_the_same_decisions():
    setup = setup_of(PARTS, slot=10, goal_range=6.0, radius=1.0)
    inside = jax.jit(lambda keys: make_option_rollout(setup, DIRECT, paths=True)((), keys, 5))(KEYS)
    engine = Outside(setup.engine)
    outside = make_option_rollout(dataclasses.replace(setup, engine=engine), DIRECT, paths=True)((), KEYS, 5)
    used = np.asarray(inside.valid)
    for name in ("seen", "reward", "seen_next", "terminated", "truncated", "steps"):
        np.testing.assert_allclose(getattr(outside, name)[used], getattr(inside, name)[used], atol=1e-6)
    np.testing.assert_array_equal(outside.valid, used)
    np.testing.assert_allclose(outside.choice.note[used], inside.choice.note[used])
    np.testing.assert_allclose(outside.path, inside.path, atol=1e-6)
    assert engine.calls <= 10


def test_goals_between_skills_and_bodies_stand_for_some_steps_inside_and_outside():
    setup = setup_of(PARTS, slot=14, radius=0.01, goal_range=100.0)
    policy = HighLevelPolicy(
        choose=lambda _, seen, key: Choice(jax.random.uniform(key, (3, 2))),
        act=lambda _, obs, command: command[:, :2] / 2 + command[:, 2:] / 100,
        option_length=7,
        command=lambda _, obs, command: jnp.concatenate([command[:, :2], obs], axis=1),
        command_length=3,
    )
    inside = jax.device_get(jax.jit(lambda keys: make_option_rollout(setup, policy, paths=True)((), keys, 3))(KEYS))
    outside = make_option_rollout(dataclasses.replace(setup, engine=Outside(setup.engine)), policy, paths=True)(
        (), KEYS, 3
    )
    np.testing.assert_allclose(outside.path, inside.path, atol=1e-5)
    for turn in range(2):
        path = np.concatenate([inside.seen[turn][None], inside.path[turn]])[..., :2]
        decided = path[[0, 0, 0, 3, 3, 3, 6]]  # where the skill was taken up, and again every three steps
        np.testing.assert_allclose(np.diff(path, axis=0), inside.choice.skill[turn] / 2 + decided / 100, atol=1e-5)


# --- what a controller sees -----------------------------------------------------------------------------------------


def test_one_observation_moves_the_statistics_by_the_formula():
    before = Moments(jnp.array([1.0, 0.0]), jnp.array([2.0, 1.0]))
    o = jnp.array([4.0, -1.0])
    after = jax.jit(lambda: update_moments(before, o[None, None], jnp.ones((1, 1), bool), 0.001))()
    delta = np.asarray(o) - np.asarray(before.mean)
    np.testing.assert_allclose(after.mean, before.mean + 0.001 * delta, rtol=1e-6)
    np.testing.assert_allclose(after.variance, 0.999 * (np.asarray(before.variance) + 0.001 * delta**2), rtol=1e-5)


def test_many_observations_move_them_as_often_and_gaps_do_not():
    seen = np.random.default_rng(0).normal(3.0, 2.0, (20, 10, 1)).astype(np.float32)
    valid = np.arange(20)[:, None] < np.arange(1, 11)[None]
    moments = []
    for order in range(100):  # one by one, later ones count a little more: on average none does
        mean, variance = 0.0, 1.0
        for o in np.random.default_rng(order).permutation(seen[valid][:, 0]):
            delta = o - mean
            mean, variance = mean + 0.001 * delta, 0.999 * (variance + 0.001 * delta**2)
        moments.append((mean, variance))
    mean, variance = np.mean(moments, axis=0)
    holes = np.where(valid[..., None], seen, 1e6).astype(np.float32)
    moved = jax.jit(lambda: update_moments(unit_moments(1), holes, valid, 0.001))()
    np.testing.assert_allclose(moved.mean, [mean], rtol=0.003)
    np.testing.assert_allclose(moved.variance, [variance], rtol=0.01)
    np.testing.assert_allclose(
        normalised(moved, jnp.array([[3.0]]))[0], (3 - moved.mean) / moved.variance**0.5, rtol=1e-5
    )


# --- what learners make of decisions ---------------------------------------------------------------------------------


def one_turn(seen, chosen, reward, holes=False):
    """Decisions of one seed that end at once; with holes, a second turn after the end."""
    no, yes = jnp.zeros(reward.shape, bool), jnp.ones(reward.shape, bool)
    decisions = Decisions(seen, chosen, reward, seen, yes, no, yes, yes.astype(jnp.int32))
    decisions = jax.tree.map(lambda x: x[None], decisions)
    if not holes:
        return decisions
    second = jax.tree.map(lambda x: jnp.full_like(x, 7) if x.dtype != bool else jnp.zeros_like(x), decisions)
    second = second._replace(reward=second.reward * jnp.nan, seen=second.seen * jnp.nan)
    return jax.tree.map(lambda *x: jnp.concatenate(x), decisions, second)


def learn_a_bandit(discrete, **changes):
    """One choice pays best: the skill (1.6, -0.8), or skill 2 of 3; observations say nothing."""
    parts = train.assemble(tiny_config(discrete=3 if discrete else None))
    setting = dataclasses.replace(SETTINGS["laptop", "ppo" if discrete else "sac"], episodes=64, batch=0)
    names = ("learning_rate",) if discrete else ("policy_learning_rate", "critic_learning_rate")
    small = dataclasses.replace(setting.learner, hidden=(32, 32), **dict.fromkeys(names, 5e-3))
    setting = dataclasses.replace(setting, learner=small, **changes)
    learner = make_learner(parts, setup_of(parts, slot=10), setting, option_length=5)  # two decisions an episode

    def pays(skill):
        return skill[:, 2] if discrete else -jnp.sum((skill - jnp.array([[1.6, -0.8]])) ** 2, axis=1)

    @jax.jit
    def learn(key):
        state, memory, statistics = learner.algorithm.init(key), learner.memory(), unit_moments(4)

        def epoch(carry, key):
            state, memory = carry
            a, b = jax.random.split(key)
            seen = jnp.zeros((64, 4))
            chosen = learner.choose(learner.policy(state), seen, a)
            decisions = one_turn(seen, chosen, pays(chosen.skill), holes=True)
            state, memory, metrics = learner.learn(state, memory, decisions, statistics, b)
            return (state, memory), metrics

        (state, _), metrics = jax.lax.scan(epoch, (state, memory), jax.random.split(key, 15))
        return learner.choose(learner.policy(state), jnp.zeros((1, 4))).skill[0], metrics

    return learn(KEY)


@pytest.mark.parametrize("changes", [{"batch": 64}, {"batch": 0, "collections": 1}])
def test_sac_finds_the_skill_that_pays_and_never_reads_gaps(changes):
    skill, metrics = learn_a_bandit(discrete=False, **changes)
    np.testing.assert_allclose(skill, [1.6, -0.8], atol=0.35)
    assert all(np.all(np.isfinite(x)) for x in metrics.values())


def test_ppo_finds_the_skill_that_pays_and_never_reads_gaps():
    skill, metrics = learn_a_bandit(discrete=True)
    np.testing.assert_array_equal(skill, [0, 0, 1])
    assert all(np.all(np.isfinite(x)) for x in metrics.values())


def test_skills_are_chosen_from_minus_two_to_two():
    parts = train.assemble(tiny_config())
    learner = make_learner(parts, setup_of(parts), get_setting("laptop", "sac", "point"), option_length=10)
    chosen = jax.jit(lambda k: learner.choose(learner.policy(learner.algorithm.init(k)), 100 * jnp.ones((999, 4)), k))(
        KEY
    )
    np.testing.assert_allclose(chosen.skill, 2.0 * chosen.note)
    assert 1.9 < np.abs(chosen.skill).max() <= 2.0


def test_skills_that_are_directions_are_chosen_by_their_direction():
    parts = train.assemble(tiny_config("metra", skills_unit_length=True))
    learner = make_learner(parts, setup_of(parts), get_setting("laptop", "sac", "point"), option_length=10)
    policy, seen = learner.policy(learner.algorithm.init(KEY)), jax.random.normal(KEY, (99, 4))
    chosen, decided = jax.jit(lambda k: (learner.choose(policy, seen, k), learner.choose(policy, seen).skill))(KEY)
    length = np.linalg.norm(chosen.note, axis=1, keepdims=True)
    assert length.min() < 0.5 and length.max() > 1  # what SAC learns from is the action as it was drawn
    np.testing.assert_allclose(chosen.skill, chosen.note / length, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(decided, axis=1), 1.0, rtol=1e-5)


def test_a_full_batch_holds_every_choice():
    kept = SimpleNamespace(size=5)
    rows = np.asarray(learners._rows(kept, KEY, 0, 8))
    assert rows[:5].tolist() == [0, 1, 2, 3, 4] and np.all(rows[5:] < 5)
    assert np.all(np.asarray(learners._rows(kept, KEY, 100, 8)) < 5)


def test_the_paper_s_numbers():
    sac, ppo = get_setting("paper", "sac", "ant"), get_setting("paper", "ppo", "ant")
    assert (sac.episodes, sac.steps, sac.batch, sac.collections) == (10, 4, 0, 1)
    learner = sac.learner
    rates = {learner.policy_learning_rate, learner.critic_learning_rate, learner.alpha_learning_rate}
    assert (learner.hidden, rates, learner.discount, learner.learn_alpha) == ((512, 512), {3e-4}, 0.995, True)
    assert (ppo.episodes, ppo.steps, ppo.batch) == (64, 10, 256)
    assert ppo.learner == PpoConfig((512, 512), 3e-4, 0.995, trace=0.95, clip=0.2, entropy=0.01)
    assert [
        settings.usual_option_length(make_task(t).env) for t in ("ant-goal", "cheetah-hurdle", "humanoid-goal")
    ] == [
        25,
        25,
        125,
    ]


# --- training ---------------------------------------------------------------------------------------------------------

_folder = tempfile.TemporaryDirectory(prefix="wanderlust-hierarchy-")


@functools.cache
def skilled(discrete) -> Run:
    """Point skills of LSD that go somewhere."""
    space = SkillConfig("discrete", discrete) if discrete else SkillConfig()
    config = recipes.get_recipe("laptop", "point", "lsd", space)
    schedule = dataclasses.replace(config.schedule, epochs=100)
    config = dataclasses.replace(config, schedule=schedule)
    run, parts = Run.create(Path(_folder.name) / str(space), config), train.assemble(config)
    state, _ = train.make_driver(parts)(train.init(parts), schedule.epochs)
    run.save(schedule.epochs, train.to_save(state))
    return run


@functools.cache
def tiny_training(seeds, outside=False):
    parts = train.assemble(tiny_config(seeds=2))
    state = train.init(parts).learner
    learned = Learned(state.sac.policy, state.method)  # any skills will do
    setup = setup_of(parts, slot=12)
    setup = dataclasses.replace(setup, engine=Outside(setup.engine)) if outside else setup
    setting = dataclasses.replace(SETTINGS["laptop", "sac"], episodes=3, steps=2, batch=8, collections=2)
    setting = dataclasses.replace(setting, learner=dataclasses.replace(setting.learner, hidden=(8,)))
    learner = make_learner(parts, setup, setting, option_length=5)
    state = hierarchy.start_training(learner, jnp.array(seeds))
    mine = jax.tree.map(lambda x: x[np.array(seeds)], learned)
    epoch, log = hierarchy.make_epoch(parts, setup, learner), []
    for _ in range(3):
        state, metrics = epoch(state, mine)
        log.append(metrics)
    return jax.device_get((hierarchy.controllers(learner, state), jax.tree.map(lambda *x: jnp.stack(x), *log)))


def test_a_seed_s_outcome_does_not_depend_on_its_neighbours():
    alone, both = tiny_training((1,)), tiny_training((0, 1))
    of_one = jax.tree.map(lambda x: x[1:], both[0]), {name: x[:, 1:] for name, x in both[1].items()}
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), alone, of_one)
    assert both[1]["return"].shape == (3, 2)
    first = jax.tree.leaves(both[0])[0]
    assert not np.allclose(first[0], first[1])


def test_epochs_compile_once(monkeypatch):
    traced = []
    monkeypatch.setattr(hierarchy, "returns", lambda decisions: (traced.append(1), returns(decisions))[1])
    setup, setting = setup_of(PARTS, slot=12), dataclasses.replace(SETTINGS["laptop", "sac"], episodes=3)
    setting = dataclasses.replace(setting, steps=2, learner=dataclasses.replace(setting.learner, hidden=(8,)))
    learner, skills = make_learner(PARTS, setup, setting, option_length=5), train.init(PARTS).learner
    epoch, learned = hierarchy.make_epoch(PARTS, setup, learner), Learned(skills.sac.policy, skills.method)
    ends, compiled = [], 0
    for _ in range(2):
        state, log = hierarchy.start_training(learner, jnp.array([0])), []
        for _ in range(3):
            state, metrics = epoch(state, learned)
            assert metrics["return"].shape == (1,)
            log.append(metrics["env_steps"])
            compiled = compiled or len(traced)
        ends.append(jax.device_get((hierarchy.controllers(learner, state), jnp.concatenate(log))))
    jax.tree.map(np.testing.assert_array_equal, *ends)
    assert len(traced) == compiled > 0


def test_seeds_begin_differently():
    learner = make_learner(PARTS, setup_of(PARTS), get_setting("laptop", "ppo", "point"), option_length=10)
    state = hierarchy.start_training(learner, jnp.array([3, 4]))
    assert not np.array_equal(*jax.random.key_data(state.key))
    assert not np.array_equal(*state.learner.networks.policy.layers[0].weight)


def test_engines_inside_and_outside_train_the_same_controller():
    inside, outside = tiny_training((0, 1)), tiny_training((0, 1), outside=True)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), inside, outside)


def test_statistics_follow_what_is_seen():
    controllers, _ = tiny_training((0, 1))
    assert np.all(np.abs(controllers.statistics.mean[:, 2:]) > 0)  # goals
    assert not np.any(controllers.statistics.variance == 1.0)


@pytest.mark.parametrize(("discrete", "controller"), [(None, "sac"), (8, "ppo")])
def test_learning_beats_random_skills(discrete, controller, monkeypatch):
    run, setting = skilled(discrete), SETTINGS["laptop", controller]
    names = ("learning_rate",) if discrete else ("policy_learning_rate", "critic_learning_rate")
    learner = dataclasses.replace(setting.learner, hidden=(32, 32), **dict.fromkeys(names, 3e-3))
    monkeypatch.setitem(SETTINGS, ("laptop", controller), dataclasses.replace(setting, learner=learner, steps=32))
    result = solve.solve(run, "point-goal", controller, seeds=2, epochs=20, worlds=40, episodes=100, quiet=True)
    earned, chance = result["return"], result["random"]
    assert min(earned["per_seed"]) > 0.8 and max(chance["per_seed"]) < 0.6, (earned, chance)
    assert earned["mean"] - chance["mean"] > 0.3
    rows = [json.loads(line) for line in (solved(run, controller) / "curve.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows] == [5, 10, 15, 20] and len(rows[0]["return"]) == 2
    assert np.mean(rows[-1]["return"]) > np.mean(rows[0]["return"]) + 0.2
    assert 0 < rows[0]["env_steps"] <= 5 * 40 * 100


def solved(run, controller, task="point-goal"):
    return request.result_folder(run, task, controller)


# --- the whole of it, its files, and what is refused -----------------------------------------------------------------

QUICK = {"epochs": 2, "worlds": 2, "episodes": 4, "quiet": True}
TINY = make_task("point-goal", slot=10)


@pytest.fixture
def small(monkeypatch):
    """Controllers that compile and learn in a moment."""
    for key, setting in SETTINGS.items():
        learner = dataclasses.replace(setting.learner, hidden=(8,))
        quick = ControllerSetting(learner, epochs=4, episodes=2, steps=1, batch=4, log_every=1)
        monkeypatch.setitem(SETTINGS, key, quick)


def test_everything_is_written_and_can_be_measured_again(small, tmp_path, command_line):
    run = copy_of(trained(), tmp_path / "run")
    code, out, err = command_line(
        "downstream", run.path, "--task", "point-goal", "--controller", "sac", "--epochs", 2, "--episodes", 5,
        "--seeds", 3,
    )  # fmt: skip
    assert code == 0, err
    folder = solved(run, "sac")
    names = {
        "result.json",
        "curve.jsonl",
        "controller.safetensors",
        "paths.safetensors",
        "learning_curve.png",
        "learning_curve.svg",
    }
    assert {path.name for path in folder.iterdir()} == {*names, "paths.png", "paths.svg"}
    assert "random skills" in out and "sac" in out and "of the goals, a return" in out
    result = json.loads((folder / "result.json").read_text())
    assert (result["seeds"], result["epoch"], result["hold"], result["most"]) == ([0, 1, 2], 2, 10, 1.0)
    for bound in ("speed_bound", "start_bound"):
        assert set(result[bound]) == {"speed", "distance", "share", "bound"}

    again = solve.solve(run, "point-goal", "sac", measure_only=True, episodes=5, quiet=True)
    assert again["return"]["per_seed"] == result["return"]["per_seed"]
    assert (again["seeds"], again["epoch"], again["recipe"]) == ([0, 1, 2], 2, result["recipe"])


def arrays(path):
    return {name: values.tobytes() for name, values in safetensors.numpy.load_file(path).items()}


def test_after_ctrl_c_learning_goes_on_to_the_same_end(small, tmp_path, monkeypatch):
    run = copy_of(trained(), tmp_path / "run")
    whole = solve.solve(run, TINY, "sac", episodes=3, quiet=True)
    folder = solved(run, "sac")
    curve, learned = (folder / "curve.jsonl").read_text(), arrays(folder / "controller.safetensors")
    names = {path.name for path in folder.iterdir()}

    class Pressed:
        def __enter__(self):
            return lambda: True

        def __exit__(self, *_):
            return None

    with monkeypatch.context() as patch:
        patch.setattr(training, "stop_signals", Pressed)
        with pytest.raises(KeyboardInterrupt, match="stopped at epoch 1 of 4; the same command with --resume"):
            solve.solve(run, TINY, "sac", episodes=3, quiet=True, replace=True)
    kept = saved.load(folder / "controller.safetensors", saved.FORMAT, PARTS, setup_of(PARTS))
    assert (kept.epoch, kept.seeds, kept.learner.option_length) == (1, (0, 1, 2, 3), 10)
    assert kept.controllers.statistics.mean.shape == (4, 4)
    with pytest.raises(UserError, match="is not a wanderlust-controller-1"):
        saved.load(folder / "training.safetensors", saved.FORMAT, PARTS, setup_of(PARTS))

    again = solve.solve(run, TINY, "sac", episodes=3, quiet=True, resume=True)
    assert again["return"] == whole["return"] and again["epoch"] == 4
    assert arrays(folder / "controller.safetensors") == learned
    assert {path.name for path in folder.iterdir()} == names  # what was needed to go on is gone
    one, other = (
        [json.loads(line) for line in text.splitlines()] for text in (curve, (folder / "curve.jsonl").read_text())
    )
    for a, b in zip(one, other, strict=True):
        assert {**a, "seconds": 0} == {**b, "seconds": 0}
    assert [row["seconds"] for row in other] == sorted(row["seconds"] for row in other)
    with pytest.raises(UserError, match="there is nothing to go on with"):
        solve.solve(run, TINY, "sac", quiet=True, resume=True)


def test_random_skills_are_their_own_measure(tmp_path):
    run = copy_of(trained(), tmp_path / "run")
    result = solve.solve(run, TINY, "random", seeds=2, episodes=3, quiet=True)
    assert result["return"]["per_seed"] == result["random"]["per_seed"]
    assert result["setting"] is None and not (solved(run, "random") / "curve.jsonl").exists()


def test_random_skills_are_drawn_as_discovery_drew_them():
    parts = train.assemble(tiny_config(discrete=3))
    policy = random_policy(parts, 5)
    skill = np.asarray(policy.choose(ControlledSkills(Learned((), ())), jnp.zeros((3000, 4)), KEY).skill)
    np.testing.assert_allclose(skill.mean(axis=0), 1 / 3, atol=0.04)
    assert set(skill.sum(axis=1)) == {1.0}


@pytest.mark.parametrize(
    ("discrete", "options", "complaint"),
    [
        (None, {"controller": "ppo"}, "ppo chooses discrete skills; these are continuous: use --controller sac"),
        (3, {"controller": "sac"}, "sac chooses continuous skills; these are discrete: use --controller ppo"),
        (None, {"task": "ant-goal"}, "ant-goal is a task of 'ant'; these skills are of 'point'"),
        (None, {"task": "go"}, "there is no task 'go'"),
        (None, {"controller": "luck"}, "--controller is 'luck'; it must be one of zero-shot, sac, ppo"),
        (None, {"controller": "mppi"}, "mppi plans over skill dynamics, which lsd does not learn; known: dads"),
        (None, {"epochs": 3}, "--epochs is for controllers that learn, sac and ppo"),
        (None, {"recipe": "fast"}, "--recipe is for controllers that learn"),
        (None, {"controller": "sac", "recipe": "slow"}, "--recipe is 'slow'; controllers have paper, fast, laptop"),
        (None, {"controller": "sac", "epochs": 0}, "--epochs is 0; it must be at least 1"),
        (None, {"seeds": 0}, "--seeds is 0"),
        (None, {"seed": -1}, "--seed is -1"),
        (None, {"episodes": 0}, "--episodes is 0"),
        (None, {"hold": 3}, "--hold is not for --controller zero-shot"),
        (None, {"controller": "sac", "measure_only": True}, "there is no controller"),
        (None, {"controller": "sac", "measure_only": True, "seeds": 2}, "leave out --seeds"),
        (None, {"controller": "sac", "resume": True, "hold": 2}, "--resume goes on as it was begun; leave out --hold"),
        (None, {"controller": "sac", "resume": True, "seed": 3}, "leave out --seed"),
        (None, {"controller": "sac", "resume": True, "measure_only": True}, "choose one"),
        (None, {"resume": True}, "--resume is for controllers that learn"),
    ],
)
def test_what_does_not_go_together_is_one_line(discrete, options, complaint):
    run = Run(trained().path, tiny_config(discrete=discrete))  # refused before anything is read
    with pytest.raises(UserError) as refused:
        solve.solve(run, **{"task": "point-goal", "quiet": True, **options})
    assert complaint in str(refused.value) and "\n" not in str(refused.value)
    assert not (run.path / "downstream").exists()


def test_tasks_without_goals_cannot_be_followed_and_foreign_files_not_read(tmp_path):
    ant = SimpleNamespace(
        config=dataclasses.replace(tiny_config(), env=recipes.get_recipe("laptop", "ant", "lsd", SkillConfig()).env)
    )
    with pytest.raises(UserError, match="zero-shot follows goals, and ant-rotation has none: use --controller sac"):
        request.check_request(request.Request(make_task("ant-rotation"), "zero-shot"), ant)
    for method, instead in (("dads", "mppi, which plans,"), ("ibol", "sac")):
        config = SimpleNamespace(method=SimpleNamespace(name=method), skills=SkillConfig(), env=tiny_config().env)
        with pytest.raises(UserError, match=f"{method} has no skill for a goal at once: use --controller {instead}"):
            request.check_request(request.Request(TINY, "zero-shot"), SimpleNamespace(config=config))
    run = copy_of(trained(), tmp_path / "run")
    (solved(run, "sac")).mkdir(parents=True)
    (solved(run, "sac") / "controller.safetensors").write_bytes((max(run.path.glob("checkpoints/*"))).read_bytes())
    with pytest.raises(UserError, match="is not a wanderlust-controller-1"):
        solve.solve(run, "point-goal", "sac", measure_only=True, quiet=True)
