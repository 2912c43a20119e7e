"""Skills for other runtimes: `wanderlust export RUN --to onnx`.

OUT/policy.onnx   (observation, skill) -> (action, mean, log_std)
OUT/phi.onnx      observation -> phi, of methods that have a map of states
OUT/onnx.json     what else a user must know (`card.py`)

Nothing is written before ONNX Runtime has given what JAX gives, on observations of episodes of random skills.
"""

import dataclasses
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from wanderlust import train
from wanderlust.config import EngineName
from wanderlust.envs.worlds.body import BodyConfig
from wanderlust.errors import UserError
from wanderlust.export.card import card
from wanderlust.export.graphs import phi_model, policy_model
from wanderlust.runs.files import write_atomic, write_json
from wanderlust.runs.folders import staging
from wanderlust.runs.learned import Learned, load_learner, of_seed, represent
from wanderlust.runs.run import Run

TOLERANCE = 1e-5
"""How far ONNX Runtime may be from JAX: in an action, and in what has no bound (phi, mean, log_std) as a share of the
row's norm where that is above 1."""
EPISODES = 16
"""Episodes of random skills over which the two are compared."""

Outputs = dict[str, NDArray[np.float32]]


def export_onnx(run: Run, seed: int = 0, out: Path | None = None) -> tuple[list[Path], dict[str, Any]]:
    """Write the policy and phi of one seed as ONNX, to `out` or to the run's folder `export`.

    Returns the files, the graphs and then the card, and what the card says.
    """
    _check_installed()
    run.check_seed(seed)
    engine: EngineName = "c" if isinstance(run.config.env, BodyConfig) else "auto"  # also beside a GPU: worlds are few
    parts = train.assemble(dataclasses.replace(run.config, engine=engine))
    if parts.method.high_level is not None:
        raise UserError(
            f"{parts.config.method} cannot be exported yet: its high level sets subgoals and keeps them for "
            f"{parts.hold} steps, and a graph remembers nothing"
        )
    folder = out or run.results / "export"
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file; choose another --out")
    epoch, everyone = load_learner(run, parts)
    learned = of_seed(everyone, seed)
    network = jax.jit(parts.method.network)(learned.method)
    about = f"{run.config.name}, seed {run.config.seed + seed}, epoch {epoch}"
    models = {"policy": policy_model(learned.policy, parts.view, about)}
    if network is not None:
        models["phi"] = phi_model(network, parts.view, about)
    obs, skill = _rolled_out(parts, learned)
    expected = _in_jax(parts, learned, obs, skill)
    differences = _compare(models, expected, {"observation": obs, "skill": skill})
    facts = card(parts, run.entry or run.path.resolve().name, seed, epoch, has_phi=network is not None)
    facts["checked"] = {
        "observations": len(obs),
        "tolerance": TOLERANCE,
        "largest_difference": differences,
        "longest_phi": None if network is None else np.linalg.norm(expected["phi"], axis=1).max(),
    }
    return _write(folder, models, facts), facts


# --- the comparison --------------------------------------------------------------------------------------------------


def _rolled_out(parts: train.Setup, learned: Learned) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Every observation of a few episodes of random skills, and the skill there."""
    skill_key, rollout_key = jax.random.split(jax.random.key(0))
    skill = train.sample_skills(parts, skill_key[None], EPISODES)
    policy = jax.tree.map(lambda x: x[None], learned.policy)
    rollout = train.make_skill_rollout(parts)(policy, skill, rollout_key[None])
    obs = np.asarray(rollout.obs[0], np.float32)
    skills = np.broadcast_to(np.asarray(skill, np.float32), (len(obs), *skill.shape[1:]))
    return obs.reshape(-1, obs.shape[-1]), skills.reshape(-1, skills.shape[-1])


def _in_jax(parts: train.Setup, learned: Learned, obs: Any, skill: Any) -> Outputs:
    """What the graphs should give, by the functions that evaluation uses, without short cuts in matrix products."""

    def compute(learned: Learned, obs: Array, skill: Array) -> dict[str, Array]:
        dist = jax.vmap(learned.policy)(parts.view.for_policy(obs), skill)
        return {
            "action": train.actions(parts, learned.policy, obs, skill),
            "mean": dist.mean,
            "log_std": dist.log_std,
            "phi": represent(parts, learned, obs),
        }

    with jax.default_matmul_precision("highest"):
        return jax.device_get(jax.jit(compute)(learned, obs, skill))


def _compare(models: dict[str, bytes], expected: Outputs, inputs: Outputs) -> dict[str, float]:
    """The largest difference of every output; one that is too large is refused."""
    import onnxruntime

    found = {}
    for name, model in models.items():
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        outputs = [x.name for x in session.get_outputs()]
        results = session.run(outputs, {x.name: inputs[x.name] for x in session.get_inputs()})
        for output, values in zip(outputs, results, strict=True):
            right = expected[output]
            size = np.linalg.norm(right, axis=1, keepdims=True)
            away = np.abs(values - right) / (1.0 if output == "action" else np.maximum(1.0, size))
            found[output] = float(np.max(away))
            if not found[output] <= TOLERANCE:  # also if it is no number
                raise UserError(
                    f"not exported: {output} of {name}.onnx is {found[output]:.1e} from what JAX gives, and "
                    f"{TOLERANCE:g} is allowed"
                )
    return found


# --- files -----------------------------------------------------------------------------------------------------------


def _write(folder: Path, models: dict[str, bytes], facts: dict[str, Any]) -> list[Path]:
    """Everything is on the disk before anything is replaced, so that an export that was there survives a full one.

    The card goes first and comes last: where there is one, the graphs beside it are its own, and whole.
    """
    card_file = folder / "onnx.json"
    files = [*(folder / f"{name}.onnx" for name in models), card_file]
    with staging(folder, folder) as staged:
        for name, model in models.items():
            write_atomic(staged / f"{name}.onnx", model)
        write_json(staged / card_file.name, facts)
        for old in (card_file, folder / "phi.onnx"):
            old.unlink(missing_ok=True)
        for path in files:
            os.replace(staged / path.name, path)
    return files


def _check_installed() -> None:
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise UserError(f"export needs {error.name or 'onnx'}: pip install 'wanderlust[onnx]'") from None
    onnxruntime.set_default_logger_severity(3)  # errors; it would also warn of hardware that is not there
