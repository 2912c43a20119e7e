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
    time = _written(right, size, colour=MUTED)
    heading = _written(_shortened(title, size, width - 3 * size - time.shape[1]), size, bold=True)
    _lay(picture, heading, size, (strip - heading.shape[0]) // 2)
    _lay(picture, time, width - size - time.shape[1], (strip - time.shape[0]) // 2)


class Tag:
    """A label in the corner of a cell: a dot in a colour, a name, and below it a line that may change."""

    def __init__(self, name: str, colour: Sequence[float] | NDArray[np.floating] | None, size: int) -> None:
        self._name, self._size, self._dot = name, size, None
        if colour is not None:
            self._dot = _disc(tuple(round(255 * float(x)) for x in colour), size)

    def put(self, picture: Picture, left: int, top: int, line: str = "") -> None:
        """Draw it where a cell begins."""
        size = self._size
        x, y, halo = left + round(0.6 * size), top + round(0.6 * size), max(1, size // 8)
        if self._dot is not None:
            _lay(picture, self._dot, x, y)
            x += round(1.25 * size)
        _lay(picture, _written(self._name, size, bold=True, halo=halo), x - halo, y - halo)
        if line:
            _lay(picture, _written(line, round(0.9 * size), halo=halo), x - halo, y + round(1.35 * size) - halo)


Patch = NDArray[np.uint8]
"""[height, width, 4] RGBA"""


@functools.lru_cache(maxsize=4096)
def _written(words: str, size: int, bold: bool = False, colour: str = INK, halo: int = 0) -> Patch:
    """Words as a patch, once for all pictures that have them: to write them anew would take longer than the scene."""
    pen = font(size, bold)
    above, below = pen.getmetrics()
    wide = round(pen.getlength(words)) + 2 * halo
    image = Image.new("RGBA", (max(1, wide), above + below + 2 * halo), (*ImageColor.getrgb(PAPER)[:3], 0))
    ImageDraw.Draw(image).text((halo, halo), words, colour, pen, stroke_width=halo, stroke_fill=PAPER if halo else None)
    return np.asarray(image)


@functools.lru_cache(maxsize=256)
def _shortened(words: str, size: int, room: float) -> str:
    """A title as far as there is room for it."""
    pen = font(size, bold=True)
    while words and pen.getlength(words) > room:
        words = f"{words[:-2].rstrip()}…" if len(words) > 2 else ""
    return words


def _disc(colour: tuple[int, ...], size: int) -> Patch:
    """A dot beside a name, in the middle of its capitals."""
    image = Image.new("RGBA", (size + 1, size + 1), (*colour, 0))
    ImageDraw.Draw(image).ellipse((0, 0.14 * size, 0.86 * size, size), fill=colour)
    return np.asarray(image)


def _lay(picture: Picture, patch: Patch, left: int, top: int) -> None:
    """Lay a patch onto a picture; what lies outside is cut off."""
    area = picture[max(top, 0) : top + patch.shape[0], left : left + patch.shape[1]]
    patch = patch[max(-top, 0) :][: area.shape[0], : area.shape[1]]
    share = patch[..., 3:].astype(np.uint16)
    area[:] = (area * (255 - share) + patch[..., :3] * share + 127) // 255
