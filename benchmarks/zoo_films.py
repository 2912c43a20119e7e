"""Film every entry of the zoo for its card, and write the card anew: python benchmarks/zoo_films.py [NAME ...].

The film is what `wanderlust video zoo:NAME` makes, small enough to be shown on the page: zoo/NAME/film.gif. The facts
of the card stay as they were published.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from wanderlust.report.video.film import FilmRequest, film_run
from wanderlust.runs.card import FILM, render
from wanderlust.runs.entries import names, zoo_folder
from wanderlust.runs.files import read_object, write_atomic
from wanderlust.runs.publish import example_goals
from wanderlust.runs.zoo import open_run

LARGEST = 400_000
"""Bytes of a film."""
TRIES = ((320, 5.0), (280, 4.0), (240, 3.0), (200, 2.0))
"""Width in pixels and simulated seconds, until it is small enough."""


def filmed(name: str) -> bytes:
    """The GIF of an entry."""
    for size, seconds in TRIES:
        with tempfile.TemporaryDirectory() as folder:
            made = film_run(open_run(f"zoo:{name}", Path(folder)), FilmRequest(size=size, seconds=seconds))
            data = next(path for path in made.files if path.suffix == ".gif").read_bytes()
        if len(data) <= LARGEST:
            return data
    sys.exit(f"zoo:{name}: a film of {TRIES[-1]} has {len(data):,} bytes; it can have {LARGEST:,}")


def main() -> None:
    """Film the entries that are named, or all."""
    parser = argparse.ArgumentParser(description="Film the entries of the zoo, and write their cards anew.")
    parser.add_argument("names", nargs="*", default=names())
    parser.add_argument("--cards-only", action="store_true", help="write the cards anew, with the films there are")
    args = parser.parse_args()
    for name in args.names:
        folder = zoo_folder() / name
        if not args.cards_only:
            write_atomic(folder / FILM, filmed(name))
        facts, config = read_object(folder / "card.json", "the card"), open_run(f"zoo:{name}").config
        write_atomic(folder / "card.md", render(facts, example_goals(config), (folder / FILM).exists()))
        size = (folder / FILM).stat().st_size / 1e3 if (folder / FILM).exists() else 0.0
        sys.stdout.write(f"zoo:{name}: a film of {size:.0f} kB\n")


if __name__ == "__main__":
    main()
