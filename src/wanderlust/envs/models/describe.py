"""What was decided about a model, in words: printed before training, and by `wanderlust inspect`."""

from typing import Any

import mujoco
import numpy as np

from wanderlust.envs.mjcf import Controls

MOST_NAMED = 6


def decisions(world: Any) -> dict[str, str]:
    """What the rules made of a model (`envs.worlds.mjcf_file.ModelFile`), and the flag that would change it."""
    config, facts, groups = world.config, world.facts, world.groups
    limits = [
        f"lower than {config.terminate_below:g}" if config.terminate_below is not None else "",
        f"tilted by more than {config.terminate_tilted:g} degrees" if config.terminate_tilted is not None else "",
    ]
    ends = f", or when its root is {' or '.join(filter(None, limits))}" if any(limits) else ""
    own = ("position", "height", "orientation", "heading", "joints", "velocity", "spin", "joint_velocity", "joint_spin")
    seen = [f"{name} {len(groups[name])}" for name in own if name in groups]
    if things := [name for name in groups if name.startswith("object") and name.count("_") == (name[-1].isdigit())]:
        seen.append(f"{', '.join(things)} with rotation and velocities")
    sensors = f", sensors {len(groups['sensors'])}" if "sensors" in groups else ""
    start = f"the keyframe {config.keyframe}" if config.keyframe else "the model's pose"
    seconds = world.control_seconds
    found = {
        "root": _root(world),
        "position": f"{', '.join(config.position)}; coverage counts bins of {config.bin:g} {world.unit} "
        "(env.position, env.bin)",
        "observation": f"{len(world.layout.names)} entries: {', '.join(seen)}{sensors}",
        "actions": _actions(facts.model),
        "control step": f"{config.frame_skip} physics steps of {facts.model.opt.timestep:g} s: {seconds:g} s "
        "(env.frame_skip)",
        "episode": f"{config.episode_length} control steps, {config.episode_length * seconds:.3g} s{ends}",
        "start": f"{start}, each velocity and position up to {config.noise:g} away (env.keyframe, env.noise)",
    }
    if world.repairs:
        found["changed"] = "; ".join(world.repairs)
    return found


def _root(world: Any) -> str:
    facts, model = world.facts, world.facts.model
    if not facts.root.moves:
        return "none: it stays where it is, and its joints are what moves (env.root)"
    kinds = {int(model.jnt_type[joint]) for joint in facts.root.joints}
    how = "its free joint" if int(mujoco.mjtJoint.mjJNT_FREE) in kinds else "its slides"
    return f"{model.body(facts.root.body).name or 'a body without a name'}, by {how} (env.root)"


def _actions(model: mujoco.MjModel) -> str:
    controls, limited = Controls.of_model(model), model.actuator_ctrllimited.astype(bool)
    muscles = int(np.sum(model.actuator_dyntype == int(mujoco.mjtDyn.mjDYN_MUSCLE)))
    words = f"{model.nu} in [-1, 1]"
    if limited.any():
        low, high = controls.low[limited], (controls.low + 2 * controls.half)[limited]
        same = np.ptp(low) == 0 and np.ptp(high) == 0
        words += f", mapped to control ranges {'of' if same else 'within'} [{low.min():g}, {high.max():g}]"
    if not limited.all():
        words += f"; {int(np.sum(~limited))} without a range taken as [-1, 1], muscles as [0, 1]"
    return words + (f"; {muscles} muscles" if muscles else "")
