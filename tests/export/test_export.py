"""Export to ONNX: the graphs give what JAX gives, from raw observations; nothing is written that does not."""

import dataclasses
import functools
import json
import re
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import wanderlust
from helpers import tiny_config
from trained import run_python, tree
from wanderlust import api, export, train
from wanderlust.config import RunConfig, SkillConfig, method_config
from wanderlust.envs import WorldState, make_world
from wanderlust.envs.worlds.body import BodyConfig
from wanderlust.export import export_onnx
from wanderlust.methods import View
from wanderlust.rl.nets import GLOROT_UNIFORM, init_mlp, init_policy
from wanderlust.rl.sac import mode_actions
from wanderlust.runs.learned import Learned, load_learner, of_seed
from wanderlust.runs.run import Run
from wanderlust.runs.zoo import open_run

onnx = pytest.importorskip("onnx", reason="the extra wanderlust[onnx] is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="the extra wanderlust[onnx] is not installed")

FILES = ("policy.onnx", "phi.onnx", "onnx.json")
DRIVE = Path(__file__).parents[2] / "examples" / "onnx_drive.py"
BODIES = ("ant", "half-cheetah-8", "humanoid")
CASES = {
    "xyo": tiny_config("lsd-xyo", seeds=2, sac_position_scale=7.0, sac_policy_activation="relu"),
    "o": tiny_config("diayn-o", discrete=4),
    "xy": tiny_config("metra-xy", sac_position_scale=7.0),
    "unconstrained": tiny_config("ablation", method_spectral=False),
}
WITHOUT_PHI = {
    "dads": tiny_config("dads"),
    "linearizer": dataclasses.replace(tiny_config(), method=method_config("linearizer"), skills=SkillConfig("box", 2)),
}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """Zoo entries, each exported once: skills as JAX has them, and where the export is."""
    folder = tmp_path_factory.mktemp("export")

    @functools.cache
    def exported(name: str) -> tuple[train.Setup, Learned, Path]:
        entry = open_run(f"zoo:{name}", out=folder / "unused")
        short = dataclasses.replace(entry.config.env, episode_length=100)  # Humanoid's 1,000 take long
        config = dataclasses.replace(entry.config, env=short)
        export_onnx(dataclasses.replace(entry, config=config), out=folder / name)
        parts = train.assemble(dataclasses.replace(entry.config, engine="c"))
        return parts, of_seed(load_learner(entry, parts)[1], 0), folder / name

    return exported


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@functools.cache
def fresh(config: RunConfig) -> tuple[train.Setup, Learned]:
    """What all seeds of a configuration know before they learn."""
    parts = train.assemble(config)

    def init(key) -> Learned:
        noise, policy_key, method_key = jax.random.split(key, 3)
        policy = parts.sac.init(policy_key).policy
        # biases start at zero, which would hide that they were left out
        policy = jax.tree.map(lambda x: x + 0.1 * jax.random.normal(noise, x.shape), policy)
        return Learned(policy, parts.method.init(method_key, parts.view.method_dim))

    return parts, jax.jit(jax.vmap(init))(jax.random.split(jax.random.key(3), config.seeds))


@pytest.fixture
def untrained(here, monkeypatch):
    """Make the folder `run` of a run that has not been trained, and give the skills of its seeds all the same."""

    def make(config: RunConfig = CASES["xyo"]) -> list[wanderlust.Skills]:
        parts, everyone = fresh(config)
        monkeypatch.setattr(export, "load_learner", lambda source, parts: (7, everyone))
        Run.create(here / "run", config)
        return [wanderlust.Skills(parts, of_seed(everyone, seed)) for seed in range(config.seeds)]

    return make


def run_model(path: Path, **inputs) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(path)
    names = [x.name for x in session.get_outputs()]
    given = {name: np.asarray(x, np.float32) for name, x in inputs.items()}
    return dict(zip(names, session.run(names, given), strict=True))


def observations(spec, count: int) -> np.ndarray:
    """States as wide as random ones, up to 50 m away."""
    rng = np.random.default_rng(0)
    obs = np.array(spec.obs_mean) + np.array(spec.obs_std) * rng.normal(size=(count, spec.obs_dim))
    obs[:, list(spec.groups["position"])] = rng.uniform(-50, 50, size=(count, len(spec.groups["position"])))
    return obs.astype(np.float32)


def assert_same(skills: wanderlust.Skills, folder: Path, phi: bool = True) -> None:
    """On states that export did not look at. 2e-5: float32, in another order."""
    obs, z = observations(skills.spec, 50), skills.sample(50, seed=1)
    ours = run_model(folder / "policy.onnx", observation=obs, skill=z)
    np.testing.assert_allclose(ours["action"], skills.act(obs, z), rtol=0, atol=2e-5)
    noise = np.asarray(jax.random.normal(jax.random.key(5), ours["mean"].shape))
    drawn = np.tanh(ours["mean"] + np.exp(ours["log_std"]) * noise)
    np.testing.assert_allclose(drawn, skills.act(obs, z, seed=5), rtol=0, atol=5e-5)
    alone = run_model(folder / "policy.onnx", observation=obs[:1], skill=z[:1])
    np.testing.assert_allclose(alone["action"], ours["action"][:1], rtol=0, atol=2e-5)
    if phi:
        right = skills.phi(obs)
        size = np.maximum(1.0, np.linalg.norm(right, axis=1, keepdims=True))
        mapped = run_model(folder / "phi.onnx", observation=obs)["phi"]
        np.testing.assert_allclose(mapped / size, right / size, rtol=0, atol=1e-5)


# --- the graphs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BODIES)
def test_graphs_give_what_jax_gives(shelf, name):
    parts, learned, folder = shelf(name)
    assert_same(wanderlust.Skills(parts, learned), folder)
    card = json.loads((folder / "onnx.json").read_text())
    for part in ("policy", "phi"):
        model = onnx.load(folder / card[part]["file"])
        onnx.checker.check_model(model, full_check=True)
        assert (model.ir_version, [x.version for x in model.opset_import]) == (8, [17])
        session = onnxruntime.InferenceSession(folder / card[part]["file"])
        assert {x.name: x.shape for x in session.get_inputs()} == card[part]["inputs"]
        assert {x.name: x.shape for x in session.get_outputs()} == card[part]["outputs"]
        assert {x.type for x in (*session.get_inputs(), *session.get_outputs())} == {"tensor(float)"}
    assert card["checked"]["observations"] == 101 * export.EPISODES
    away = card["checked"]["largest_difference"]
    assert set(away) == {"action", "mean", "log_std", "phi"}
    assert 0 < away["action"] <= card["checked"]["tolerance"] == 1e-5
    assert 10 < card["checked"]["longest_phi"] < 1000


def test_log_std_is_kept_within_its_range(shelf, tmp_path):
    parts, learned, _ = shelf("ant")
    mlp = learned.policy.mlp
    head = dataclasses.replace(mlp.layers[-1], bias=np.repeat(np.float32([0, 9]), 8))  # far above the largest
    wide = dataclasses.replace(learned.policy, mlp=dataclasses.replace(mlp, layers=(*mlp.layers[:-1], head)))
    (tmp_path / "policy.onnx").write_bytes(export.policy_model(wide, parts.view, ""))
    found = run_model(tmp_path / "policy.onnx", observation=observations(parts.world.spec, 50), skill=np.ones((50, 2)))
    assert found["log_std"].max() == 2.0


@pytest.mark.parametrize("variant", ["", "xy", "o", "xyo"])
def test_variants_of_a_body(tmp_path, variant):
    """PointEnv observes the position and nothing else; here there is more to leave out."""
    spec = make_world(BodyConfig("ant")).spec
    view, key = View(spec, variant, position_scale=7.0), jax.random.key(0)
    policy = init_policy(key, spec.obs_dim, 3, spec.action_dim, (8,), jax.nn.relu)
    network = init_mlp(key, (view.method_dim, 8, 3), GLOROT_UNIFORM)
    (tmp_path / "policy.onnx").write_bytes(export.policy_model(policy, view, ""))
    (tmp_path / "phi.onnx").write_bytes(export.phi_model(network, view, ""))
    obs, z = observations(spec, 20), np.random.default_rng(1).normal(size=(20, 3)).astype(np.float32)
    action = jax.jit(lambda obs: mode_actions(policy, view.for_policy(obs), z))(obs)
    phi = jax.jit(lambda obs: jax.vmap(network)(view.for_method(obs)))(obs)
    np.testing.assert_allclose(
        run_model(tmp_path / "policy.onnx", observation=obs, skill=z)["action"], action, atol=1e-5
    )
    np.testing.assert_allclose(run_model(tmp_path / "phi.onnx", observation=obs)["phi"], phi, atol=1e-4)  # up to 100


@pytest.mark.parametrize("case", CASES)
def test_views_and_methods(untrained, case):
    view = CASES[case].method.view
    skills = untrained(CASES[case])[0]
    files, card = export_onnx(Run.open("run"))
    assert [str(path) for path in files] == [f"run/export/{name}" for name in FILES]
    assert_same(skills, files[0].parent)
    assert card["observation"]["policy_does_not_see"] == ([0, 1] if "o" in view else [])
    assert card["observation"]["phi_sees_only"] == ([0, 1] if "xy" in view else None)
    obs, z = observations(skills.spec, 2), np.repeat(skills.sample(1), 2, axis=0)
    # PointEnv observes the position and nothing else
    assert np.array_equal(*run_model(files[0], observation=obs, skill=z)["action"]) == ("o" in view)
    # DIAYN's discriminator looks at the goal alone
    assert card["phi"]["towards_goal"] == (None if case == "o" else "phi(goal) - phi(observation)")


@pytest.mark.parametrize("name", WITHOUT_PHI)
def test_a_method_without_phi_exports_its_policy_alone(untrained, command_line, here, name):
    (skills,) = untrained(WITHOUT_PHI[name])
    (here / "run/export").mkdir()
    (here / "run/export/phi.onnx").write_text("of another method")
    code, out, err = command_line("export", "run")
    assert (code, err) == (0, "")
    assert f"no phi.onnx: {name} has no map of states" in out
    assert_same(skills, here / "run/export", phi=False)
    assert json.loads((here / "run/export/onnx.json").read_text())["phi"] is None
    assert set(tree(here / "run/export")) == {"policy.onnx", "onnx.json"}


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def refused(command_line, here):
    def call(*args: object) -> str:
        before = tree(here)
        code, out, err = command_line("export", *args)
        assert (code, len(err.splitlines())) == (2, 1), out + err
        assert tree(here) == before
        return err

    return call


def test_it_says_what_it_did_and_replaces_what_it_did_before(untrained, command_line, here):
    first, second = untrained()
    code, out, err = command_line("export", "run", "--to", "onnx", "--seed", 1)
    assert (code, err) == (0, "")
    assert all(f"written: run/export/{name}" in out for name in FILES)
    assert re.search(r"differ over 96 observations by at most: action \d\.\de-\d\d; .*phi \d\.\de-\d\d", out)
    assert_same(second, here / "run/export")
    of_second = tree(here / "run/export")
    (here / "run/export/mine.txt").write_text("stays")
    assert command_line("export", "run")[0] == 0
    assert_same(first, here / "run/export")
    of_first = tree(here / "run/export")
    assert set(of_first) == {*FILES, "mine.txt"}
    assert all(of_second[name] != of_first[name] for name in FILES)


def test_what_is_wrong_is_one_line(refused, here):
    Run.create(here / "run", tiny_config())
    Run.create(here / "ibol", api.configure("point", "ibol"))
    assert "invalid choice 'torch' for argument '--to'" in refused("run", "--to", "torch")
    assert "run has no seed 1; it has 1" in refused("run", "--seed", 1)
    assert "there is no run folder nowhere" in refused("nowhere")
    assert "the zoo has no entry 'nosuch'" in refused("zoo:nosuch")
    assert "run has no checkpoint yet" in refused("run")
    assert "run/config.json is a file; choose another --out" in refused("run", "--out", "run/config.json")
    assert "ibol cannot be exported yet" in refused("ibol")


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_without_the_extra_it_says_what_to_install(refused, here, monkeypatch, package):
    Run.create(here / "run", tiny_config())
    monkeypatch.setitem(sys.modules, package, None)
    assert f"export needs {package}: pip install 'wanderlust[onnx]'" in refused("run")


def test_a_graph_that_differs_is_not_written(untrained, refused, monkeypatch):
    untrained()
    right = export.phi_model
    monkeypatch.setattr(export, "phi_model", lambda phi, *rest: right(jax.tree.map(lambda x: 1.01 * x, phi), *rest))
    assert re.search(r"not exported: phi of phi.onnx is \S+ from what JAX gives, and 1e-05 is allowed", refused("run"))


def test_no_number_is_not_equal(untrained, refused, monkeypatch):
    untrained()
    right = export._in_jax
    monkeypatch.setattr(export, "_in_jax", lambda *args: {**right(*args), "phi": np.full((96, 2), np.nan)})
    assert "phi of phi.onnx is nan" in refused("run")


def test_a_failed_write_leaves_what_was_there(untrained, command_line, refused, here, monkeypatch):
    untrained()
    assert command_line("export", "run", "--out", "else/where")[0] == 0
    assert set(tree(here / "else/where")) == set(FILES)
    assert "cannot write to run/config.json/x" in refused("run", "--out", "run/config.json/x")

    def full(path, data):
        raise wanderlust.UserError("no space left on the disk")

    monkeypatch.setattr(export, "write_json", full)  # the last file of all
    assert "no space left" in refused("run", "--out", "else/where")
    assert "no space left" in refused("run")


# --- without JAX -----------------------------------------------------------------------------------------------------


def drive(folder: Path, cwd: Path, *args: object) -> tuple[int, str, str]:
    """The example, where neither JAX nor wanderlust can be imported."""
    words = [str(DRIVE), str(folder), *map(str, args)]
    program = (
        "import runpy, sys; sys.modules.update(jax=None, wanderlust=None); "
        f"sys.argv = {words!r}; runpy.run_path({str(DRIVE)!r}, run_name='__main__')"
    )
    return run_python("-W", "error", "-c", program, cwd=cwd)


def ends(out: str) -> tuple[np.ndarray, np.ndarray, float]:
    numbers = [float(x) for x in re.findall(r"-?\d+\.\d*", out)]
    return np.array(numbers[:2]), np.array(numbers[2:4]), numbers[4]


def rolled_out(parts: train.Setup, learned: Learned, obs: np.ndarray, z: np.ndarray, steps: int) -> np.ndarray:
    """What our engine makes of a state of positions and velocities: the observation after some steps of a skill."""
    observe = jax.jit(jax.vmap(parts.world.observe))
    act = jax.jit(lambda obs: train.actions(parts, learned.policy, obs, z))
    physics, sensors = np.concatenate([[0.0], obs]), np.zeros((1, parts.world.model.nsensordata), np.float32)
    state = WorldState(physics.astype(np.float32)[None], sensors)
    for _ in range(steps):
        state = parts.engine.step(state, np.asarray(act(observe(state))))
    return np.asarray(observe(state))[0]


def test_the_example_drives_ant_as_the_engine_does(shelf, tmp_path):
    """Both from the same state. A walk is chaotic: rounding grows to metres within seconds, so where it ends is
    compared in the large, and single steps in the test below.
    """
    gymnasium = pytest.importorskip("gymnasium")
    parts, learned, folder = shelf("ant")
    card = json.loads((folder / "onnx.json").read_text())["env"]["gymnasium"]
    obs, _ = gymnasium.make(card["id"], **card["options"]).reset(seed=4)
    z = np.array([[-0.9, 0.9]], np.float32)
    code, out, err = drive(folder, tmp_path, "--seed", 4, "--skill", *z[0])
    assert code == 0, err
    start, end, distance = ends(out)
    np.testing.assert_allclose(start, obs[:2], atol=0.006)
    ends_at = rolled_out(parts, learned, obs, z, 100)  # the export of this fixture has episodes of 100 steps
    ours = ends_at[:2] - obs[:2]
    assert np.linalg.norm(ours) > 15
    assert distance > 15
    assert np.linalg.norm(end - start - ours) < 0.35 * np.linalg.norm(ours)


def test_the_example_goes_towards_a_goal(shelf, tmp_path):
    code, out, err = drive(shelf("ant")[2], tmp_path, "--goal", -60, 0)
    assert code == 0, err
    start, end, distance = ends(out)
    assert distance > 10
    assert start[0] - end[0] > 0.8 * distance


@pytest.mark.filterwarnings("ignore:.*settotalmass")
@pytest.mark.parametrize("name", BODIES)
def test_the_card_makes_the_same_body_in_gymnasium(shelf, here, name):
    """The same states for ten control steps: raw observations, rhythm and controls are what the card says."""
    gymnasium = pytest.importorskip("gymnasium")
    parts, learned, folder = shelf(name)
    world = json.loads((folder / "onnx.json").read_text())["env"]
    env = gymnasium.make(world["gymnasium"]["id"], **world["gymnasium"]["options"])
    low, high = (np.array(world["control"][x]) for x in ("low", "high"))
    assert env.unwrapped.dt == pytest.approx(world["control_seconds"])
    assert env.unwrapped.frame_skip == world["frame_skip"]
    obs, _ = env.reset(seed=0)
    z = wanderlust.Skills(parts, learned).sample(1)
    start, sizes = obs, env.unwrapped.model.nq
    for _ in range(10):
        action = run_model(folder / "policy.onnx", observation=obs[None], skill=z)["action"][0]
        obs, *_ = env.step(low + (action + 1) / 2 * (high - low))
    ours = rolled_out(parts, learned, start, z, 10)
    # Humanoid's file asks for another solver than zoo:humanoid was learned with
    np.testing.assert_allclose(obs[:sizes], ours[:sizes], atol=0.05 if name == "humanoid" else 0.005)


def test_the_example_refuses_goals_that_phi_does_not_lead_to(tmp_path):
    facts = {"method": "diayn", "env": {}, "skill": {}, "observation": {"position": []}, "phi": {"towards_goal": None}}
    (tmp_path / "onnx.json").write_text(json.dumps(facts))
    code, _, err = drive(tmp_path, tmp_path, "--goal", 1, 1)
    assert (code, err) == (1, "diayn does not go to goals by differences of phi\n")
