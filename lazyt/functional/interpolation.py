"""Resizing images and other grids: nearest, linear, cubic and area interpolation.

Interpolation is separable: one dimension after the other, last first, every place of the result
gathers its few neighbours along the dimension and adds them up by weights that depend on the
place alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lazyt import ops
from lazyt.errors import LazytError, ShapeError, warn
from lazyt.functional.adaptive_pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)
from lazyt.functional.resampling import FILTERS, Axis, blend, filtered, nearest, nearest_exact, pick
from lazyt.functional.results import give
from lazyt.functional.unsupported import require_floating
from lazyt.ir.dtypes import uint8
from lazyt.memory_formats import channels_last, channels_last_3d
from lazyt.tensor import Tensor

_SMOOTH = {"linear": 3, "bilinear": 4, "trilinear": 5}
_FREE = ("nearest", "nearest-exact", "area")
_PLANAR = ("bicubic", "lanczos")


class InterpolationError(LazytError, ValueError):
    """Settings of an interpolation that do not fit together."""


class ModeError(LazytError, NotImplementedError):
    """A mode that does not exist for this number of dimensions."""


# ------------------------------------------------------------------ sizes and scales


def _numbers(value: Any, shape: tuple[int, ...], names: tuple[str, str, str]) -> tuple[Any, ...]:
    """One number for every dimension; ``names`` are those of PyTorch's message."""
    if not isinstance(value, (list, tuple)):
        return (value,) * len(shape)
    if len(value) != len(shape):
        whole, given, letter = names
        letters = ", ".join(f"{letter}{i}" for i in (1, 2)) + f", ...,{letter}K"
        raise InterpolationError(
            f"Input and {whole} must have the same number of spatial dimensions, but got input "
            f"with spatial dimensions of {list(shape)} and {given} {value}. Please provide input "
            f"tensor in (N, C, d1, d2, ...,dK) format and {given.partition(' of')[0]} in "
            f"({letters}) format."
        )
    return tuple(value)


def _axes(
    shape: tuple[int, ...], size: Any, factor: Any, recompute: bool | None, corners: bool
) -> list[Axis]:
    """The new size of every dimension and the step between its places."""
    rank = len(shape)
    if size is not None:
        new: tuple[Any, ...] = _numbers(size, shape, ("output", "output size of", "o"))
        factors: tuple[Any, ...] = (None,) * rank
    else:
        factors = _numbers(factor, shape, ("scale_factor", "scale_factor of shape", "s"))
        new = tuple(math.floor(float(n) * float(f)) for n, f in zip(shape, factors))
        if recompute:
            factors = (None,) * rank
    found = []
    for old, wanted, by in zip(shape, new, factors):
        if wanted <= 0 or old <= 0:
            sides = ("D", "H", "W")[3 - rank :]
            texts = (", ".join(f"{s}: {n}" for s, n in zip(sides, sizes)) for sizes in (shape, new))
            raise ShapeError(
                "Input and output sizes should be greater than 0, but got input ({}) {}output "
                "({})".format(next(texts), "and " if rank == 1 else "", next(texts))
            )
        if corners:
            step = (old - 1) / (wanted - 1) if wanted > 1 else 0.0
        else:
            step = 1.0 / by if by is not None and by > 0 else old / wanted
        found.append(Axis(old, int(wanted), step))
    return found


def _check(
    input: Tensor, size: Any, factor: Any, mode: str, corners: bool | None,
    recompute: bool | None, antialias: bool,
) -> None:  # fmt: skip
    if mode in _FREE and corners is not None:
        raise InterpolationError(
            "align_corners option can only be set with the interpolating modes: linear | "
            "bilinear | bicubic | trilinear"
        )
    if size is not None and factor is not None:
        raise InterpolationError("only one of size or scale_factor should be defined")
    if size is None and factor is None:
        raise InterpolationError("either size or scale_factor should be defined")
    if recompute and size is not None:
        raise InterpolationError("recompute_scale_factor is not meaningful with an explicit size.")
    if antialias and not (mode in ("bilinear", *_PLANAR) and input.ndim == 4):
        raise InterpolationError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires "
            "a 4-D tensor as input"
        )
    if mode == "lanczos" and input.ndim == 4:
        if corners:
            raise InterpolationError("Lanczos mode does not support align_corners=True")
        if not antialias:
            raise InterpolationError("Lanczos mode requires antialias=True")
    wanted = 4 if mode in _PLANAR else _SMOOTH.get(mode, input.ndim if mode in _FREE else 0)
    if wanted == input.ndim and 3 <= input.ndim <= 5:
        return
    if mode in _SMOOTH and 3 <= input.ndim <= 5:
        raise ModeError(f"Got {input.ndim}D input, but {mode} mode needs {wanted}D input")
    raise ModeError(
        "Input Error: Only 3D, 4D and 5D input Tensors supported (got "
        f"{input.ndim}D) for the modes: nearest | linear | bilinear | bicubic | trilinear | "
        f"lanczos | area | nearest-exact (got {mode})"
    )


