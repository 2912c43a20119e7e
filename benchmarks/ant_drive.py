"""Make zoo:ant-drive: skills of Ant that are driven from goal to goal and get up when they fall.

python benchmarks/ant_drive.py falls     # where zoo:ant-agile-10 falls: states from just before to well after
python benchmarks/ant_drive.py stand     # learn to get up, from any pose and from those falls
python benchmarks/ant_drive.py teachers  # how teachers drive that get up at other heights, or turn their skills more
python benchmarks/ant_drive.py distil    # teach one policy to drive and to get up
python benchmarks/ant_drive.py finish    # an evaluated run of it, for `wanderlust publish`

All in runs/ant-drive. `stand` and `distil` write how far they are, and go on from there.
benchmarks/reports/2026-11-19_tasks_and_driving.md says what
came of it.
"""

import dataclasses
import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float
from numpy.typing import NDArray

from wanderlust import train
from wanderlust.config import SacConfig, ScheduleConfig
from wanderlust.envs import WorldState
from wanderlust.envs.engines.mujoco_c import CEngine
from wanderlust.evaluation.drive import RANGE, random_goals
from wanderlust.evaluation.evaluate import evaluate
from wanderlust.methods.views import seen_from_body
from wanderlust.rl import replay as ring
from wanderlust.rl.nets import TanhNormal, descend
from wanderlust.rl.sac import Batch, Sac, SacState
from wanderlust.runs.checkpoints import FORMAT, read_tree, write_tree
from wanderlust.runs.files import ArrayFile, append_line, write_arrays, write_json
from wanderlust.runs.learned import Learned, choose_skill, load_learner, load_stored, of_seed
from wanderlust.runs.run import Run
from wanderlust.runs.zoo import open_run

WORK = Path("runs/ant-drive")
DRIVER = "zoo:ant-agile-10"


def say(line: str) -> None:
    """Tell how it goes."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


# --- the body as it feels itself: the same whichever way it looks on the floor ----------------------------------------

ANKLES = np.array([1.0, -1.0, -1.0, 1.0])
"""Which way each leg's ankle bends for a positive angle."""
FELT = 27


