"""What the bodies of a run do in the course of an episode: rewards, way and how many lie on their back.

python benchmarks/episode_profile.py OUT.json RUN [RUN ...]

Read from the newest checkpoint of each run: the last whole episodes of its replay, under the phi of that checkpoint.
For runs on bodies whose episodes last a whole number of collections and do not end early (`laptop` on Ant).
"""

import json
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np

from wanderlust import train
from wanderlust.envs.spec import Transition
from wanderlust.evaluation.metrics import up_and_heading
from wanderlust.runs.card import without_folders
from wanderlust.runs.files import write_json
from wanderlust.runs.run import Run
from wanderlust.train.loop import last_state

WINDOWS = ((0, 25), (25, 50), (50, 100), (100, 150), (150, 200))


def profile(folder: Path) -> dict[str, Any]:
    """One run's last whole episodes, seed by seed put together."""
    run = Run.open(folder)
    parts = train.assemble(run.config)
    epoch, state = last_state(run, parts)
    episodes = [_last_episodes(parts, jax.tree.map(lambda x, s=s: x[s], state.replay)) for s in range(run.config.seeds)]
    reward = np.concatenate(
        [_rewards(parts, jax.tree.map(lambda x, s=s: x[s], state.learner.method), e) for s, e in enumerate(episodes)],
        axis=1,
    )
    before, after = (
        np.concatenate([np.asarray(getattr(e, name)) for e in episodes], axis=1) for name in ("obs", "next_obs")
    )
    record = json.loads((folder / "provenance.json").read_text())
    return {
        "run": folder.name,
        "command": without_folders(record["command"]),
        "commit": record["commit"],
        "epoch": epoch,
        "episodes": before.shape[1],
        "windows": [_window(before, after, reward, *window) for window in WINDOWS],
    }


def _last_episodes(parts: train.Setup, replay: Any) -> Transition:
    """[time, worlds, ...] The newest episodes that are whole, all worlds in step."""
    schedule, length = parts.config.schedule, parts.world.spec.episode_length
    count = schedule.replay_collections
    newest_first = (int(replay.cursor) // schedule.collection - 1 - np.arange(count)) % count
    data = jax.tree.map(
        lambda x: np.asarray(x).reshape(count, schedule.steps, schedule.worlds, *x.shape[1:]), replay.data
    )
    end = next(i for i, at in enumerate(newest_first) if data.truncated[at, -1].all())
    whole = newest_first[end : end + length // schedule.steps][::-1]
    return jax.tree.map(lambda x: x[whole].reshape(length, schedule.worlds, *x.shape[3:]), data)


def _rewards(parts: train.Setup, method: Any, episodes: Transition) -> np.ndarray:
    time, worlds = episodes.truncated.shape
    flat = jax.tree.map(lambda x: x.reshape(time * worlds, *x.shape[2:]), episodes)
    return np.asarray(parts.method.reward(method, parts.view.transition_for_method(flat))).reshape(time, worlds)


def _window(before: np.ndarray, after: np.ndarray, reward: np.ndarray, first: int, end: int) -> dict[str, Any]:
    up, _ = up_and_heading(after[end - 1, :, 3:7])
    return {
        "steps": [first, end],
        "reward_per_step": round(float(reward[first:end].mean()), 4),
        "metres_from_start": round(float(np.linalg.norm(after[end - 1, :, :2] - before[0, :, :2], axis=-1).mean()), 2),
        "share_on_its_back": round(float((up < 0).mean()), 3),
    }


if __name__ == "__main__":
    out, *folders = map(Path, sys.argv[1:])
    write_json(out, [profile(folder) for folder in folders])
