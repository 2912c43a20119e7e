"""The Fetch arm at a table: FetchPush, FetchSlide and FetchPickAndPlace, as the paper's simulator had them.

The hand hangs on a mocap body. A control step puts that body where the hand is, moves it by 5 cm times the first three
entries of the action, and lets the hand follow for 40 ms. The fourth entry opens and closes the fingers, which are
held shut in FetchPush and FetchSlide.

The models are those that Gymnasium-Robotics installs. MuJoCo 3.0 changed how a weld weighs rotation: the same file lets
the hand reach 20 cm farther and tilt by 50 degrees. `env.physics=old`, the default, weighs it as MuJoCo 2 did, does not
enforce the joint ranges that the environments of the paper did not enforce, and starts where those did.

What is observed is of the state after the step. Gymnasium-Robotics observes FetchPickAndPlace through the kinematics
of the substep before: places and rotation are those of 2 ms ago, and velocities multiply the Jacobian of then with the
velocities of now. The mocap body is put where the hand was then, too. It has no such lag in the other two, where
blocking the fingers computes the kinematics again.
"""

import dataclasses
import functools
from typing import Any, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Float, Key
from numpy.typing import NDArray

from wanderlust.envs.base import Capacity, WorldState
from wanderlust.envs.mjcf import compiled, open_robotics, physics_of, set_physics
from wanderlust.envs.rotations import euler_of, matrix_of
from wanderlust.envs.spec import Groups
from wanderlust.envs.worlds.body import Body, BodyConfig
from wanderlust.errors import require

REACH = 0.05
"""Metres that an action of 1 moves the mocap body by."""
TURN = (1.0, 0.0, 1.0, 0.0)
"""The rotation of a hand that points down. The mocap body gets the sum of this quaternion and the hand's own."""
CLEARANCE = 0.1
"""Metres that an object's start keeps from the hand, on the plane."""
UNLIMITED = ("torso_lift", "head_pan", "head_tilt", "shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex")
"""Joints whose ranges the environments of the paper did not enforce."""
ARM = ("shoulder_pan", "shoulder_lift", "upperarm_roll", "elbow_flex", "forearm_roll", "wrist_flex", "wrist_roll")
APART = (
    *(("shoulder_pan", link) for link in ("upperarm_roll", "elbow_flex", "head_pan", "head_tilt")),
    *(("torso_fixed", link) for link in ("estop", "head_pan", "head_tilt")),
    *(("torso_lift", "estop"), ("elbow_flex", "wrist_flex"), ("wrist_flex", "gripper"), ("base", "shoulder_lift")),
)
"""Links that stay a centimetre apart at any angles, also half a radian beyond the ranges: they need not be compared."""
FINGERS = ("r_gripper_finger", "l_gripper_finger")
"""In the order in which they are observed."""


@dataclasses.dataclass(frozen=True)
class FetchConfig(BodyConfig):
    """What can be chosen of a Fetch world."""

    physics: Literal["old", "modern"] = "old"
    """`old` moves the hand as the paper's simulator did (MuJoCo before 3.0); `modern` as MuJoCo and Gymnasium-Robotics
    do today."""

    def __post_init__(self) -> None:
        super().__post_init__()
        fixed = self.start_pose == "model" and not self.start_range
        require(
            fixed, "env.start_pose and env.start_range are for bodies that walk: Fetch's arm starts as its task has it"
        )

    def start_within(self, reach: float) -> None:
        return None


class Setting(NamedTuple):
    """What tells one of the three worlds from the others."""

    file: str
    base: tuple[float, float, float]
    """Where the robot stands: its three slides."""
    arm: tuple[float, ...]
    """The joints of ARM when an episode starts, and their velocities: where MuJoCo 2.3.7 brings the hand."""
    arm_velocity: tuple[float, ...]
    height: float
    """Of the object's centre at rest on the table."""
    thing: tuple[float, float, float]
    """Where the object is before Gymnasium-Robotics brings the hand to its start."""
    lift: float
    """By how much higher than FetchPush's that is."""
    start_range: float
    goal_range: float
    """Goals of the task (`downstream/tasks/fetch_goals.py`) are drawn so far around the hand's start..."""
    goal_offset: float = 0.0
    """... moved by this along x,"""
    airborne: bool = False
    """and half of them are in the air, or none."""


