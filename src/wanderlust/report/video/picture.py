"""A picture of a model at its start, drawn without a screen."""

import io
from pathlib import Path
from typing import Any

import matplotlib.image
import mujoco
import numpy as np
from numpy.typing import NDArray

from wanderlust.report.video.opengl import make_context
from wanderlust.runs.files import write_atomic

SIZE = (960, 720)


def draw_model(model: mujoco.MjModel, data: Any, path: Path) -> Path:
    """Write a picture of a model in the state of `data`."""
    buffer = io.BytesIO()
    matplotlib.image.imsave(buffer, _rendered(model, data), format="png")
    write_atomic(path, buffer.getvalue())
    return path


def _rendered(model: mujoco.MjModel, data: Any) -> NDArray[np.uint8]:
    width, height = SIZE
    model.vis.global_.offwidth, model.vis.global_.offheight = width, height
    model.vis.quality.shadowsize, model.vis.quality.offsamples = 1024, 4
    context = make_context(width, height)
    try:
        scene, camera = mujoco.MjvScene(model, maxgeom=20_000), mujoco.MjvCamera()
        mujoco.mjv_defaultFreeCamera(model, camera)
        moving = model.body_weldid[model.geom_bodyid] != 0
        if moving.any():
            reach = model.geom_rbound[moving][:, None]
            low, high = (data.geom_xpos[moving] - reach).min(axis=0), (data.geom_xpos[moving] + reach).max(axis=0)
            camera.lookat, camera.distance = (low + high) / 2, 2.0 * float(np.linalg.norm(high - low))
        camera.azimuth, camera.elevation = 130.0, -20.0
        drawing = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_150)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, drawing)
        everything = mujoco.mjtCatBit.mjCAT_ALL
        mujoco.mjv_updateScene(model, data, mujoco.MjvOption(), None, camera, everything, scene)
        pixels = np.empty((height, width, 3), np.uint8)
        view = mujoco.MjrRect(0, 0, width, height)
        mujoco.mjr_render(view, scene, drawing)
        mujoco.mjr_readPixels(pixels, None, view, drawing)
        drawing.free()
        return pixels[::-1]
    finally:
        context.free()
