"""What commands print on: text may come from files of strangers, and must not steer the terminal."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment


class Terminal(Console):
    """A console on which control characters, those of a file's text among them, are spaces."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, soft_wrap=True, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(plain(segment.text), segment.style)


def plain(text: str) -> str:
    """The same text, lines and tabs as they are, without anything else that a terminal would obey."""
    return "".join(c if c.isprintable() or c in "\n\t" else " " for c in text)