def rotation(quaternion: Float[Array, "*b 4"]) -> Float[Array, "*b 3 3"]:
    """Of unit or nearly unit quaternions: columns are the body's axes in the world."""
    w, x, y, z = jnp.moveaxis(quaternion / jnp.linalg.norm(quaternion, axis=-1, keepdims=True), -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return jnp.stack([jnp.stack(row, -1) for row in rows], -2)


def upward(obs: Float[Array, "*b obs"]) -> Float[Array, "*b"]:
    """The height of the body's own upward axis: 1 upright, -1 on its back."""
    return rotation(obs[..., 3:7])[..., 2, 2]


def felt(obs: Float[Array, "*b 29"]) -> Float[Array, "*b felt"]:
    """What is observed of Ant, as seen from the body: up, height, velocities, joints; all ankles bend the same way."""
    turn = rotation(obs[..., 3:7])
    up = turn[..., 2, :]
    velocity = jnp.einsum("...ij,...i->...j", turn, obs[..., 15:18])
    height = obs[..., 2:3]
    signs = jnp.stack([jnp.ones(4), jnp.asarray(ANKLES)], 1).reshape(8)
    offset = jnp.tile(jnp.array([0.0, 0.87]), 4)
    joints = obs[..., 7:15] * signs - offset
    return jnp.concatenate(
        [
            up,
            height - 0.5,
            jnp.clip(height - 0.5, -0.3, 0.3) * 3,
            velocity * 0.7,
            obs[..., 18:21] * 0.4,
            2.5 * joints,
            obs[..., 21:29] * signs * 0.2,
        ],
        -1,
    )


def symmetries() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Ant turned by quarters and in a mirror is an Ant: what that does to what is felt and to actions, [8, n, n]."""
    quarter = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])
    mirror = np.diag([-1.0, 1, 1])
    around = np.roll(np.eye(4), 1, axis=0)  # leg i becomes leg i + 1
    across = np.eye(4)[[1, 0, 3, 2]]
    signs = np.stack([np.ones(4), ANKLES], 1).reshape(8)
    order = np.zeros((8, 8))  # actions begin with the fourth leg
    for leg in range(4):
        for joint in range(2):
            order[2 * leg + joint, 2 * ((leg + 1) % 4) + joint] = signs[2 * leg + joint]

    def of(turn: NDArray[Any], legs: NDArray[Any], hips: float) -> tuple[NDArray[Any], NDArray[Any]]:
        joints = np.kron(legs, np.diag([hips, 1.0]))
        spin = np.linalg.det(turn) * turn
        whole = np.zeros((FELT, FELT))
        at = 0
        for block in (turn, np.eye(2), turn, spin, joints, joints):
            whole[at : at + len(block), at : at + len(block)] = block
            at += len(block)
        return whole, order.T @ joints @ order

    found = []
    for k in range(4):
        for flip in range(2):
            turn = np.linalg.matrix_power(quarter, k) @ (mirror if flip else np.eye(3))
            legs = np.linalg.matrix_power(around, k) @ (across if flip else np.eye(4))
            found.append(of(turn, legs, -1.0 if flip else 1.0))
    wholes, actions = zip(*found, strict=True)
    return np.stack(wholes).astype(np.float32), np.stack(actions).astype(np.float32)


# --- the driver -------------------------------------------------------------------------------------------------------


def load_driver() -> tuple[train.Setup, Learned]:
    """The skills to start from, on this computer's cores."""
    run = open_run(DRIVER)
    parts = train.assemble(dataclasses.replace(run.config, engine="c"))
    return parts, of_seed(load_learner(run, parts)[1], 0)


def record_falls(bodies: int = 128, steps: int = 3000, before: int = 8, after: int = 40) -> None:
    """Drive to random goals; keep the states around every fall, [falls, before + after, physics]."""
    parts, learned = load_driver()
    world, engine = parts.world, CEngine(parts.world, threads=1)
    rng = np.random.default_rng(0)

    @jax.jit
    def act(physics: Array, goal: Array) -> tuple[Array, Array]:
        obs = physics[:, 1:30]
        here, way = seen_from_body(parts.world.spec, obs, goal)
        return train.actions(parts, learned.policy, here, choose_skill(parts, learned, here, way)), upward(obs)

    fresh = jax.jit(lambda key: jax.vmap(world.initial)(jax.random.split(key, bodies)).physics)
    physics = np.asarray(fresh(jax.random.key(1)))
    goal = np.asarray(random_goals(jax.random.key(2), bodies, 2))
    since, kept = np.zeros(bodies, int), []
    past = np.tile(physics, (before, 1, 1)).swapaxes(0, 1).copy()
    open_falls: dict[int, list[Any]] = {}
    for step in range(steps):
        action, up = jax.device_get(act(physics, goal))
        for k in np.flatnonzero((up < 0) & (since == 0)):
            open_falls[int(k)] = [*past[k]]
        since = np.where((up < 0) | (since > 0), since + 1, 0)
        for k, states in open_falls.items():
            states.append(physics[k])
        over = since >= after
        kept.extend(np.stack(open_falls.pop(int(k))) for k in np.flatnonzero(over))
        past = np.concatenate([past[:, 1:], physics[:, None]], 1)
        physics = engine.step(WorldState(physics, np.zeros((bodies, 0), np.float32)), action).physics
        if over.any():
            new = np.asarray(fresh(jax.random.key(100 + step)))
            physics = np.where(over[:, None], new, physics)
            past = np.where(over[:, None, None], new[:, None], past)
            since = np.where(over, 0, since)
        done = (np.linalg.norm(physics[:, 1:3] - goal, axis=1) < 1) | over | (rng.random(bodies) < 1 / 200)
        new_goal = physics[:, 1:3] + np.asarray(random_goals(jax.random.key(5000 + step), bodies, 2))
        goal = np.where(done[:, None], new_goal, goal)
        if step % 200 == 199:
            say(f"step {step + 1}: {len(kept)} falls")
    states = np.stack(kept)
    write_arrays(WORK / "falls.safetensors", {"physics": states}, {"bodies": str(bodies), "steps": str(steps)})


# --- getting up -------------------------------------------------------------------------------------------------------

STAND = SacConfig(
    hidden=(128, 128),
    policy_activation="relu",
    policy_learning_rate=3e-4,
    critic_learning_rate=5e-4,
    alpha_learning_rate=3e-4,
    discount=0.97,
    alpha=0.1,
    learn_alpha=True,
    target_entropy_per_action=1.0,
    target_step=0.01,
    target_update="step",
    critic_layer_norm=True,
)
BODIES, LENGTH = 64, 100
"""Bodies that learn to get up side by side, and steps that they have for it."""
UPDATES, BATCH, CAPACITY, WARM = 32, 256, 64 * 4096, 10_000
"""Gradient steps for a step of all bodies, transitions of each; transitions that are kept, and had before the first."""


class Stand(NamedTuple):
    """Learning to get up, between two steps."""

    sac: SacState
    replay: ring.Replay


def stand_reward(obs: Float[Array, "*b 29"], action: Float[Array, "*b 8"]) -> Float[Array, "*b"]:
    """Upright, legs under the body, calm."""
    up = upward(obs)
    calm = jnp.exp(-0.05 * jnp.sum(obs[..., 18:21] ** 2, -1)) * jnp.clip(obs[..., 2] / 0.5, 0, 1)
    return up + jnp.where(up > 0.7, 0.5 * calm, 0.0) - 0.02 * jnp.mean(action**2, -1)


def starts(anywhere: Any, falls: NDArray[np.float32], count: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Physics of starts: half in any pose, half from falls."""
    posed = anywhere[rng.integers(len(anywhere), size=count)]
    fallen = falls[rng.integers(len(falls), size=count), rng.integers(falls.shape[1], size=count)].copy()
    fallen[:, 1:3] = 0
    return np.where(rng.random(count)[:, None] < 0.5, posed, fallen).astype(np.float32)


def up_of(physics: NDArray[np.float32]) -> NDArray[np.float32]:
    """`upward` of physics, without a compiled program."""
    w, x, y, z = physics[:, 4:8].T
    return 1 - 2 * (x * x + y * y) / (w * w + x * x + y * y + z * z)


def learn_to_stand(steps: int = 232_000) -> None:
    """SAC on what the body feels."""
    parts, _ = load_driver()
    world: Any = dataclasses.replace(parts.world, config=dataclasses.replace(parts.world.config, start_pose="any"))
    engine, falls = CEngine(world, threads=1), ArrayFile(WORK / "falls.safetensors").read("physics")
    sac = Sac(STAND, FELT, 0, 8)
    anywhere = np.asarray(
        jax.jit(lambda k: jax.vmap(world.initial)(jax.random.split(k, 4096)).physics)(jax.random.key(7))
    )
    turns, swaps = (jnp.asarray(x) for x in symmetries())
    example = Batch(jnp.zeros(FELT), jnp.zeros(0), jnp.zeros(8), jnp.zeros(()), jnp.zeros(FELT), jnp.zeros((), bool))

    def init(key: Array) -> Stand:
        return jax.tree.map(jnp.copy, Stand(sac.init(key), ring.empty(example, CAPACITY)))  # type: ignore[arg-type, type-var]

    @jax.jit
    def act(state: SacState, physics: Array, key: Array) -> Array:
        x = felt(physics[:, 1:30])
        dist = jax.vmap(state.policy)(x, jnp.zeros((len(x), 0)))
        return jax.vmap(TanhNormal.sample)(dist, jax.random.normal(key, dist.mean.shape))[0]

    @partial(jax.jit, donate_argnums=0, static_argnums=5)
    def learn(stand: Stand, before: Array, action: Array, after: Array, key: Array, updates: int) -> tuple[Stand, Any]:
        obs, next_obs = before[:, 1:30], after[:, 1:30]
        n = len(obs)
        new = Batch(
            felt(obs), jnp.zeros((n, 0)), action, stand_reward(next_obs, action), felt(next_obs), jnp.zeros(n, bool)
        )
        replay = ring.append(stand.replay, new)  # type: ignore[arg-type]

        def update(state: SacState, key: Array) -> tuple[SacState, Any]:
            draw, which, noise = jax.random.split(key, 3)
            batch: Any = ring.take(replay, ring.draw(replay, draw, BATCH))
            g = jax.random.randint(which, (BATCH,), 0, len(turns))

            def turned(x: Array, by: Array) -> Array:
                return jnp.einsum("bij,bj->bi", by[g], x)

            batch = batch._replace(
                obs=turned(batch.obs, turns), next_obs=turned(batch.next_obs, turns), action=turned(batch.action, swaps)
            )
            return sac.update(state, batch, noise)

        state, metrics = jax.lax.scan(update, stand.sac, jax.random.split(key, updates))
        return Stand(state, replay), jax.tree.map(jnp.mean, metrics)

    path = WORK / "stand.safetensors"
    done, stand = 0, init(jax.random.key(0))
    if path.exists():
        file = ArrayFile(path)
        done = int(file.about["steps"])
        form = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape or (1,), x.dtype), stand.sac)
        saved = read_tree(file, form)
        stand = stand._replace(sac=jax.tree.map(lambda x, like: x.reshape(like.shape), saved, stand.sac))
    key, rng = jax.random.key(1000 + done), np.random.default_rng(done)
    physics, age = starts(anywhere, falls, BODIES, rng), np.zeros(BODIES, int)
    upright, down_at_start = np.zeros(BODIES, int), up_of(physics) < 0
    ended: list[tuple[bool, bool]] = []
    began, at = time.monotonic(), done
    while at < steps:
        key, one, two = jax.random.split(key, 3)
        action = np.asarray(act(stand.sac, physics, one))
        after = engine.step(WorldState(physics, np.zeros((BODIES, 0), np.float32)), action).physics
        stand, metrics = learn(stand, physics, action, after, two, UPDATES if at - done > WARM else 0)
        at, age = at + BODIES, age + 1
        up = up_of(after)
        upright = np.where(up > 0.7, upright + 1, 0)
        over = (age >= LENGTH) | (upright >= 25)
        physics = after
        if over.any():
            ended += [(bool(d), bool(u)) for d, u in zip(down_at_start[over], upright[over] >= 10, strict=True)]
            physics = np.where(over[:, None], starts(anywhere, falls, BODIES, rng), after)
            age, upright = np.where(over, 0, age), np.where(over, 0, upright)
            down_at_start = np.where(over, up_of(physics) < 0, down_at_start)
        if at // BODIES % 125 == 0:
            was_down = [u for d, u in ended if d]
            row = {
                "steps": at,
                "up_of_down": round(float(np.mean(was_down or [0])), 3),
                "ended": len(ended),
                "seconds": round(time.monotonic() - began, 1),
                **{k: round(float(v), 4) for k, v in metrics.items()},
            }
            append_line(WORK / "stand.jsonl", json.dumps(row))
            say(json.dumps(row))
            ended = []
            write_tree(path, stand.sac, {"steps": str(at)})


# --- both in one policy -----------------------------------------------------------------------------------------------


LEAD, LOW, HIGH = 0.15, 0.0, 0.4
"""Of the teacher, as `teachers` has found them."""
MOST = 2.0
"""The tangent of the angle by which a skill is turned, at most."""


class Teacher(NamedTuple):
    """What the policy is to do: drive while upright, get up otherwise; in between, some of both."""

    driver: Learned
    stand: Any
    lead: Any
    """How far a skill is turned against the body's sideways velocity: by the arc tangent of this times it."""
    low: Any
    high: Any
    """Below the one height of the upward axis it gets up, above the other it drives."""


def load_stand() -> Any:
    """The policy that gets up."""
    sac = Sac(STAND, FELT, 0, 8)
    form = jax.eval_shape(lambda: sac.init(jax.random.key(0)))
    saved = read_tree(
        ArrayFile(WORK / "stand.safetensors"),
        jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape or (1,), x.dtype), form),
    )
    return saved.policy


