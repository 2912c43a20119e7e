"""Chromium, driven by Playwright: found where Debian and others put it. Rendering is in software."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

FLAGS = (
    "--no-sandbox", "--use-gl=angle", "--use-angle=gl-egl", "--ignore-gpu-blocklist", "--disable-quic",
    "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-renderer-backgrounding", "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
)  # fmt: skip
"""Mesa renders; without it, `WANDERLUST_CHROMIUM_FLAGS="--use-angle=swiftshader --enable-unsafe-swiftshader"`."""


def find() -> str:
    """Chromium's path; skips the test, and says so, where there is none."""
    pytest.importorskip("viser")
    pytest.importorskip("playwright.sync_api")
    chosen = os.environ.get("WANDERLUST_CHROMIUM")
    for name in (chosen,) if chosen else ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        if path := shutil.which(name):
            return path
    pytest.skip("no Chromium here: apt-get install chromium, or set WANDERLUST_CHROMIUM")


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """A running browser without a window."""
    path = find()
    from playwright.sync_api import sync_playwright

    flags = [*FLAGS, *os.environ.get("WANDERLUST_CHROMIUM_FLAGS", "").split()]
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, headless=True, args=flags)
        try:
            yield started
        finally:
            started.close()


def frames(page: Any, count: int) -> None:
    """Wait until the page has drawn so many frames."""
    page.evaluate("n => {window.left = n; const f = () => window.left-- > 0 && requestAnimationFrame(f); f()}", count)
    page.wait_for_function("window.left < 0", polling=100, timeout=180_000)


def pixel(page: Any, camera: Any, place: Any) -> tuple[float, float]:
    """Where a place of the scene is on the page, as viser's camera sees it."""
    box = page.locator("canvas").first.bounding_box()
    eye = np.asarray(camera.position)
    forward = np.asarray(camera.look_at) - eye
    forward /= np.linalg.norm(forward)
    right = np.cross(forward, (0.0, 0.0, 1.0))
    right /= np.linalg.norm(right)
    up = np.cross(right, forward)
    away = np.asarray(place, float) - eye
    scale = 0.5 * box["height"] / np.tan(camera.fov / 2) / (away @ forward)
    middle = box["x"] + 0.5 * box["width"], box["y"] + 0.5 * box["height"]
    return float(middle[0] + scale * (away @ right)), float(middle[1] - scale * (away @ up))
