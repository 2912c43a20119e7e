"""The zoo: trained skills that ship with the package, each a folder with one seed's policy and phi.

NAME/config.json         the configuration of the run, for that seed
NAME/skills.safetensors  the weights of the policy and of the method's network, half precision where it costs nothing
NAME/card.json           facts: command, commit, machine, measures
NAME/card.md             the same for people, with trajectories.png

An entry may come from a stranger, so it is only read: no code in it is run, and no array is loaded that its
configuration does not ask for.
"""

import dataclasses
import json
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from wanderlust import train
from wanderlust.config import RunConfig, from_json, to_json
from wanderlust.errors import UserError
from wanderlust.methods.ablation import AblationState
from wanderlust.methods.aps import without_memory
from wanderlust.methods.csd import CsdState
from wanderlust.methods.dads import without_statistics
from wanderlust.methods.diayn import DiaynState
from wanderlust.methods.edl.edl import without_spread
from wanderlust.methods.lsd import LsdState
from wanderlust.methods.metra import MetraState
from wanderlust.methods.smm import without_density
from wanderlust.methods.vic import VicState
from wanderlust.methods.visr import VisrState
from wanderlust.report import plots
from wanderlust.rl.nets import MLP, Policy, measure_spectral
from wanderlust.rl.sac import mode_actions
from wanderlust.runs import learned
from wanderlust.runs.files import ArrayFile, read_text, write_arrays, write_atomic, write_json
from wanderlust.runs.learned import Learned
from wanderlust.runs.run import Run

PREFIX = "zoo:"
DATA = "zoo_data"
"""Where an installed package keeps its zoo, below `wanderlust/`; pyproject.toml puts it there."""

FORMAT = "wanderlust-zoo-1"
LARGEST_SKILLS = 64 * 2**20
"""Bytes of skills.safetensors: sixteen million numbers in float32, several times what any recipe has."""
LARGEST_TEXT = 2**18
"""Bytes of config.json and card.json."""
LONGEST_CELL = 2000
"""Characters in a cell of a card: whole commands, and what strangers may have put there is cut off."""

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


class Weights(NamedTuple):
    """What an entry stores; all else follows from it."""

    policy: Policy
    encoder: MLP
    """The method's network: phi, or the discriminator."""


class Deviation(NamedTuple):
    """What storing changes: the largest over `PROBES` observations."""

    action: float
    """Of a mode action, in any of its entries."""
    step: float
    """Of a difference phi(s') - phi(s), as a share of ||s' - s||."""


TOLERATED = Deviation(action=0.005, step=0.005)
"""Half precision is used where it changes no more than this; docs/zoo.md says what was measured."""
PROBES = 1000