class Rest(NamedTuple):
    """How episodes start but for the object's place, and where things are in the state."""

    physics: NDArray[np.float32]
    sensors: NDArray[np.float32]
    hand: NDArray[np.float32]
    """Between the fingers."""
    qpos: int
    """Where in the physics the object's position begins, its velocity, and where the fingers are."""
    qvel: int
    fingers: tuple[int, int]
    finger_velocities: tuple[int, int]
    squeezed: tuple[int, ...]
    """The fingers in the order of their actuators."""


@dataclasses.dataclass(frozen=True)
class Fetch(Body):
    """What the three worlds share; none of them ever terminates."""

    config: FetchConfig

    Config: ClassVar[type[BodyConfig]] = FetchConfig
    setting: ClassVar[Setting]
    frame_skip = 20
    episode_length = 50
    option_length = 10
    groups = Groups(
        agent=(0, 1, 2),
        object=(3, 4, 5),
        position=(3, 4),
        relative_position=(6, 7, 8),
        fingers=(9, 10),
        object_rotation=(11, 12, 13),
        object_velocity=(14, 15, 16),
        object_spin=(17, 18, 19),
        agent_velocity=(20, 21, 22),
        finger_velocities=(23, 24),
    )
    capacity = Capacity(contacts=48, rows=200)  # 20 and 111 in the worst of 600 steps with all kinds of actions
    bin = 0.1
    goal_radius = 0.05
    example_goals = ((1.4, 0.85), (1.3, 0.65))
    focus = "object"
    raw_focus = True

    @property
    def action_dim(self) -> int:
        return 4

    def load(self) -> mujoco.MjSpec:
        spec = open_robotics(f"fetch/{self.setting.file}")
        (weld,) = spec.equalities
        data = np.zeros(len(weld.data))
        data[[6, 10]] = 1.0  # the hand's pose is that of the mocap body, without an offset
        if self.config.physics == "old":
            for name in UNLIMITED:
                spec.joint(f"robot0:{name}_joint").limited = mujoco.mjtLimited.mjLIMITED_FALSE
            translation, rotation = compiled(spec).body("robot0:gripper_link").invweight0
            data[10] = np.sqrt(rotation / translation)  # 4.066; MuJoCo 2 weighed rotation so, 3 weighs it by 1
        weld.data = data
        hand, grip = (mujoco.mjtObj.mjOBJ_XBODY, "robot0:gripper_link"), (mujoco.mjtObj.mjOBJ_SITE, "robot0:grip")
        for name, sensor, (kind, of) in (
            ("hand", mujoco.mjtSensor.mjSENS_FRAMEPOS, hand),
            ("hand rotation", mujoco.mjtSensor.mjSENS_FRAMEQUAT, hand),
            ("grip", mujoco.mjtSensor.mjSENS_FRAMEPOS, grip),
            ("grip velocity", mujoco.mjtSensor.mjSENS_FRAMELINVEL, grip),
        ):
            spec.add_sensor(name=name, type=sensor, objtype=kind, objname=of)
        return spec

    def speed_up(self, spec: mujoco.MjSpec) -> None:
        for seen in (*spec.cameras, *spec.lights):
            spec.delete(seen)
        while bare := [body for body in spec.worldbody.find_all("body") if _is_bare(body)]:
            spec.delete(bare[0])  # a frame of a camera: it has neither mass nor shape
        for one, other in APART:
            spec.add_exclude(bodyname1=f"robot0:{one}_link", bodyname2=f"robot0:{other}_link")

    def initial(self, key: Key[Array, ""]) -> WorldState:
        return WorldState(self.start(key), jnp.asarray(_rest(self).sensors))  # sensors do not read the object

    def start(self, key: Key[Array, ""]) -> Float[Array, " physics"]:
        rest, r = _rest(self), self.setting.start_range

        def draw(state: tuple[Array, Array]) -> tuple[Array, Array]:
            key, own = jax.random.split(state[0])
            return key, jax.random.uniform(own, (2,), minval=-r, maxval=r)

        def too_close(state: tuple[Array, Array]) -> Array:
            return jnp.linalg.norm(state[1]) < CLEARANCE

        _, away = jax.lax.while_loop(too_close, draw, (key, jnp.zeros(2)))
        return jnp.asarray(rest.physics).at[rest.qpos : rest.qpos + 2].set(jnp.asarray(rest.hand[:2]) + away)

    def observe(self, state: WorldState) -> Float[Array, " obs"]:
        """As gym and Gymnasium-Robotics have it, velocities per control step; of one world or of a batch."""
        at, physics, dt = _rest(self), state.physics, self.control_seconds
        grip, grip_velocity = state.sensors[..., 7:10], state.sensors[..., 10:13] * dt
        thing = physics[..., at.qpos : at.qpos + 3]
        turned = matrix_of(physics[..., at.qpos + 3 : at.qpos + 7])
        velocity = physics[..., at.qvel : at.qvel + 3] * dt
        spin = jnp.einsum("...ij,...j->...i", turned, physics[..., at.qvel + 3 : at.qvel + 6] * dt)
        fingers, finger_velocities = physics[..., jnp.array(at.fingers)], physics[..., jnp.array(at.finger_velocities)]
        parts = (grip, thing, thing - grip, fingers, euler_of(turned), velocity - grip_velocity, spin, grip_velocity)
        return jnp.concatenate([*parts, finger_velocities * dt], axis=-1)

    # --- how actions reach MuJoCo (`Steered`) ------------------------------------------------------------------------

    def inputs(self, state: WorldState, action: Any) -> tuple[Any, Any]:
        xp: Any = np if isinstance(action, np.ndarray) else jnp
        wanted = action.clip(-1.0, 1.0)
        hand, turn = state.sensors[:, :3], state.sensors[:, 3:7]
        mocap = xp.concatenate([hand + REACH * wanted[:, :3], turn + xp.asarray([TURN])], axis=1)
        return state.physics[:, np.array(_rest(self).squeezed, int)] + wanted[:, 3:], mocap

    def corrected(self, physics: Any) -> Any:
        """Fingers without actuators are held shut."""
        return physics if _rest(self).squeezed else physics * _shut(self)