class Road:
    """Bodies that are driven from goal to goal as `wanderlust evaluate --drive` does it, counted."""

    def __init__(self, world: Any, bodies: int, seed: int, radius: float = 1.0, limit: int = 224) -> None:
        self.engine, self.bodies, self.rng = CEngine(world, threads=1), bodies, np.random.default_rng(seed)
        self.fresh = np.asarray(jax.vmap(world.initial)(jax.random.split(jax.random.key(seed), 512)).physics)
        self.physics = self.fresh[self.rng.integers(512, size=bodies)].copy()
        self.goal = np.zeros((bodies, 2), np.float32)
        self.used, self.down, self.up = np.zeros((3, bodies), int)
        self.counts = np.zeros((4, bodies))
        self.radius, self.limit = radius, limit
        self.new_goals(np.ones(bodies, bool))

    def new_goals(self, which: NDArray[np.bool_]) -> None:
        """Goals within RANGE of these bodies."""
        n = self.bodies
        angle, far = self.rng.uniform(0, 2 * np.pi, n), RANGE * np.sqrt(self.rng.random(n))
        goal = self.physics[:, 1:3] + far[:, None] * np.stack([np.cos(angle), np.sin(angle)], 1)
        self.goal = np.where(which[:, None], goal, self.goal).astype(np.float32)
        self.used = np.where(which, 0, self.used)

    def step(self, action: Any) -> None:
        """One step; counts goals reached, missed, falls and those that are not recovered from."""
        self.physics = np.array(
            self.engine.step(WorldState(self.physics, np.zeros((self.bodies, 0), np.float32)), action).physics
        )
        is_down = up_of(self.physics) < 0
        self.up = np.where(is_down, 0, self.up + 1)
        fell = is_down & (self.down == 0)
        self.down = np.where(fell | ((self.down > 0) & (self.up < 10)), self.down + 1, 0)
        given_up = self.down > 100
        self.used = self.used + 1
        there = (np.linalg.norm(self.physics[:, 1:3] - self.goal, axis=1) <= self.radius) & ~given_up
        missed = ~there & ((self.used >= self.limit) | given_up)
        self.counts += [there, missed, fell, given_up]
        if given_up.any():
            self.put(given_up, self.fresh[self.rng.integers(512, size=self.bodies)])
        self.new_goals(there | missed)

    def put(self, which: NDArray[np.bool_], physics: Any) -> None:
        """Put these bodies there."""
        self.physics = np.where(which[:, None], physics, self.physics).astype(np.float32)
        self.down, self.up = np.where(which, 0, self.down), np.where(which, 0, self.up)


