"""Did it learn: measures computed by hand, and verdicts of cases that are known."""

import dataclasses
import json

import jax
import numpy as np
import pytest

from helpers import tiny_config
from trained import trained
from wanderlust import train
from wanderlust.envs.spec import EnvSpec, Groups, Rollout
from wanderlust.evaluation import verdict
from wanderlust.evaluation.robustness import robustness
from wanderlust.evaluation.verdict import decided, floor_of, judge_seed, level, told_apart, words
from wanderlust.registry import WORLDS
from wanderlust.train.dead import DeadRunWatch

SPEC = EnvSpec("plane", 3, 1, 20, Groups(position=(0, 1)), (0.0,) * 3, (1.0, 1.0, 2.0))
RNG = np.random.default_rng(0)


def episodes(velocity, pose=0.0, jitter=0.0, steps=20):
    """Straight ways at a velocity each, with a third entry that wobbles about a pose."""
    time = np.arange(steps + 1)[:, None, None]
    place = time * np.asarray(velocity)[None]
    wobble = pose + jitter * RNG.normal(size=(steps + 1, len(velocity), 1))
    alive = np.ones((steps + 1, len(velocity)), bool)
    return Rollout(np.concatenate([place, wobble], axis=-1), np.zeros((steps, len(velocity), 1)), None, alive)


def by_chance(count=200):
    paths = np.concatenate([np.zeros((1, count, 2)), np.cumsum(RNG.normal(size=(20, count, 2)) * 0.5, axis=0)])
    return episodes(np.zeros((count, 2)), jitter=1.0)._replace(
        obs=np.concatenate([paths, RNG.normal(size=(21, count, 1))], axis=-1)
    )


RANDOM = by_chance()
FLOOR = floor_of(SPEC, np.stack([RANDOM.obs, by_chance().obs, by_chance().obs]))


def judged(played, skill, aligned=0.9, moved=None, discrete=False):
    moved = skill if moved is None else moved
    return judge_seed(SPEC, played._replace(skill=skill), RANDOM, FLOOR, aligned, moved, discrete)


def test_the_floor_is_the_mean_of_draws_with_its_interval():
    obs = np.zeros((3, 2, 4, 3))
    obs[0, 1, :2, 0], obs[1, 1, :, 0], obs[2, 1, :, 0] = (1, 2), (1, 2, 3, 4), (1, 2, 3, 4)
    found = floor_of(SPEC, obs)
    assert found.draws == [3, 5, 5] and found.mean == pytest.approx(13 / 3)
    assert found.high - found.mean == pytest.approx(4.302653 * np.std([3, 5, 5], ddof=1) / np.sqrt(3))


def test_what_a_skill_decides():
    skill = np.eye(4)[RNG.integers(4, size=400)]
    where = np.eye(4)[:, :2] * 5 + np.eye(4)[:, 2:] * -5
    assert decided(skill @ where, skill) == 1.0
    assert decided(RNG.normal(size=(400, 2)), skill) < 0.15
    half = skill @ where + RNG.normal(size=(400, 2)) * np.sqrt(np.var(skill @ where, axis=0))
    assert decided(half, skill) == pytest.approx(0.5, abs=0.12)
    assert decided(np.ones((400, 2)), skill) == 0.0
    z = RNG.normal(size=(400, 2))
    assert decided(z * 7, z) > 0.95 and decided(RNG.normal(size=(400, 2)), z) < 0.15


def test_discrete_skills_are_told_apart_by_where_phi_points():
    skill = np.eye(4)[[0, 1, 2, 3]]
    assert told_apart(skill * 3.0, skill) == 1.0
    assert told_apart(skill[[0, 1, 3, 2]], skill) == 0.5


def test_skills_that_go_everywhere_have_learned():
    z = RNG.normal(size=(200, 2))
    found = judged(episodes(z), z)
    assert level(found, FLOOR) == "learned" and found["position_share"] == pytest.approx(1.0)
    assert found["survived"] == 1.0 and found["cosine"] == 0.9 and found["accuracy"] is None


def test_skills_that_no_map_tells_apart_have_learned_partly():
    z = RNG.normal(size=(200, 2))
    assert level(judged(episodes(z), z, aligned=0.1), FLOOR) == "partly"
    assert level(judged(episodes(z), z, aligned=float("nan")), FLOOR) == "learned", "no map: by where they end"


def test_poses_are_static_though_they_are_told_apart():
    skill = np.eye(8)[RNG.integers(8, size=200)]
    pose = (skill @ np.arange(8.0))[None, :, None]
    found = judged(episodes(np.zeros((200, 2)), pose), skill, moved=skill, discrete=True)
    assert level(found, FLOOR) == "static"
    assert found["accuracy"] == 1.0 and found["chance"] == 0.125 and found["position_share"] == 0.0
    assert found["decided_by_skill"] == 1.0 and found["movement"] == 0.0


def test_skills_that_all_run_the_same_way_are_alike():
    z = RNG.normal(size=(200, 2))
    speeds = np.array([2.0, 0.0]) + 0.3 * RNG.normal(size=(200, 2))
    assert level(judged(episodes(speeds), z), FLOOR) == "alike"


def test_skills_that_fidget_have_learned_nothing():
    z = RNG.normal(size=(200, 2))
    found = judged(episodes(0.02 * z, jitter=0.5), z, aligned=0.9)
    assert level(found | {"decided_by_skill": 0.6}, FLOOR) == "nothing"


