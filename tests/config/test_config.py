"""Configurations: JSON in and out, and one clear line for everything that is wrong with one."""

import dataclasses
import itertools
import json
import re

import pytest

from helpers import tiny_config
from wanderlust.config import RunConfig, SkillConfig, from_json, to_json, with_changes
from wanderlust.errors import UserError
from wanderlust.methods import VIEWS
from wanderlust.recipes import RECIPES, get_recipe
from wanderlust.registry import METHODS as ALL


def refused(text: str) -> str:
    """The message with which a configuration is refused."""
    with pytest.raises(UserError) as caught:
        from_json(RunConfig, text, "somewhere.json")
    message = str(caught.value)
    assert message and "\n" not in message
    assert message.startswith("somewhere.json")
    return message


def changed(path: str, value: object) -> str:
    """JSON of a good configuration with one entry changed (or removed, if the value is Ellipsis)."""
    data = json.loads(to_json(tiny_config()))
    *parents, last = path.split(".")
    node = data
    for name in parents:
        node = node[name]
    if value is ...:
        del node[last]
    else:
        node[last] = value
    return json.dumps(data)


@pytest.mark.parametrize(("recipe", "env"), RECIPES)
def test_every_recipe_survives_json(recipe, env):
    kinds = (SkillConfig(), SkillConfig("discrete", 7))
    for method, view, skills in itertools.product(ALL.names(), ("", *VIEWS), kinds):
        config = get_recipe(recipe, env, f"{method}-{view}" if view else method, skills)
        again = from_json(RunConfig, to_json(config), "here")
        assert again == config
        assert isinstance(again.sac.hidden, tuple)
        assert env != "point" or isinstance(again.env.start_range, float)


@pytest.mark.parametrize("name", ["nosuch", 3, None])
def test_the_name_of_an_environment_decides_what_its_fields_are(name):
    message = refused(changed("env.name", name))
    assert "env.name" in message and repr(name) in message
    assert isinstance(name, int | None) or "known: point, ant, half-cheetah, humanoid" in message


def test_a_union_needs_the_name_that_decides():
    assert "missing key env.name" in refused(changed("env.name", ...))
    assert "missing key method.name" in refused(changed("method.name", ...))


def test_fields_of_another_environment_are_unknown():
    message = refused(changed("env.name", "ant"))
    assert "there is no field env.normalise; known here: name, episode_length, " in message
    assert "solver, cone" in message


def test_collections_of_episodes_are_as_long_as_episodes_and_have_no_whole_batch():
    good = {"schedule_collect": "episodes", "schedule_method_batch": 16}
    assert tiny_config(**good).schedule.collect == "episodes"
    with pytest.raises(UserError, match=r"schedule.steps \(4\) must equal env.episode_length \(5\)"):
        tiny_config(**good, schedule_steps=4)
    with pytest.raises(UserError, match=r"schedule\.method_batch must be at least 1"):
        tiny_config(schedule_collect="episodes")


def test_what_is_written_has_every_field():
    data = json.loads(to_json(tiny_config()))
    assert list(data) == [f.name for f in dataclasses.fields(RunConfig)]
    assert data["schedule"]["worlds"] == 4


@pytest.mark.parametrize("path", ["colour", "sac.gamma", "env.size", "schedule.batch", "method.phi", "skills.dim"])
def test_unknown_keys_are_errors(path):
    assert f"there is no field {path};" in refused(changed(path, 1))


@pytest.mark.parametrize("path", ["env", "sac", "schedule.epochs", "method.name", "schedule.sac_batch"])
def test_missing_keys_are_errors(path):
    assert refused(changed(path, ...)).endswith(f"missing key {path}")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("seed", "0"),
        ("seed", 1.5),
        ("seeds", True),
        ("seeds", None),
        ("recipe", 3),
        ("driver", "gpu"),
        ("env", "point"),
        ("env.name", 3),
        ("env.start_range", "far"),
        ("env.normalise", 1),
        ("method.view", "yx"),
        ("method.hidden", 64),
        ("method.hidden", [64, "64"]),
        ("sac.discount", "0.9"),
        ("sac.discount", [0.9]),
        ("sac.learn_alpha", "yes"),
        ("skills", []),
        ("skills.kind", "both"),
        ("skills.size", 2.0),
        ("schedule.epochs", "many"),
        ("schedule.order", 3),
    ],
)
def test_wrong_types_are_errors(path, value):
    assert re.search(rf": {re.escape(path)}(\[\d\])? (is|must be) ", refused(changed(path, value)))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("env.start_range", -1.0),
        ("env.episode_length", 0),
        ("skills.size", 0),
        ("skills.size", -2),
        ("method.hidden", []),
        ("method.hidden", [16, 0]),
        ("method.learning_rate", 0.0),
        ("sac.hidden", [-16]),
        ("sac.policy_learning_rate", -1e-3),
        ("sac.critic_learning_rate", 0.0),
        ("sac.alpha_learning_rate", -1.0),
        ("sac.alpha", 0.0),
        ("sac.discount", 1.0),
        ("sac.discount", -0.1),
        ("sac.target_step", 0.0),
        ("sac.target_step", 1.5),
        ("schedule.epochs", 0),
        ("schedule.worlds", -4),
        ("schedule.steps", 0),
        ("schedule.sac_steps", 0),
        ("schedule.sac_batch", 0),
        ("schedule.method_steps", -1),
        ("schedule.method_batch", -1),
        ("schedule.replay_collections", 0),
        ("seeds", 0),
        ("seed", -1),
        ("seed", 2**31),
        ("log_every", 0),
        ("checkpoint_every", 3),
        ("checkpoint_every", 0),
    ],
)
def test_impossible_values_are_errors(path, value):
    assert f": {path} is {value}" in refused(changed(path, value))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize(
    "path", ["env.start_range", "method.learning_rate", "sac.alpha", "sac.discount", "sac.target_entropy_per_action"]
)
def test_numbers_must_be_finite(path, value):
    assert path in refused(changed(path, value))


