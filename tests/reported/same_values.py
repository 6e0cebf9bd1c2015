"""Whether two encoded values (``shown``) are the same, up to rounding."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.reported.shown import decode_array

#: Errors that stand for each other; else the class that PyTorch raises must be among the bases.
FAMILIES = [{"RuntimeError", "NotImplementedError"}]
RTOL = {"float64": 1e-9, "float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}


def difference(
    wanted: Any, found: Any, rtol: float | None, atol: float | None, path: str = ""
) -> str | None:
    """None, or how ``found`` differs from what PyTorch gave."""
    listed = isinstance(wanted, list) and isinstance(found, list)
    if listed and wanted[0] == found[0]:
        kind = wanted[0]
        if kind == "a":
            return _of_arrays(wanted, found, rtol, atol, path)
        if kind == "f":
            return _of_floats(float(wanted[1]), float(found[1]), rtol, atol, path)
        if kind == "e":
            return _of_errors(wanted, found, path)
        return _of_parts(wanted, found, rtol, atol, path)
    if type(wanted) is type(found) and wanted == found:
        return None
    return f"{path} {short(wanted)} -> {short(found)}"


def short(value: Any) -> str:
    """A value in a line."""
    if not isinstance(value, list):
        return " ".join(str(value).split())[:300]
    if value[0] == "e":
        return f"raises {value[1][0]}: {value[2][:200]}"
    if value[0] == "a":
        first = np.array2string(decode_array(value).ravel()[:8], separator=",")
        return f"{value[1]}{value[2]} {first}"
    if value[0] == "l":
        return "[" + ", ".join(short(item) for item in value[1][:6]) + "]"
    return str(value[1])[:300]


def _of_arrays(
    wanted: Any, found: Any, rtol: float | None, atol: float | None, path: str
) -> str | None:
    if wanted[1] != found[1]:
        return f"{path} dtype {wanted[1]} -> {found[1]}"
    if wanted[2] != found[2]:
        return f"{path} shape {wanted[2]} -> {found[2]}"
    x, y = np.atleast_1d(decode_array(wanted)), np.atleast_1d(decode_array(found))
    same = x == y
    if x.dtype.kind == "f":
        relative = RTOL.get(wanted[1], 1e-5) if rtol is None else rtol
        if atol is None:
            finite = np.abs(x[np.isfinite(x)])
            atol = relative * 0.1 * float(finite.max()) if finite.size else 0.0
        with np.errstate(all="ignore"):
            size = np.abs(x.astype(float))
            near = np.abs(x.astype(float) - y) <= relative * size + atol
        same |= (np.isnan(x) & np.isnan(y)) | (np.isfinite(x) & np.isfinite(y) & near)
    if same.all():
        return None
    bad = np.argwhere(~same)
    first = tuple(int(i) for i in bad[0])
    return f"{path} {len(bad)} of {x.size} differ, first {first}: {x[first]} -> {y[first]}"


def _of_floats(x: float, y: float, rtol: float | None, atol: float | None, path: str) -> str | None:
    relative = 1e-6 if rtol is None else rtol
    same = x == y or (x != x and y != y) or abs(x - y) <= relative * abs(x) + (atol or 0)
    return None if same else f"{path} {x!r} -> {y!r}"


def _of_errors(wanted: Any, found: Any, path: str) -> str | None:
    if wanted[1][0] in found[1]:
        return None
    if any(family & {*wanted[1]} and family & {*found[1]} for family in FAMILIES):
        return None
    return f"{path} {short(wanted)} -> {short(found)}"


def _of_parts(
    wanted: Any, found: Any, rtol: float | None, atol: float | None, path: str
) -> str | None:
    left, right = wanted[1], found[1]
    if len(left) != len(right):
        return f"{path} length {len(left)} -> {len(right)}"
    for number, (x, y) in enumerate(zip(left, right)):
        if wanted[0] == "d":
            (key, x), (other, y) = x, y
            if key != other:
                return f"{path} key {key} -> {other}"
        found_difference = difference(x, y, rtol, atol, f"{path}[{number}]")
        if found_difference is not None:
            return found_difference
    return None
