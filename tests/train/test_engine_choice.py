"""What a user reads and decides before a run: which engine and driver, how much memory, how long compilation took."""

import dataclasses
import json
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import wanderlust
from helpers import tiny_config
from trained import trained
from wanderlust import api, recipes, train
from wanderlust.config import SkillConfig, to_json
from wanderlust.envs import devices, make_engine, make_world
from wanderlust.envs.engines.warp import WarpEngine
from wanderlust.envs.worlds.body import BodyConfig
from wanderlust.envs.worlds.point import PointConfig
from wanderlust.errors import UserError
from wanderlust.evaluation.evaluate import evaluate
from wanderlust.report.progress import progress
from wanderlust.runs.run import Run
from wanderlust.train import loop, memory, stages, state

ANT = dataclasses.replace(tiny_config(engine="c", driver="split"), env=BodyConfig("ant", episode_length=5))


@pytest.fixture
def gpu(monkeypatch) -> None:
    """A machine on which JAX sees a GPU."""
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")


def chosen(*args: object, **options: object) -> tuple[str, str]:
    config = api.configure(*args, **options)
    return config.engine, config.driver


def refused(call, *args: object, **options: object) -> str:
    with pytest.raises(UserError) as caught:
        call(*args, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- engine and driver ----------------------------------------------------------------------------------------------


def test_without_a_gpu_bodies_run_on_c_and_split():
    assert chosen("ant") == ("c", "split")
    assert chosen("ant", recipe="paper") == ("c", "split")
    assert chosen("ant", recipe="fast", engine="auto") == ("c", "split")
    assert chosen("ant", recipe="fast", engine="c") == ("c", "split")
    assert chosen("ant", recipe="fast", set=("engine=c",)) == ("c", "split")
    assert chosen("ant", engine="warp") == ("warp", "fused")  # slow, but asked for
    assert chosen("point") == ("jax", "fused")
    assert chosen("point", driver="split") == ("jax", "split")


def test_with_a_gpu_bodies_run_on_warp_and_fused_unless_the_recipe_is_for_cores(gpu):
    assert chosen("ant") == ("c", "split")  # 64 worlds are too few for a GPU
    assert chosen("ant", engine="auto") == ("warp", "fused")
    assert chosen("ant", recipe="fast") == ("warp", "fused")
    assert chosen("ant", recipe="fast", driver="split") == ("warp", "split")
    assert chosen("ant", recipe="fast", set=("driver=split",)) == ("warp", "split")
    assert chosen("ant", engine="c") == ("c", "split")
    assert chosen("ant", recipe="paper") == ("c", "split")  # the recipe says so
    assert chosen("humanoid", set=("env.solver=stock",)) == ("c", "split")  # only this engine has PGS
    assert chosen("point") == ("jax", "fused")


def test_a_configuration_keeps_its_engine_and_driver(gpu, tmp_path):
    file = tmp_path / "config.json"
    file.write_text(to_json(dataclasses.replace(ANT, engine="warp")))
    assert chosen(config=file) == ("warp", "split")
    assert chosen(config=file, engine="warp") == ("warp", "fused")


def test_what_needs_a_gpu_says_so(tmp_path):
    message = refused(api.configure, "ant", recipe="fast")
    assert message.startswith("--recipe fast needs a GPU")
    assert "--recipe laptop" in message
    assert "--set engine=c" in message
    file = tmp_path / "config.json"
    file.write_text(to_json(dataclasses.replace(ANT, engine="warp")))
    assert refused(api.configure, config=file).startswith(f"--config {file} needs a GPU")


@pytest.mark.parametrize("options", [{"driver": "fused"}, {"set": ("driver=fused",)}])
def test_c_cannot_be_fused(tmp_path, options):
    config = api.configure("ant", engine="c", **options)
    message = refused(api.start_run, config, tmp_path / "run")
    assert "the engine c cannot" in message
    assert "--driver split" in message
    assert list(tmp_path.iterdir()) == []


def test_an_engine_that_cannot_move_a_world_is_refused():
    assert "--engine c cannot step point" in refused(api.configure, "point", engine="c")
    assert "--engine jax cannot step ant" in refused(api.configure, "ant", engine="jax")


def test_the_line_says_which_engine_and_why(monkeypatch):
    ant, point = BodyConfig("ant"), PointConfig()
    assert loop.describe_engine(ant) == "engine: c (JAX sees no GPU)"
    assert loop.describe_engine(ant, "c") == "engine: c (JAX sees no GPU)"
    assert loop.describe_engine(ant, "warp") == "engine: warp (asked for)"
    assert loop.describe_engine(point) == "engine: jax (its dynamics are a formula)"
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    kind = jax.devices()[0].device_kind
    assert loop.describe_engine(ant) == f"engine: warp (there is a GPU ({kind}))"
    assert loop.describe_engine(ant, "c") == "engine: c (asked for)"
    stock = BodyConfig("humanoid", solver="stock")
    assert "PGS" in loop.describe_engine(stock)


def test_an_engine_that_only_the_recipe_names_was_not_asked_for(gpu, capsys):
    def advance(state, epochs):
        return state, {}

    advance.working_bytes = 0
    with progress(1, "epoch") as line:
        loop._prepare(line, train.assemble(ANT), advance, None)
    assert capsys.readouterr().err.splitlines()[0] == "engine: c (as configured)"


def test_the_engine_that_was_chosen_is_recorded(tmp_path):
    run = api.start_run(tiny_config(engine="auto"), tmp_path / "run")
    assert run.config.engine == Run.open(run.path).config.engine == "jax"
    assert json.loads((run.path / "provenance.json").read_text())["engine"] == "jax"


def test_a_run_goes_on_without_the_gpu_it_began_on(tmp_path):
    config = dataclasses.replace(ANT, engine="warp", driver="fused")
    run = Run.create(tmp_path / "run", config)
    run.save(2, train.to_save(train.init(train.assemble(ANT))))
    text = (run.path / "config.json").read_bytes()
    message = refused(api.open_to_resume, run.path)
    assert "the engine warp, which needs a GPU" in message
    assert "--engine c" in message
    here = api.open_to_resume(run.path, "auto")
    assert (here.config.engine, here.config.driver) == ("c", "split")
    assert api.train(here, quiet=True).epoch == 4
    assert (run.path / "config.json").read_bytes() == text
    record = json.loads((run.path / "provenance.json").read_text())
    assert (record["engine"], record["driver"]) == ("warp", "fused")
    assert [(r["engine"], r["driver"]) for r in record["resumed"]] == [("c", "split")]


# --- memory -----------------------------------------------------------------------------------------------------------


def test_a_transition_is_counted_to_the_byte():
    parts = train.assemble(tiny_config(seeds=3))
    needed = memory.count(parts, 10)
    capacity = 4 * 5 * 2
    counters = 2 * 4
    assert needed.replay == 3 * (capacity * ((2 + 2 + 2 + 2) * 4 + 2) + counters)  # eight floats and two flags
    assert needed.physics == 0
    state = jax.eval_shape(lambda: train.init(parts))
    real = jax.tree.leaves(train.init(parts).learner)
    assert needed.networks == memory.size(state.learner) == sum(x.nbytes for x in real)


@pytest.mark.parametrize("driver", ["fused", "split"])
def test_the_compiler_says_what_a_larger_batch_needs(driver):
    def needed(batch: int) -> memory.MemoryUse:
        parts = train.assemble(tiny_config(driver=driver, sac_hidden=(128, 128), schedule_sac_batch=batch))
        advance = train.make_driver(parts)
        advance(train.init(parts), 0)
        return memory.count(parts, 10, advance.working_bytes)

    before, small, large = memory.count(train.assemble(tiny_config()), 10), needed(64), needed(512)
    activations = 448 * (128 + 128) * 4  # one network's, of the rows that are more
    assert small.working >= before.working > 0
    assert activations < large.working - small.working < 40 * activations


SKILLS = (SkillConfig(), SkillConfig("continuous", 5), SkillConfig("discrete", 16))


@pytest.mark.parametrize("env", recipes.BODIES)
@pytest.mark.parametrize("skills", SKILLS, ids=str)
def test_fast_recipes_fit_a_gpu_of_16_gb(env, skills):
    """JAX takes three quarters of a GPU when it starts; the engine has the rest."""
    config = recipes.get_recipe("fast", env, "lsd", skills)
    needed = memory.count(train.assemble(config), loop.PROBE_EPISODES)
    assert needed.arrays < 0.75 * 16e9
    assert 0 < needed.physics < 0.25 * 16e9


def needs(**changes: int) -> memory.MemoryUse:
    return memory.MemoryUse(2**28, 2**28, 2**28, 2**28)._replace(**changes)


@pytest.mark.parametrize(
    ("largest", "lower"),
    [
        ("networks", "sac.hidden or method.hidden"),
        ("replay", "schedule.replay_collections or schedule.worlds"),
        ("working", "schedule.sac_batch or schedule.worlds"),
        ("physics", "schedule.worlds"),
    ],
)
def test_a_run_that_does_not_fit_says_what_to_lower(largest, lower):
    room = memory.Room(2**30, None, "this machine")
    memory.check(needs(), room, 1)  # exactly
    message = refused(memory.check, needs(**{largest: 2**29}), room, 1)
    assert "needs 1.2 GiB" in message
    assert "this machine has 1.0 GiB" in message
    assert message.endswith(f"; lower {lower}")
    assert refused(memory.check, needs(**{largest: 2**29}), room, 4).endswith(f"; lower {lower}, or --seeds")


def test_on_a_gpu_the_engine_has_what_jax_leaves():
    memory.check(needs(), memory.Room(3 * 2**28, 2**28, "a GPU"), 1)
    message = refused(memory.check, needs(), memory.Room(2**40, 2**27, "a GPU"), 1)
    assert "256.0 MiB for its physics buffers" in message
    assert "a GPU has 1,024.0 GiB for JAX and 128.0 MiB beside it" in message
    assert "schedule.worlds" in message


def test_a_run_that_does_not_fit_leaves_no_folder(tmp_path, monkeypatch):
    run = trained(seeds=3)
    monkeypatch.setattr(devices, "host_memory", lambda: 10_000)
    assert "GiB for networks and replay" in refused(api.start_run, tiny_config(), tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
    assert "GiB for networks and replay" in refused(api.open_to_resume, run.path)


@pytest.mark.parametrize(
    ("limit", "cores"),
    [
        ("max 100000", 8),
        ("300000 100000", 3),
        ("350000 100000", 3),
        ("50000 100000", 1),
        ("9900000 100000", 8),
        ("", 8),
    ],
)
def test_a_container_may_have_the_time_of_fewer_cores(tmp_path, monkeypatch, limit, cores):
    monkeypatch.setattr(devices.os, "sched_getaffinity", lambda _: range(8), raising=False)
    monkeypatch.setattr(devices, "CONTROL_GROUP", tmp_path)
    assert devices.cores() == 8
    (tmp_path / "cpu.max").write_text(f"{limit}\n")
    assert devices.cores() == cores


def test_a_container_may_have_less_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(devices, "CONTROL_GROUP", tmp_path)
    whole = devices.host_memory()
    (tmp_path / "memory.max").write_text("max\n")
    assert devices.host_memory() == whole
    (tmp_path / "memory.max").write_text("1048576\n")
    assert devices.host_memory() == 2**20


# --- time -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def slow(monkeypatch) -> None:
    """A driver that takes 0.2 s to compile and 0.02 s an epoch, and a look at the skills that takes 0.1 s."""

    def driver(parts: train.Setup) -> train.Driver:
        def advance(state: train.TrainState, epochs: int) -> tuple[train.TrainState, dict[str, jax.Array]]:
            time.sleep(0.02 * epochs if epochs else 0.2)
            steps = jnp.full(parts.config.seeds, parts.config.schedule.collection)
            return state, {"reward": jnp.zeros(parts.config.seeds), "steps": steps}

        advance.working_bytes = 0
        return advance

    def probe(parts: train.Setup, episodes: int):
        def look(policy):
            time.sleep(0.1)
            return type("Seen", (), {"obs": np.zeros((parts.config.seeds, 3, episodes, 2))})

        return look

    monkeypatch.setattr(train, "make_driver", driver)
    monkeypatch.setattr(train, "make_probe", probe)


def test_training_time_is_kept_apart_from_compilation_and_looks(tmp_path, slow):
    run = stages.start(tiny_config(epochs=8, log_every=2, checkpoint_every=2), tmp_path / "run")
    assert loop.run_training(run, budget_seconds=0.5, quiet=True).reason == "budget"
    first = run.metrics()
    assert 1 <= len(first) < 4
    assert loop.run_training(run, quiet=True).epoch == 8
    rows = run.metrics()
    assert rows[: len(first)] == first
    trained_for = [row["train_seconds"] for row in rows]
    for n, (trained_, row) in enumerate(zip(trained_for, rows, strict=True), 1):
        assert trained_ >= n * 0.04
        compiled = 0.2 if n <= len(first) else 0.4
        assert row["seconds"] >= trained_ + compiled + n * 0.1
    assert trained_for == sorted(trained_for)
    assert trained_for[-1] < 0.2 + 4 * 0.04  # neither compilation nor any look is in it
    assert [row["seconds"] for row in rows] == sorted(row["seconds"] for row in rows)


@pytest.mark.parametrize("driver", ["fused", "split"])
def test_compiling_ahead_changes_nothing(driver):
    parts = train.assemble(tiny_config(seeds=3, driver=driver))
    advance = train.make_driver(parts)
    state, _ = advance(train.init(parts), 0)
    before, after = (tree._replace(key=jax.random.key_data(tree.key)) for tree in (train.init(parts), state))
    for a, b in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    compiled = set()

    def listener(name, _, **about):
        compiled.add((name, *about.values()))

    jax.monitoring.register_event_duration_secs_listener(listener)
    try:
        jax.block_until_ready(advance(state, 2))
    finally:
        jax.monitoring.unregister_event_duration_listener(listener)
    programs = {about[0] for event, *about in compiled if about and "backend_compile" in event}
    assert programs <= {"jit(add)", "jit(true_divide)", "jit(maximum)"}  # the mean of the metrics, no more


def test_what_is_waited_for_is_said(tmp_path, capsys, slow):
    run = stages.start(tiny_config(), tmp_path / "run")
    loop.run_training(run)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "engine: jax (its dynamics are a formula)"
    assert lines[1] == "compiling the training program, or fetching it from the cache ..."
    assert float(lines[2].removeprefix(lines[1].removesuffix(" ...") + ": ").removesuffix(" s")) >= 0.2
    assert lines[3].startswith("memory: networks and optimisers ")
    assert "MiB" in lines[3]
    assert any("epoch 4/4  80 steps  " in line for line in lines)
    assert lines[-1].startswith("saving the last checkpoint: ")


def test_kernels_are_loaded_before_anything_is_compiled(monkeypatch, capsys):
    order = []
    monkeypatch.setattr(WarpEngine, "prepare", lambda self, worlds: order.append(worlds))
    config = dataclasses.replace(ANT, seeds=2)
    parts = dataclasses.replace(train.assemble(config), engine=WarpEngine(make_world(config.env)))

    def advance(state, epochs):
        order.append("compile")
        return state, {}

    advance.working_bytes = 0
    with progress(1, "epoch") as line:
        loop._prepare(line, parts, advance, None)
    assert order == [2 * config.schedule.worlds, 2 * loop.PROBE_EPISODES, "compile"]
    assert "loading the physics kernels (a minute the first time on this machine)" in capsys.readouterr().err


@pytest.mark.parametrize(
    "call", [lambda: wanderlust.discover("ant", engine="x"), lambda: wanderlust.normalise("ant", engine="x")]
)
def test_an_unknown_engine_is_refused_from_python_too(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="'x'; it must be one of auto, jax, c, warp"):
        call()
    assert list(tmp_path.iterdir()) == []


def test_a_command_builds_its_engine_once(tmp_path, monkeypatch):
    """Checking, training, looking at the skills and evaluating them share one."""
    built = []
    monkeypatch.setattr(state, "make_engine", lambda *args: built.append(args) or make_engine(*args))
    train.assemble.cache_clear()
    run = stages.start(loop.resolve_engine(tiny_config()), tmp_path / "run")
    loop.run_training(run, quiet=True)
    evaluate(run, episodes=4, engine=run.config.engine)
    assert len(built) == 1
