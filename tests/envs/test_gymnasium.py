"""Gymnasium environments as worlds: what is found about them, what a step is, what happens when they go wrong."""

import dataclasses
import json
import sys
from pathlib import Path

import gymnasium
import jax
import numpy as np
import pytest

import wanderlust
import wanderlust.api
from helpers import tiny_config
from wanderlust import train
from wanderlust.envs import make_engine, make_world
from wanderlust.envs.base import WorldState
from wanderlust.envs.worlds.gymnasium import GymnasiumWorld
from wanderlust.errors import UserError
from wanderlust.recipes import get_recipe, usual_skills
from wanderlust.registry import Ours, Registry
from wanderlust.runs.learned import Learned
from wanderlust.runs.loading import Skills
from wanderlust.train import loop

MINE = "gymnasium:gym_envs:"


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


def config_of(name, **fields):
    return GymnasiumWorld.Config(name, **{"episode_length": 5, "starts": 8, **fields})


def world_of(name, **fields):
    return make_world(config_of(name, **fields))


def started(world, seeds):
    states = jax.vmap(world.initial)(jax.random.split(jax.random.key(0), 64))
    of_seed = {int(row[-1]): row for row in np.asarray(states.physics)}
    return WorldState(np.array([of_seed[seed] for seed in seeds]), np.zeros((len(seeds), 0), np.float32))


def test_steps_are_those_of_the_environment_itself():
    world = world_of("gymnasium:Pendulum-v1")
    spec, engine = world.spec, make_engine(world)
    assert (spec.obs_dim, spec.action_dim, spec.position) == (3, 1, ())
    state, actions = started(world, [3, 0, 5]), np.array([[0.5], [-1.0], [0.1]], np.float32)
    alone = [gymnasium.make("Pendulum-v1") for _ in range(3)]
    assert np.allclose(world.observe(state), [e.reset(seed=s)[0] for e, s in zip(alone, (3, 0, 5), strict=True)])
    for _ in range(4):
        state = engine.step(state, actions)
        expected = [env.step(2.0 * action)[0] for env, action in zip(alone, actions, strict=True)]
        assert np.allclose(world.observe(state), expected, atol=1e-6)
    for env in alone:
        env.close()


def test_a_body_whose_place_is_left_out_gets_it_back():
    world = world_of("gymnasium:Hopper-v5")
    spec, engine = world.spec, make_engine(world)
    assert (spec.obs_dim, spec.groups["position"], spec.groups["orientation"]) == (12, (0,), (2,))
    assert world.entry_names[:3] == ("rootx", "rootz", "rooty") and world.coordinates["qpos"] == tuple(range(6))
    assert any("leaves out where the root body is" in note for note in world.notes)
    env = gymnasium.make("Hopper-v5")
    first = env.reset(seed=2)[0]
    state = started(world, [2])
    assert np.allclose(state.physics[0, 1:12], first, atol=1e-6) and state.physics[0, 0] == np.float32(
        env.unwrapped.data.qpos[0]
    )
    state = engine.step(state, np.ones((1, 3), np.float32))
    env.step(np.ones(3))
    assert np.allclose(state.physics[0, :6], env.unwrapped.data.qpos, atol=1e-6)
    env.close()


def test_a_body_gets_the_numbers_of_any_body():
    found = GymnasiumWorld.configure("gymnasium:Hopper-v5", {"starts": 8})
    assert found.episode_length == 500  # 5 s of 0.008 s each would be more
    config = get_recipe("laptop", found, "lsd", usual_skills("lsd"))
    moved = make_world(found).moved
    assert 0.01 < moved < 0.2 and config.sac.alpha == pytest.approx(0.1 * moved / 0.09, rel=0.01)
    assert (config.env.focus, config.method.reward_scale, config.schedule.sac_steps) == ("position", 10, 256)
    clock = get_recipe("laptop", config_of("gymnasium:Pendulum-v1"), "lsd", usual_skills("lsd"))
    assert (clock.env.focus, clock.method.reward_scale) == ("", 1.0), "it has no place"


def test_a_dictionary_is_flattened_and_its_names_are_groups():
    world = world_of(f"{MINE}Parts-v0")
    assert world.spec.groups == {"clock": (0,), "thing": (1, 2, 3, 4, 5), "thing.at": (1, 2), "thing.kind": (3, 4, 5)}
    state = make_engine(world).step(started(world, [1]), np.zeros((1, 2), np.float32))
    clock, *_, first, second, third = np.asarray(world.observe(state))[0]
    assert clock == 1.0 and (first, second, third) == (0, 1, 0)


