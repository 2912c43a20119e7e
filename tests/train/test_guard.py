"""Physics that breaks down: the run stops, keeps its last good checkpoint, and leaves what is needed to see why."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import body_state, tiny_config
from trained import copy_of, trained, tree
from wanderlust import cli, train
from wanderlust.envs import WorldState, make_engine, make_world
from wanderlust.envs.engines.formula import JaxEngine
from wanderlust.envs.engines.mujoco_c import CEngine
from wanderlust.envs.worlds.body import BodyConfig
from wanderlust.envs.worlds.point import PointConfig
from wanderlust.errors import UserError
from wanderlust.runs import broken as broken_files
from wanderlust.runs.broken import Broken, Origin, replay
from wanderlust.runs.files import ArrayFile, write_arrays
from wanderlust.runs.loading import load
from wanderlust.runs.run import Run
from wanderlust.train import guard as guard_module
from wanderlust.train import loop, stages
from wanderlust.train import state as train_state

ANT = dataclasses.replace(tiny_config(engine="c", driver="split"), env=BodyConfig("ant", episode_length=5))


@dataclasses.dataclass(frozen=True)
class Breaking(JaxEngine):
    """PointEnv up to a distance of 0.5, and nothing beyond."""

    def step(self, state, action):
        after = super().step(state, action)
        out = jnp.any(jnp.abs(after.physics) > 0.5, axis=1, keepdims=True)
        return after._replace(physics=jnp.where(out, jnp.nan, after.physics))


@dataclasses.dataclass(frozen=True)
class BreakingOnHost(Breaking):
    compiles: bool = False

    def step(self, state, action):
        return jax.tree.map(np.array, super().step(*jax.tree.map(jnp.asarray, (state, action))))


@pytest.fixture
def overflow(monkeypatch):
    """As MuJoCo Warp does it: a body that breaks down needs more room than there is."""
    found = "the buffers overflowed: 12 contacts (room for 10)"
    return lambda: monkeypatch.setattr(JaxEngine, "overflow", lambda self: found)


def with_engine(kind):
    return lambda world, name="auto": kind(world)


def stopped(run: Run) -> str:
    """The one line with which training stops."""
    with pytest.raises(UserError) as caught:
        loop.run_training(run, quiet=True)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def wanderlust(capsys):
    def call(*args: object) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            cli.main([str(arg) for arg in args])
        return stop.value.code, *capsys.readouterr()

    return call


# --- the run stops ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("driver", "engine"), [("fused", Breaking), ("split", BreakingOnHost)])
def test_a_world_that_breaks_down_stops_the_run_and_can_be_replayed(tmp_path, monkeypatch, wanderlust, driver, engine):
    run = copy_of(trained(seeds=3), tmp_path / "run")
    run = dataclasses.replace(run, config=dataclasses.replace(run.config, driver=driver))
    run.checkpoints()[4].unlink()
    run.rewind(2)
    good = tree(run.path)

    train.assemble.cache_clear()  # it may hold this run with another engine
    with monkeypatch.context() as patch:
        patch.setattr(train_state, "make_engine", with_engine(engine))
        message = stopped(run)
    file = run.path / "broken" / "epoch-00000004.safetensors"
    assert "the physics of point broke down before epoch 4 (seed 0, 1, 2)" in message
    assert f"`wanderlust replay {file} --engine jax`" in message
    assert f"the last good checkpoint is kept in {run.path / 'checkpoints'}" in message
    left = tree(run.path)
    assert set(left) - set(good) == {"broken/", "broken/epoch-00000004.safetensors"}
    assert {name: left[name] for name in good if name != "provenance.json"} == {
        name: data for name, data in good.items() if name != "provenance.json"
    }

    broken = Broken.read(file)
    assert broken.origin == Origin(run.config.env, "jax", 4)
    assert broken.seed.tolist() == [0, 1, 2]
    before = WorldState(jnp.asarray(broken.physics), jnp.zeros((3, 0)))
    assert np.all(np.isfinite(before.physics))
    after = Breaking(make_world(run.config.env)).step(before, jnp.asarray(broken.action))
    assert np.all(np.isnan(after.physics))  # it is this step that did it
    code, out, err = wanderlust("replay", file)
    assert (code, err) == (0, "")  # with PointEnv's own engine all is well
    assert "point, before epoch 4, on the engine jax" in out
    assert out.count("survives the step") == 3

    load(run.path)  # the last good checkpoint is whole, and the run goes on from it
    if driver == "fused":
        assert loop.run_training(loop.resume(run.path), quiet=True) == loop.Outcome(4, "finished")


def test_an_overflow_stops_the_run(tmp_path, overflow):
    run = copy_of(trained(seeds=3), tmp_path / "run")
    run.checkpoints()[4].unlink()
    overflow()
    assert stopped(run) == (
        "before epoch 4 the buffers overflowed: 12 contacts (room for 10) "
        f"(the last good checkpoint is kept in {run.path / 'checkpoints'})"
    )
    assert list(run.checkpoints()) == [2]
    assert [row["epoch"] for row in run.metrics()] == [2]


def test_a_world_that_breaks_down_in_an_overflow_can_be_replayed(tmp_path, monkeypatch, overflow, wanderlust):
    run = copy_of(trained(seeds=3), tmp_path / "run")
    overflow()
    run.checkpoints()[4].unlink()
    with monkeypatch.context() as patch:
        patch.setattr(train_state, "make_engine", with_engine(Breaking))
        message = stopped(run)
    file = run.path / "broken" / "epoch-00000004.safetensors"
    assert message.startswith("the physics of point broke down before epoch 4 (seed 0, 1, 2)")
    assert message.endswith(
        f"`wanderlust replay {file} --engine jax` shows where it goes wrong; the buffers overflowed: 12 contacts (room "
        f"for 10) (the last good checkpoint is kept in {run.path / 'checkpoints'})"
    )
    assert list(run.checkpoints()) == [2]

    monkeypatch.setattr(broken_files, "make_engine", with_engine(Breaking))
    code, out, err = wanderlust("replay", file, "--engine", "jax")
    assert (code, err) == (1, "")
    assert "breaks down: not finite; the buffers overflowed: 12 contacts (room for 10)\n" in out
    monkeypatch.setattr(broken_files, "make_engine", with_engine(JaxEngine))
    code, out, err = wanderlust("replay", file, "--engine", "jax")
    assert (code, err) == (2, "wanderlust: the buffers overflowed: 12 contacts (room for 10)\n")
    assert "survives" not in out  # with physics that was wrong, that would mean nothing


@pytest.mark.parametrize(("overflows", "also"), [(False, " ("), (True, "; the buffers overflowed: 12 contacts")])
def test_a_learner_that_diverges_is_no_matter_of_physics(tmp_path, monkeypatch, overflow, overflows, also):
    if overflows:
        overflow()
    run = copy_of(trained(seeds=3), tmp_path / "run")
    run.checkpoints()[4].unlink()
    epoch, state = run.load(train.saved_form(train.assemble(run.config)))
    sac = state.learner.sac
    sac = sac._replace(policy=jax.tree.map(lambda x: x.at[1].set(jnp.nan), sac.policy))
    spoilt = state._replace(learner=state.learner._replace(sac=sac))
    with pytest.raises(UserError, match="not finite"):
        run.save(epoch, spoilt)
    parts = train.assemble(run.config)
    monkeypatch.setattr(loop, "last_state", lambda *_: (epoch, train_state.restore(parts, spoilt)))
    message = stopped(run)  # although the actions, and so the worlds, are not finite either
    assert "training diverged before epoch 4: " in message
    assert "actions and " in message
    assert "more not finite, or beyond 1e+15; smaller learning rates may help" in message and also in message
    assert not run.broken.exists()


# --- back to the last good checkpoint -----------------------------------------------------------------------------


def arrays_of(path):
    file = ArrayFile(path)
    return {name: file.read(name).tobytes() for name in file.shapes()}


@pytest.fixture
def diverging_once(monkeypatch):
    """Training that diverges before epoch 4 unless its noise is fresh: what a rare accident looks like."""
    real, seen = loop.stop_if_broken, []
    first = jax.random.key_data(trained_keys())

    def guard(run, parts, epoch, state, values):
        real(run, parts, epoch, state, values)
        if epoch == 4 and np.array_equal(jax.random.key_data(state.key), first):
            seen.append(epoch)
            raise guard_module.DivergedError("training diverged before epoch 4: by accident")

    monkeypatch.setattr(loop, "stop_if_broken", guard)
    return seen


def trained_keys():
    run = trained()
    return run.load(train.saved_form(train.assemble(run.config)))[1].key


def test_a_run_goes_back_to_its_last_good_checkpoint_and_on_with_fresh_noise(tmp_path, diverging_once, monkeypatch):
    made = [copy_of(trained(), tmp_path / name) for name in ("whole", "killed")]
    for run in made:
        run.checkpoints()[4].unlink()
    with pytest.raises(UserError, match=r"by accident$"):
        loop.run_training(made[0], quiet=True)
    assert list(made[0].checkpoints()) == [2]

    assert loop.run_training(made[0], quiet=True, rollbacks=1) == loop.Outcome(4, "finished")
    counts = made[0].counts(4)
    once = trained().counts(4).env_steps - trained().counts(2).env_steps
    assert (counts.rollbacks, counts.env_steps) == (1, trained().counts(4).env_steps + once)
    assert [row["epoch"] for row in made[0].metrics()] == [2, 4]
    (turn,) = made[0].provenance()["rolled_back"]
    assert turn == {"to_epoch": 2, "before_epoch": 4, "why": "training diverged before epoch 4: by accident"}
    ends = [arrays_of(run.checkpoints()[4]) for run in (made[0], trained())]
    weights = [name for name in ends[0] if name.startswith("learner/sac/policy") and name.endswith("weight")]
    assert weights and not [name for name in weights if ends[0][name] == ends[1][name]]

    with monkeypatch.context() as patch:  # killed after it went back, before the next checkpoint
        patch.setattr(Run, "save", lambda *_: (_ for _ in ()).throw(MemoryError))
        with pytest.raises(MemoryError):
            loop.run_training(made[1], quiet=True, rollbacks=1)
    assert loop.run_training(made[1], quiet=True, rollbacks=1).epoch == 4
    assert arrays_of(made[1].checkpoints()[4]) == ends[0] and len(diverging_once) == 4


def test_a_run_goes_back_as_often_as_it_may_and_then_stops(tmp_path, monkeypatch):
    run = copy_of(trained(seeds=3), tmp_path / "run")
    run.checkpoints()[4].unlink()
    train.assemble.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(train_state, "make_engine", with_engine(Breaking))
        with pytest.raises(UserError, match=r"broke down before epoch 4 .*it went back 2 times, as often as it may"):
            loop.run_training(run, quiet=True, rollbacks=2)
    assert list(run.checkpoints()) == [2] and len(run.provenance()["rolled_back"]) == 2
    train.assemble.cache_clear()


def test_numbers_beyond_all_measure_have_diverged(tmp_path):
    learner = {"weight": jnp.array([1.0, -2e15]), "fine": jnp.array([-9e14]), "count": jnp.array([2**31 - 1])}
    assert guard_module.exploded(learner) == ["weight"]


# --- MuJoCo -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def too_fast(tmp_path_factory) -> tuple[Run, str]:
    """A run whose Ants move at 1e10 m/s, and the line with which it stopped."""
    folder = tmp_path_factory.mktemp("ant")
    run = stages.start(ANT, folder / "run")
    state = train.init(train.assemble(ANT))
    fast = state.worlds.state.physics.at[..., 16:].set(1e10)
    state = state._replace(worlds=state.worlds._replace(state=state.worlds.state._replace(physics=fast)))
    run.save(2, train.to_save(state))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        message = stopped(run)
    return run, message


def test_an_ant_that_breaks_down_stops_the_run(too_fast):
    run, message = too_fast
    assert "the physics of ant broke down before epoch 4 (seed 0)" in message
    assert f"`wanderlust replay {run.broken / 'epoch-00000004.safetensors'} --engine c`" in message
    assert list(run.checkpoints()) == [2]
    assert [path.name for path in run.path.parent.iterdir()] == ["run"]  # no MUJOCO_LOG.TXT
    file = ArrayFile(run.broken / "epoch-00000004.safetensors")
    assert file.shapes() == {"seed": (1,), "physics": (1, 30), "action": (1, 8)}
    np.testing.assert_array_equal(file.read("physics")[:, 16:], np.full((1, 14), 1e10, np.float32))


def test_replay_shows_every_physics_step_up_to_the_bad_one(too_fast, tmp_path, monkeypatch, wanderlust):
    run, _ = too_fast
    monkeypatch.chdir(tmp_path)
    code, out, err = wanderlust("replay", run.broken / "epoch-00000004.safetensors")
    assert (code, err) == (1, "")
    assert "engine: c" in out
    assert "BADQACC" in out
    (world,) = replay(Broken.read(run.broken / "epoch-00000004.safetensors"), "c")
    assert not world.finite
    assert [step.finite for step in world.substeps] == [True] * (len(world.substeps) - 1) + [False]
    assert f"breaks down: not finite after physics step {len(world.substeps)}" in out
    assert list(tmp_path.iterdir()) == []


def test_replay_of_a_sound_state_shows_what_the_engine_does(tmp_path, monkeypatch, wanderlust):
    world = make_world(BodyConfig("ant"))
    state = jax.jit(jax.vmap(world.initial))(jax.random.split(jax.random.key(0), 2))
    action = np.full((2, 8), 0.3, np.float32)
    file = tmp_path / "sound.safetensors"
    origin = Origin(world.config, "warp", 7)
    Broken(origin, np.array([0, 5], np.int32), np.array(state.physics), action).write(file)
    code, out, _ = wanderlust("replay", file)
    assert code == 0
    assert "ant, before epoch 7, on the engine warp" in out
    assert out.count("survives the step") == 2
    with monkeypatch.context() as patch:
        patch.setattr(jax, "default_backend", lambda: "gpu")
        assert "engine: c (it shows every physics step)" in wanderlust("replay", file)[1]
        assert "engine: c (asked for)" in wanderlust("replay", file, "--engine", "c")[1]
    seen = list(replay(Broken.read(file), "c"))
    assert [len(world.substeps) for world in seen] == [5, 5]
    after = make_engine(world, "c").step(jax.device_get(state), action)
    np.testing.assert_allclose(
        [w.substeps[-1].speed for w in seen], np.abs(after.physics[:, 16:]).max(axis=1), rtol=1e-6
    )


def test_mujoco_would_hide_what_happened():
    """Its engine puts a body back to the start and goes on; `envs/worlds/body.py` tells it not to."""
    world = make_world(BodyConfig("ant"))
    model = world.model
    state = body_state(np.tile(model.qpos0, (2, 1)), np.stack([np.zeros(model.nv), np.full(model.nv, 1e10)]))
    engine, plain = CEngine(world), CEngine(world)
    plain._model = model
    with loop.muted():
        ours, theirs = (e.step(state, np.zeros((2, 8))) for e in (engine, plain))
    assert np.isfinite(ours.physics).all(axis=1).tolist() == [True, False]
    assert np.isfinite(theirs.physics).all()
    assert np.abs(theirs.physics[:, 16:]).max() < 10


# --- files from anywhere --------------------------------------------------------------------------------------------


def about(**changes: object) -> dict[str, str]:
    origin = {"env": dataclasses.asdict(PointConfig()), "engine": "jax", "epoch": 4, **changes}
    return {"format": "wanderlust-broken-2", "origin": json.dumps(origin)}


ARRAYS = {
    "seed": np.zeros(1, np.int32),
    "physics": np.zeros((1, 2), np.float32),
    "action": np.zeros((1, 2), np.float32),
}


@pytest.mark.parametrize(
    ("arrays", "metadata", "message"),
    [
        ({}, {"format": "wanderlust-checkpoint-1"}, "holds no broken environments"),
        ({}, about(engine="steam"), "engine is 'steam'"),
        ({}, about(env={"name": "moon"}), "env.name: unknown environment 'moon'"),
        ({}, {**about(), "origin": "{"}, "not valid JSON"),
        ({"physics": np.zeros((1, 3), np.float32)}, about(), "at physics: (1, 3) instead of (1, 2)"),
        ({"action": np.zeros((2, 2), np.float32)}, about(), "at action: (2, 2) instead of (1, 2)"),
        ({"action": np.zeros((1, 2))}, about(), "at action: float64"),
        ({"seed": np.zeros(0, np.int32)}, about(), "at seed: (0,) instead of (1,)"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path, wanderlust, arrays, metadata, message):
    file = tmp_path / "file.safetensors"
    write_arrays(file, {**ARRAYS, **arrays}, metadata)
    code, out, err = wanderlust("replay", file)
    assert code == 2, out
    assert message in err
    assert str(file) in err
    assert len(err.splitlines()) == 1


def test_a_file_that_is_not_there_is_refused(tmp_path, wanderlust):
    code, _, err = wanderlust("replay", tmp_path / "no")
    assert code == 2
    assert f"there is no file {tmp_path / 'no'}" in err
    write_arrays(tmp_path / "yes", ARRAYS, about())
    assert wanderlust("replay", tmp_path / "yes")[0] == 0
    assert "--engine c cannot step point" in wanderlust("replay", tmp_path / "yes", "--engine", "c")[2]
