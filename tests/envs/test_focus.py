"""Entries of observations by name and number, and what the method's network then sees."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import wanderlust.api
from helpers import tiny_config
from table_world import Table
from wanderlust import train
from wanderlust.envs import make_world
from wanderlust.envs.names import focus_entries
from wanderlust.errors import UserError
from wanderlust.methods.views import View
from wanderlust.registry import WORLDS


@pytest.fixture(scope="module")
def cheetah():
    return make_world(WORLDS.get("half-cheetah").configure("half-cheetah"))


@pytest.mark.parametrize(
    ("focus", "entries"),
    [
        ("position", (0,)),
        ("qpos[0:2]", (0, 1)),
        ("qvel[1]", (10,)),
        ("qvel[7:]", (16, 17)),
        ("0,1", (0, 1)),
        ("3:5, 0", (3, 4, 0)),
        ("rootz velocity,rootz", (10, 1)),
        ("position,0,qpos[1]", (0, 1)),
    ],
)
def test_entries_by_name_and_number(cheetah, focus, entries):
    assert focus_entries(cheetah, focus) == entries


@pytest.mark.parametrize(
    ("focus", "words"),
    [
        ("torso", "observes no 'torso'; it has position, orientation, qpos, qvel, rootx, .*numbers from 0 to 17"),
        ("qpos[9]", "beyond the 9 entries"),
        ("qpos[5:12]", "beyond the 9 entries"),
        ("18", "beyond the 18 entries"),
        ("qpos[1:2:3]", "beyond"),
        ("position,", "observes no ''"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(cheetah, focus, words):
    with pytest.raises(UserError, match=words):
        focus_entries(cheetah, focus)


def test_the_network_sees_what_is_in_focus_and_the_policy_sees_everything():
    config = tiny_config()
    config = dataclasses.replace(config, env=dataclasses.replace(config.env, focus="1"))
    parts = train.assemble(config)
    assert parts.view.method_dim == 1
    obs = jnp.array([[3.0, -4.0]])
    std = parts.world.spec.obs_std[0]
    assert np.allclose(parts.view.for_method(obs), [[-4.0 / std]]) and parts.view.for_policy(obs).shape == (1, 2)


def test_xy_is_short_for_the_position():
    spec = make_world(WORLDS.get("half-cheetah").configure("half-cheetah")).spec
    obs = jnp.arange(18.0)[None]
    assert np.array_equal(View(spec, "xy").for_method(obs), View(spec, focus=(0,)).for_method(obs))
    with pytest.raises(UserError, match="-xy is short for --focus position"):
        View(spec, "xy", focus=(0,))


def test_only_the_focus_of_the_world_itself_is_seen_raw():
    spec = Table(Table.configure("table")).spec
    raw = dataclasses.replace(spec, focus="object", raw_focus=True)
    entries = raw.groups["object"]
    assert View(raw).method_sees_raw and View(raw, focus=entries).method_sees_raw
    assert not View(raw, focus=entries[:1]).method_sees_raw and not View(raw, "xy").method_sees_raw


def test_the_flag_is_kept_with_the_run(command_line, tmp_path):
    code, _, err = command_line(
        "discover",
        "point",
        "--focus",
        "y",
        "--out",
        tmp_path / "run",
        "--budget-steps",
        1,
        "--schedule.sac-steps",
        1,
        "--schedule.method-steps",
        1,
        "--schedule.worlds",
        2,
    )
    assert code == 0, err
    assert wanderlust.api.Run.open(tmp_path / "run").config.env.focus == "y"
    code, _, err = command_line("discover", "point", "--focus", "z", "--out", tmp_path / "other")
    assert (
        code == 2
        and err
        == (
            "wanderlust: --focus z: point observes no 'z'; it has position, x, y, all, parts of them such as "
            "position[0:2], and numbers from 0 to 1\n"
        )
        and not (tmp_path / "other").exists()
    )
    code, _, err = command_line("reach", tmp_path / "run", "--goal", 3, 4)
    assert code == 2 and "does not see all of the entries [0, 1]" in err
