"""The moving picture at the top of README: Ants that run out from one start, each by a skill of its own.

python benchmarks/readme_film.py docs/img/ants.gif

It needs the extra `video`. Skills of `zoo:ant-agile-10`, a direction each, all from the same start; real time.
"""

import argparse
from pathlib import Path

from wanderlust.envs import devices
from wanderlust.report.video.film import FilmRequest, played, shown_skills
from wanderlust.report.video.shooting import Shoot, Shooting
from wanderlust.report.video.writing import small, write_gif
from wanderlust.runs.loading import load

ENTRY, SKILLS, SECONDS = "zoo:ant-agile-10", 12, 3.0
WIDTH, SHOWN = 1400, 700
"""Pixels that are rendered, and of the picture: in between edges become smooth."""
EVERY, LAST = 1, 20
"""Steps of 0.05 s between two pictures, and pictures for which the last one stays."""
COLOURS = 128


def main() -> None:
    """Render and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    to = parser.parse_args().file
    devices.prepare(1)
    skills = load(ENTRY)
    take = played(skills, shown_skills(skills, SKILLS), FilmRequest(seconds=SECONDS), ENTRY)
    with Shoot(take, Shooting(WIDTH, "plain", "together")) as shoot:
        shown = [shoot.picture(step)[shoot.size.head :] for step in range(0, len(take.physics), EVERY)]
    pictures = [small(picture, SHOWN) for picture in [*shown, *shown[-1:] * LAST]]
    write_gif(to, pictures, EVERY * take.seconds, COLOURS)
    print(f"{to}: {len(pictures)} pictures, {to.stat().st_size / 1e6:.2f} MB")  # noqa: T201


if __name__ == "__main__":
    main()