def teach(parts: train.Setup, teacher: Teacher, obs: Array, goal: Array, size: Any = None) -> tuple[Array, ...]:
    """The action of the teacher; also the observation as the policy is told it, and the skill."""
    here, way = seen_from_body(parts.world.spec, obs, goal)
    skill = choose_skill(parts, teacher.driver, here, way)
    ahead = way / jnp.maximum(jnp.linalg.norm(way, axis=1, keepdims=True), 1e-6)
    velocity = obs[:, 15:17]
    sideways = velocity - ahead * jnp.sum(velocity * ahead, 1, keepdims=True)
    sideways = sideways / jnp.maximum(1.0, jnp.linalg.norm(sideways, axis=1, keepdims=True) * teacher.lead / MOST)
    turned = choose_skill(parts, teacher.driver, here, RANGE * (ahead - teacher.lead * sideways))
    size = 1.0 if size is None else size
    drive = train.actions(parts, teacher.driver.policy, here, size * turned)
    x = felt(obs)
    stand = jax.vmap(lambda x: teacher.stand(x, jnp.zeros(0)).mode())(x)
    share = jnp.clip((upward(obs) - teacher.low) / (teacher.high - teacher.low), 0, 1)[:, None]
    return share * drive + (1 - share) * stand, here, size * skill


