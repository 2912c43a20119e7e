"""Pictures in a row as files: MP4 by PyAV, GIF and PNG by Pillow. No other program is started."""

import io
from collections.abc import Iterable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from wanderlust.errors import UserError
from wanderlust.report.video.canvas import Picture
from wanderlust.runs.files import write_atomic

COLOURS = 160
"""Of a GIF."""


def require_av() -> Any:
    """PyAV, or one line that says how to have it."""
    try:
        import av
    except ImportError:
        raise UserError("films are written by PyAV: pip install 'wanderlust[video]'") from None
    av.logging.set_level(av.logging.ERROR)
    return av


class Mp4:
    """An MP4 in the making: H.264, as every browser plays it."""

    def __init__(self, fps: float, crf: int = 23) -> None:
        av = require_av()
        self._av, self._bytes = av, io.BytesIO()
        self._file = av.open(self._bytes, "w", format="mp4")
        self._rate, self._crf = Fraction(fps).limit_denominator(1000), crf
        self._stream: Any = None

    def add(self, picture: Picture) -> None:
        """One more picture, all of one size, with even sides."""
        if self._stream is None:
            options = {"crf": str(self._crf), "preset": "veryfast", "bf": "0"}
            self._stream = self._file.add_stream("libx264", rate=self._rate, options=options)
            self._stream.height, self._stream.width = picture.shape[:2]
            self._stream.pix_fmt = "yuv420p"
            self._stream.codec_context.thread_count = 1
        frame = self._av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
        self._file.mux(self._stream.encode(frame))

    def write(self, path: Path) -> Path:
        """Finish it."""
        self._file.mux(self._stream.encode(None))
        self._file.close()
        write_atomic(path, self._bytes.getvalue())
        return path


def small(picture: Picture, width: int) -> Image.Image:
    """A picture no wider than this."""
    image = Image.fromarray(np.ascontiguousarray(picture))
    if picture.shape[1] <= width:
        return image
    return image.resize((width, round(width * picture.shape[0] / picture.shape[1])), Image.Resampling.BOX)


def write_gif(path: Path, pictures: Sequence[Image.Image], seconds: float, colours: int = COLOURS) -> Path:
    """A GIF that repeats; one palette serves all pictures, so that what stands still stays the same."""
    palette = _palette([pictures[round(k)] for k in np.linspace(0, len(pictures) - 1, min(6, len(pictures)))], colours)
    frames = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    file, milliseconds = io.BytesIO(), 10 * max(2, round(100 * seconds))
    first, *rest = frames
    first.save(file, "GIF", save_all=True, append_images=rest, duration=milliseconds, loop=0, optimize=False)
    write_atomic(path, file.getvalue())
    return path


def _palette(some: Sequence[Image.Image], colours: int) -> Image.Image:
    """The colours of some pictures. Rare ones count for more than their share, or bodies would be grey as floors."""
    pixels = np.concatenate([np.asarray(picture).reshape(-1, 3) for picture in some]).astype(np.int64) >> 2
    codes, counts = np.unique(pixels @ (4096, 64, 1), return_counts=True)
    shades = np.stack([codes // 4096, codes // 64 % 64, codes % 64], axis=1)
    drawn = np.repeat(shades << 2, np.ceil(counts**0.4).astype(int), axis=0).astype(np.uint8)
    return Image.fromarray(drawn[None]).quantize(colours, Image.Quantize.MEDIANCUT)


def write_png(path: Path, picture: Picture) -> Path:
    """A picture."""
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(picture)).save(file, "PNG")
    write_atomic(path, file.getvalue())
    return path


def tiled(pictures: Iterable[Picture], columns: int, gap: int) -> Picture:
    """Pictures of one size in rows, with white between them."""
    every = list(pictures)
    high, wide = every[0].shape[:2]
    rows = -(-len(every) // columns)
    sheet: Picture = np.full((rows * (high + gap) - gap, columns * (wide + gap) - gap, 3), 255, np.uint8)
    for n, picture in enumerate(every):
        y, x = (high + gap) * (n // columns), (wide + gap) * (n % columns)
        sheet[y : y + high, x : x + wide] = picture
    return sheet
