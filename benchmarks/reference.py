"""Record what the trainings, the zoo and the evaluations give on this machine, and compare after a change of the code.

    python benchmarks/reference.py record --file FILE            # on the commit before
    python benchmarks/reference.py check --file FILE             # on the one after: names every difference
    python benchmarks/reference.py check --file FILE --only ant  # only the cases whose name contains "ant"

Each case is a short training; its value is a hash over the weights that were learned. The hash ignores the names of the
tensors, so it survives a renamed field. The results depend on the versions of JAX and MuJoCo and on the processor: a
reference is checked only on the processor that recorded it. Without --file it is benchmarks/results/reference.json.
"""

# ruff: noqa: T201
import argparse
import datetime
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import numpy as np
from safetensors import safe_open

import wanderlust

RESULT = Path(__file__).parent / "results" / "reference.json"

SMALL = (
    "schedule.worlds=8",
    "schedule.sac_steps=4",
    "schedule.method_steps=4",
    "schedule.sac_batch=32",
    "sac.hidden=[32,32]",
    "method.hidden=[32,32]",
)
ON_POINT = (
    "lsd",
    "diayn",
    "dads",
    "visr",
    "aps",
    "vic",
    "metra",
    "csd",
    "smm",
    "edl",
    "linearizer",
    "ibol",
    "ablation",
)
ON_BODIES = ("lsd", "metra", "dads", "diayn")
CONTINUOUS_ONLY = ("visr", "aps", "linearizer", "ibol", "ablation")
DISCRETE_ONLY = ("smm", "edl")


def cases() -> dict[str, dict[str, Any]]:
    """Every training of the reference: its name and the arguments of `wanderlust.discover`."""
    found: dict[str, dict[str, Any]] = {}
    for method in ON_POINT:
        for kind in ("continuous", "discrete"):
            if method in (DISCRETE_ONLY if kind == "continuous" else CONTINUOUS_ONLY):
                continue
            for driver in ("fused", "split"):
                arguments: dict[str, Any] = {"env": "point", "method": method, "budget_steps": 2_000}
                arguments["changes"] = (f"driver={driver}",)
                arguments["discrete"] = 5 if kind == "discrete" else None
                found[f"point/{method}/{kind}/{driver}"] = arguments
    found["point/lsd-xyo/two-seeds/fused"] = {"env": "point", "method": "lsd-xyo", "budget_steps": 2_000, "seeds": 2}
    for body in ("ant", "half-cheetah"):
        for method in ON_BODIES:
            for discrete in (None, 6):
                kind = "continuous" if discrete is None else "discrete"
                found[f"{body}/{method}/{kind}/split"] = {
                    "env": body,
                    "method": method,
                    "discrete": discrete,
                    "engine": "c",
                    "budget_steps": 4_800,
                    "changes": SMALL,
                }
    found["ant/lsd-xyo/continuous/split"] = {**found["ant/lsd/continuous/split"], "method": "lsd-xyo"}
    found["humanoid/lsd/continuous/split"] = {
        **found["ant/lsd/continuous/split"], "env": "humanoid", "budget_steps": 8_000
    }  # fmt: skip
    return found


def weights_hash(folder: Path) -> str:
    """A hash over the tensors that were learned, in the last checkpoint of a run and of each of its stages."""
    last: dict[Path, Path] = {}
    for path in sorted(folder.rglob("*.safetensors")):
        if path.parent.name == "checkpoints":
            last[path.parent] = path
    hashes = []
    for path in last.values():
        with safe_open(path, "np") as file:
            for name in file.keys():  # noqa: SIM118 - not a dictionary
                if name.startswith("learner/"):
                    tensor = np.ascontiguousarray(file.get_tensor(name))
                    hashes.append(
                        hashlib.sha256(f"{tensor.dtype}{tensor.shape}".encode() + tensor.tobytes()).hexdigest()
                    )
    if not hashes:
        raise SystemExit(f"{folder} has no checkpoint with learned tensors")
    return hashlib.sha256("".join(sorted(hashes)).encode()).hexdigest()[:16]


def train_case(arguments: dict[str, Any]) -> dict[str, Any]:
    """Hashes of what a training learned and of its evaluation."""
    with tempfile.TemporaryDirectory() as folder:
        run = wanderlust.discover(**arguments, out=Path(folder) / "run", quiet=True)
        return {"weights": weights_hash(run.path), "evaluation": evaluation_digest(run.evaluation / "evaluation.json")}


COMPARED = ("name", "epoch", "env_steps", "env_steps_before", "episodes", "seeds", "metrics", "kinds")
"""Of an evaluation: what it measured, of what. Labels may change, and other numbers came after the first reference."""


