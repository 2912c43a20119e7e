"""Which OpenGL renders, chosen here and nowhere else: what MUJOCO_GL says, else EGL, else OSMesa. No screen is needed.

MuJoCo itself would choose when it is first imported, and fail much later with a trace that names no cause. Here a
library is tried before PyOpenGL, which keeps to the first one for good, is imported.
"""

import ctypes
import functools
import importlib
import os
import sys
from typing import Any

from wanderlust.errors import UserError

PACKAGES = {"egl": "libegl1 libegl-mesa0 libgl1-mesa-dri", "osmesa": "libosmesa6"}
"""Of Debian and Ubuntu."""
OFF = ("off", "disable", "disabled", "false", "0")
DEVICE = 0x313F
"""EGL_PLATFORM_DEVICE_EXT: a graphics card, or Mesa's drawing on the CPU, and no window system."""
MOST_DEVICES = 16


def make_context(width: int, height: int) -> Any:
    """A context of so many pixels, current on the calling thread."""
    name = backend()
    if name in PACKAGES and "OpenGL" not in sys.modules:
        os.environ["PYOPENGL_PLATFORM"] = name  # a parent process may have left its own there
    module = {"egl": "mujoco.egl", "osmesa": "mujoco.osmesa", "glfw": "mujoco.glfw"}.get(name, "mujoco.gl_context")
    made = importlib.import_module(module).GLContext(width, height)
    made.make_current()
    return made


@functools.cache
def backend() -> str:
    """The name of what renders: egl, osmesa, glfw, or that of the system where there is one."""
    asked = os.environ.get("MUJOCO_GL", "").lower().strip()
    if asked in OFF:
        raise UserError(f"MUJOCO_GL is {asked!r}, so nothing can be rendered; unset it, or set it to egl or osmesa")
    if sys.platform != "linux":
        return "system"
    if asked in ("glfw", "glx"):
        if not has_display():
            raise UserError(f"MUJOCO_GL is {asked!r}, which needs a display; unset it, or set it to egl or osmesa")
        return "glfw"
    asked = asked if asked in PACKAGES else os.environ.get("PYOPENGL_PLATFORM", "").lower()
    names = [asked] if asked in PACKAGES else list(PACKAGES)
    for name in names:
        if _works(name):
            return name
    missing = " or ".join(f"apt-get install {PACKAGES[name]}" for name in names)
    raise UserError(f"nothing can be rendered: {' and '.join(map(str.upper, names))} cannot be used here; {missing}")


def has_display() -> bool:
    """Whether there is a screen to open windows on."""
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _works(name: str) -> bool:
    return _egl_works() if name == "egl" else _osmesa_works()


def _osmesa_works() -> bool:
    return any(_library(f"libOSMesa.so{end}") is not None for end in ("", ".8", ".6"))


def _egl_works() -> bool:
    """Whether EGL is there and finds a device that it can draw with."""
    egl = _library("libEGL.so.1")
    if egl is None:
        return False
    egl.eglGetProcAddress.restype = pointer = ctypes.c_void_p
    query, display = (egl.eglGetProcAddress(name) for name in (b"eglQueryDevicesEXT", b"eglGetPlatformDisplayEXT"))
    if not query or not display:
        return False
    devices, count = (pointer * MOST_DEVICES)(), ctypes.c_int()
    find = ctypes.CFUNCTYPE(ctypes.c_uint, ctypes.c_int, pointer, pointer)(query)
    find(MOST_DEVICES, ctypes.addressof(devices), ctypes.addressof(count))
    show = ctypes.CFUNCTYPE(pointer, ctypes.c_uint, pointer, pointer)(display)
    egl.eglInitialize.argtypes = [pointer] * 3
    shown = (show(DEVICE, device, None) for device in devices[: count.value])
    return any(one and egl.eglInitialize(one, None, None) for one in shown)


def _library(name: str) -> Any:
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None
