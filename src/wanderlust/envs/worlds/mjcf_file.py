"""A world made of a model file, MJCF or URDF: what is not said of it is decided by rule.

docs/reference/model-files.md has the rules.
"""

import dataclasses
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from wanderlust.config import build, to_json
from wanderlust.envs.base import WorldState
from wanderlust.envs.models import bundle as bundles
from wanderlust.envs.models import opening, trial
from wanderlust.envs.models.config import PREFIX, ModelConfig
from wanderlust.envs.models.facts import Facts, decided, facts_of, nice, ranges_of, specified, starts_of
from wanderlust.envs.models.layout import FREE, HINGE, ModelLayout, entries_named
from wanderlust.envs.models.trial import Trial
from wanderlust.envs.rotations import matrix_of
from wanderlust.envs.spec import Groups
from wanderlust.envs.worlds.body import Body
from wanderlust.errors import UserError, require


@dataclasses.dataclass(frozen=True)
class ModelFile(Body):
    """A body from a model file; its configuration says all that was decided."""

    config: ModelConfig

    Config = ModelConfig

    def __post_init__(self) -> None:
        facts, config = self.facts, self.config
        require(config.frame_skip > 0 and config.episode_length > 0 and config.bin > 0, "env is not decided yet")
        entries = facts.layout.groups["position"]
        if config.position:
            entries = entries_named(facts.layout, config.position, "env.position")
        fall = (
            "its own upward axis points below the horizon" if facts.turn is not None else "its world ends the episode"
        )
        near = nice(facts.size / 2) if facts.root.moves else config.bin
        own = {
            "frame_skip": config.frame_skip,
            "episode_length": config.episode_length,
            "groups": Groups({**facts.layout.groups, "position": entries}),
            "bin": config.bin,
            "goal_radius": near,
            "example_goals": ((4.0 * near, 2.0 * near), (-3.0 * near, 4.0 * near)),
            "fall": fall,
        }
        for name, value in own.items():
            object.__setattr__(self, name, value)

    @classmethod
    def configure(cls, name: str, given: Mapping[str, Any] | None = None) -> ModelConfig:
        """The configuration of the world that a model file makes: what is `given`, and the rest by rule."""
        if name.startswith(PREFIX):
            raise UserError(f"{name} is the environment of a run; start from the model's file, or with --config")
        given = dict(given or {})
        assets, allow = given.pop("assets", ""), given.get("allow_plugins", False)
        collected = opening.collect(name, str(assets), allow is True)
        digest = bundles.remember(collected.bundle)
        _repairs.setdefault(digest, collected.repairs)
        stem = re.sub(r"[^\w.+-]", "_", Path(name).stem, flags=re.ASCII)[:100]
        said = {"name": f"{PREFIX}{stem}", **given, "model": digest, "file": collected.bundle.main}
        return decided(build(ModelConfig, said, Path(name).name))

    @property
    def facts(self) -> Facts:
        """What its model is; cached and shared."""
        return facts_of(self.config)

    @property
    def layout(self) -> ModelLayout:
        """What is observed."""
        return self.facts.layout

    @property
    def trial(self) -> Trial:
        """What random actions do to it: measured once, and kept beside a run."""
        with jax.ensure_compile_time_eval():
            return trial.of_key(self._trial_key, self.from_origin(), ranges_of(self.facts))

    @property
    def _trial_key(self) -> str:
        """Of all that a trial depends on."""
        free: dict[str, Any] = {"terminate_below": None, "terminate_tilted": None, "position": (), "focus": ""}
        plain = dataclasses.replace(self.from_origin().config, episode_length=1, **free)
        return hashlib.sha256((to_json(plain) + str(self.groups["position"])).encode()).hexdigest()

    def files(self) -> dict[str, bytes]:
        """What is to be kept beside a run's configuration: the model, and what random actions did."""
        kept = {**bundles.known(self.config.model).files, trial.FILE: self.trial.to_json(self._trial_key)}
        return {f"{bundles.FOLDER}/{name}": data for name, data in kept.items()}

    def from_origin(self) -> "ModelFile":
        made: Any = super().from_origin()
        return made

    @property
    def statistics(self) -> tuple[tuple[float, ...], tuple[float, ...]]:  # type: ignore[override]
        return self.trial.mean, self.trial.std

    @property
    def entry_names(self) -> tuple[str, ...]:
        """Of the observation."""
        return self.layout.names

    @property
    def coordinates(self) -> dict[str, tuple[int, ...]]:
        """The entries that are MuJoCo's own coordinates, for `--focus`; -1 for those that are seen in another form."""
        layout = self.layout
        entries = {int(feature): entry for entry, feature in enumerate(layout.select)}
        found = [entries.get(feature, -1) for feature in range(layout.nq + layout.nv)]
        return {"qpos": tuple(found[: layout.nq]), "qvel": tuple(found[layout.nq :])}

    @property
    def gets_about(self) -> bool:
        """Whether it has a root that carries it anywhere."""
        return self.facts.root.moves

    @property
    def unit(self) -> str:
        """Of the position."""
        model, hinges = self.facts.model, self.place_in_qpos
        turns = [
            int(model.jnt_type[np.flatnonzero(model.jnt_qposadr == at)[0]]) == HINGE
            for at in hinges
            if at in model.jnt_qposadr
        ]
        return "rad" if turns and all(turns) else "m"

    @property
    def repairs(self) -> tuple[str, ...]:
        """What was changed of the file's model, in words."""
        lifted = (f"raised by {self.facts.lifted:.3g} m, out of the floor",) if self.facts.lifted else ()
        return (*_repairs.get(self.config.model, ()), *self.facts.said, *lifted)

    def load(self) -> mujoco.MjSpec:
        return specified(self.config)[0]

    def start(self, key: Key[Array, ""]) -> Float[Array, " physics"]:
        starts, model = jnp.asarray(starts_of(self.config)), self.model
        physics = starts[jax.random.randint(key, (), 0, len(starts))]
        return physics.at[1 : 1 + model.nq].set(self._placed(physics[1 : 1 + model.nq], key))

    @property
    def place_in_qpos(self) -> tuple[int, ...]:
        select, groups = self.layout.select, self.groups["position"]
        return tuple(int(select[entry]) for entry in groups if select[entry] < self.layout.nq)

    def observe(self, state: WorldState) -> Float[Array, " obs"]:
        return self.layout.observe(state.physics, state.sensors)

    def measure(self, state: WorldState) -> Float[Array, " obs"]:
        return self.observe(state)

    def terminated(self, state: WorldState) -> Bool[Array, ""]:
        facts, config = self.facts, self.config
        over = jnp.zeros(state.physics.shape[:-1], bool)
        if config.terminate_below is not None and facts.height is not None:
            over |= state.physics[..., 1 + facts.height[0]] + facts.height[1] < config.terminate_below
        if config.terminate_tilted is not None and facts.turn is not None:
            over |= self.upright(state) < float(np.cos(np.radians(config.terminate_tilted)))
        return over

    def fallen(self, state: WorldState) -> Bool[Array, ""]:
        if self.facts.turn is None:
            return self.terminated(state)
        return self.terminated(state) | (self.upright(state) < 0)

    def upright(self, state: WorldState) -> Float[Array, ""]:
        """Cosine of the angle by which the root is tilted from its start."""
        facts = self.facts
        at = 1 + facts.turn  # type: ignore[operator]
        start = facts.start.qpos[facts.turn :]
        if int(facts.model.jnt_type[facts.root.joints[0]]) != FREE:
            return jnp.cos(state.physics[..., at] - float(start[0]))
        pose = np.zeros(9)
        mujoco.mju_quat2Mat(pose, start[:4])
        turned = matrix_of(state.physics[..., at : at + 4])[..., 2, :]  # the vertical, as the body has it
        x, y, z = (float(part) for part in pose[6:])  # ... and had it
        return x * turned[..., 0] + y * turned[..., 1] + z * turned[..., 2]


_repairs: dict[str, tuple[str, ...]] = {}
"""Of the models that were read from their files, by hash."""


def world_from_mjcf(path: Path | str, **given: Any) -> ModelFile:
    """The world that a model file makes, for `discover`, `make_vec` and `SkillEnv`.

    Args:
        path: a MJCF (.xml) or URDF (.urdf) file.
        given: what is not to be decided by rule, by the names of the flags ``--env.*``: ``terminate_below=0.3``,
            ``sensors=("all",)``.

    Returns:
        The world; ``world.config`` has all that was decided.
    """
    lists = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
    return ModelFile(ModelFile.configure(str(path), lists))