def test_actions_reach_from_the_lowest_to_the_highest():
    world = world_of(f"{MINE}Drifts-v0")
    before = started(world, [0, 1, 2])
    after = make_engine(world).step(before, np.array([[-1, -1], [1, 1], [0, 5]], np.float32))
    moved = np.asarray(world.observe(after) - world.observe(before))
    assert np.allclose(moved, [[-2, 0, 1], [2, 1, 1], [0, 1, 1]], atol=1e-6)


@pytest.mark.parametrize(("options", "terminated", "truncated"), [({"ends": 3}, 1, 0), ({"cuts": 3}, 0, 1)])
def test_no_transition_crosses_a_reset_and_the_last_step_is_what_it_produced(options, terminated, truncated):
    """An episode that ends in its third step, or is cut there by the environment."""
    config = tiny_config(engine="gymnasium", driver="split", schedule_steps=9, seeds=2)
    env = config_of(f"{MINE}Drifts-v0", kwargs=json.dumps(options))
    config = dataclasses.replace(config, env=env)
    parts = train.assemble(config)
    state = train.init(parts)
    driver = train.make_driver(parts)
    made, age = driver.collect(state)[2]
    length = 3
    clock = np.asarray(made.obs)[..., 2]
    assert np.array_equal(clock, np.asarray(age)) and np.array_equal(np.asarray(made.next_obs)[..., 2], clock + 1)
    last = clock == length - 1
    assert last.sum() == 8 * (9 // length)
    assert np.array_equal(made.terminated, last & bool(terminated))
    assert np.array_equal(made.truncated, last & bool(truncated))
    moved = np.asarray(made.next_obs - made.obs)[..., :2]
    scaled = np.asarray(made.action) * [2.0, 0.5] + [0.0, 0.5]
    assert np.allclose(moved, scaled, atol=1e-5)


def test_whole_episodes_leave_training_where_it_is():
    world = world_of(f"{MINE}Drifts-v0")
    engine = make_engine(world)
    still = np.zeros((2, 2), np.float32)
    state = engine.step(started(world, [0, 1]), still)
    beside = engine.for_episodes()
    assert beside is not engine and beside is engine.for_episodes()
    beside.step(started(world, [4, 5]), still)
    assert np.asarray(world.observe(engine.step(state, still)))[:, 2].tolist() == [2, 2]


def test_it_cannot_be_set_to_a_state():
    world = world_of(f"{MINE}Drifts-v0")
    engine, still = make_engine(world), np.zeros((1, 2), np.float32)
    state = engine.step(started(world, [0]), still)
    engine.step(state, still)
    with pytest.raises(UserError, match="cannot be set to a state"):
        engine.step(state, still)


def test_a_world_that_raises_is_restarted_alone_and_too_many_restarts_end_the_run():
    world = world_of(f"{MINE}Raises-v0", restarts=1)
    engine, actions = make_engine(world), np.array([[1, 0], [0, 0]], np.float32)
    state = started(world, [0, 1])
    for _ in range(4):
        before, state = state, engine.step(state, actions)
    assert np.asarray(jax.vmap(world.truncated)(state)).tolist() == [True, False]
    assert np.array_equal(world.observe(state)[0], world.observe(before)[0])
    assert np.asarray(world.observe(state))[1, 2] == 4
    (news,) = engine.news()
    assert "world 0 raised ValueError: out of reach" in news and "1 of at most 1" in news and engine.restarts == 1
    state.physics[0] = started(world, [3]).physics[0]  # autoreset: a fresh start
    with pytest.raises(UserError, match="more than 1 restarts"):
        for _ in range(4):
            state = engine.step(state, actions)


def test_a_process_that_hangs_is_restarted(monkeypatch):
    monkeypatch.setattr("wanderlust.envs.engines.gymnasium.cores", lambda: 2)
    world = world_of(f"{MINE}Hangs-v0", patience=2.0)
    engine, actions = make_engine(world), np.array([[1, 0], [0, 0]], np.float32)
    state = started(world, [0, 1])
    for _ in range(3):
        state = engine.step(state, actions)
    state = engine.step(state, actions)
    assert np.asarray(jax.vmap(world.truncated)(state)).tolist() == [True, False] and engine.restarts == 1
    assert np.asarray(world.observe(state))[1, 2] == 4
    state.physics[0] = started(world, [3]).physics[0]
    assert np.asarray(world.observe(engine.step(state, 0 * actions)))[:, 2].tolist() == [1, 5]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("gymnasium:NoSuch-v0", "no such environment: Environment `NoSuch` doesn't exist"),
        ("gymnasium:CartPole-v1", "its actions are Discrete"),
        (f"{MINE}NoReset-v0", r"reset\(seed=0\) raises RuntimeError: no simulator here"),
        (f"{MINE}NotANumber-v0", "not a number"),
        (f"{MINE}Unseeded-v0", "does not start twice in the same state"),
        (f"{MINE}Sees-v0", r"observes images \(\(8, 8, 3\)\)"),
        ("gymnasium:no_such_module:X-v0", "No module named 'no_such_module'"),
    ],
)
def test_what_cannot_be_a_world_says_why_in_one_line(name, words, command_line, tmp_path):
    out = tmp_path / "run"
    code, _, err = command_line("discover", name, "--out", out)
    assert code == 2 and err.count("\n") == 1 and not out.exists()
    with pytest.raises(UserError, match=words):
        _ = world_of(name).spec


