"""A policy unrolled over an engine: the one loop behind collections, probes, tasks and statistics."""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from wanderlust.envs.engines.base import Engine


class RolloutStep(NamedTuple):
    """What a rollout does around every step of its engine: pure functions."""

    act: Callable[[Any, Any, Any], tuple[Any, Any, Any]]
    """(parameters, carry, input) -> carry, the states to step from, actions."""
    record: Callable[[Any, Any, Any, Any, Any], tuple[Any, Any]]
    """(carry, states before, actions, states after, input) -> carry, output."""
    running: Callable[[Any], bool] | None = None
    """Whether the environments of a carry have anything left to do; if not, a rollout on the host skips the engine."""


Unroll = Callable[..., tuple[Any, Any]]
"""(parameters, carry, inputs) -> carry, outputs; inputs and outputs lead with the axis of steps."""


def make_unroll(engine: Engine, step: RolloutStep, on_host: bool) -> Unroll:
    """Unroll a policy over an engine: scanned inside a compiled program, or looped on the host with the same numbers.

    On the host there are two calls a step: the engine's, and one compiled call that records it and acts again.
    """
    if on_host:
        return _host_unroll(engine, step)

    def scanned(parameters: Any, carry: Any, inputs: Any) -> tuple[Any, Any]:
        def one(carry: Any, now: Any) -> tuple[Any, Any]:
            carry, state, action = step.act(parameters, carry, now)
            return step.record(carry, state, action, engine.step(state, action), now)

        return jax.lax.scan(one, carry, inputs)

    return scanned


def _host_unroll(engine: Engine, step: RolloutStep) -> Unroll:
    step_engine = jax.jit(engine.step) if engine.compiles else engine.step

    @cache
    def compiled(structure: Any) -> tuple[Any, Any]:
        """For parameters in pieces: to flatten them at every step costs Python time."""

        def act(leaves: list[Array], carry: Any, at: Any, inputs: Any) -> tuple[Any, Any, Any]:
            now = jax.tree.map(lambda x: x[jnp.minimum(at, x.shape[0] - 1)], inputs)
            return step.act(jax.tree.unflatten(structure, leaves), carry, now)

        def record_and_act(leaves: list[Array], carry: Any, stepped: Any, at: Any, inputs: Any) -> tuple[Any, ...]:
            before, action, after = stepped
            recorded, out = step.record(carry, before, action, after, jax.tree.map(lambda x: x[at], inputs))
            return recorded, out, at + 1, *act(leaves, recorded, at + 1, inputs)

        return jax.jit(act), jax.jit(record_and_act)

    def looped(parameters: Any, carry: Any, inputs: Any, steps: int | None = None) -> tuple[Any, Any]:
        leaves, structure = jax.tree.flatten(parameters)
        act, record_and_act = compiled(structure)
        count = len(jax.tree.leaves(inputs)[0]) if steps is None else steps
        at, outs = jnp.int32(0), []
        recorded, (acting, state, action) = carry, act(leaves, carry, at, inputs)
        for _ in range(count):
            before, chosen = jax.device_get((state, action))
            running = step.running is None or step.running(acting)
            stepped = before, chosen, step_engine(before, chosen) if running else before
            recorded, out, at, acting, state, action = record_and_act(leaves, acting, stepped, at, inputs)
            outs.append(out)
        return jax.device_get(recorded), jax.tree.map(lambda *x: np.stack(x), *jax.device_get(outs))

    return looped