def test_two_skills_at_least_where_they_are_discrete():
    for size in (1, 0, -4):
        data = json.loads(to_json(tiny_config(discrete=4)))
        data["skills"]["size"] = size
        assert f"skills.size is {size}; discrete skills need at least 2" in refused(json.dumps(data))
    data["skills"]["size"] = 2
    assert from_json(RunConfig, json.dumps(data), "here").skills == SkillConfig("discrete", 2)


def test_interleaved_steps_must_be_as_many():
    data = json.loads(to_json(tiny_config()))
    data["schedule"].update(order="interleaved", sac_steps=4, method_steps=2)
    message = refused(json.dumps(data))
    assert "schedule.method_steps (2)" in message
    assert "schedule.sac_steps (4)" in message


@pytest.mark.parametrize("text", ["", "{", '{"env": }', "no JSON at all", "[1, 2", '{"a": 1}}'])
def test_broken_json_is_an_error(text):
    assert "is not valid JSON" in refused(text)


@pytest.mark.parametrize("text", ["[]", "3", "null", '"point"'])
def test_json_of_another_kind_is_an_error(text):
    assert "must be an object" in refused(text)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"seed": ' + "1" * 5000 + "}"], ids=["deep", "long-number"])
def test_json_that_python_will_not_read_is_an_error(text):
    assert "its nesting or a number is too large" in refused(text)


# --- one number changed -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "text", "value"),
    [
        ("sac.discount", "0.5", 0.5),
        ("sac.discount", "0", 0.0),
        ("sac.hidden", "[8, 4]", (8, 4)),
        ("sac.learn_alpha", "true", True),
        ("sac.policy_activation", "relu", "relu"),
        ("method.view", '"xy"', "xy"),
        ("method.view", "xy", "xy"),
        ("env.normalise", "false", False),
        ("driver", "split", "split"),
        ("seeds", "3", 3),
    ],
)
def test_a_field_is_changed_by_its_path(path, text, value):
    before = tiny_config()
    after = with_changes(before, (f"{path}={text}",))
    section, _, field = path.rpartition(".")
    assert getattr(getattr(after, section) if section else after, field) == value
    # and nothing else is
    assert to_json(after) == json.dumps(json.loads(changed(path, value)), indent=2) + "\n"
    assert before == tiny_config()


@pytest.mark.parametrize(
    ("path", "text", "named"),
    [
        ("sac.gamma", "0.5", "there is no field sac.gamma; known here: hidden, "),
        ("colour", "1", "there is no field colour; known here: env, "),
        ("", "1", "there is no field"),
        ("sac.hidden.0", "8", "sac.hidden is {'0': 8}; it must be a list"),
        ("sac", "8", "sac must be an object"),
        ("sac.discount", "high", "sac.discount is 'high'; it must be of type float"),
        ("sac.discount", "1", "sac.discount is 1.0; it must be in [0, 1)"),
        ("sac.hidden", "[8, 0]", "sac.hidden is [8, 0]"),
        ("sac.learn_alpha", "1", "sac.learn_alpha is 1; it must be of type bool"),
        ("schedule.epochs", "1e3", "schedule.epochs is 1000.0; it must be of type int"),
        ("schedule.epochs", "", "schedule.epochs is ''; it must be of type int"),
        ("sac.hidden", "64,64", "sac.hidden is '64,64'; it must be a list, such as [128, 128]"),
        ("driver", "both", "driver is 'both'; it must be one of 'fused', 'split'"),
    ],
)
def test_a_change_that_cannot_be_made_is_one_line(path, text, named):
    with pytest.raises(UserError) as caught:
        with_changes(tiny_config(), (f"{path}={text}",))
    assert str(caught.value).startswith(f"--set {path}={text}")
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("method", ["ibol", "linearizer", "vic"])
def test_methods_that_decide_how_long_a_skill_lasts_refuse_to_be_told(method):
    with pytest.raises(UserError, match=f"schedule.hold is 10, but {method} .*leave it at 0"):
        with_changes(get_recipe("laptop", "ant", method, SkillConfig()), ("schedule.hold=10",))
    assert with_changes(get_recipe("laptop", "ant", "lsd", SkillConfig()), ("schedule.hold=10",)).schedule.hold == 10
    assert "schedule.hold is -1" in refused(changed("schedule.hold", -1))