STATES: Mapping[str, Callable[[MLP], Any]] = {
    # norms are measured, not stored: the Lipschitz bound holds for the very weights that were read
    "lsd": lambda encoder: LsdState(encoder, measure_spectral(encoder), opt=()),
    "diayn": lambda encoder: DiaynState(encoder, opt=()),
    "visr": lambda encoder: VisrState(encoder, opt=()),
    "vic": lambda encoder: VicState(encoder, opt=()),
    # remembered states are not stored: the reward of an entry is the cosine alone
    "aps": without_memory,
    # running statistics are not stored: `predict` of an entry gives NaN
    "dads": without_statistics,
    # multipliers and CSD's model of steps matter to learning alone
    "metra": lambda encoder: MetraState(encoder, jnp.zeros(()), opt=(), multiplier_opt=()),
    "csd": lambda encoder: CsdState(
        encoder, MLP((), encoder.activation), jnp.zeros(()), opt=(), model_opt=(), multiplier_opt=()
    ),
    # the density matters to learning alone
    "smm": without_density,
    "edl": without_spread,
    # norms again; a cell without the constraint does not read them
    "ablation": lambda encoder: AblationState(encoder, measure_spectral(encoder), opt=()),
}
"""By method: its state, as far as use goes, from the network alone."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """An entry of the zoo, with a folder elsewhere for what comes of using it."""

    name: str
    folder: Path
    """Where it is kept; never written to."""
    config: RunConfig
    path: Path
    """Where evaluations and paths to goals go."""

    @property
    def evaluation(self) -> Path:
        """Where evaluations and figures go."""
        return self.path / "evaluation"

    def load(self, parts: train.Setup) -> tuple[int, Learned]:
        """The epoch it was taken from, and its skills with a seed axis of one, checked against the configuration."""
        path = _small(self.folder / "skills.safetensors", LARGEST_SKILLS)
        file = ArrayFile(path)
        epoch = file.about.get("epoch", "")
        if file.about.get("format") != FORMAT or not re.fullmatch("[0-9]{1,9}", epoch):
            raise UserError(f"{path} is not a {FORMAT}")
        weights = _read(file, _skeleton(parts))
        state_of = STATES[parts.config.method.name]

        @jax.jit  # operation by operation, the norms of an entry take seconds to compile
        def whole(weights: Weights) -> Learned:
            one = Learned(weights.policy, state_of(weights.encoder))
            return jax.tree.map(lambda x: x[None], one)

        return int(epoch), whole(weights)


# --- finding ---------------------------------------------------------------------------------------------------------


def zoo_folder() -> Path:
    """WANDERLUST_ZOO, or the zoo of the installed package, or `zoo/` of the checkout."""
    if chosen := os.environ.get("WANDERLUST_ZOO"):
        return Path(chosen)
    here = Path(__file__).resolve().parents[1]
    return here / DATA if (here / DATA).is_dir() else here.parents[1] / "zoo"


def names(zoo: Path | None = None) -> list[str]:
    """The entries there are, whole or not."""
    zoo = zoo or zoo_folder()
    try:
        return sorted(path.name for path in zoo.iterdir() if _NAME.fullmatch(path.name) and path.is_dir())
    except OSError:
        return []


def open_entry(name: str, out: Path | None = None, zoo: Path | None = None) -> Entry:
    """The entry of that name; what comes of using it goes to `out`, or to runs/zoo-NAME."""
    zoo = zoo or zoo_folder()
    known = names(zoo)
    if name not in known:
        have = f"it has {', '.join(known)}" if known else "it is empty"
        raise UserError(f"the zoo has no entry {name!r}; {have}")
    where = _small(zoo / name / "config.json", LARGEST_TEXT)
    config = from_json(RunConfig, read_text(where, "the entry's configuration"), str(where))
    if config.seeds != 1 or config.method.name not in STATES:
        raise UserError(f"{where} is not of one seed of a known method")
    return Entry(name, zoo / name, config, out or Path("runs") / f"zoo-{name}")


def summaries(zoo: Path | None = None) -> dict[str, str]:
    """One line for each entry; what is wrong with it, if its card cannot be read."""
    zoo = zoo or zoo_folder()
    found = {}
    for name in names(zoo):
        try:
            text = _object(zoo / name / "card.json", "the entry's card").get("summary")
            found[name] = _one_line(text) if isinstance(text, str) and text.strip() else "its card says nothing"
        except UserError as error:
            found[name] = f"damaged: {error}"
    return found


# --- arrays ----------------------------------------------------------------------------------------------------------


def _skeleton(parts: train.Setup) -> Weights:
    """Names, shapes and types of one seed's weights; nothing is allocated."""
    learner = jax.eval_shape(lambda: train.init_seed(parts, jax.random.key(0))).learner
    return Weights(learner.sac.policy, learner.method.encoder)


def _named(weights: Weights) -> dict[str, Any]:
    found = jax.tree_util.tree_leaves_with_path(weights)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in found}


def _read(file: ArrayFile, skeleton: Weights) -> Weights:
    """The weights as float32. Every name and shape is checked before the first array is loaded."""
    expected = {name: leaf.shape for name, leaf in _named(skeleton).items()}
    shapes = file.shapes()
    if spare := sorted(set(shapes) - set(expected)):
        raise UserError(f"{file.path} does not fit its configuration: it also holds {spare[0]}")
    for name, shape in expected.items():
        if shapes.get(name) != shape:
            is_there = shapes.get(name, "nothing")
            raise UserError(f"{file.path} does not fit its configuration at {name}: {is_there} instead of {shape}")

    def read(name: str) -> Array:
        array = file.read(name)
        if array.dtype not in (np.float16, np.float32):
            raise UserError(f"{file.path} does not fit its configuration at {name}: {array.dtype}")
        if not np.all(np.isfinite(array)):
            raise UserError(f"{file.path} is damaged: {name} holds numbers that are not finite")
        return jnp.asarray(array, jnp.float32)

    weights: Weights = jax.tree.unflatten(jax.tree.structure(skeleton), [read(name) for name in expected])
    return weights


