"""What `load` reads of a run is enough for use: every method keeps what it needs, and nothing else is read."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import tiny_config
from trained import copy_of, trained
from wanderlust import train
from wanderlust.errors import UserError
from wanderlust.methods.skills import along
from wanderlust.recipes import get_recipe, usual_skills
from wanderlust.registry import METHODS
from wanderlust.runs.files import ArrayFile, write_arrays
from wanderlust.runs.learned import Learned, choose_skill, needed, of_seed, represent, restored
from wanderlust.runs.loading import load


def filled(x):
    return jnp.where(jnp.isnan(x), jax.random.normal(jax.random.key(9), x.shape), x) if x.dtype == jnp.float32 else x


def fresh(config) -> tuple[train.Setup, train.Learner]:
    """One seed's learner before it learns; goals that EDL would have found are anywhere."""
    parts = train.assemble(config)
    learner = jax.jit(lambda: train.init_seed(parts, jax.random.key(3)).learner)()
    return parts, learner._replace(method=jax.tree.map(filled, learner.method))


CELLS = [tiny_config("ablation", method_states=s, method_spectral=b) for s, b in (("change", True), ("state", False))]
CONFIGS = [
    *(
        get_recipe("laptop", "point", name, usual_skills(name))
        for name in METHODS.names()
        if not METHODS.get(name).sees
    ),
    *(tiny_config(name, discrete=4) for name in ("lsd", "vic", "diayn", "dads")),
    *CELLS,
]
IDS = [f"{config.method}-{config.skills.kind}-{k}" for k, config in enumerate(CONFIGS)]


@pytest.mark.parametrize("config", CONFIGS, ids=IDS)
def test_what_a_method_keeps_is_enough_for_use(config):
    parts, learner = fresh(config)
    whole = Learned(train.skill_policy(parts, learner), learner.method)
    kept = of_seed(jax.jit(partial(restored, parts))(needed(parts, learner)), 0)
    obs, goal = (3 * jax.random.normal(key, (7, 2)) for key in jax.random.split(jax.random.key(0)))
    skill = jax.vmap(parts.skills.sample)(jax.random.split(jax.random.key(1), 7))

    def use(learned: Learned) -> dict:
        found = {"act": train.actions(parts, learned.policy, obs, skill), "phi": represent(parts, learned, obs)}
        if parts.method.goal_rule is not None:
            found["towards"] = choose_skill(parts, learned, obs, goal)
        if parts.method.plans:
            found["predict"] = parts.method.predict(learned.method, parts.view.for_method(obs), skill)
        return found

    ours, theirs = jax.jit(use)(kept), jax.jit(use)(whole)
    for name in theirs:  # norms are measured by another program
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-5, atol=1e-6, err_msg=name)
    assert np.all(np.isfinite(theirs["act"]))


@pytest.mark.parametrize("config", CONFIGS, ids=IDS)
def test_a_method_picks_skills_for_goals_by_the_rule_that_it_declares(config):
    parts, learner = fresh(config)
    method, state = parts.method, learner.method
    here, there, goal = 3 * jax.random.normal(jax.random.key(0), (3, 50, 2))
    if method.goal_rule is None:
        with pytest.raises(UserError, match="goal"):
            method.towards(state, here, goal)
        return
    towards, network = jax.jit(method.towards)(state, here, goal), method.network(state)
    assert towards.shape == (50, parts.skills.size)
    by_goal = np.allclose(towards, jax.jit(method.towards)(state, there, goal), atol=1e-4)
    assert by_goal == (method.goal_rule == "goal")
    if network is not None:
        np.testing.assert_allclose(jax.vmap(network)(here), method.represent(state, here), rtol=1e-5, atol=1e-5)
        direction = along(parts.skills, jax.vmap(network)(goal) - jax.vmap(network)(here))
        assert np.allclose(towards, direction, atol=1e-3) == (method.goal_rule == "direction")


def test_only_what_use_needs_is_read(monkeypatch):
    run, seen = trained(seeds=3), []
    read = ArrayFile.read
    monkeypatch.setattr(ArrayFile, "read", lambda self, name: seen.append(name) or read(self, name))
    load(run, seed=2)
    networks = ("learner/sac/policy/mlp", "learner/method/encoder")
    expected = {f"{n}/layers/{i}/{x}" for n in networks for i in range(3) for x in ("weight", "bias")}
    assert sorted(seen) == sorted(expected)
    assert len(ArrayFile(run.checkpoints()[4]).shapes()) > 5 * len(expected)


def test_a_checkpoint_of_the_old_format_is_refused_in_one_line(tmp_path):
    run = copy_of(trained(), tmp_path / "run")
    path = run.checkpoints()[4]
    file = ArrayFile(path)
    arrays = {name: file.read(name) for name in file.shapes()}
    write_arrays(path, arrays, {"format": "wanderlust-checkpoint-1", "epoch": "4"})
    with pytest.raises(UserError) as caught:
        load(run)
    assert str(caught.value).startswith(
        f"{path} is of an older Wanderlust, whose states this one cannot read; train it again"
    )
    assert "\n" not in str(caught.value)
