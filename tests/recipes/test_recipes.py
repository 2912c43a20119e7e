"""Recipes: every one assembles with every method, view and kind of skill, and `paper` has the paper's numbers."""

import dataclasses
import itertools

import jax
import pytest

from wanderlust import train
from wanderlust.catalogue import FETCHES, TUNED
from wanderlust.config import SkillConfig
from wanderlust.errors import UserError
from wanderlust.methods import VIEWS
from wanderlust.recipes import BODIES, DEFAULT, RECIPES, get_recipe, with_random_start
from wanderlust.registry import METHODS as ALL

TWO_LEVELS = ("linearizer", "ibol")  # test_ibol.py
METHODS = [m for m in ALL.names() if m not in (*TWO_LEVELS, "music")]  # test_music.py
METHODS += [f"{name}-{view}" for name, view in itertools.product(("lsd", "dads"), VIEWS)]
LATER = ("metra", "csd")  # not of the paper


CASES = [(*place, "lsd") for place in RECIPES] + [("laptop", "ant", method) for method in METHODS[1:]]
CASES += [("paper", "point", method) for method in ("dads-xy", "smm", "edl", "metra")]


@pytest.mark.parametrize(("recipe", "env", "method"), CASES)
def test_every_recipe_and_every_method_assembles(recipe, env, method):
    for skills in (SkillConfig("continuous", 3), SkillConfig("discrete", 5)):
        config = get_recipe(recipe, env, method, skills)
        assert (config.recipe, config.env.name, config.method.name) == (recipe, env, method.partition("-")[0])
        assert config.skills == dataclasses.replace(
            skills, unit_length=method == "metra" and skills.kind == "continuous"
        )
        if method == "ablation" and skills.kind == "discrete":
            continue  # the paper's grid is of continuous skills
        if method in ("smm", "edl") and skills.kind == "continuous":
            continue  # refused (test_edl.py)
        parts = train.assemble(config)
        spec = parts.world.spec
        state = jax.eval_shape(lambda parts=parts: train.init(parts))
        policy, encoder = state.learner.sac.policy.mlp.layers, state.learner.method.encoder.layers
        widths = config.sac.hidden
        seen = len(spec.groups[spec.focus]) if spec.focus else spec.obs_dim
        seen = len(spec.groups["position"]) if "xy" in method else seen
        assert policy[0].weight.shape == (1, spec.obs_dim + skills.size, widths[0])
        assert policy[-1].weight.shape == (1, widths[-1], 2 * spec.action_dim)
        dynamics = config.method.name == "dads"  # (state, skill) -> change; all others: state -> code
        inputs, outputs = (seen + skills.size, seen) if dynamics else (seen, skills.size)
        sizes = (inputs, *(() if method == "edl" else config.method.hidden), outputs)  # EDL's goals are one layer
        assert encoder[0].weight.shape == (1, *sizes[:2])
        assert encoder[-1].weight.shape == (1, *sizes[-2:])
        ring = config.schedule.worlds * config.schedule.steps * config.schedule.replay_collections
        assert state.replay.data.skill.shape == (1, ring, skills.size)


@pytest.mark.parametrize("method", METHODS)
def test_the_paper_recipe_has_the_appendix_numbers(method):
    config = get_recipe("paper", "point", method, SkillConfig())
    schedule = config.schedule
    assert config.sac.hidden == config.method.hidden == (128, 128)
    before = config.method.first.schedule.epochs if method == "edl" else 0
    assert (before + schedule.epochs, schedule.worlds, schedule.steps) == (5000, 50, 10)
    assert (schedule.sac_steps, schedule.sac_batch) == (4, 500)
    assert config.env.episode_length == 10
    assert config.env.start_range == 0.0
    # what the released code does
    assert (schedule.method_steps, schedule.order) == (2, "sac-first")
    remembers = (200, 500) if method == "smm" else (1, 0)  # it has to know what was visited long ago
    assert (schedule.replay_collections, schedule.method_batch) == remembers
    assert config.sac.target_update == "epoch"
    assert config.sac.time_limit_is_terminal


def test_alpha_is_learned_where_the_paper_learns_it_and_fixed_for_lsd():
    for (recipe, env), name in itertools.product(RECIPES, ("diayn", "dads", "visr", "aps", "vic")):
        fixed = env in FETCHES and name in ("diayn", "dads")
        assert get_recipe(recipe, env, name, SkillConfig()).sac.learn_alpha != fixed
        assert not get_recipe(recipe, env, "lsd", SkillConfig()).sac.learn_alpha
        assert not get_recipe(recipe, env, "ablation", SkillConfig()).sac.learn_alpha


