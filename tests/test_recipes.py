"""Recipes: every one assembles with every method, view and kind of skill, and `paper` has the paper's numbers."""

import itertools

import jax
import pytest

from wanderlust import train
from wanderlust.config import SkillConfig
from wanderlust.errors import UserError
from wanderlust.methods import DESCRIPTIONS, VIEWS
from wanderlust.recipes import DEFAULT, ENVIRONMENTS, RECIPES, get_recipe, with_random_start

METHODS = [f"{name}-{view}" if view else name for name, view in itertools.product(DESCRIPTIONS, ("", *VIEWS))]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("recipe", "env"), RECIPES)
def test_every_recipe_assembles(recipe, env, method):
    for skills in (SkillConfig("continuous", 3), SkillConfig("discrete", 5)):
        config = get_recipe(recipe, env, method, skills)
        assert (config.recipe, config.env.name, str(config.method), config.skills) == (recipe, env, method, skills)
        parts = train.assemble(config)
        spec = parts.world.spec
        state = jax.eval_shape(lambda parts=parts: train.init(parts))
        policy, encoder = state.learner.sac.policy.mlp.layers, state.learner.method.encoder.layers
        widths = config.sac.hidden
        seen = len(spec.position_dims) if "xy" in method else spec.obs_dim
        assert policy[0].weight.shape == (1, spec.obs_dim + skills.size, widths[0])
        assert policy[-1].weight.shape == (1, widths[-1], 2 * spec.action_dim)
        assert encoder[0].weight.shape == (1, seen, config.method.hidden[0])
        assert encoder[-1].weight.shape == (1, config.method.hidden[-1], skills.size)
        ring = config.schedule.worlds * config.schedule.steps * config.schedule.replay_collections
        assert state.replay.data.skill.shape == (1, ring, skills.size)


@pytest.mark.parametrize("method", METHODS)
def test_the_paper_recipe_has_the_appendix_numbers(method):
    config = get_recipe("paper", "point", method, SkillConfig())
    schedule = config.schedule
    assert config.sac.hidden == config.method.hidden == (128, 128)
    assert (schedule.epochs, schedule.worlds, schedule.steps) == (5000, 50, 10)
    assert (schedule.sac_steps, schedule.sac_batch) == (4, 500)
    assert config.env.episode_length == 10
    assert config.env.start_range == 0.0
    # the released code's habits
    assert (schedule.method_steps, schedule.method_batch, schedule.order) == (2, 0, "sac-first")
    assert schedule.replay_collections == 1
    assert config.sac.target_update == "epoch"
    assert config.sac.time_limit_is_terminal


def test_alpha_is_learned_for_diayn_and_fixed_for_lsd():
    for recipe in ("paper", "laptop"):
        assert get_recipe(recipe, "point", "diayn", SkillConfig()).sac.learn_alpha
        assert not get_recipe(recipe, "point", "lsd", SkillConfig()).sac.learn_alpha


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


def test_the_default_recipe_is_there_for_every_environment():
    assert all((DEFAULT, env) in RECIPES for env in ENVIRONMENTS)


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