def _is_bare(body: Any) -> bool:
    return not (body.geoms or body.sites or body.joints or body.bodies)


@functools.cache
def _rest(world: Fetch) -> Rest:
    model = world.model
    data = mujoco.MjData(model)
    own, joint, robot = world.setting, data.joint, "robot0:{}_joint".format
    for i, place in enumerate(own.base):
        joint(f"robot0:slide{i}").qpos = place
    if world.config.physics == "old":
        joint(robot("head_tilt")).qpos = 0.06003
        for name, angle, velocity in zip(ARM, own.arm, own.arm_velocity, strict=True):
            joint(robot(name)).qpos, joint(robot(name)).qvel = angle, velocity
        joint("object0:joint").qpos = (*own.thing[:2], own.height, 1.0, 0.0, 0.0, 0.0)
        mujoco.mj_forward(model, data)
    else:  # what Gymnasium-Robotics does
        joint("object0:joint").qpos = (*own.thing, 1.0, 0.0, 0.0, 0.0)
        mujoco.mj_forward(model, data)
        data.mocap_pos[0] = data.site("robot0:grip").xpos + np.array([-0.498, 0.005, -0.431 + own.lift])
        data.mocap_quat[0] = TURN
        mujoco.mj_step(model, data, 200)
    hand = data.site("robot0:grip").xpos.copy()
    mujoco.mj_forward(model, data)
    data.time, data.mocap_pos[0], data.mocap_quat[0] = 0.0, data.sensordata[:3], data.sensordata[3:7]
    physics = physics_of(model, data).astype(np.float32)
    set_physics(model, data, physics)
    mujoco.mj_forward(model, data)  # sensors are of the numbers that are kept

    def qpos(name: str) -> int:
        return 1 + int(model.joint(name).qposadr[0])

    def qvel(name: str) -> int:
        return 1 + model.nq + int(model.joint(name).dofadr[0])

    fingers = [robot(name) for name in FINGERS]
    return Rest(
        physics=physics,
        sensors=data.sensordata.astype(np.float32),
        hand=hand.astype(np.float32),
        qpos=qpos("object0:joint"),
        qvel=qvel("object0:joint"),
        fingers=(qpos(fingers[0]), qpos(fingers[1])),
        finger_velocities=(qvel(fingers[0]), qvel(fingers[1])),
        squeezed=tuple(qpos(model.joint(int(i)).name) for i in model.actuator_trnid[:, 0]),
    )


@functools.cache
def _shut(world: Fetch) -> NDArray[np.float64]:
    """One for every entry of the physics, and zero where the fingers are."""
    rest = _rest(world)
    kept = np.ones((1, rest.physics.size))
    kept[:, list(rest.fingers)] = 0.0
    return kept


