"""A place of many machines: every attempt is a task of Ray, without a state, that goes on from the run's folder.

The machines share the folder of the sweep, and have this package. A task whose machine is lost is started again on
another one, as the heir of the lost one's folder (`runs/writer.py`).
"""

import dataclasses
import logging
import os
import socket
from typing import Any

from wanderlust.errors import UserError
from wanderlust.sweeps.attempt import FAILED, LOST, Ending, Order, attempt
from wanderlust.sweeps.local import environment


class OnRay:
    """A Ray cluster: `local` starts one on this machine, `auto` finds the one this machine is in."""

    def __init__(self, address: str, cores_per_run: int, modules: tuple[str, ...] = (), gpu: bool = False) -> None:
        try:
            import ray
        except ImportError as problem:
            raise UserError("--ray needs Ray; install it with: pip install 'wanderlust[cluster]'") from problem
        self._ray, self._address, self._cores, self._gpu = ray, address, cores_per_run, gpu
        self._modules = modules
        self._ours = not ray.is_initialized()
        if self._ours:
            _check_reachable(address)
            try:
                ray.init(
                    address=address,
                    include_dashboard=False if address == "local" else None,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
            except (ConnectionError, ValueError, RuntimeError) as problem:
                said = " ".join(str(problem).split())
                raise UserError(f"--ray {address}: there is no cluster to be reached: {said[:200]}") from problem
        self._task = ray.remote(num_cpus=cores_per_run, num_gpus=int(gpu), max_retries=0)(_attempt)
        self._running: dict[Any, str] = {}
        if self.size < 1:
            needed = f"{cores_per_run} cores{' and a GPU' if gpu else ''}"
            self.close()
            raise UserError(f"--ray {address}: no machine of the cluster has {needed} for a run; lower cores_per_run")

    @property
    def size(self) -> int:
        """As many runs as the machines that are there now have cores, and GPUs, for."""
        most = 0
        for node in self._ray.nodes():
            if node["Alive"]:
                have = node["Resources"]
                runs = int(have.get("CPU", 0) // self._cores)
                most += min(runs, int(have.get("GPU", 0))) if self._gpu else runs
        return most

    @property
    def about(self) -> str:
        machines = sum(node["Alive"] for node in self._ray.nodes())
        where = "1 machine" if machines == 1 else f"{machines} machines"
        return f"up to {self.size} runs at a time on {where} of Ray ({self._address}), {self._cores} cores each"

    def start(self, order: Order) -> None:
        self._running[self._task.remote(dataclasses.asdict(order), self._modules)] = order.name

    def wait(self, seconds: float) -> dict[str, Ending]:
        ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=seconds)
        return {self._running.pop(task): self._ending(task) for task in ready}

    def _ending(self, task: Any) -> Ending:
        errors = self._ray.exceptions
        try:
            return Ending(*self._ray.get(task))
        except (errors.NodeDiedError, errors.WorkerCrashedError, errors.ObjectLostError, errors.RaySystemError):
            return Ending(LOST, "its machine was lost")
        except errors.RayError as problem:
            return Ending(FAILED, f"{type(problem).__name__}: {' '.join(str(problem).split())[:300]}")

    def stop(self, at_once: bool) -> None:
        for task in self._running:
            self._ray.cancel(task, force=at_once)

    def close(self) -> None:
        for task in self._running:
            self._ray.cancel(task, force=True)
        self._running.clear()
        if self._ours:
            self._ray.shutdown()


def _check_reachable(address: str) -> None:
    """Refuse an address where nothing listens; Ray itself would try for minutes."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except OSError as problem:
        raise UserError(f"--ray {address}: there is no cluster to be reached: {problem}") from problem


def _attempt(order: dict[str, Any], modules: tuple[str, ...]) -> tuple[str, str]:
    """What a task does; its answer is plain, so that any machine can read it."""
    os.environ.update(environment(modules))
    reason, why = attempt(Order(**order), quiet=True)
    return reason, why
