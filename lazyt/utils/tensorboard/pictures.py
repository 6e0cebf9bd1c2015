"""Pictures and sounds as the bytes of files."""

from __future__ import annotations

import io
import math
import struct
import wave
import zlib
from typing import Any

import numpy as np

from lazyt.errors import ArgumentError

__all__ = ["as_pixels", "encode_png", "encode_wave", "figure_pixels", "sprite"]


def as_pixels(values: Any, dataformats: str) -> Any:
    """An array of height, width and channels, as bytes; a batch becomes a grid of pictures.

    Args:
        values: an array. Fractions are from 0 to 1, bytes from 0 to 255.
        dataformats: its axes, such as "CHW", "HW" or "NHWC".

    Raises ArgumentError where the axes are not those.
    """
    axes = dataformats.upper()
    if len(axes) != values.ndim or len(set(axes)) != len(axes) or set(axes) - set("NCHW"):
        raise ArgumentError(
            f"dataformats={dataformats!r} does not name the {values.ndim} axes of the picture"
        )
    if "C" not in axes:
        values, axes = values[..., None], axes + "C"
    values = np.transpose(values, [axes.index(a) for a in ("NHWC" if "N" in axes else "HWC")])
    if "N" in axes:
        values = _grid(values)
    if values.shape[2] == 1:
        values = np.repeat(values, 3, 2)
    if values.dtype != np.uint8:
        values = (values.astype(np.float32) * 255.0).clip(0, 255).astype(np.uint8)
    return values


def _grid(pictures: Any, columns: int = 8) -> Any:
    count, height, width, channels = pictures.shape
    columns = min(columns, count)
    rows = -(-count // columns)
    found = np.zeros((rows * height, columns * width, channels), pictures.dtype)
    for number, picture in enumerate(pictures):
        y, x = divmod(number, columns)
        found[y * height : (y + 1) * height, x * width : (x + 1) * width] = picture
    return found


def encode_png(pixels: Any) -> bytes:
    """Bytes of a PNG file. Raises ArgumentError for other than 1 to 4 channels."""
    height, width, channels = pixels.shape
    kinds = {1: 0, 2: 4, 3: 2, 4: 6}
    if channels not in kinds:
        raise ArgumentError(f"a picture has 1 to 4 channels, not {channels}")

    def chunk(name: bytes, data: bytes) -> bytes:
        check = zlib.crc32(name + data)
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", check)

    lines = np.zeros((height, 1 + width * channels), np.uint8)  # each begins with its filter
    lines[:, 1:] = pixels.reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, kinds[channels], 0, 0, 0)
    parts = (b"IHDR", head), (b"IDAT", zlib.compress(lines.tobytes())), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(name, data) for name, data in parts)


def encode_wave(samples: Any, rate: int) -> bytes:
    """Bytes of a WAV file of one channel, for samples from -1 to 1."""
    values = (np.asarray(samples, np.float32).reshape(-1).clip(-1, 1) * 32767.0).astype("<i2")
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes(values.tobytes())
    return file.getvalue()


def figure_pixels(figure: Any) -> Any:
    """What a figure of matplotlib looks like: height, width, channels."""
    from importlib import import_module

    canvas = import_module("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def sprite(pictures: Any) -> Any:
    """Pictures "NCHW" side by side in a square, as the projector wants them."""
    count = pictures.shape[0]
    columns = math.ceil(math.sqrt(count))
    grid = _grid(np.transpose(pictures, (0, 2, 3, 1)), columns)
    whole = np.zeros((columns * pictures.shape[2], *grid.shape[1:]), grid.dtype)
    whole[: grid.shape[0]] = grid
    return as_pixels(whole, "HWC")
