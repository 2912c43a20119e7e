"""Words on pictures, in the type of our figures."""

import functools
from collections.abc import Sequence

import numpy as np
from matplotlib import font_manager
from numpy.typing import NDArray
from PIL import Image, ImageColor, ImageDraw, ImageFont

from wanderlust.report.plots.colours import INK, MUTED, PAPER
from wanderlust.report.video.canvas import Picture

HEAD = 2.3
"""Height of the strip above a film, in heights of its type."""


@functools.cache
def font(size: int, bold: bool = False) -> ImageFont.FreeTypeFont:
    """The type, so many pixels high."""
    weight = "bold" if bold else "normal"
    found = font_manager.findfont(font_manager.FontProperties(family="DejaVu Sans", weight=weight))
    return ImageFont.truetype(found, size)


def head_height(width: int) -> int:
    """Pixels of the strip above a picture of this width, an even number."""
    return 2 * round(0.5 * HEAD * type_size(width))


def type_size(width: int) -> int:
    """Pixels of the type on a picture of this width."""
    return max(11, round(width / 52))


def put_head(picture: Picture, title: str, right: str) -> None:
    """What a film is of, in the strip above its picture, and something at its right end."""
    width = picture.shape[1]
    size, strip = type_size(width), head_height(width)
    picture[:strip] = ImageColor.getrgb(PAPER)
    image = Image.fromarray(np.ascontiguousarray(picture[:strip]))
    draw = ImageDraw.Draw(image)
    pen, middle = font(size), strip // 2
    room = width - 3 * size - draw.textlength(right, font(size))
    while title and draw.textlength(title, font(size, bold=True)) > room:
        title = f"{title[:-2].rstrip()}…" if len(title) > 2 else ""
    draw.text((size, middle), title, INK, font(size, bold=True), anchor="lm")
    draw.text((width - size, middle), right, MUTED, pen, anchor="rm")
    picture[:strip] = np.asarray(image)


class Tag:
    """A label in the corner of a cell: a dot in a colour, a name, and below it a line that may change."""

    def __init__(self, name: str, colour: Sequence[float] | NDArray[np.floating] | None, size: int) -> None:
        self._name, self._size = name, size
        self._colour = None if colour is None else tuple(round(255 * float(x)) for x in colour)

    def put(self, picture: Picture, left: int, top: int, line: str = "") -> None:
        """Draw it where a cell begins."""
        size = self._size
        pad, wide = round(0.6 * size), 12 * size
        tall = round(pad + 2.9 * size)
        area = picture[top : top + tall, left : left + wide]
        image = Image.fromarray(np.ascontiguousarray(area))
        draw = ImageDraw.Draw(image)
        x = pad
        if self._colour is not None:
            draw.ellipse((x, pad + 0.14 * size, x + 0.86 * size, pad + size), fill=self._colour)
            x += round(1.25 * size)
        halo = max(1, size // 8)
        draw.text((x, pad), self._name, INK, font(size, bold=True), stroke_width=halo, stroke_fill=PAPER)
        if line:
            small = round(0.9 * size)
            draw.text((x, pad + 1.35 * size), line, INK, font(small), stroke_width=halo, stroke_fill=PAPER)
        picture[top : top + tall, left : left + wide] = np.asarray(image)
