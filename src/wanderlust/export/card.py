"""What a user of exported skills must know and the graphs cannot say: onnx.json, beside them."""

from typing import Any

from wanderlust.config import RunConfig
from wanderlust.envs import World
from wanderlust.envs.base import Steered
from wanderlust.envs.mjcf import Controls
from wanderlust.envs.worlds.body import Body
from wanderlust.methods.skills import ContinuousSkills, SkillSpace
from wanderlust.registry import METHODS
from wanderlust.runs.provenance import commit, version
from wanderlust.train import Setup

FORMAT = "wanderlust-onnx-1"


def card(parts: Setup, name: str, seed: int, epoch: int, has_phi: bool) -> dict[str, Any]:
    """All of it but what was measured."""
    config, spec = parts.config, parts.world.spec
    variant = config.method.view
    view = {
        "variant": f"-{variant}" if variant else None,
        "policy_position_divided_by": parts.view.position_scale,
        "policy_does_not_see": list(spec.position) if variant.endswith("o") else [],
        "phi_sees_only": None if parts.view.method_entries is None else list(parts.view.method_entries),
        "phi_sees_raw": parts.view.method_sees_raw,
    }
    policy = {
        "file": "policy.onnx",
        "inputs": {"observation": ["batch", spec.obs_dim], "skill": ["batch", parts.skills.size]},
        "outputs": {name: ["batch", spec.action_dim] for name in ("action", "mean", "log_std")},
        "mode": "action = tanh(mean)",
        "sample": "tanh(mean + exp(log_std) * noise), noise standard normal",
    }
    phi = {
        "file": "phi.onnx",
        "inputs": {"observation": ["batch", spec.obs_dim]},
        "outputs": {"phi": ["batch", parts.skills.size]},
        "towards_goal": "phi(goal) - phi(observation)" if parts.method.goal_rule == "direction" else None,
    }
    return {
        "format": FORMAT,
        "from": name,
        "method": config.rewards,
        "about_the_method": METHODS.summary(config.method.name),
        "recipe": config.recipe,
        "seed": config.seed + seed,
        "epoch": epoch,
        "commit": commit(),
        "version": version("wanderlust"),
        "skill": _skill(parts.skills, config),
        "policy": policy,
        "phi": phi if has_phi else None,
        "observation": {
            "raw": True,
            "position": list(spec.position),
            "orientation": list(spec.groups.get("orientation", ())),
            "normalised_inside_by": {"mean": list(spec.obs_mean), "std": list(spec.obs_std)},
            **view,
        },
        "env": {"name": spec.name, "episode_length": spec.episode_length, **_body(parts.world)},
    }


def _skill(skills: SkillSpace, config: RunConfig) -> dict[str, Any]:
    kind = config.skills.kind
    prior = {"continuous": "standard normal", "discrete": "uniform over one-hot vectors", "box": "uniform in [-1, 1]"}
    if isinstance(skills, ContinuousSkills):
        on_sphere = "; its direction alone, of length 1" if skills.unit_length else ""
        return {"kind": kind, "size": skills.size, "prior": prior[kind] + on_sphere, "length": skills.expected_norm}
    return {"kind": kind, "size": skills.size, "prior": prior[kind], "length": None}


def _body(world: World) -> dict[str, Any]:
    """What moves a body, and where else it can be had; nothing for worlds that are a formula."""
    if not isinstance(world, Body):
        return {}
    twin = world.gymnasium
    elsewhere = {"gymnasium": {"id": twin.id, "options": dict(twin.options)}} if twin else {}
    return {
        "solver": world.config.solver,
        "cone": world.config.cone,
        "control_seconds": world.control_seconds,
        "frame_skip": world.frame_skip,
        "control": _control(world),
        **elsewhere,
    }


def _control(world: Body) -> dict[str, Any]:
    """What actions are as controls."""
    if isinstance(world, Steered):
        return {"of_action": "a rule of the environment's own; docs/reference/worlds.md has it"}
    controls = Controls.of_model(world.model)
    low, high = controls.low.tolist(), (controls.low + 2 * controls.half).tolist()
    return {"low": low, "high": high, "of_action": "low + (action + 1) / 2 * (high - low)"}