def test_the_words_say_what_the_numbers_are():
    z = RNG.normal(size=(200, 2))
    one = judged(episodes(z), z)
    facts = {
        "level": "learned", "per_seed_level": ["learned", "partly"], "mean": one, "place": "principal directions",
        "random_coverage": {"mean": 50.0, "low": 45.0, "high": 55.0}, "episode_length": 20,
        "robustness": {"shifted": 0.5, "shift": 3.0, "changed": None},
    }  # fmt: skip
    text = "\n".join(words(facts))
    assert text.startswith("Verdict: it learned") and "(by seed: learned, partly)" in text
    assert "first two principal directions" in text and "(50, 95% interval 45 to 55)" in text
    assert "from starts up to 3 away with cosine 0.50" in text and "change of skill" not in text
    assert set(verdict.ADVICE) == set(verdict.HEADLINES)
    assert "What to try" not in text
    early, late = (words({**facts, "level": "static", "trained": share})[0] for share in (0.004, 0.3))
    assert early.startswith("Verdict: too early to tell, after 0.4% of its epochs; so far bodies stand still")
    assert late.startswith("Verdict: collapsed: bodies stand still")
    assert words({**facts, "trained": 0.004})[0].startswith("Verdict: it learned"), "what has been learned is told"
    without, with_one = (
        "\n".join(words({**facts, "level": "static", "place": place})) for place in ("focus", "position")
    )
    assert "What to try: train for longer, a larger --sac.alpha" in without and "--focus" not in without
    assert "What to try: train for longer, `--focus position`, a larger" in with_one
    has_it = words({**facts, "level": "static", "place": "position", "sees_place_alone": True})[-1]
    assert has_it.startswith("What to try: train for longer, a larger")


def test_an_evaluation_ends_with_a_verdict():
    run = trained()
    found = json.loads((run.evaluation / "evaluation.json").read_text())["verdict"]
    assert found["level"] in verdict.HEADLINES and len(found["random_coverage"]["draws"]) == 3
    assert found["mean"]["coverage"] == found["per_seed"][0]["coverage"]
    assert found["trained"] == 1.0 and words(found)[0].startswith("Verdict: ")


@pytest.mark.parametrize(("within", "shifted"), [(1e9, True), (1.0, False)])
def test_robust_is_who_goes_the_same_way_from_elsewhere_and_after_another(within, shifted, monkeypatch):
    config = tiny_config()
    config = dataclasses.replace(config, env=dataclasses.replace(config.env, episode_length=10))
    parts = train.assemble(config)

    def obey(parts, policy, obs, skill, *noise):
        near = jax.numpy.abs(obs).max(axis=1, keepdims=True) <= within
        way = skill / jax.numpy.linalg.norm(skill, axis=1, keepdims=True)
        return jax.numpy.where(near, way, -way)

    monkeypatch.setattr("wanderlust.train.probe.command_actions", obey)
    z = np.asarray(train.sample_skills(parts, jax.random.split(jax.random.key(0), 1), 40))
    way = z / np.linalg.norm(z, axis=-1, keepdims=True)
    obs = np.arange(11)[None, :, None, None] * way[:, None]
    mode = Rollout(obs, np.zeros((1, 10, 40, 2)), z, np.ones((1, 11, 40), bool))
    found = robustness(parts, {}, mode, jax.random.split(jax.random.key(1), 1))
    assert found["shift"] == 5.0
    if shifted:
        assert found["shifted"] == pytest.approx(1.0, abs=1e-4) and found["changed"] == pytest.approx(1.0, abs=1e-4)
    else:
        assert found["shifted"] < 0.3 and found["changed"] < 0.3


def test_skills_that_stay_have_no_direction_to_keep():
    parts = train.assemble(tiny_config())
    mode = Rollout(np.zeros((1, 6, 8, 2)), np.zeros((1, 5, 8, 2)), np.ones((1, 8, 2)), np.ones((1, 6, 8), bool))
    assert set(robustness(parts, {}, mode, jax.random.split(jax.random.key(1), 1)).values()) == {None}


def test_a_run_that_looks_dead_is_warned_of_once_and_not_before_its_time():
    watch = DeadRunWatch(train.assemble(tiny_config()), episodes=20)
    watch._floor = 30
    assert watch.warning([5], 0.2) is None and watch.warning([31, 5], 0.3) is None
    said = watch.warning([30], 0.5)
    assert "after 50% of its budget 20 skills cover 30 bins, and random actions 30" in said
    assert watch.warning([5], 0.6) is None
    assert DeadRunWatch(train.assemble(tiny_config()), episodes=20).floor > 1


def test_bodies_that_fall_early_still_move_until_then():
    played = episodes(np.ones((4, 2)))
    played.alive[3:] = False  # two steps and the fall
    played.obs[3:] = played.obs[3]
    assert verdict.moving(played.obs, played.alive, np.ones(3)) == pytest.approx(np.sqrt(2))


def test_starts_that_a_task_sets_are_left_as_they_are():
    """Evaluating skills that push Fetch's object far was refused: its starts cannot be shifted."""
    assert WORLDS.get("fetch-push").configure("fetch-push").start_within(0.3) is None
    assert WORLDS.get("ant").configure("ant").start_within(0.3).start_range == 0.3
