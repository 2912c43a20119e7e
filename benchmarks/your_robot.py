"""What runs on bodies that nobody has tuned have reached, beside random actions (`docs/tutorials/your-robot.md`).

python benchmarks/your_robot.py OUT.json --all [--seconds 1200] [--seeds 0 1] [--workers 1] [--packages FOLDER]
python benchmarks/your_robot.py OUT.json RUN=WHERE_THE_FILE_COMES_FROM ...

`--all` trains every body of `BODIES` with no flag but the budget, each run on two cores of its own, and may be stopped:
what is there is not made again. Where the packages with the models are not installed, have them in a folder; and for a
machine that cannot have them, gather the models alone, a few MB:

    pip install --no-deps --target FOLDER dm_control example-robot-data myo_sim
    python benchmarks/your_robot.py MODELS --gather --packages FOLDER
    python benchmarks/your_robot.py OUT.json --all --models MODELS --workers 8

Coverage is that of the evaluation, skills with mode actions and the mean of its draws of random actions; of model files
with other bins than today's rule has, it is counted again, beside one draw.
"""

import argparse
import dataclasses
import importlib.util
import os
import queue
import subprocess
import sys
import threading
from importlib import metadata
from pathlib import Path
from typing import Any

from wanderlust.envs.models.facts import decided
from wanderlust.envs.models.opening import collect
from wanderlust.envs.worlds.mjcf_file import ModelConfig
from wanderlust.evaluation.metrics import coverage
from wanderlust.evaluation.verdict import words
from wanderlust.runs.files import ArrayFile, read_object, write_atomic, write_json
from wanderlust.runs.run import Run

ENOUGH = 2.0
"""Times the coverage of random actions."""
CORES = 2
"""Of each run."""

GYMNASIUM = "gymnasium/envs/mujoco/assets"
ROBOTS = "cmeel.prefix/share/example-robot-data/robots"
BODIES: dict[str, tuple[str, str, str]] = {
    "hopper": ("gymnasium", f"{GYMNASIUM}/hopper.xml", ""),
    "walker2d": ("gymnasium", f"{GYMNASIUM}/walker2d_v5.xml", ""),
    "swimmer": ("gymnasium", f"{GYMNASIUM}/swimmer.xml", ""),
    "gymnasium-hopper": ("gymnasium", "gymnasium:Hopper-v5", ""),
    "gymnasium-walker2d": ("gymnasium", "gymnasium:Walker2d-v5", ""),
    "gymnasium-swimmer": ("gymnasium", "gymnasium:Swimmer-v5", ""),
    "quadruped": ("dm_control", "dm_control/suite/quadruped.xml", "dm_control/suite"),
    "fish": ("dm_control", "dm_control/suite/fish.xml", "dm_control/suite"),
    "humanoid-cmu": ("dm_control", "dm_control/suite/humanoid_CMU.xml", "dm_control/suite"),
    "ur5": ("example-robot-data", f"{ROBOTS}/ur_description/urdf/ur5_robot.urdf", ROBOTS),
    "elbow": ("myo_sim", "myo_sim/models/legacy/elbow/myoelbow_2dof6muscles.xml", "myo_sim/models"),
}
"""By name: the package, the file in it (or an environment), and the folder that holds all of its files."""


