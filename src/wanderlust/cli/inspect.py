"""`wanderlust inspect`: a doctor for models."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.table import Column, Table
from tyro.conf import Positional, arg

from wanderlust.cli.process import import_api
from wanderlust.errors import UserError

MOST_ROWS = 40


@dataclasses.dataclass(frozen=True)
class Inspect:
    """Look a model over before anything is learned with it: what it is made of, what was decided about it, what engines
    can do with it, how fast it is, what it does at rest and under random actions; with a picture.

    For example:
      wanderlust inspect path/to/robot.xml
      wanderlust inspect path/to/robot.urdf --free-base --floor
      wanderlust inspect ant                                or any other environment, zoo:NAME or the folder of a run
    """

    model: Annotated[Positional[str], arg(metavar="MODEL")]
    """A MJCF or URDF file, an environment, zoo:NAME, or the folder of a run."""
    assets: Annotated[Path | None, arg(metavar="DIR")] = None
    """The folder that all of the model's files must lie in; by default the file's own."""
    allow_plugins: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Take a model that asks for plugins other than MuJoCo's own."""
    free_base: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Let its first body move freely."""
    floor: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Add a floor."""
    motors: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Put a motor on every joint that nothing drives."""
    keyframe: Annotated[str, arg(metavar="NAME")] = ""
    """Look at it in this keyframe."""
    picture: Annotated[Path | None, arg(metavar="FILE")] = None
    """Where the picture goes; by default runs/inspect/NAME.png."""

    def run(self, console: Console) -> int:
        import_api()
        from wanderlust.envs import MujocoWorld, devices
        from wanderlust.envs.models.describe import decisions
        from wanderlust.envs.worlds.mjcf_file import ModelFile
        from wanderlust.evaluation import doctor

        devices.prepare()
        world, name = self._world()
        if not isinstance(world, MujocoWorld):
            raise UserError(f"{self.model} has no model to inspect: its dynamics are a formula")
        model = world.model
        counts = {
            "bodies": model.nbody - 1, "joints": model.njnt, "degrees of freedom": model.nv, "actuators": model.nu,
            "activations": model.na, "sensors": model.nsensor, "meshes": model.nmesh, "keyframes": model.nkey,
        }  # fmt: skip
        console.print(f"{name}: {', '.join(f'{count} {what}' for what, count in counts.items())}")
        if isinstance(world, ModelFile):
            _show(console, "decided by rule", decisions(world))
        _show(console, "groups of the observation", _groups(world))
        table = Table("actuator", "drives", Column("range", justify="right"), title="actuators", title_justify="left")
        found = doctor.actuators(model)
        for one in found[:MOST_ROWS]:
            table.add_row(one.name, one.drives, f"[{one.low:g}, {one.high:g}]")
        if len(found) > MOST_ROWS:
            table.add_row(f"and {len(found) - MOST_ROWS} more", "", "")
        console.print(table, soft_wrap=False)
        _show(console, "engines", doctor.engine_notes(world))
        _show(console, "what it does", self._behaviour(world))
        self._draw(console, world, name)
        return 0

    def _world(self) -> tuple[Any, str]:
        """The world, and what it is called."""
        from wanderlust.envs import make_world
        from wanderlust.registry import WORLDS
        from wanderlust.runs.entries import PREFIX
        from wanderlust.runs.zoo import open_run

        flags = {"allow_plugins": self.allow_plugins, "free_base": self.free_base, "floor": self.floor}
        given = {name: True for name, said in {**flags, "motors": self.motors}.items() if said}
        texts: dict[str, Any] = {"assets": str(self.assets) if self.assets else "", "keyframe": self.keyframe}
        given |= {name: text for name, text in texts.items() if text}
        if WORLDS.is_file(self.model):
            return make_world(WORLDS.get(self.model).configure(self.model, given)), Path(self.model).stem
        if given:
            named = ", ".join(f"--{name.replace('_', '-')}" for name in given)
            raise UserError(f"{self.model} is no model file; leave out {named}")
        if self.model.startswith(PREFIX) or Path(self.model).is_dir():
            run = open_run(Path(self.model) if Path(self.model).is_dir() else self.model)
            return make_world(run.config.env), run.config.env.name.rpartition(":")[2]
        return make_world(WORLDS.get(self.model).configure(self.model)), self.model

    def _behaviour(self, world: Any) -> dict[str, str]:
        from wanderlust.evaluation import doctor

        speed, rest, shaken = doctor.measure_speed(world), doctor.at_rest(world), doctor.shaken(world)
        if not rest.finite:
            left = "breaks down: not finite"
        else:
            still = "at rest" if rest.speed < doctor.QUIET else f"still moving, up to {rest.speed:.3g} per second"
            touching = "1 contact" if rest.contacts == 1 else f"{rest.contacts} contacts"
            left = f"{touching}, {1000 * rest.deepest:.2g} mm deep at most; {still}"
        broke = f"{shaken.broken} of {doctor.BODIES} break down within {shaken.steps} control steps"
        if shaken.broken:
            broke += ": a smaller timestep, more damping or armature, or weaker actuators may cure it"
        return {
            "speed": f"{speed.control_steps:,} control steps a second, {speed.physics_steps:,} physics steps: "
            f"{doctor.BODIES} bodies, measured for a second on {speed.threads} threads of the engine c",
            "left to itself for a second": left,
            "random full actions": f"{broke if shaken.broken else 'none breaks down'}; joints are as fast as "
            f"{shaken.fastest:.3g} per second",
        }

    def _draw(self, console: Console, world: Any, name: str) -> None:
        import copy

        import jax
        import mujoco
        import numpy as np

        from wanderlust.envs.mjcf import set_physics
        from wanderlust.report.video.picture import draw_model

        model = copy.copy(world.model)
        data = mujoco.MjData(model)
        set_physics(model, data, np.asarray(world.initial(jax.random.key(0)).physics))
        mujoco.mj_forward(model, data)
        path = self.picture or Path("runs") / "inspect" / f"{name}.png"
        try:
            console.print(f"picture: {draw_model(model, data, path)}")
        except UserError as error:
            console.print(f"no picture: {error}")


def _show(console: Console, title: str, rows: dict[str, str]) -> None:
    table = Table("", "", title=title, title_justify="left", show_header=False, box=None)
    for name, words in rows.items():
        table.add_row(name, words)
    console.print(table, soft_wrap=False)


def _groups(world: Any) -> dict[str, str]:
    from wanderlust.envs.names import entry_names

    names = entry_names(world)
    found = {}
    for group, entries in world.spec.groups.items():
        words = [names[entry] for entry in entries]
        found[group] = ", ".join(words[:8]) + (f" and {len(words) - 8} more" if len(words) > 8 else "")
    return found
