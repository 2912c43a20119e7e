"""Gradient steps per second."""

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from wanderlust import train
from wanderlust.config import RunConfig, SkillConfig
from wanderlust.recipes import get_recipe, known_recipes
from wanderlust.report.progress import Progress
from wanderlust.sweeps.tables import count
from wanderlust.train.update import each_seed, learn
from wanderlust_experiments.bench.measure import first_call, interleaved

SEEDS = (1, 4)
SMALLER = (4, 1)
"""Updates are measured at the recipe's batch size divided by these."""


class UpdateWorkload:
    """Gradient steps of a recipe, a step of SAC and a step of phi each, from a full replay of random numbers."""

    def __init__(self, config: RunConfig, steps: int) -> None:
        schedule = dataclasses.replace(config.schedule, sac_steps=steps, method_steps=steps)
        config = dataclasses.replace(config, schedule=schedule)
        parts = train.assemble(config)
        state = train.init(parts)
        self._config = config
        self._key = jax.random.split(jax.random.key(0), config.seeds)
        self._learner, self._replay = state.learner, _filled(state.replay, jax.random.key(1))
        self._fresh = jax.tree.map(lambda x: x[:, : schedule.collection], self._replay.data)
        self._program = jax.jit(each_seed(functools.partial(learn, parts)))
        self._compile_seconds = first_call(self.advance)

    @property
    def about(self) -> dict[str, Any]:
        return {
            "recipe": self._config.recipe,
            "batch": self._config.schedule.sac_batch,
            "seeds": self._config.seeds,
            "precision": self._config.precision,
            "compile_seconds": self._compile_seconds,
        }

    @property
    def per_call(self) -> int:
        return self._config.schedule.sac_steps * self._config.seeds

    def advance(self) -> None:
        called = self._program(self._learner, self._replay, self._fresh, self._key)
        self._learner = jax.block_until_ready(called)[0]

    def close(self) -> None:
        pass


def _filled(replay: Any, key: Any) -> Any:
    """A replay that is full, of standard-normal numbers."""
    leaves, form = jax.tree.flatten(replay.data)
    keys = jax.random.split(key, len(leaves))
    drawn = [
        jax.random.normal(k, x.shape, x.dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x
        for k, x in zip(keys, leaves, strict=True)
    ]
    data = jax.tree.unflatten(form, drawn)
    data = data._replace(action=jnp.tanh(data.action))
    return replay._replace(data=data, size=jnp.full_like(replay.size, data.obs.shape[1]))


def update_configs(env: str) -> Iterator[RunConfig]:
    """The device's recipe at several batch sizes and numbers of seeds; `laptop` where there is no other."""
    recipe = "fast" if jax.default_backend() != "cpu" and "fast" in known_recipes(env) else "laptop"
    config = get_recipe(recipe, env, "lsd", SkillConfig("continuous", 2))
    for seeds in SEEDS:
        for divisor in SMALLER:
            schedule = dataclasses.replace(config.schedule, sac_batch=config.schedule.sac_batch // divisor)
            yield dataclasses.replace(config, schedule=schedule, seeds=seeds)


def measure_updates(
    configs: Sequence[RunConfig], seconds: float, line: Progress
) -> Iterator[dict[str, list[dict[str, Any]]]]:
    """One by one: gradient steps per second, all seeds together."""
    steps = 4 if jax.default_backend() == "cpu" else 100
    for number, config in enumerate(configs, 1):
        what = f"batch {config.schedule.sac_batch}, {count(config.seeds, 'seed')}"
        line.note(f"updates {number}/{len(configs)}: compiling {what}")
        one = UpdateWorkload(config, steps)
        (rate,) = interleaved([one], seconds)
        line.update(line.total - len(configs) + number, f"{what}: {rate.summary()['median']:,.1f} updates/s")
        yield {"updates": [{**one.about, "updates_per_second": {**rate.summary(), "rounds": rate.rounds}}]}