@pytest.mark.parametrize("env", FETCHES)
@pytest.mark.parametrize(("method", "scale"), [("lsd", 500.0), ("diayn", 1500.0), ("dads", 150.0), ("metra", 1.0)])
def test_the_paper_recipe_of_fetch_has_the_appendix_numbers(env, method, scale):
    config = get_recipe("paper", env, method, SkillConfig(), "music")
    sac, schedule = config.sac, config.schedule
    assert (schedule.epochs, schedule.worlds, schedule.steps, config.env.episode_length) == (4000, 2, 50, 50)
    assert (schedule.sac_steps, schedule.sac_batch, schedule.method_steps, schedule.method_batch) == (40, 256, 40, 256)
    assert schedule.replay_collections * schedule.collection == 400_000  # all that is collected
    assert (sac.hidden, config.method.hidden, config.bonus.hidden) == ((1024, 1024), (512, 512), (512,))
    assert {sac.policy_learning_rate, sac.critic_learning_rate, config.method.learning_rate} == {1e-3}
    assert (sac.discount, sac.alpha, sac.target_step, sac.target_update) == (0.95, 0.02, 0.05, "epoch")
    assert not sac.time_limit_is_terminal
    assert config.method.reward_scale == scale
    assert (config.bonus.coefficient, config.bonus.shuffle, config.bonus.episodes) == (5000.0, "shared", 256)
    alone = get_recipe("paper", env, "music", SkillConfig())
    assert (alone.method, alone.bonus) == (config.bonus, None)
    assert (alone.sac.alpha, alone.sac.learn_alpha) == (0.02, False)


@pytest.mark.parametrize("method", ["lsd", "diayn", "dads", "music"])
def test_fetch_has_the_same_objective_in_every_recipe(method):
    def weighed(recipe, bonus):
        config = get_recipe(recipe, "fetch-push", method, SkillConfig(), bonus)
        against = config.bonus.reward_scale if config.bonus else 1.0
        return config.method.reward_scale / config.sac.alpha, against / config.sac.alpha

    for recipe in ("laptop", "fast"):
        assert weighed(recipe, None)[0] == pytest.approx(weighed("paper", None)[0])
        if method != "music":
            assert weighed(recipe, "music") == pytest.approx(weighed("paper", "music"))


def test_five_dimensions_on_ant_have_an_alpha_of_their_own():
    for name, alpha in (("dads", 0.03), ("diayn", 0.3)):
        sac = get_recipe("paper", "ant", name, SkillConfig("continuous", 5)).sac
        assert (sac.alpha, sac.learn_alpha) == (alpha, False)
        assert get_recipe("paper", "ant", name, SkillConfig("discrete", 5)).sac.learn_alpha


def test_dads_has_no_alive_bonus_and_the_others_have():
    bonus = {name: get_recipe("paper", "humanoid", name, SkillConfig()).sac.alive_bonus for name in ("dads", "diayn")}
    assert bonus == {"dads": 0.0, "diayn": 0.03}


def test_rates_that_the_appendix_names_are_for_three_methods_alone():
    rates = {m: get_recipe("paper", "ant", m, SkillConfig()).method.learning_rate for m in ("dads", "diayn", "visr")}
    assert rates == {"dads": 3e-5, "diayn": 3e-5, "visr": 1e-4}


def test_one_reward_an_episode_reaches_its_first_step():
    for recipe, env in RECIPES:
        config = get_recipe(recipe, env, "vic", SkillConfig())
        assert config.sac.time_limit_is_terminal
        assert 0.34 < config.sac.discount**config.env.episode_length < 0.37


def test_later_methods_have_their_own_papers_numbers_on_bodies():
    metra = get_recipe("paper", "ant", "metra", SkillConfig())
    assert (metra.schedule.worlds, metra.schedule.sac_steps, metra.schedule.sac_batch) == (8, 50, 256)
    assert metra.schedule.collection * metra.schedule.replay_collections == 1_000_000
    assert (metra.sac.learn_alpha, metra.sac.target_update, metra.method.learning_rate) == (True, "step", 1e-4)
    csd = get_recipe("paper", "humanoid", "csd", SkillConfig("discrete", 16))
    assert (csd.schedule.sac_steps, csd.schedule.method_steps, csd.schedule.sac_batch) == (64, 32, 1024)
    assert (csd.sac.alpha, csd.sac.hidden, csd.method.learning_rate) == (0.03, (1024, 1024), 3e-4)


def test_a_collection_is_whole_episodes_so_that_starts_are_drawn_every_epoch():
    for recipe, env in RECIPES:
        if recipe == "paper" or env == "point":
            config = get_recipe(recipe, env, "lsd", SkillConfig())
            assert config.schedule.steps == config.env.episode_length


CONTINUOUS, DISCRETE = SkillConfig("continuous", 2), SkillConfig("discrete", 16)

PUBLISHED = {  # of the released commands: episode length, episodes an epoch, rates of policy and phi, epochs, alive
    "ant": (200, 20, 1e-4, 3e-5, 100_000, 0.0),
    "half-cheetah": (200, 20, 1e-4, 3e-5, 100_000, 0.0),
    "humanoid": (1000, 5, 3e-4, 1e-4, 200_000, 0.03),
}
ALPHA = {("ant", "continuous"): 0.01, ("ant", "discrete"): 0.003, ("half-cheetah", "discrete"): 0.01}


