"""Tensors as text, to the character as PyTorch prints them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lazyt.errors import LazytError
from lazyt.handle.function_table import function

__all__ = [
    "get_printoptions", "set_printoptions",
]  # fmt: skip

Array = np.ndarray[Any, Any]


@dataclass
class PrintOptions:
    """How tensors print; changed by ``set_printoptions``."""

    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_OPTIONS = PrintOptions()
_PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}


@function()
def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Change how tensors print; the arguments mean what they mean in PyTorch.

    ``profile`` is ``default``, ``short`` or ``full`` and is applied first. Raises LazytError for
    another profile.
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise LazytError(f"unknown print profile {profile!r}: give one of {[*_PROFILES]}")
        chosen = _PROFILES[profile]
        for name in ("precision", "threshold", "edgeitems", "linewidth"):
            setattr(_OPTIONS, name, getattr(chosen, name))
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    for name, value in given.items():
        if value is not None:
            setattr(_OPTIONS, name, value)
    _OPTIONS.sci_mode = sci_mode


@function()
def get_printoptions() -> dict[str, Any]:
    """The current print settings by name."""
    return dict(vars(_OPTIONS))


def format_tensor(
    values: Array, suffixes: Sequence[str], prefix: str = "tensor(", outer: int = 0
) -> str:
    """``tensor([...], suffix, ...)`` for float32, float64, complex, integer or bool ``values``.

    Half types come as float32. An empty array prints as ``[]`` whatever its rank; the caller adds
    its size as a suffix. ``outer``: by how many columns the text will be indented.
    """
    indent = len(prefix) + outer
    if values.size == 0:
        body = "[]"
    else:
        summarize = values.size > _OPTIONS.threshold
        shown = _edges(values) if summarize else values
        body = _nested(values, indent, summarize, *_formatter(shown.reshape(-1)))
    return frame_text(body, suffixes, prefix)


def frame_text(body: str, suffixes: Sequence[str], prefix: str = "tensor(") -> str:
    """``tensor(body, suffix, ...)``; suffixes that do not fit into the line begin a new one."""
    return append_suffixes(prefix + body, suffixes, len(prefix))


def hides_all() -> bool:
    """Whether summaries show no elements at all."""
    return not _OPTIONS.edgeitems


def _edges(values: Array) -> Array:
    """The corner elements that a summary shows; they alone decide the number format."""
    keep = _OPTIONS.edgeitems
    for axis, extent in enumerate(values.shape):
        if extent > 2 * keep:
            ends = [*range(keep), *range(extent - keep, extent)]
            values = values.take(ends, axis=axis)
    return values


Formatter = tuple[Callable[[Any], str], int]


def _formatter(values: Array) -> Formatter:
    """How one element of ``values`` prints, and the width to which elements are padded."""
    if values.dtype.kind == "c":
        return _complex_formatter(values)
    if values.dtype.kind != "f":
        return str, max(len(str(v)) for v in values.tolist())
    wide = values.astype(np.float64)
    finite = wide[np.isfinite(wide) & (wide != 0)]
    digits = _OPTIONS.precision
    if not finite.size:
        return _whole_number, 1
    magnitude = np.abs(finite)
    low, high = float(magnitude.min()), float(magnitude.max())
    whole = bool((finite == np.ceil(finite)).all())
    science = high / low > 1000.0 or high > 1.0e8 or (not whole and low < 1.0e-4)
    if _OPTIONS.sci_mode is not None:
        science = _OPTIONS.sci_mode
    if whole and not science:
        return _whole_number, max(len(_whole_number(v)) for v in finite.tolist())
    spec = f".{digits}e" if science else f".{digits}f"
    width = max(len(format(v, spec)) for v in finite.tolist())
    return (lambda value: format(value, spec)), width


def _complex_formatter(values: Array) -> Formatter:
    """Parts are padded on their own, the imaginary ones behind their sign."""
    (real, left), (imaginary, right) = _formatter(values.real), _formatter(values.imag)

    def show(value: complex) -> str:
        second = f"{imaginary(value.imag).rjust(right)}j".lstrip()
        return real(value.real).rjust(left) + ("" if second[0] in "+-" else "+") + second

    return show, left + right + 1


def _whole_number(value: float) -> str:
    text = f"{value:.0f}"
    return text + "." if math.isfinite(value) else text


def _nested(
    values: Array, indent: int, summarize: bool, show: Callable[[Any], str], width: int
) -> str:
    """Brackets within brackets; the recursion is as deep as the tensor has dimensions."""
    if values.ndim == 0:
        return show(values.item()).rjust(0 if values.dtype.kind == "c" else width)
    keep = _OPTIONS.edgeitems
    cut = summarize and len(values) > 2 * keep
    if values.ndim == 1:
        ends = (values[:keep], values[len(values) - keep :]) if cut else (values,)
        pad = 0 if values.dtype.kind == "c" else width
        parts = [[show(v).rjust(pad) for v in end.tolist()] for end in ends]
        items = [*parts[0], " ...", *parts[1]] if cut else parts[0]
        per_line = max(1, (_OPTIONS.linewidth - indent) // (width + 2))
        lines = [", ".join(items[i : i + per_line]) for i in range(0, len(items), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    places = [*range(keep), *range(len(values) - keep, len(values))] if cut else range(len(values))
    rows = [_nested(values[i], indent + 1, summarize, show, width) for i in places]
    if cut:
        rows.insert(keep, "...")
    return "[" + ("," + "\n" * (values.ndim - 1) + " " * (indent + 1)).join(rows) + "]"


def append_suffixes(text: str, suffixes: Sequence[str], indent: int) -> str:
    """``text, suffix, ...)``; suffixes that do not fit into the line begin a new one."""
    column = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if column + len(suffix) + 2 > _OPTIONS.linewidth:
            text += ",\n" + " " * indent + suffix
            column = indent + len(suffix)
        else:
            text += ", " + suffix
            column += len(suffix) + 2
    return text + ")"
