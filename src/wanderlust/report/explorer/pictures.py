"""Small pictures of the panel and the floor, made of numbers: no viewer, no files."""

import html

import numpy as np
from numpy.typing import NDArray

from wanderlust.report.plots import skill_colours

LONGEST_SKILL = 2.0
"""Length of a skill at the rim of the disc."""
WIDE, HIGH = 280, 216
"""Pixels of the map."""
INK, PALE = "#24292f", "#8b949e"


def hex_colour(rgb: NDArray[np.floating]) -> str:
    """The colour as HTML wants it."""
    return "#" + "".join(f"{round(255 * float(x)):02x}" for x in rgb[:3])


def ring_colours(turn: NDArray[np.float64], sectors: int) -> NDArray[np.uint8]:
    """The colours of 2-D skills around a ring, as the figures have them; `turn` [2, 2] brings skills onto the floor."""
    angle = 2 * np.pi * np.arange(sectors) / sectors
    skill = np.stack([np.cos(angle), np.sin(angle)], axis=1) @ turn  # the rows are turn^T v
    return np.round(255 * skill_colours(skill, "continuous")[:, :3]).astype(np.uint8)


def skill_text(skill: NDArray[np.floating], discrete: bool) -> str:
    """A skill in words."""
    if discrete:
        return f"skill {int(np.argmax(skill))}"
    shown = ", ".join(f"{x:+.2f}" for x in skill[:4])
    return f"z = ({shown}{', …' if len(skill) > 4 else ''})"


def heading(name: str, about: str, status: str, colour: str, doing: str, warning: str = "") -> str:
    """What stands at the top of the panel: which skills, the pace, and what the body is doing."""
    warn = f'<div style="color:#bc4c00;font-weight:600">{html.escape(warning)}</div>' if warning else ""
    dot = f'<span style="width:12px;height:12px;border-radius:6px;background:{colour};flex:none"></span>'
    return (
        f'<div style="padding:2px 12px 4px;font-size:13px;line-height:1.45;color:{INK}">'
        f'<div style="font-size:17px;font-weight:650;overflow-wrap:anywhere">{html.escape(name)}</div>'
        f'<div style="color:{PALE}">{html.escape(about)}</div>'
        f'<div style="display:flex;gap:7px;align-items:center;margin-top:6px">{dot}'
        f'<span style="font-variant-numeric:tabular-nums">{html.escape(doing)}</span></div>'
        f'<div style="color:{PALE};font-variant-numeric:tabular-nums">{html.escape(status)}</div>{warn}</div>'
    )


def hint(text: str) -> str:
    """A line of advice."""
    return f'<div style="padding:0 12px;font-size:12px;line-height:1.4;color:{PALE}">{html.escape(text)}</div>'


class MapPicture:
    """phi on the plane: the ends of random skills, where the body is and was, and where the goal is."""

    def __init__(
        self,
        middle: NDArray[np.float64],
        axes: NDArray[np.float64],
        ends: NDArray[np.floating],
        colours: NDArray[np.floating],
    ) -> None:
        self._middle, self._axes = middle, axes
        self._ends = self._flat(ends)
        self._colours = [hex_colour(colour) for colour in colours]
        self._half = 1.15 * max(float(np.abs(self._ends).max(initial=0.0)), 1e-6)
        self._been: list[NDArray[np.float64]] = []

    def _flat(self, phi: NDArray[np.floating]) -> NDArray[np.float64]:
        return (np.asarray(phi, np.float64) - self._middle) @ self._axes

    def forget(self) -> None:
        """Begin a new track."""
        self._been.clear()

    def draw(self, here: NDArray[np.floating], goal: NDArray[np.floating] | None, colour: str) -> str:
        """The picture as SVG; it grows with what is to be seen on it."""
        at = self._flat(here)
        self._been = [*self._been[-119:], at]
        there = None if goal is None else self._flat(goal)
        reach = max(float(np.abs(x).max()) for x in (at, at if there is None else there))
        self._half = max(self._half, 1.15 * reach) if np.isfinite(reach) else self._half

        def xy(point: NDArray[np.float64]) -> tuple[float, float]:
            scaled = 0.5 * HIGH * np.clip(point / self._half, -4.0, 4.0)
            return round(0.5 * WIDE + float(scaled[0]), 1), round(0.5 * HIGH - float(scaled[1]), 1)

        dots = "".join(
            f'<circle cx="{x}" cy="{y}" r="4" fill="{fill}" fill-opacity=".55"/>'
            for (x, y), fill in zip(map(xy, self._ends), self._colours, strict=True)
        )
        track = " ".join(f"{x},{y}" for x, y in map(xy, self._been))
        x, y = xy(at)
        marks = ""
        if there is not None:
            gx, gy = xy(there)
            marks = (
                f'<line x1="{x}" y1="{y}" x2="{gx}" y2="{gy}" stroke="{INK}" stroke-dasharray="3 3"/>'
                f'<circle cx="{gx}" cy="{gy}" r="7" fill="none" stroke="{INK}" stroke-width="2"/>'
                f'<circle cx="{gx}" cy="{gy}" r="2" fill="{INK}"/>'
            )
        zero = xy(self._flat(self._middle * 0.0))
        axes = (
            f'<path d="M0 {zero[1]}H{WIDE}M{zero[0]} 0V{HIGH}" stroke="#d0d7de" stroke-width="1"/>'
            f'<text x="{WIDE - 6}" y="{HIGH - 8}" text-anchor="end" font-size="11" fill="{PALE}">'
            f"± {self._half:.3g}</text>"
        )
        return (
            f'<div style="padding:0 12px"><svg viewBox="0 0 {WIDE} {HIGH}" width="100%" style="display:block;'
            f'background:#f6f8fa;border-radius:8px" role="img" aria-label="the learned map">{axes}{dots}'
            f'<polyline points="{track}" fill="none" stroke="{INK}" stroke-opacity=".35" stroke-width="1.5"/>'
            f'{marks}<circle cx="{x}" cy="{y}" r="7" fill="{colour}" stroke="{INK}" stroke-width="2"/></svg></div>'
        )