def try_teachers(steps: int = 400, each: int = 24) -> None:
    """Thresholds and leads side by side."""
    parts, learned = load_driver()
    kinds = [(0.0, 0.0, 0.4), (0.1, 0.0, 0.4), (0.2, 0.0, 0.4), (0.4, 0.0, 0.4), (0.8, 0.0, 0.4)]
    lead, low, high = (jnp.repeat(jnp.array(x), each) for x in zip(*kinds, strict=True))
    teacher = Teacher(learned, load_stand(), lead[:, None], low, high)
    act = jax.jit(lambda physics, goal: teach(parts, teacher, physics[:, 1:30], goal)[0])
    road = Road(parts.world, each * len(kinds), 3)
    for step in range(steps):
        road.step(np.asarray(act(road.physics, road.goal)))
        if step % 200 == 199:
            for k, kind in enumerate(kinds):
                there, missed, fell, lost = road.counts[:, k * each : (k + 1) * each].sum(1)
                row = {"steps": step + 1, "lead": kind[0], "low": kind[1], "high": kind[2], "bodies": each}
                row |= {"reached": int(there), "missed": int(missed), "falls": int(fell), "unrecovered": int(lost)}
                say(json.dumps(row))
                if step + 1 == steps:
                    append_line(WORK / "teachers.jsonl", json.dumps(row))


ROAD, CLEAN, LESSONS = 128, 32, 250
"""Bodies on the road; those of them that are driven as in the evaluation, and counted; steps between two counts."""
KEEP, TEACH_BATCH, TEACH_UPDATES, RATE = 128 * 2048, 512, 2, 5e-4
"""States that are kept; states of a gradient step, gradient steps for a step of all bodies; Adam's, to begin with."""