def _small(path: Path, most: int) -> Path:
    """The path of a file that is there and not larger than it can rightly be."""
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    if (size := path.stat().st_size) > most:
        raise UserError(f"{path} has {size:,} bytes; it can have {most:,} at most")
    return path


def _object(path: Path, what: str) -> dict[str, Any]:
    """A JSON object from a file of moderate size."""
    text = read_text(_small(path, LARGEST_TEXT), what)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise UserError(f"{path} is damaged: it is not a JSON object")
    return data


def _one_line(text: str, longest: int = 160) -> str:
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return words if len(words) <= longest else f"{words[: longest - 1]}…"


# --- publishing ------------------------------------------------------------------------------------------------------


def publish(
    run: Run, name: str, seed: int | None = None, zoo: Path | None = None, replace: bool = False
) -> tuple[Path, dict[str, Any]]:
    """Put the newest checkpoint of an evaluated run into the zoo; return the entry's folder and the facts on its card.

    Of several seeds it is the one whose mode actions cover most, unless `seed` says which, counted from 0. The entry
    appears whole or not at all.
    """
    zoo = zoo or zoo_folder()
    if run.config.method.name not in STATES:
        raise UserError(f"{run.path} is a run of {run.config.method}, which the zoo has no form for yet")
    if not _NAME.fullmatch(name):
        raise UserError(f"--name is {name!r}; it must be lower-case letters, digits and hyphens, 64 at most")
    if (zoo / name).exists() and not replace:
        raise UserError(f"{zoo / name} already exists; choose another --name, or --replace it")
    evaluation = _evaluation(run)
    seed = _best(evaluation) if seed is None else seed
    if not 0 <= seed < run.config.seeds:
        raise UserError(f"{run.path} has no seed {seed}; it has {run.config.seeds}, counted from 0")
    parts = train.assemble(dataclasses.replace(run.config, engine="auto"))
    epoch, everyone = learned.from_run(run, parts)
    one = learned.of_seed(everyone, seed)
    try:
        zoo.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(dir=zoo, prefix=f".{name}."))
    except OSError as error:
        raise UserError(f"cannot write to the zoo {zoo}: {error.strerror}") from None
    try:
        rollouts = ArrayFile(run.evaluation / "rollouts.safetensors")
        position = rollouts.read("position")
        if len(position) != run.config.seeds:
            raise UserError(f"{rollouts.path} is of {len(position)} seeds; run `wanderlust evaluate` on the run again")
        weights, deviation = _halved(parts, one, position[seed])
        arrays = {part: np.asarray(x) for part, x in _named(weights).items()}
        write_arrays(staging / "skills.safetensors", arrays, {"format": FORMAT, "epoch": str(epoch)})
        config = dataclasses.replace(run.config, seed=run.config.seed + seed, seeds=1)
        write_atomic(staging / "config.json", to_json(config))
        facts = {
            **_facts(run, name, seed, epoch, evaluation),
            "stored": {
                "policy": str(weights.policy.mlp.layers[0].weight.dtype),
                "encoder": str(weights.encoder.layers[0].weight.dtype),
            },
            "parameters": sum(x.size for x in arrays.values()),
            "bytes": (staging / "skills.safetensors").stat().st_size,
            "deviation": deviation._asdict(),
        }
        write_json(staging / "card.json", facts)
        _draw(staging, seed, evaluation, rollouts)
        write_atomic(staging / "card.md", _card(facts, len(parts.world.spec.groups["position"])))
        Entry(name, staging, config, staging).load(train.assemble(dataclasses.replace(config, engine="auto")))
        staging.chmod(0o755)
        _move(staging, zoo / name)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return zoo / name, facts