# --- the three worlds. Statistics are of 4,000 rollouts of 50 random steps (`wanderlust.normalise`, seed 0). ----------
# fmt: off


@dataclasses.dataclass(frozen=True)
class FetchPush(Fetch):
    """A box on a table, to be pushed with closed fingers."""

    setting = Setting(
        file="push.xml",
        base=(0.405, 0.48, 0.0),
        arm=(0.0090309, -0.5835531, -0.002222, 1.4329171, 0.0024844, 0.7206467, 0.0059274),
        arm_velocity=(0.002997, -0.0400409, -0.0019296, 0.0956113, 0.002432, -0.0519363, -2.3e-05),
        height=0.42489, thing=(1.25, 0.53, 0.4),
        lift=0.0, start_range=0.15, goal_range=0.15,
    )
    statistics = (
        (1.348, 0.752, 0.48, 1.348, 0.752, 0.424, -0.00011, -1.67e-05, -0.0563, 0, 0, 0.000777, 0.00157, 0.00196,
        0.000135, -6.66e-05, -0.00174, 1.67e-05, 0.000145, 4.09e-06, -0.000118, 6.58e-05, 0.00168, 0.00116, 0.00115),
        (0.0837, 0.0914, 0.0621, 0.106, 0.104, 0.0205, 0.133, 0.136, 0.0652, 1, 1, 0.232, 0.128, 0.209, 0.0142, 0.0146,
        0.014, 0.0239, 0.023, 0.0169, 0.0142, 0.0146, 0.0139, 0.00224, 0.00223),
    )


@dataclasses.dataclass(frozen=True)
class FetchSlide(Fetch):
    """A puck on a long, slippery table, to be hit with closed fingers."""

    setting = Setting(
        file="slide.xml",
        base=(0.05, 0.48, 0.0),
        arm=(0.0089548, -0.5763716, -0.0021913, 1.4202838, 0.0023011, 0.7257259, 0.006017),
        arm_velocity=(0.0036068, -0.0555181, -0.002122, 0.1323881, 0.0025694, -0.0721425, 0.0003638),
        height=0.42, thing=(1.7, 1.1, 0.41),
        lift=-0.02, start_range=0.1, goal_range=0.3,
        goal_offset=0.4,
    )
    statistics = (
        (0.996, 0.752, 0.48, 0.996, 0.748, 0.413, 0.000367, -0.0045, -0.0669, 0, 0, -0.00112, -0.00246, -0.00453,
        0.000149, -6.18e-05, -0.00206, -2.99e-05, 9.22e-06, -0.000125, -0.000128, 6.53e-05, 0.00169, 0.00116, 0.00116),
        (0.0835, 0.0913, 0.0621, 0.109, 0.125, 0.0497, 0.133, 0.148, 0.0798, 1, 1, 0.152, 0.0996, 0.297, 0.0144, 0.0151,
        0.0148, 0.0201, 0.0211, 0.0269, 0.0141, 0.0146, 0.0138, 0.00224, 0.00223),
    )


@dataclasses.dataclass(frozen=True)
class FetchPickAndPlace(Fetch):
    """A box on a table, to be grasped and lifted."""

    setting = Setting(
        file="pick_and_place.xml",
        base=(0.405, 0.48, 0.0),
        arm=(0.0096759, -0.8282306, -0.0030564, 1.4439789, 0.0025344, 0.9551009, 0.0059607),
        arm_velocity=(0.0007139, 0.0009313, -0.0013875, -0.0016192, 0.0011534, 0.0012348, -0.0009727),
        height=0.42489, thing=(1.25, 0.53, 0.4),
        lift=0.2, start_range=0.15, goal_range=0.15,
        airborne=True,
    )
    statistics = (
        (1.343, 0.752, 0.542, 1.342, 0.752, 0.423, -0.00117, 0.000339, -0.118, 0.0361, 0.0361, 0.00157, 0.00116,
        -0.000859, 9.95e-05, -5.48e-05, -0.000442, -0.000175, 0.000247, -6.77e-05, -6.55e-05, 6.59e-05, 0.000338,
        0.000652, 0.000652),
        (0.085, 0.0949, 0.0801, 0.105, 0.108, 0.0262, 0.134, 0.142, 0.0832, 0.0177, 0.0177, 0.266, 0.119, 0.215, 0.0146,
        0.0152, 0.0152, 0.0337, 0.0254, 0.0228, 0.0145, 0.015, 0.0149, 0.0245, 0.0245),
    )
# fmt: on