@pytest.mark.parametrize("env", PUBLISHED)
@pytest.mark.parametrize("skills", [CONTINUOUS, DISCRETE])
def test_the_paper_recipe_of_a_body_has_the_published_numbers(env, skills):
    length, episodes, rate, phi_rate, epochs, alive = PUBLISHED[env]
    config = get_recipe("paper", env, "lsd", skills)
    sac, schedule = config.sac, config.schedule
    assert (config.env.episode_length, schedule.steps, schedule.worlds, schedule.epochs) == (
        length,
        length,
        episodes,
        epochs,
    )
    assert (sac.policy_learning_rate, sac.critic_learning_rate, config.method.learning_rate) == (rate, rate, phi_rate)
    assert sac.hidden == config.method.hidden == (1024, 1024)
    assert (sac.discount, sac.target_step, sac.target_update) == (0.99, 0.005, "epoch")
    assert (sac.learn_alpha, sac.alive_bonus, sac.policy_activation) == (False, alive, "tanh")
    assert sac.alpha == ALPHA.get((env, skills.kind), 0.03 if env == "humanoid" else 0.01)
    assert (schedule.sac_steps, schedule.sac_batch, schedule.method_steps) == (4, 2048, 2)
    assert sac.time_limit_is_terminal
    assert not sac.critic_layer_norm
    assert (config.engine, config.driver, config.precision, config.env.solver) == ("c", "split", "float32", "stock")
    if env == "humanoid":  # it alone keeps a replay, and its episodes may end early
        assert schedule.collection * schedule.replay_collections == 1_000_000
        assert (schedule.collect, schedule.learn_from, schedule.method_batch) == ("episodes", 10_000, 2048)
    else:
        assert (schedule.replay_collections, schedule.learn_from, schedule.method_batch) == (1, 1, 0)


def test_the_catalogue_lists_the_recipes_there_are():
    assert {(recipe, env) for env, recipes in TUNED.items() for recipe in recipes} == set(RECIPES)
    assert all(DEFAULT in recipes for recipes in TUNED.values())


def test_random_starts_change_nothing_else():
    config = get_recipe("paper", "point", "lsd", SkillConfig())
    moved = with_random_start(config, 10.0)
    assert moved.env.start_range == 10.0
    assert with_random_start(moved, 0.0) == config


@pytest.mark.parametrize(
    ("recipe", "env", "method", "named", "known"),
    [
        ("nosuch", "point", "lsd", "nosuch", "paper, laptop"),
        ("nosuch", "ant", "lsd", "nosuch", "paper, fast, laptop"),
        ("paper", "nosuch", "lsd", "nosuch", "point"),
        ("paper", "point", "nosuch", "nosuch", "lsd, diayn"),
        ("paper", "point", "lsd-nosuch", "nosuch", "-xy, -o, -xyo"),
        ("paper", "point", "", "''", "lsd, diayn"),
    ],
)
def test_unknown_names_are_errors_that_say_what_is_known(recipe, env, method, named, known):
    with pytest.raises(UserError) as caught:
        get_recipe(recipe, env, method, SkillConfig())
    assert named in str(caught.value)
    assert known in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_of_methods_may_be_written_in_capitals():
    assert str(get_recipe("paper", "point", "DIAYN-XYO", SkillConfig()).method) == "diayn-xyo"


@pytest.mark.parametrize("body", BODIES)
def test_laptop_has_the_published_horizon(body):
    laptop, paper = (get_recipe(recipe, body, "lsd", SkillConfig()).sac.discount for recipe in ("laptop", "paper"))
    assert laptop == paper == 0.99


@pytest.mark.parametrize("body", BODIES)
def test_laptop_keeps_as_many_transitions_of_every_body(body):
    schedule = get_recipe("laptop", body, "lsd", SkillConfig()).schedule
    assert 400_000 <= schedule.replay_collections * schedule.collection <= 410_000


@pytest.mark.parametrize(("method", "unit"), [("lsd", 1.0), ("diayn", 100.0), ("dads", 10.0)])
def test_short_runs_on_fetch_have_the_published_objective_in_units_that_critics_reach(method, unit):
    paper, *ours = (get_recipe(name, "fetch-push", method, SkillConfig()) for name in ("paper", "laptop", "fast"))
    assert paper.method.reward_scale == {"lsd": 500.0, "diayn": 1500.0, "dads": 150.0}[method]
    for recipe in ours:
        assert recipe.method.reward_scale == paper.method.reward_scale / unit
        assert recipe.sac.alpha == paper.sac.alpha / unit


def test_music_learns_from_fewer_episodes_on_two_cores():
    for recipe, episodes in (("laptop", 32), ("fast", 256), ("paper", 256)):
        added = get_recipe(recipe, "fetch-push", "lsd", SkillConfig(), "music")
        alone = get_recipe(recipe, "fetch-push", "music", SkillConfig())
        assert added.bonus.episodes == alone.method.episodes == episodes