def _move(staging: Path, target: Path) -> None:
    """Put a finished folder in its place; the one it replaces comes back if that fails."""
    aside = staging.with_name(f"{staging.name}.old")
    try:
        if target.exists():
            target.rename(aside)
        try:
            staging.rename(target)
        except OSError:
            if aside.exists():
                aside.rename(target)
            raise
    except OSError as error:
        raise UserError(f"cannot write {target}: {error.strerror}") from None
    shutil.rmtree(aside, ignore_errors=True)


def _evaluation(run: Run) -> dict[str, Any]:
    """The evaluation of the newest checkpoint."""
    path, newest = run.evaluation / "evaluation.json", max(run.checkpoints(), default=0)
    advice = f"run `wanderlust evaluate {shlex.quote(str(run.path))}` first"
    if not path.is_file():
        raise UserError(f"{run.path} has not been evaluated; {advice}")
    record = _object(path, "the run's evaluation")
    if newest and record.get("epoch") != newest:
        raise UserError(f"{path} is of epoch {record.get('epoch')}, the newest checkpoint of {newest}; {advice}")
    metrics = record.get("metrics")
    for measure in MEASURES:
        try:
            values = [float(x) for x in metrics[measure]["per_seed"]]  # type: ignore[index]
        except (KeyError, TypeError, ValueError):
            values = []
        if len(values) != run.config.seeds:
            raise UserError(f"{path} does not say {measure} of every seed; {advice}")
    return record


def _best(evaluation: Mapping[str, Any]) -> int:
    return int(np.argmax(evaluation["metrics"]["coverage_mode"]["per_seed"]))


def _halved(parts: train.Setup, one: Learned, position: NDArray[np.floating]) -> tuple[Weights, Deviation]:
    """One seed's weights, each network in half precision if that costs nothing; and what it changes."""
    kept = Weights(one.policy, one.method.encoder)
    half: Weights = jax.tree.map(lambda x: x.astype(jnp.float16), kept)
    deviation = _deviation(parts, kept, half, position)
    # a number beyond half precision becomes infinite there, and its deviation no number: not tolerated either
    policy, encoder = (d <= most for d, most in zip(deviation, TOLERATED, strict=True))
    stored = Weights(half.policy if policy else kept.policy, half.encoder if encoder else kept.encoder)
    changed = Deviation(deviation.action if policy else 0.0, deviation.step if encoder else 0.0)
    return stored, changed


def _deviation(parts: train.Setup, kept: Weights, stored: Weights, position: NDArray[np.floating]) -> Deviation:
    """Measured where skills have been: at visited positions, the other entries normal around their means."""
    rng = np.random.default_rng(0)
    spec = parts.world.spec
    mean, std = np.array(spec.obs_mean), np.array(spec.obs_std)
    obs = mean + std * rng.normal(size=(PROBES, spec.obs_dim))
    visited = position.reshape(-1, position.shape[-1])
    obs[:, list(spec.groups["position"])] = visited[rng.integers(len(visited), size=PROBES)]
    moved = obs + 0.1 * std * rng.normal(size=obs.shape)
    here, there = (jnp.asarray(x, jnp.float32) for x in (obs, moved))
    skill = jax.vmap(parts.skills.sample)(jax.random.split(jax.random.key(0), PROBES))
    restore = STATES[parts.config.method.name]

    def act(weights: Weights) -> Array:
        return mode_actions(weights.policy, parts.view.for_policy(here), skill)

    def step(weights: Weights) -> Array:
        state = restore(weights.encoder)
        after, before = (parts.method.represent(state, parts.view.for_method(x)) for x in (there, here))
        return after - before

    stored = jax.tree.map(lambda x: x.astype(jnp.float32), stored)
    length = jnp.linalg.norm(parts.view.for_method(there) - parts.view.for_method(here), axis=1)
    return Deviation(
        action=float(jnp.max(jnp.abs(act(stored) - act(kept)))),
        step=float(jnp.max(jnp.linalg.norm(step(stored) - step(kept), axis=1) / length)),
    )


