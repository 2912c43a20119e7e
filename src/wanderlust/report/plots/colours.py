"""Colours: a cyclic map for directions, distinct colours for things that are counted, and how they look to others.

Distances between colours are taken in OKLab (Ottosson 2020), where equal distances look about equally different.
Colour blindness is simulated after Machado, Oliveira and Fernandes (2009) at its full strength.
"""

import functools
import itertools

import numpy as np
from matplotlib.colors import ListedColormap
from numpy.typing import NDArray

Colours = NDArray[np.floating]
"""sRGB in [0, 1], or OKLab: [..., 3]."""

INK, MUTED, RULE, BASELINE, PAPER = "#1d2329", "#68717b", "#dfe3e7", "#c4cad0", "#ffffff"
"""Text and lines; second-rank text; grids; random actions; the ground."""
REACHED, MISSED = "#0b6fb0", "#d4600c"
"""Blue and orange, which differ for everyone; the shapes of their markers differ, too."""

MIDDLE, RADIUS = np.array([0.655, 0.0, -0.014]), 0.143
EAST, NORTH = np.array([0.0, 0.0, 1.0]), np.array([0.64, -0.7684, 0.0])
"""The cyclic map is a circle in OKLab. A circle of one lightness would be folded for people who do not tell red from
green: what differs along that axis differs in lightness here, too."""

MACHADO = {
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
_TO_LMS = np.array(
    (
        (0.4122214708, 0.5363325363, 0.0514459929),
        (0.2119034982, 0.6806995451, 0.1073969566),
        (0.0883024619, 0.2817188376, 0.6299787005),
    )
)
_TO_LAB = np.array(
    (
        (0.2104542553, 0.7936177850, -0.0040720468),
        (1.9779984951, -2.4285922050, 0.4505937099),
        (0.0259040371, 0.7827717662, -0.8086757660),
    )
)


def oklab(rgb: Colours) -> Colours:
    """OKLab of sRGB."""
    return np.asarray(np.cbrt(_linear(rgb) @ _TO_LMS.T) @ _TO_LAB.T)


def srgb(lab: Colours, clip: bool = True) -> Colours:
    """sRGB of OKLab; unclipped, what is outside [0, 1] cannot be shown."""
    linear = (lab @ np.linalg.inv(_TO_LAB).T) ** 3 @ np.linalg.inv(_TO_LMS).T
    low, size = np.abs(linear) <= 0.0031308, np.abs(linear)
    rgb = np.sign(linear) * np.where(low, 12.92 * size, 1.055 * np.maximum(size, 1e-9) ** (1 / 2.4) - 0.055)
    return np.asarray(np.clip(rgb, 0.0, 1.0) if clip else rgb)


def seen_with(kind: str, rgb: Colours) -> Colours:
    """How sRGB looks with a kind of colour blindness."""
    linear = np.clip(_linear(rgb) @ np.array(MACHADO[kind]).T, 0.0, 1.0)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * np.maximum(linear, 1e-9) ** (1 / 2.4) - 0.055)


def _linear(rgb: Colours) -> Colours:
    return np.where(rgb <= 0.04045, rgb / 12.92, ((np.maximum(rgb, 0.04045) + 0.055) / 1.055) ** 2.4)


def on_wheel(turns: NDArray[np.floating]) -> Colours:
    """The colour of a direction in turns: 0 is east (gold), 0.25 north (teal), 0.5 west (blue), 0.75 south (plum)."""
    angle = 2 * np.pi * (np.asarray(turns, np.float64)[..., None] % 1.0)
    return srgb(MIDDLE + RADIUS * (np.cos(angle) * EAST + np.sin(angle) * NORTH))


WHEEL = ListedColormap(on_wheel(np.linspace(0.0, 1.0, 257)).tolist(), "wanderlust-wheel")
"""The cyclic map, first colour = last colour."""


def _ramp(name: str, *stops: tuple[float, float, float]) -> ListedColormap:
    """A colour map with equal steps of OKLab between stops."""
    parts = [np.linspace(a, b, 128) for a, b in itertools.pairwise(stops)]
    return ListedColormap(srgb(np.concatenate(parts)).tolist(), name)


AWAY = _ramp("wanderlust-away", (0.44, -0.03, -0.12), (0.975, 0.0, 0.0), (0.53, 0.08, 0.10))
"""From -1 (blue) over 0 (nearly white) to 1 (orange)."""
ALONG = _ramp("wanderlust-along", (0.82, -0.05, 0.07), (0.60, -0.07, -0.07), (0.36, 0.02, -0.12))
"""Time, from light to dark."""


@functools.cache
def distinct(count: int) -> Colours:
    """`count` colours, each as far as can be from those before it, also to people who do not tell red from green."""
    grid = np.stack(np.meshgrid(np.linspace(0.45, 0.78, 7), np.arange(36) / 36), axis=-1).reshape(-1, 2)
    lightness, turn = grid[:, 0], 2 * np.pi * grid[:, 1]
    options = [np.stack([lightness, c * np.cos(turn), c * np.sin(turn)], -1) for c in (0.07, 0.10, 0.13, 0.16)]
    lab = np.concatenate(options)
    rgb = srgb(lab, clip=False)
    shown = np.all((rgb >= 0) & (rgb <= 1), axis=-1)
    lab, rgb = lab[shown], rgb[shown]
    views = [lab, *(oklab(seen_with(kind, rgb)) for kind in ("deuteranopia", "protanopia"))]
    chosen = [int(np.argmin(np.linalg.norm(lab - oklab(rgb_of(name)), axis=-1))) for name in (REACHED, MISSED)]
    nearest = np.full(len(lab), np.inf)
    for n in range(count):
        # a difference that everyone sees counts most; one that only some see still counts
        chosen += [int(np.argmax(nearest))] if n >= len(chosen) else []
        apart = [np.linalg.norm(view - view[chosen[n]], axis=-1) for view in views]
        nearest = np.minimum(nearest, 0.4 * apart[0] + 0.6 * np.minimum.reduce(apart))
    return rgb[chosen[:count]]


def rgb_of(name: str) -> NDArray[np.float64]:
    """A colour of this file as three numbers."""
    return np.array([int(name[i : i + 2], 16) / 255 for i in (1, 3, 5)])
