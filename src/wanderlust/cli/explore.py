"""The command that opens skills in a browser: explore."""

import dataclasses
import signal
from pathlib import Path
from types import FrameType
from typing import Annotated

import tyro
from rich.console import Console
from tyro.conf import Positional, arg

from wanderlust.cli.process import import_api


@dataclasses.dataclass(frozen=True)
class Explore:
    """Drive a body in the browser: pick skills, click goals, push it, see where it is on the learned map.

    For example:
      wanderlust explore                                    an Ant from the zoo, nothing to train
      wanderlust explore zoo:humanoid
      wanderlust explore runs/first runs/second             sets of the same body, to switch between
      wanderlust explore runs/first --host 0.0.0.0          for other machines; the address has a token

    A run that is still being trained is only read. Over SSH: ssh -L 8080:localhost:8080 MACHINE.
    """

    runs: Annotated[Positional[tuple[Path, ...]], arg(metavar="[RUN ...]")] = ()
    """Folders of runs, or zoo:NAME; by default the entry of the zoo that is best to drive."""
    host: str = "127.0.0.1"
    """The address to listen on; by default only this machine can see it."""
    port: int = 8080
    """The port to listen on."""
    seed: int = 0
    """Which seed of the runs, counted from 0."""
    open: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False
    """Open the page in your browser."""

    def run(self, console: Console) -> int:
        import_api()
        from wanderlust.report.explorer.server import explore, require_viser, usual_entry

        require_viser()
        from wanderlust.envs import devices
        from wanderlust.runs.zoo import open_run

        signal.signal(signal.SIGTERM, _stop)
        runs = [open_run(run) for run in (self.runs or (Path(usual_entry()),))]
        devices.prepare(1)

        def opened(address: str) -> None:
            console.print(f"explore {', '.join(map(str, runs))} at {address}   (Ctrl-C ends it)")
            if self.open:
                import webbrowser

                webbrowser.open(address)

        try:
            explore(runs, self.host, self.port, self.seed, opened)
        except KeyboardInterrupt:
            console.print("the explorer is closed")
        return 0


def _stop(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