def interpolate(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:  # fmt: skip
    """[N, C, *old] resized to [N, C, *new], one to three spatial dimensions.

    Args:
        size: the new size, one number for all dimensions or one each; or
        scale_factor: what the old size is multiplied with (rounded down).
        mode: nearest, nearest-exact, linear (3-D input), bilinear, bicubic or lanczos (4-D; the
            last with ``antialias`` only), trilinear (5-D), or area (adaptive average pooling).
        align_corners: for the smooth modes, whether the corner elements' middles are kept.
        recompute_scale_factor: take the step between places from the sizes, not from the factor.
        antialias: filter over all elements that a new one covers.

    Raises InterpolationError (a ValueError), ModeError (a NotImplementedError) and ShapeError.
    """
    _check(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)
    spatial = tuple(input.shape[2:])
    corners = bool(align_corners)
    axes = _axes(spatial, size, scale_factor, recompute_scale_factor, corners)
    if mode == "area":
        new = tuple(a.new for a in axes)
        pools = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)
        return pools[len(spatial) - 1](input, new)
    dtype = input.dtype
    if mode.startswith("nearest"):
        node = input.node
        if mode == "nearest" and _sizes_decide(input, axes):
            plain = [a._replace(scale=a.old / a.new) for a in axes]
            axes = [p if a.new in (a.old, 2 * a.old) else a for a, p in zip(axes, plain)]
        for number, axis in reversed([*enumerate(axes, 2)]):
            node = pick(node, number, axis, nearest if mode == "nearest" else nearest_exact)
        return give(node, f"UpsampleNearest{len(spatial)}D", (input,))
    node = input.node
    if dtype is not uint8 or mode not in ("bilinear", *_PLANAR):
        require_floating(f"compute_indices_weights_{mode}", dtype)
        node = ops.cast(node, dtype.compute)
    for number, axis in reversed([*enumerate(axes, 2)]):
        if antialias:
            node = filtered(node, number, axis, *FILTERS[mode])
        else:
            node = blend(node, number, axis, corners, mode == "bicubic")
    return give(ops.cast(node, dtype), f"Upsample{mode.title()}{len(spatial)}D", (input,))


def _sizes_decide(input: Tensor, axes: Sequence[Axis]) -> bool:
    """Whether ``nearest`` takes a size that stays, or doubles, as it is, whatever the factor.

    PyTorch has two kernels that differ in this: one for channels that lie together, and for planes
    whose sides add up to at most 128; and one for all else.
    """
    rank = len(axes)
    if rank == 1:
        return False
    order = (channels_last, channels_last_3d)[rank - 2]
    if input.shape[1] > 3 and input.is_contiguous(memory_format=order):
        return True
    return rank == 2 and axes[0].new + axes[1].new <= 128


def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """``interpolate`` by its old name."""
    _deprecated("upsample", "interpolate")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """``interpolate`` with ``mode="nearest"``."""
    _deprecated("upsample_nearest", "interpolate")
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """``interpolate`` with ``mode="bilinear"`` and aligned corners."""
    _deprecated("upsample_bilinear", "interpolate")
    return interpolate(input, size, scale_factor, "bilinear", True)


def _deprecated(name: str, instead: str) -> None:
    text = f"`nn.functional.{name}` is deprecated. Use `nn.functional.{instead}` instead."
    warn(text)
