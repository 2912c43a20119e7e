"""What a film costs: CPU seconds of 200 pictures of a 3 x 3 grid, at plain quality and at high.

python benchmarks/video.py FILE.json

It needs the extra `video`. CPU seconds are those of this process with all its threads; other work on the machine makes
them more, never fewer. `--qualities plain` leaves the other out.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

from wanderlust.envs import devices
from wanderlust.report.video.film import FilmRequest, film, played, shown_skills
from wanderlust.report.video.opengl import backend
from wanderlust.report.video.shooting import Shooting
from wanderlust.runs.files import write_json
from wanderlust.runs.loading import load
from wanderlust.runs.provenance import provenance
from wanderlust.runs.zoo import open_run

ENTRY, STEPS = "zoo:ant-agile-10", 199


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--qualities", nargs="+", default=["plain", "high"], choices=["plain", "high"])
    asked = parser.parse_args()
    devices.prepare(1)
    run = open_run(ENTRY)
    skills = load(run)
    began = time.process_time()
    take = played(skills, shown_skills(skills, None), FilmRequest(steps=STEPS), ENTRY)
    facts = {"entry": ENTRY, "pictures": len(take.times), "grid": "3 x 3", "opengl": backend()}
    facts |= {"play_cpu_seconds": round(time.process_time() - began, 2), "load_average": os.getloadavg()[0]}
    for quality in asked.qualities:
        with tempfile.TemporaryDirectory() as folder:
            began, wall = time.process_time(), time.monotonic()
            made = film(take, Shooting(quality=quality), Path(folder), "film")
            cpu = time.process_time() - began
            sizes = {path.suffix[1:]: path.stat().st_size for path in made.files}
        facts[quality] = {"cpu_seconds": round(cpu, 2), "seconds": round(time.monotonic() - wall, 2), "bytes": sizes}
        print(f"{quality}: {cpu:.1f} s of CPU")  # noqa: T201
    write_json(asked.file, {**facts, "provenance": provenance(run.config)})


if __name__ == "__main__":
    main()