def say(text: str) -> None:
    """A line, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def place_of(path: str, packages: Path | None) -> str:
    """Where a file of a package lies: in the folder of packages, or where the package is installed."""
    if path.startswith("gymnasium:"):
        return path
    if packages is not None and (packages / path).exists():
        return str(packages / path)
    top, _, rest = path.partition("/")
    found = importlib.util.find_spec(top) if top != "cmeel.prefix" else None
    if found is not None and found.submodule_search_locations:
        return str(Path(found.submodule_search_locations[0]) / rest)
    if (here := Path(metadata.distribution("gymnasium").locate_file("")) / path).exists():  # beside all packages
        return str(here)
    raise SystemExit(f"there is no {path}: install its package, or say --packages FOLDER (see --help)")


def commands(args: argparse.Namespace) -> dict[str, tuple[str, list[str]]]:
    """For every run its source and its command, by the name of its folder."""
    found = {}
    for name in args.bodies:
        package, path, assets = BODIES[name]
        gathered = args.models / name / Path(path).name if args.models else None
        if gathered is not None and gathered.exists():
            where, files = str(gathered), []
        else:
            where = place_of(path, args.packages)
            files = ["--assets", place_of(assets, args.packages)] if assets else []
        budget = ["--budget-steps", str(args.steps)] if args.steps else ["--budget-seconds", str(args.seconds)]
        for seed in args.seeds:
            more = [*files, *budget, "--seed", str(seed), *(["--method", args.method] if args.method else [])]
            found[f"{name}-{args.method or 'lsd'}-{seed}"] = (package, [where, *more])
    return found


def gather(folder: Path, packages: Path | None) -> None:
    """Write the models of all bodies, each with all of its files and nothing else."""
    for name, (_, path, assets) in BODIES.items():
        if not path.startswith("gymnasium:"):
            place = place_of(path, packages)
            for file, data in collect(place, place_of(assets, packages) if assets else "").bundle.files.items():
                write_atomic(folder / name / file, data)


def train(folder: Path, arguments: list[str], cores: set[int]) -> dict[str, float] | None:
    """Train and evaluate a run, on some cores, unless it is there; the CPU time it took, user and system."""
    if (folder / "evaluation" / "evaluation.json").exists():
        return None
    say(f"{folder.name}: training")
    os.sched_setaffinity(0, cores)  # of this thread, and so of what it starts
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.with_suffix(".log"), "w") as log:
        how: Any = {"stdout": log, "stderr": subprocess.STDOUT}
        process = subprocess.Popen([sys.executable, "-m", "wanderlust", "discover", *arguments, "--out", folder], **how)
        _, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        say(f"{folder}: failed, see {folder.with_suffix('.log')}")
        return None
    return {"cpu_seconds": round(used.ru_utime + used.ru_stime, 1), "cores": len(cores)}


def train_all(args: argparse.Namespace) -> None:
    """Train what is missing, some runs side by side, and write all that is there after each."""
    wanted = commands(args)
    left: queue.SimpleQueue[str] = queue.SimpleQueue()
    for name in wanted:
        left.put(name)
    have, lock = sorted(os.sched_getaffinity(0)), threading.Lock()
    cpu_file = args.work / "cpu.json"
    cpu = read_object(cpu_file, "the CPU times") if cpu_file.exists() else {}

    def work(number: int) -> None:
        first = number * CORES % max(1, len(have) - CORES + 1)
        mine = set(have[first : first + CORES])
        while not left.empty():
            try:
                name = left.get_nowait()
            except queue.Empty:
                return
            used = train(args.work / name, wanted[name][1], mine)
            with lock:
                cpu.update({name: used} if used else {})
                write_json(cpu_file, cpu)
                write_all(args, wanted, cpu)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(args.workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def write_all(args: argparse.Namespace, wanted: dict[str, tuple[str, list[str]]], cpu: dict[str, Any]) -> None:
    """One file with all runs that are done."""
    runs = []
    for name, (package, _) in wanted.items():
        if (args.work / name / "evaluation" / "evaluation.json").exists():
            runs.append(
                judged(args.work / name, f"{package} {metadata_of(package, args.packages)}", args) | cpu.get(name, {})
            )
            one = runs[-1]
            say(f"  {name}: {one['coverage']} bins, random {one['coverage_random']}, {one['level']}")
    bodies = {run["model"] for run in runs}
    beaten = {body for body in bodies if all(r["beats_random_by_two"] for r in runs if r["model"] == body)}
    what = {"bodies": len(bodies), "beaten_by_two_with_every_seed": sorted(beaten)}
    budget = f"--steps {args.steps}" if args.steps else f"--seconds {args.seconds:g}"
    seeds = " ".join(map(str, args.seeds))
    command = f"python benchmarks/your_robot.py OUT.json --all {budget} --seeds {seeds} --workers {args.workers}"
    write_json(args.out, {"command": command, **what, "runs": runs})


def metadata_of(package: str, packages: Path | None) -> str:
    """The version of a package, installed or in the folder."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        where = [str(packages)] if packages else []
        return next((one.version for one in metadata.distributions(name=package, path=where)), "")