def _facts(run: Run, name: str, seed: int, epoch: int, evaluation: Mapping[str, Any]) -> dict[str, Any]:
    """What a card is rendered from, as far as the run's own files say it."""
    config = run.config
    record = run.record()
    last: dict[str, Any] = ([row for row in run.metrics() if row["epoch"] <= epoch] or [{}])[-1]
    per_seed = {measure: evaluation["metrics"][measure]["per_seed"] for measure in MEASURES}
    skills = f"{config.skills.size}{'-D' if config.skills.kind == 'continuous' else ' discrete'} skills"
    changing = f", another every {config.schedule.hold} steps in training" if config.schedule.hold else ""
    made = f"by {config.method}{changing}, recipe {config.recipe}"
    return {
        "format": FORMAT,
        "name": name,
        "summary": f"{skills} of {config.env.name} {made}: {round(per_seed['coverage_mode'][seed]):,} bins",
        "env": config.env.name,
        "method": str(config.method),
        "skills": skills,
        "recipe": config.recipe,
        "seed": config.seed + seed,
        "seeds": config.seeds,
        "best": seed == _best(evaluation),
        "epoch": epoch,
        "env_steps": int(evaluation["env_steps"]),
        "engine": config.engine,
        "precision": config.precision,
        "train_seconds": last.get("train_seconds"),
        "seconds": last.get("seconds"),
        "command": without_folders(record.get("command") or ""),
        "resumed": len(record.get("resumed") or []),
        "began_with": _beginning(record.get("began_with")),
        "commit": record.get("commit"),
        "time": record.get("time"),
        "device": record.get("device") or {},
        "versions": record.get("versions") or {},
        "evaluated": {"episodes": evaluation.get("episodes"), "engine": evaluation.get("engine")},
        "metrics": {measure: values[seed] for measure, values in per_seed.items()},
        "mean_of_seeds": {measure: float(np.mean(values)) for measure, values in per_seed.items()},
    }