class Lesson(NamedTuple):
    """What the teacher does where the policy has been."""

    obs: Array
    skill: Array
    action: Array
    log_std: Array


def distil(steps: int = 6_000) -> None:
    """The policy acts, the teacher says what it should have done: DAgger, from the driver's own weights on."""
    parts, learned = load_driver()
    teacher = Teacher(learned, load_stand(), LEAD, LOW, HIGH)
    world: Any = dataclasses.replace(parts.world, config=dataclasses.replace(parts.world.config, start_pose="any"))
    anywhere = np.asarray(
        jax.jit(lambda k: jax.vmap(world.initial)(jax.random.split(k, 4096)).physics)(jax.random.key(8))
    )
    falls = ArrayFile(WORK / "falls.safetensors").read("physics")
    optimizer = optax.adam(lambda n: RATE * jnp.clip((1.0 - n / (steps * TEACH_UPDATES)) / 0.5, 0.02, 1.0))

    @jax.jit
    def look(policy: Any, physics: Array, goal: Array, size: Array) -> tuple[Array, Lesson]:
        obs = physics[:, 1:30]
        action, here, skill = teach(parts, teacher, obs, goal, size)
        x = parts.view.for_policy(here)
        spread = jax.vmap(learned.policy)(x, skill).log_std
        mine = jnp.tanh(jax.vmap(policy)(x, skill).mean)
        return mine, Lesson(x, skill, action, jnp.clip(spread, -4.0, 0.0))

    @partial(jax.jit, donate_argnums=1, static_argnums=5)
    def learn(trained: Any, buffer: Lesson, new: Lesson, at: Array, key: Array, updates: int) -> Any:
        place = (at * ROAD) % KEEP
        buffer = jax.tree.map(lambda whole, x: jax.lax.dynamic_update_slice_in_dim(whole, x, place, 0), buffer, new)
        size = jnp.minimum((at + 1) * ROAD, KEEP)

        def loss(policy: Any, lesson: Lesson) -> Array:
            dist = jax.vmap(policy)(lesson.obs, lesson.skill)
            apart = jnp.sum((jnp.tanh(dist.mean) - lesson.action) ** 2, 1)
            return jnp.mean(apart) + 0.02 * jnp.mean((dist.log_std - lesson.log_std) ** 2)

        def update(trained: Any, key: Array) -> tuple[Any, Array]:
            policy, opt = trained
            index = jax.random.randint(key, (TEACH_BATCH,), 0, size)
            value, grads = jax.value_and_grad(loss)(policy, jax.tree.map(lambda x: x[index], buffer))
            return descend(optimizer, grads, opt, policy), value

        trained, losses = jax.lax.scan(update, trained, jax.random.split(key, updates))
        return trained, buffer, jnp.mean(losses)

    trained, done, path = (learned.policy, optimizer.init(learned.policy)), 0, WORK / "policy.safetensors"
    if path.exists():
        file = ArrayFile(path)
        done = int(file.about["steps"])
        form = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape or (1,), x.dtype), jax.eval_shape(lambda: trained))
        trained = jax.tree.map(lambda x, like: x.reshape(like.shape), read_tree(file, form), trained)
    road = Road(parts.world, ROAD, 100 + done)
    rng, key = np.random.default_rng(done), jax.random.key(done)
    n, action_dim = len(road.physics), 8
    buffer = Lesson(*(jnp.zeros((KEEP, k)) for k in (29, 2, action_dim, action_dim)))
    clean, size = np.arange(n) < CLEAN, np.ones((n, 1), np.float32)
    noisy = (np.arange(n) % 4 == 3) & ~clean
    began, losses = time.monotonic(), []
    for step in range(done, steps):
        seen = step - done
        mine, lesson = look(trained[0], road.physics, road.goal, size)
        taught = ~clean & (np.arange(n) % 4 == 0) & (rng.random() < 0.7 if seen < 1000 else True)
        action = np.where(taught[:, None], lesson.action, mine) + 0.2 * noisy[:, None] * rng.normal(
            size=(n, action_dim)
        )
        trained, buffer, loss = learn(
            trained, buffer, lesson, jnp.int32(seen), jax.random.fold_in(key, step), TEACH_UPDATES if seen > 100 else 0
        )
        losses.append(float(loss))
        road.step(np.clip(action, -1, 1))
        begun = (rng.random(n) < 1 / 120) & ~clean
        if begun.any():
            road.put(begun, starts(anywhere, falls, n, rng))
            road.new_goals(begun)
        turned = (rng.random(n) < 1 / 50) & ~clean
        road.new_goals(turned)
        drawn = np.where(rng.random(n) < 0.5, 1.0, rng.rayleigh(size=n) / np.sqrt(np.pi / 2)) * ~clean + clean
        size = np.where((begun | turned)[:, None], drawn[:, None], size).astype(np.float32)
        if (step + 1) % LESSONS == 0:
            there, missed, fell, lost = (int(x) for x in road.counts[:, clean].sum(1))
            row = {
                "steps": step + 1,
                "loss": round(float(np.nanmean(losses)), 4),
                "reached": there,
                "missed": missed,
                "falls": fell,
                "unrecovered": lost,
                "bodies": CLEAN,
                "seconds": round(time.monotonic() - began, 1),
            }
            append_line(WORK / "policy.jsonl", json.dumps(row))
            say(json.dumps(row))
            losses, road.counts = [], 0 * road.counts
            write_tree(path, trained, {"steps": str(step + 1)})


