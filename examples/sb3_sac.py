"""Stable-Baselines3's SAC learns which skill to choose when, and is measured beside random skills.

python examples/sb3_sac.py --skills zoo:ant --task ant-goal --seeds 2 --out sac.json

Needs the extra `sb3` (`pip install -e '.[sb3]'`), which brings PyTorch. A step is one choice of a skill, which is then
held for `--hold` control steps.
"""

import dataclasses
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from numpy.typing import NDArray
from stable_baselines3 import SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecMonitor, VecNormalize

import wanderlust
from wanderlust.envs.devices import cores
from wanderlust.evaluation.metrics import summarise
from wanderlust.gym.sb3 import SB3VecEnv
from wanderlust.runs.files import write_json
from wanderlust.runs.provenance import PACKAGES, commit, processor, version

Choose = Callable[[NDArray[np.float32]], NDArray[np.float32]]
LEARNER = {"learning_rate": 1e-3, "gamma": 0.995, "batch_size": 256, "ent_coef": "auto_0.1"}
NETWORKS = [128, 128]


@dataclasses.dataclass(frozen=True)
class Settings:
    """Train SAC on a task, with skills as its actions."""

    skills: str = "zoo:ant"
    """A run folder or zoo:NAME, with continuous skills."""
    task: str = "ant-goal"
    """Which task; docs/reference/tasks.md lists them."""
    hold: int = 25
    """Control steps that a skill is held."""
    envs: int = 32
    """Worlds side by side."""
    steps: int = 30_000
    """Skills chosen in all, while learning."""
    updates: int = 16
    """Gradient steps after each step of all worlds."""
    seed: int = 0
    """The first seed."""
    seeds: int = 1
    """How many are trained, one after the other."""
    episodes: int = 100
    """How many are played at the end, by SAC and by chance."""
    out: Path | None = None
    """A JSON file for the result."""


class Curve(BaseCallback):
    """Now and then: the mean return of the last 100 episodes."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self.every, self.began, self.rows = every, time.monotonic(), []

    def _on_step(self) -> bool:
        recent = [episode["r"] for episode in self.model.ep_info_buffer]
        if recent and self.num_timesteps // self.every > len(self.rows):
            seconds = round(time.monotonic() - self.began, 1)
            self.rows.append({"steps": self.num_timesteps, "seconds": seconds, "return": float(np.mean(recent))})
            print(f"{self.num_timesteps:>8,} skills chosen, {seconds:.0f} s: return {np.mean(recent):.2f}", flush=True)
        return True


def measure(settings: Settings, skills: wanderlust.Skills, choose: Choose, seed: int) -> dict[str, Any]:
    """Returns of one episode in each of many worlds."""
    envs = wanderlust.SkillVectorEnv(skills, settings.task, settings.episodes, hold=settings.hold)
    obs, _ = envs.reset(seed=seed)
    returns, running = np.zeros(settings.episodes), np.ones(settings.episodes, bool)
    while running.any():
        obs, reward, terminated, truncated, _ = envs.step(choose(obs))
        returns += np.where(running, reward, 0.0)
        running &= ~(terminated | truncated)
    envs.close()
    found = summarise(returns)
    return {"mean": found.mean, "ci95": found.ci95, "episodes": settings.episodes}


def train(settings: Settings, skills: wanderlust.Skills, seed: int) -> dict[str, Any]:
    """One seed, from nothing to its measures."""
    envs = wanderlust.SkillVectorEnv(
        skills, settings.task, settings.envs, hold=settings.hold, autoreset_mode="SameStep"
    )
    seen = VecNormalize(VecMonitor(SB3VecEnv(envs)), norm_reward=False)
    start = min(1000, settings.steps // 4)
    when = {"gradient_steps": settings.updates, "learning_starts": start}
    model = SAC("MlpPolicy", seen, policy_kwargs={"net_arch": NETWORKS}, seed=seed, **when, **LEARNER)
    curve = Curve(max(settings.steps // 20, 1))
    began = time.monotonic()
    model.learn(settings.steps, callback=curve)
    seconds = time.monotonic() - began
    seen.close()

    def likeliest(obs: NDArray[np.float32]) -> NDArray[np.float32]:
        return model.predict(seen.normalize_obs(obs), deterministic=True)[0]

    chance = np.random.default_rng(seed)

    def prior(obs: NDArray[np.float32]) -> NDArray[np.float32]:
        return skills.sample(len(obs), seed=int(chance.integers(2**31)))

    fresh = 1_000_000 + 1000 * seed  # episodes that were not trained on, the same for both
    result = {
        "seed": seed,
        "train_seconds": round(seconds, 1),
        "gradient_steps": model._n_updates,
        "return": measure(settings, skills, likeliest, fresh),
        "random": measure(settings, skills, prior, fresh),
        "curve": curve.rows,
    }
    told = " and ".join(
        f"{who} {result[name]['mean']:.2f} ± {result[name]['ci95']:.2f}"
        for who, name in (("SAC earns", "return"), ("random skills", "random"))
    )
    print(f"seed {seed}: {told} in {settings.episodes} episodes each", flush=True)
    return result


def main(settings: Settings) -> None:
    """Train all seeds, and write down what came of it."""
    torch.set_num_threads(1)  # networks this small gain nothing from more
    skills = wanderlust.load(settings.skills)
    if skills.discrete:
        raise SystemExit("SAC chooses continuous skills only; Stable-Baselines3's PPO takes discrete ones")
    found = [train(settings, skills, seed) for seed in range(settings.seed, settings.seed + settings.seeds)]
    if settings.out is None:
        return
    names = {"skills": Path(settings.skills).name, "out": settings.out.name}  # no folders of this machine
    packages = ("stable-baselines3", "torch", *PACKAGES)
    result = {
        "command": " ".join(["python", "examples/sb3_sac.py", *(Path(word).name for word in sys.argv[1:])]),
        "commit": commit(),
        "machine": {"cpu": processor(), "cpu_cores": os.cpu_count(), "cores_used": cores(), "torch_threads": 1},
        "versions": {name: version(name) for name in packages},
        "settings": {**dataclasses.asdict(settings), **names, **LEARNER, "net_arch": NETWORKS},
        "mean_of_seeds": {name: float(np.mean([run[name]["mean"] for run in found])) for name in ("return", "random")},
        "seeds": found,
    }
    write_json(settings.out, result)


if __name__ == "__main__":
    main(tyro.cli(Settings))