def _beginning(record: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The run before, with whose networks this one began, if there was one; and the one before that."""
    if record is None:
        return None
    told = {**record, "command": without_folders(record.get("command") or "")}
    return told | {"began_with": _beginning(record["began_with"])} if "began_with" in record else told


def without_folders(command: str) -> str:
    """A command line without the folders in it: they say where somebody works, not what was done."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()

    def bare(word: str) -> str:
        flag, equals, value = word.partition("=")
        if equals and "/" not in flag:
            return f"{flag}={Path(value).name if '/' in value else value}"
        return Path(word).name if "/" in word else word

    return shlex.join(map(bare, words))


def _draw(staging: Path, seed: int, evaluation: Mapping[str, Any], rollouts: ArrayFile) -> None:
    """The figure of that seed alone: `plots` reads an evaluation from disk, so one is made for it."""
    metrics = {k: {"per_seed": [v["per_seed"][seed]]} for k, v in evaluation["metrics"].items()}
    folder = staging / "evaluation"
    write_json(folder / "evaluation.json", {**evaluation, "seeds": [evaluation["seeds"][seed]], "metrics": metrics})
    arrays = {name: rollouts.read(name)[seed : seed + 1] for name in ("position", "skill")}
    write_arrays(folder / "rollouts.safetensors", arrays, {"skills": rollouts.about["skills"]})
    plots.draw_trajectories(staging).rename(staging / "trajectories.png")
    shutil.rmtree(folder)


# --- cards -----------------------------------------------------------------------------------------------------------

MEASURES = {
    "coverage_mode": "bins of 1 x 1 covered, mode actions",
    "coverage_sampled": "bins of 1 x 1 covered, sampled actions",
    "travelled": "‖s_T - s_0‖, normalised, mode actions",
    "distance": "distance from start to end on the plane, mode actions",
    "survived": "steps survived, mode actions",
}


def _told(before: Mapping[str, Any]) -> str:
    """What a run began with, in words."""
    steps = f", {before['env_steps']:,} environment steps" if isinstance(before.get("env_steps"), int) else ""
    told = f"the networks of `{before['command'] or 'an unknown run'}` at epoch {before['epoch']}{steps}"
    return f"{told}, which began with {_told(before['began_with'])}" if before.get("began_with") else told


def _card(facts: Mapping[str, Any], position_dims: int) -> str:
    """A model card in Markdown."""
    device, several = facts["device"], facts["seeds"] > 1
    machine = f"{device.get('kind', 'unknown')}, {device.get('cpu_cores', '?')} CPU cores"
    choice = f"the best of {facts['seeds']} by bins covered" if facts["best"] else f"one of {facts['seeds']}"
    rows = {
        "command": f"`{facts['command'] or 'unknown'}`"
        + (f", resumed {facts['resumed']} x" if facts["resumed"] else ""),
        **({"began with": _told(facts["began_with"])} if facts["began_with"] else {}),
        "commit": f"`{facts['commit']}`" if facts["commit"] else "unknown (an installed package)",
        "started": facts["time"] or "unknown",
        "machine": machine,
        "versions": ", ".join(f"{k} {v}" for k, v in facts["versions"].items() if v) or "unknown",
        "seed": f"{facts['seed']}" + (f", {choice}" if several else ""),
        "environment steps": f"{facts['env_steps']:,} (epoch {facts['epoch']:,})",
        "training": _seconds(facts["train_seconds"]) + (f", {facts['seeds']} seeds side by side" if several else ""),
        "with compilation and coverage": _seconds(facts["seconds"]),
        "physics, precision": f"`{facts['engine']}`, {facts['precision']}",
    }
    head = ["measure", "this seed", *(["mean of all seeds"] if several else [])]
    means = facts["mean_of_seeds"]
    measures = [
        [label, _number(facts["metrics"][m]), *([_number(means[m])] if several else [])]
        for m, label in MEASURES.items()
    ]
    stored, deviation = facts["stored"], facts["deviation"]
    lines = [
        f"# {facts['name']}",
        "",
        f"{facts['skills']} of `{facts['env']}`, discovered without a reward by `{facts['method']}` "
        f"(recipe `{facts['recipe']}`).",
        "",
        f"![Where {facts['evaluated']['episodes']} random skills go](trajectories.png)",
        "",
        "## How it was made",
        "",
        *_table(["", ""], [[key, value] for key, value in rows.items()]),
        "",
        "## Measures",
        "",
        f"Over {facts['evaluated']['episodes']} episodes of random skills, with the engine "
        f"`{facts['evaluated']['engine']}`, before the weights were stored.",
        "",
        *_table(head, measures),
        "",
        "## Use",
        "",
        "```python",
        "import wanderlust",
        "",
        f'skills = wanderlust.load("{PREFIX}{facts["name"]}")',
        "z = skills.sample(1)[0]",
        "action = skills.act(obs, z)  # obs as the environment gives it",
        "```",
        "",
        "```sh",
        f"wanderlust evaluate {PREFIX}{facts['name']}",
        f"wanderlust reach {PREFIX}{facts['name']} {'--goal 12 4 --goal -5 9' if position_dims == 2 else '--goal 12'}",
        "```",
        "",
        "## Files",
        "",
        f"`skills.safetensors` ({facts['bytes'] / 1e6:.2f} MB, {facts['parameters']:,} numbers): the policy in "
        f"{stored['policy']}, the method's network in {stored['encoder']}. Against the weights as trained, over "
        f"{PROBES:,} observations, mode actions differ by at most {deviation['action']:.1e}, and differences of phi by "
        f"at most {deviation['step']:.1e} of the distance between the states. `config.json` is the run's configuration "
        "with this seed alone; `card.json` holds the facts of this page.",
    ]
    return "\n".join(lines) + "\n"


def _seconds(x: float | None) -> str:
    return "unknown" if x is None else f"{x:,.0f} s"


def _number(x: float) -> str:
    return f"{x:,.2f}" if abs(x) < 100 else f"{x:,.0f}"


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    safe = [[_one_line(cell, LONGEST_CELL).replace("|", "\\|") for cell in row] for row in rows]
    cells = [head, ["---"] * len(head), *safe]
    return [f"| {' | '.join(row)} |" for row in cells]
