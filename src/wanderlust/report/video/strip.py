"""The film strip: moments of some skills side by side, a row for each."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from wanderlust.report.plots.colours import MUTED, PAPER
from wanderlust.report.video.labels import Tag, font
from wanderlust.report.video.shooting import Shoot
from wanderlust.report.video.writing import write_png

MOMENTS = 6
ROWS = 9
WIDE = 200
"""Pixels of one moment."""
LETTERS = 13


def draw_strip(shoot: Shoot, path: Path) -> Path:
    """Write the strip of a take that is being filmed."""
    take, together = shoot.take, shoot.how.layout == "together"
    steps = np.linspace(0, len(take.physics) - 1, min(MOMENTS, len(take.physics))).round().astype(int)
    bodies = [0] if together else range(min(len(take.names), ROWS))
    wide = min(2 * WIDE if together else WIDE, shoot.canvas.width)
    high = min(wide * 9 // 16 if together else wide, shoot.canvas.height)
    rows = [[shoot.scene(int(step), body, (wide, high)) for step in steps] for body in bodies]
    left, top, gap = 0 if together else 8 * LETTERS, 2 * LETTERS, 4
    height = top + len(rows) * (high + gap)
    image = Image.new("RGB", (left + len(steps) * (wide + gap) - gap, height), PAPER)
    draw = ImageDraw.Draw(image)
    for column, step in enumerate(steps):
        x = left + column * (wide + gap)
        draw.text((x, LETTERS // 2), f"{step * take.seconds:.1f} s", MUTED, font(LETTERS))
        for n, row in enumerate(rows):
            image.paste(Image.fromarray(row[column]), (x, top + n * (high + gap)))
    sheet = np.array(image)
    for n, body in enumerate([] if together else bodies):
        colour = None if take.colours is None else take.colours[body]
        line = shoot.said(len(take.physics) - 1, body)
        Tag(take.names[body], colour, LETTERS).put(sheet, 0, top + n * (high + gap), line)
    return write_png(path, sheet)