def test_a_missing_package_is_named():
    if "Box2D" not in sys.modules and not any((Path(p) / "Box2D").exists() for p in sys.path):
        with pytest.raises(UserError, match=r"gymnasium\[box2d\]"):
            _ = world_of("gymnasium:LunarLanderContinuous-v3").spec


def test_a_file_of_a_stranger_cannot_name_a_module(monkeypatch):
    worlds = Registry(
        "environment", "none", {}, families={"gymnasium": Ours("wanderlust.envs.worlds.gymnasium:GymnasiumWorld", "")}
    )
    assert worlds.get_for_file("gymnasium:Pendulum-v1") is GymnasiumWorld
    with pytest.raises(UserError, match="WANDERLUST_IMPORT=theirs"):
        worlds.get_for_file("gymnasium:theirs:Env-v0")
    monkeypatch.setenv("WANDERLUST_IMPORT", "theirs")
    assert worlds.get_for_file("gymnasium:theirs:Env-v0") is GymnasiumWorld


def test_a_run_of_one_is_trained_resumed_and_loaded(tmp_path, capfd, monkeypatch):
    config = tiny_config(engine="gymnasium", driver="split", epochs=2)
    config = dataclasses.replace(config, env=config_of("gymnasium:Pendulum-v1"))
    monkeypatch.setattr(loop, "PROBE_EPISODES", 6)
    run = wanderlust.api.start_run(config, tmp_path / "run")
    wanderlust.api.train(run, quiet=True)
    longer = dataclasses.replace(run.config.schedule, epochs=4)
    again = dataclasses.replace(run, config=dataclasses.replace(run.config, schedule=longer))
    wanderlust.api.train(again)
    assert "fresh episodes: not to the bit" in capfd.readouterr().err
    assert [row["epoch"] for row in again.metrics()] == [2, 4] and again.metrics()[-1]["restarts"] == 0
    result = wanderlust.api.evaluate(again, episodes=6)
    assert result["random"]["coverage"] >= 1
    assert wanderlust.load(run).act(np.zeros(3), np.ones(2)).shape == (1,)
    with pytest.raises(UserError, match="is none"):
        from wanderlust.evaluation.drive import evaluate_drive

        evaluate_drive(again)


def test_a_program_names_a_world_and_what_it_is_made_with():
    world = wanderlust.world_from_gymnasium("Pendulum-v1", episode_length=40, g=2.5)
    config = wanderlust.api.configure(world)
    assert config.env == world.config and json.loads(world.config.kwargs) == {"g": 2.5}
    assert config.engine == "gymnasium" and len(world.config.mean) == 3, "what was measured is kept with the run"
    state = WorldState(*jax.tree.map(lambda x: np.asarray(x)[None], world.initial(jax.random.key(0))))
    alone = gymnasium.make("Pendulum-v1", g=2.5)
    alone.reset(seed=int(state.physics[0, -1]))
    after = make_engine(world).step(state, np.zeros((1, 1), np.float32))
    assert np.allclose(after.physics[0, :3], alone.step(np.zeros(1))[0], atol=1e-6)
    alone.close()
    with pytest.raises(UserError, match="cannot be made again"):
        wanderlust.world_from_gymnasium("Pendulum-v1", g=np.zeros(2))


def test_an_id_that_only_this_program_knows_is_stepped_here():
    from gym_envs import Drifts

    gymnasium.register("OnlyHere-v0", entry_point=Drifts)
    try:
        world = world_of("gymnasium:OnlyHere-v0", starts=3)
        assert world.asked.here and any("only this program knows" in note for note in world.notes)
        after = make_engine(world).step(started(world, [2]), np.zeros((1, 2), np.float32))
        assert np.asarray(world.observe(after))[0, 2] == 1.0
    finally:
        del gymnasium.registry["OnlyHere-v0"]


def test_skills_of_a_world_without_places_know_no_way_to_a_goal(tmp_path):
    config = tiny_config(engine="gymnasium", driver="split")
    config = dataclasses.replace(config, env=config_of("gymnasium:Pendulum-v1"))
    parts = train.assemble(config)
    learner = jax.tree.map(lambda x: x[0], train.init(parts).learner)
    skills = Skills(parts, Learned(learner.sac.policy, learner.method))
    with pytest.raises(UserError, match="has none that is known; name it with --focus"):
        skills.towards(np.zeros(3), np.zeros(2))
