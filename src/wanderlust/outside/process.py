"""Gymnasium environments in a process of their own: a share of all worlds, stepped one after the other.

`python -m wanderlust.outside.process FD` answers messages on an open file descriptor. `EnvShare` also works in the
calling process, for environments that only the user's own program knows.
"""

import contextlib
import json
import os
import signal
import sys
import threading
import time
import warnings
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from wanderlust.outside.examine import examine
from wanderlust.outside.single import RefusedError, Single, UnregisteredError, one_line

SKIP, STEP, BEGIN = 0, 1, 2
"""What is asked of a world: nothing, a step, or a new episode and its first step."""


class EnvShare:
    """Some worlds. One that raises is closed and made anew; what it observed last stands for what it did not."""

    def __init__(self, name: str, kwargs: dict[str, Any], added: list[int]) -> None:
        self._make = lambda: Single(name, kwargs, tuple(added))
        self._worlds: list[Single | None] = []

    def step(self, what: Any, seed: Any, obs: Any, action: Any) -> dict[str, Any]:
        """Do what is asked of each world; `obs` is what each observes before, and `failed` says what went wrong."""
        self._worlds += [None] * (len(what) - len(self._worlds))
        after, over, failed = np.array(obs, np.float32), np.zeros((len(what), 2), np.uint8), {}
        for n in np.flatnonzero(np.asarray(what)).tolist():
            try:
                after[n], *over[n] = self._one(n, int(what[n]), int(seed[n]), obs[n], action[n])
            except Exception as error:
                failed[str(n)] = f"{type(error).__name__}: {one_line(error)}"
                after[n], over[n] = obs[n], (0, 1)
                self._close(n)
        return {"obs": after, "over": over, "failed": failed}

    def _one(self, n: int, what: int, seed: int, obs: Any, action: Any) -> tuple[Any, bool, bool]:
        world = self._worlds[n]
        if world is None:
            world = self._worlds[n] = self._make()
        if what == BEGIN and not np.allclose(world.begin(seed), obs, rtol=1e-4, atol=1e-5):
            raise RuntimeError(f"reset(seed={seed}) shows another start than it did at first")
        return world.step(action)

    def close(self) -> None:
        """Close every world."""
        for n in range(len(self._worlds)):
            self._close(n)

    def _close(self, n: int) -> None:
        world, self._worlds[n] = self._worlds[n], None
        with contextlib.suppress(Exception):  # what has raised once may raise again
            if world is not None:
                world.env.close()


# --- messages ----------------------------------------------------------------------------------------------------


def send(line: Connection, message: dict[str, Any]) -> None:
    """Numbers and texts as JSON, then every array as it is."""
    arrays = {key: np.ascontiguousarray(value) for key, value in message.items() if isinstance(value, np.ndarray)}
    plain = {key: value for key, value in message.items() if key not in arrays}
    forms = {key: [value.dtype.str, list(value.shape)] for key, value in arrays.items()}
    line.send_bytes(json.dumps([plain, forms]).encode())
    for value in arrays.values():
        line.send_bytes(value.tobytes())


def receive(line: Connection) -> dict[str, Any]:
    """What `send` sent."""
    plain: dict[str, Any]
    plain, forms = json.loads(line.recv_bytes())
    for key, (kind, shape) in forms.items():
        plain[key] = np.frombuffer(line.recv_bytes(), kind).reshape(shape).copy()
    return plain


def answer(share: EnvShare | None, message: dict[str, Any]) -> tuple[EnvShare | None, dict[str, Any]]:
    """Carry out one message: `examine`, `open` or `step`."""
    what = message.pop("do")
    try:
        if what == "examine":
            return share, examine(**message)
        if what == "open":
            return EnvShare(**message), {}
        assert share is not None
        return share, share.step(**message)
    except UnregisteredError as error:
        return share, {"refused": str(error), "unregistered": True}
    except RefusedError as error:
        return share, {"refused": str(error)}


def main() -> None:
    """Answer messages until the other side is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    warnings.simplefilter("ignore")
    parent = os.getppid()

    def leave_with_parent() -> None:  # also out of a step that never ends
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=leave_with_parent, daemon=True).start()
    line, share = Connection(int(sys.argv[1])), None
    with contextlib.suppress(EOFError, OSError):
        while True:
            share, said = answer(share, receive(line))
            send(line, said)
    os._exit(0)  # an environment's own threads, or its clean-up, must not keep the process alive


if __name__ == "__main__":
    main()