# --- a run of it ------------------------------------------------------------------------------------------------------

NOTE = (
    "Where each skill leads was discovered without a reward, by LSD: policy and phi are those of zoo:ant-agile-10 to "
    "begin with, and phi still is. Getting up was not discovered: a second policy learned it by SAC with a reward made "
    "by hand (the height of the body's own upward axis; calm and clear of the floor once upright), and this one policy "
    "was taught by imitation (DAgger) to drive as the first while upright, with its skill turned against the body's "
    "sideways velocity, and to get up as the second while not. "
    "benchmarks/reports/2026-11-19_tasks_and_driving.md has the commands and what they gave."
)


def finish() -> None:
    """A run folder of the policy, evaluated, for `wanderlust publish`."""
    other = open_run(DRIVER)
    steps = int(ArrayFile(WORK / "policy.safetensors").about["steps"])
    epoch = steps // LESSONS
    method = dataclasses.replace(other.config.method, view="o")  # all of it was taught as if at the origin
    schedule = ScheduleConfig(
        epochs=epoch,
        worlds=ROAD,
        steps=LESSONS,
        sac_steps=TEACH_UPDATES * LESSONS,
        sac_batch=TEACH_BATCH,
        method_steps=1,
    )
    config = dataclasses.replace(
        other.config, method=method, schedule=schedule, recipe="custom", engine="c", precision="float32",
        log_every=1, look_every=1, checkpoint_every=1,
    )  # fmt: skip
    parts = train.assemble(config)
    began, (stored,) = load_stored(other, parts)
    form = jax.eval_shape(lambda: stored["policy"])
    policy = read_tree(ArrayFile(WORK / "policy.safetensors"), form, part="0")
    weights = jax.tree.map(lambda x: x[None], {**stored, "policy": policy})
    taught = int(ArrayFile(WORK / "stand.safetensors").about["steps"])
    looked = ArrayFile(WORK / "falls.safetensors").about
    rows = {"falls": int(looked["bodies"]) * int(looked["steps"]), "stand": taught, "distil": steps * ROAD}

    def fill(run: Run) -> None:
        path = run.path / "checkpoints" / f"epoch-{epoch:08d}.safetensors"
        write_tree(path, {"learner": weights}, {"format": FORMAT, "epoch": str(epoch), "pruned": "yes"})
        run.log({"epoch": epoch, "env_steps": sum(rows.values()), "env_steps_of": rows})
        run.began_with(other, began)
        write_json(run.path / "provenance.json", {**run.provenance(), "note": NOTE})

    run = Run.create(WORK / "run", config, fill)
    evaluate(run, engine="c")
    say(f"{run.path}: wanderlust publish {run.path} --name ant-drive")


COMMANDS = {
    "falls": record_falls,
    "stand": learn_to_stand,
    "teachers": try_teachers,
    "distil": distil,
    "finish": finish,
}

if __name__ == "__main__":
    WORK.mkdir(parents=True, exist_ok=True)
    COMMANDS[sys.argv[1]](*map(int, sys.argv[2:]))