def evaluation_digest(path: Path) -> str:
    """A short hash of the numbers of an evaluation."""
    found = json.loads(path.read_text())
    return digest(comparable({key: value for key, value in found.items() if key in COMPARED}))


def comparable(evaluation: Any) -> Any:
    """The numbers of an evaluation, without paths, times and versions."""
    if isinstance(evaluation, dict):
        skipped = ("provenance", "run", "commit", "machine", "engine", "date", "time", "seconds", "path")
        return {key: comparable(value) for key, value in sorted(evaluation.items()) if key not in skipped}
    return evaluation


def digest(value: Any) -> str:
    """A short hash of a JSON value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def zoo_case(name: str) -> dict[str, Any]:
    """Actions and φ of a zoo entry on fixed observations."""
    skills = wanderlust.load(f"zoo:{name}")
    draw = np.random.default_rng(0)
    obs = draw.normal(size=(16, skills.spec.obs_dim)).astype(np.float32)
    z = skills.sample(16, seed=1)
    actions, phi = np.asarray(skills.act(obs, z)), np.asarray(skills.phi(obs))
    return {
        "actions": hashlib.sha256(actions.tobytes()).hexdigest()[:16],
        "phi": hashlib.sha256(phi.tobytes()).hexdigest()[:16],
    }


def evaluation_case(name: str) -> dict[str, Any]:
    """What `wanderlust evaluate` says of a zoo entry, on CPU physics."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "wanderlust", "evaluate", f"zoo:{name}", "--episodes", "20", "--engine", "c"]
        subprocess.run([*command, "--out", f"{folder}/out"], check=True, capture_output=True)
        (found,) = Path(folder).rglob("evaluation.json")
        return {"evaluation": evaluation_digest(found)}


def all_cases() -> dict[str, Any]:
    """Every case by name, as a function that gives its value."""
    jobs: dict[str, Any] = {name: lambda a=arguments: train_case(a) for name, arguments in cases().items()}
    zoo = sorted(path.name for path in (Path(__file__).parent.parent / "zoo").iterdir() if path.is_dir())
    jobs.update({f"zoo/{name}": lambda n=name: zoo_case(n) for name in zoo})
    jobs.update(
        {f"evaluate/{name}": lambda n=name: evaluation_case(n) for name in ("ant", "half-cheetah-8", "humanoid-16")}
    )
    return jobs


def main() -> None:
    """Record or check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("record", "check"))
    parser.add_argument("--only", default="", help="only the cases whose name contains this")
    parser.add_argument("--file", type=Path, default=RESULT, help="where the reference is")
    asked = parser.parse_args()
    values = {}
    differences = 0
    recorded = json.loads(asked.file.read_text()) if asked.file.exists() else {"cases": {}, "processor": processor()}
    old = recorded["cases"]
    if recorded.get("processor") != processor():
        where = recorded.get("processor", "a processor it does not name")
        sys.exit(f"{asked.file} was recorded on {where}, and this is {processor()}: record one here, with --file")
    for name, job in all_cases().items():
        if asked.only not in name:
            continue
        if asked.action == "record" and name in old:
            values[name] = old[name]
            continue
        if asked.action == "check" and name not in old:
            print(f"not in the reference  {name}", flush=True)
            continue
        values[name] = job()
        if asked.action == "check":
            same = old[name] == values[name]
            differences += not same
            print(
                f"{'same     ' if same else 'DIFFERENT'}  {name}  {'' if same else (old[name], values[name])}",
                flush=True,
            )
        else:
            print(name, values[name], flush=True)
            save(asked.file, {**old, **values})
    sys.exit(1 if differences else 0)


def processor() -> str:
    """The processor and what it can do: programs are compiled for it."""
    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else platform.processor()
    facts = dict(re.findall(r"^(model name|flags|Features)\s*: (.*)$", info, re.M))
    features = facts.get("flags", facts.get("Features", info))
    return f"{facts.get('model name', platform.machine())} {hashlib.sha256(features.encode()).hexdigest()[:8]}"


def save(path: Path, values: dict[str, Any]) -> None:
    """Write what was recorded so far; a later call goes on from there."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    made = {
        "command": f"python benchmarks/reference.py record --file {path.name}",
        "commit": commit,
        "processor": processor(),
        "date": datetime.date.today().isoformat(),
        "versions": {name: version(name) for name in ("jax", "jaxlib", "equinox", "optax", "mujoco", "numpy")},
        "cases": values,
    }
    path.write_text(json.dumps(made, indent=2) + "\n")


if __name__ == "__main__":
    main()