def judged(folder: Path, source: str, args: argparse.Namespace | None = None) -> dict[str, Any]:
    """One run."""
    run = Run.open(folder)
    env: Any = run.config.env
    found = read_object(run.evaluation / "evaluation.json", "the run's evaluation")
    arrays = ArrayFile(run.evaluation / "rollouts.safetensors")
    is_file = isinstance(env, ModelConfig)
    side = decided(dataclasses.replace(env, bin=0.0)).bin if is_file else float(found["bin"])
    skills, draws = coverage(arrays.read("position")[0], side), [coverage(arrays.read("random"), side)]
    facts, verdict = run.provenance(), found.get("verdict")
    if verdict and side == found["bin"]:  # which has more draws of random actions
        draws = verdict["random_coverage"]["draws"]
    random = sum(draws) / len(draws)
    steps = run.config.schedule.epochs * run.config.schedule.collection
    model = env.file if is_file else env.name
    budget = f"--budget-seconds {args.seconds:g}" if args and not args.steps else f"--budget-steps {steps}"
    counts = run.counts(found["epoch"])
    return {
        "command": f"wanderlust discover {model} --method {run.config.method} {budget} --seed {run.config.seed}",
        "model": model,
        "from": source,
        "method": str(run.config.method),
        "skills": str(run.config.skills),
        "seed": run.config.seed,
        "env_steps": found["env_steps"],
        "gradient_steps": found["epoch"] * run.config.schedule.sac_steps,
        "seconds": counts.seconds if counts else None,
        "bin": side,
        "unit": found["unit"],
        "coverage": skills,
        "coverage_random": round(random, 1),
        "coverage_random_draws": draws,
        "times_random": round(skills / random, 2),
        "beats_random_by_two": skills >= ENOUGH * random,
        "level": verdict["level"] if verdict else None,
        "verdict": words(verdict) if verdict else None,
        "distance": found["metrics"]["distance"]["mean"],
        "distance_random": found["random"]["distance"],
        "alignment": found["metrics"]["alignment"]["mean"],
        "episodes": found["episodes"],
        "env": {key: value for key, value in dataclasses.asdict(env).items() if key not in ("mean", "std")},
        "sac": {name: getattr(run.config.sac, name) for name in ("discount", "alpha", "position_scale")},
        "reward_scale": run.config.method.reward_scale,
        "schedule": {
            name: getattr(run.config.schedule, name) for name in ("worlds", "steps", "sac_steps", "sac_batch")
        },
        "commit": facts.get("commit"),
        "versions": facts.get("versions"),
        "device": facts.get("device"),
    }


def main() -> None:
    """Judge runs, those given or all that it trains, and write what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("runs", nargs="*", metavar="RUN=SOURCE")
    parser.add_argument("--all", action="store_true", help="train all bodies")
    parser.add_argument("--bodies", nargs="+", choices=BODIES, default=list(BODIES), help="... or only these")
    parser.add_argument("--seconds", type=float, default=1200.0, help="budget of each run")
    parser.add_argument("--steps", type=int, default=0, help="... in environment steps instead")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--method", default="", help="another method than the default")
    parser.add_argument("--workers", type=int, default=1, help=f"runs side by side, each on {CORES} cores")
    parser.add_argument("--packages", type=Path, help="a folder of packages that are not installed")
    parser.add_argument("--gather", action="store_true", help="write the models to the folder OUT")
    parser.add_argument("--models", type=Path, help="a folder that --gather has written")
    parser.add_argument("--work", type=Path, default=Path("runs/your-robot"), help="where the runs go")
    args = parser.parse_args()
    if args.gather:
        gather(args.out, args.packages)
        return
    if args.all:
        train_all(args)
        return
    pairs = [text.partition("=") for text in args.runs]
    runs = [judged(Path(folder), source) for folder, _, source in pairs]
    write_json(args.out, {"command": "python benchmarks/your_robot.py OUT.json RUN=SOURCE ...", "runs": runs})


if __name__ == "__main__":
    main()
