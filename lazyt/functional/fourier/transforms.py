"""The functions of ``torch.fft``.

All take ``norm``: which direction divides by the number of points, ``"backward"`` (the inverse, as
by default), ``"forward"``, or ``"ortho"`` for its square root in both. Sizes ``n`` and ``s`` cut
signals, or lengthen them by zeros, before they are transformed; -1 in ``s`` leaves one as it is.
Tensors of whole numbers and bools count as the default dtype. There are no transforms of 16-bit
floats.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, ShapeError
from lazyt.functional.creation.creation import arange
from lazyt.functional.fourier import dft
from lazyt.functional.operands import existing_dim, normalize_dim, require_tensor
from lazyt.functional.result_layout import row_major
from lazyt.functional.results import give
from lazyt.functional.shapes.joining import roll
from lazyt.functional.type_promotion import as_dtype, get_default_dtype, inexact, torch_name
from lazyt.handle.dispatch import wrap
from lazyt.handle.function_table import declare_grad_fn, function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Node, Shape
from lazyt.ops.fourier.transform import FourierParams

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2",
    "ifftn", "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft",
    "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

declare_grad_fn("FftC2C", "FftR2C", "FftC2R", layout=row_major)

_FORWARD, _INVERSE = -1, 1


# ------------------------------------------------------------------------- arguments


def _checked(input: Any, name: str) -> Tensor:
    """``input``; raises DTypeError for what has no transform."""
    tensor = require_tensor(input, name)
    if tensor.dtype.is_half:
        raise DTypeError(f"Unsupported dtype {torch_name(tensor.dtype)}")
    return tensor


def _real(input: Any, name: str, message: str) -> Tensor:
    tensor = _checked(input, name)
    if tensor.dtype.kind == "c":
        raise DTypeError(message.format(torch_name(tensor.dtype)))
    return tensor


def _scale(norm: str | None, sign: int, points: int) -> float:
    """What a direction multiplies by; raises LazytError for an unknown ``norm``."""
    if norm == "ortho":
        return 1.0 / math.sqrt(points)
    if norm not in (None, "backward", "forward"):
        raise LazytError(f'Invalid normalization mode: "{norm}"')
    divides = _FORWARD if norm == "forward" else _INVERSE
    return 1.0 / points if sign == divides else 1.0


def _check_points(n: int) -> int:
    if n < 1:
        raise ShapeError(f"Invalid number of data points ({n}) specified")
    return n


def _one(tensor: Tensor, n: int | None, dim: int) -> tuple[int, int]:
    """The axis, and the number of points along it."""
    axis = existing_dim(dim, tensor.ndim)
    return axis, _check_points(tensor.shape[axis] if n is None else n)


def _ints(value: Any) -> list[int]:
    return [operator.index(v) for v in (value if isinstance(value, (tuple, list)) else (value,))]


def _several(tensor: Tensor, s: Any, dim: Any, halved: bool = False) -> tuple[list[int], list[int]]:
    """The axes, and the number of points along each.

    Args:
        halved: whether the last axis holds half of a spectrum, so that by default the signal has
            twice as many points, less two.
    """
    rank = tensor.ndim
    sizes = None if s is None else _ints(s)
    if dim is not None:
        axes = [normalize_dim(d, rank) for d in _ints(dim)]
        if len(set(axes)) != len(axes):
            raise ShapeError("FFT dims must be unique")
    if sizes is None:
        if dim is None:
            axes = [*range(rank)]
        sizes = [-1] * len(axes)
    elif dim is None:
        if len(sizes) > rank:
            raise ShapeError(
                f"Got shape with {len(sizes)} values but input tensor only has {rank} dimensions."
            )
        axes = [*range(rank - len(sizes), rank)]
    elif len(sizes) != len(axes):
        raise ShapeError("When given, dim and shape arguments must have the same length")
    found = [tensor.shape[a] if n == -1 else n for a, n in zip(axes, sizes)]
    if halved and axes and sizes[-1] == -1:
        found[-1] = 2 * (found[-1] - 1)
    return axes, [_check_points(n) for n in found]


def _need_axes(axes: Sequence[int], name: str) -> None:
    if not axes:
        raise ShapeError(f"{name} must transform at least one axis")


# ---------------------------------------------------------------------------- planes


def _fit(node: Node, axis: int, n: int) -> Node:
    """``node`` cut to ``n`` elements along an axis, or lengthened by zeros."""
    extent, rank = node.shape[axis], len(node.shape)
    if extent == n:
        return node
    sizes, none, high = list(node.shape), [0] * rank, [0] * rank
    sizes[axis], high[axis] = min(extent, n), max(n - extent, 0)
    return ops.pad(ops.slice_(node, none, sizes, [1] * rank), none, high, none, 0)


def _planes(node: Node, axis: int) -> Node:
    """[parts, before, points, after] of a value, which has one part when it is real."""
    shape = _about(node.shape, axis)
    if node.dtype.kind != "c":
        return ops.reshape(node, (1, *shape))
    parts = ops.apply("real", node), ops.apply("imag", node)
    return dft.together(*[ops.reshape(part, shape) for part in parts])


def _complex(x: Node, shape: Shape) -> Node:
    """The value, of this shape, of two planes."""
    parts = [ops.reshape(dft.plane(x, number), shape) for number in (0, 1)]
    return ops.apply("complex", *parts)


def _about(shape: Shape, axis: int) -> Shape:
    """A shape as elements before an axis, along it and behind it."""
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def _with(shape: Shape, axis: int, n: int) -> Shape:
    return (*shape[:axis], n, *shape[axis + 1 :])


def _by_kernel(kind: str, node: Node, axis: int, n: int, sign: int, scale: float) -> Node:
    """``n`` points along one axis transformed, all of them by one kernel."""
    rank = len(node.shape)
    if axis == rank - 1:
        return dft.along_rows(kind, node, n, sign, scale)
    order = [*range(axis), *range(axis + 1, rank), axis]
    found = dft.along_rows(kind, ops.permute(node, order), n, sign, scale)
    return ops.permute(found, [*range(axis), rank - 1, *range(axis, rank - 1)])


def _as_complex(node: Node) -> Node:
    return node if node.dtype.kind == "c" else ops.cast(node, node.dtype.to_complex())


def _inexact(node: Node) -> Node:
    """Whole numbers and bools in the default dtype."""
    return node if node.dtype.kind in "fc" else ops.cast(node, inexact(node.dtype))


def _along(node: Node, axis: int, sign: int, scale: float) -> Node:
    """A real or complex value transformed along one axis."""
    n = node.shape[axis]
    if node.size and dft.has_kernel("complex", n):
        return _by_kernel("complex", _as_complex(node), axis, n, sign, scale)
    return _complex(dft.transform(_planes(node, axis), sign, scale), node.shape)


def complex_to_complex(
    node: Node, axes: Sequence[int], sizes: Sequence[int], sign: int, scale: float
) -> Node:  # fmt: skip
    """Transforms along axes, of so many points each, as a complex node."""
    for axis, n in zip(axes, sizes):
        node = _fit(node, axis, n)
    node = _inexact(node)
    for number, axis in enumerate(reversed(axes), 1):
        node = _along(node, axis, sign, scale if number == len(axes) else 1.0)
    return _as_complex(node)


def real_to_complex(
    node: Node, axes: Sequence[int], sizes: Sequence[int], sign: int, scale: float
) -> Node:  # fmt: skip
    """Transforms of a real node: along the last of the axes the first half of the frequencies."""
    for axis, n in zip(axes, sizes):
        node = _fit(node, axis, n)
    last = scale if len(axes) == 1 else 1.0
    node = _half_spectrum(_inexact(node), axes[-1], sizes[-1], sign, last)
    for number, other in enumerate(reversed(axes[:-1]), 2):
        node = _along(node, other, sign, scale if number == len(axes) else 1.0)
    return node


def _half_spectrum(node: Node, axis: int, n: int, sign: int, scale: float) -> Node:
    """The first half of the frequencies of a real value along one axis."""
    shape = _with(node.shape, axis, n // 2 + 1)
    if not node.size:
        return ops.broadcast_to(ops.constant(0, node.dtype.to_complex()), shape)
    if dft.has_kernel("half", n):
        return _by_kernel("half", node, axis, n, sign, scale)
    return _complex(dft.half_spectrum(_planes(node, axis), sign, scale), shape)


def complex_to_real(
    node: Node, axes: Sequence[int], sizes: Sequence[int], sign: int, scale: float
) -> Node:  # fmt: skip
    """Transforms to a real node of what has the first half of the frequencies along the last of
    the axes."""
    axis, n = axes[-1], sizes[-1]
    for other, points in zip(axes[:-1], sizes):
        node = _fit(node, other, points)
    node = _as_complex(_inexact(_fit(node, axis, n // 2 + 1)))
    for other in axes[:-1]:
        node = _along(node, other, sign, 1.0)
    if node.size and dft.has_kernel("real", n):
        return _by_kernel("real", node, axis, n, sign, scale)
    found = dft.real_signal(_planes(node, axis), n, sign, scale)
    return ops.reshape(found, _with(node.shape, axis, n))


# --------------------------------------------------------------------------- results


def _give_complex(
    node: Node, title: str, name: str, input: Tensor, out: Tensor | None
) -> Tensor:  # fmt: skip
    if isinstance(out, Tensor) and out.dtype.kind != "c":
        got = torch_name(out.dtype)
        raise DTypeError(f"{name} expects a complex output tensor, but got {got}")
    return give(node, title, (input,), out)


def _give_real(node: Node, name: str, input: Tensor, out: Tensor | None) -> Tensor:
    if isinstance(out, Tensor) and out.dtype.kind != "f":
        got = torch_name(out.dtype)
        raise DTypeError(f"{name} expects a floating point output tensor, but got {got}")
    return give(node, "FftC2R", (input,), out)


def _c2c_of(
    name: str, input: Any, s: Any, dim: Any, norm: str | None, out: Tensor | None, sign: int
) -> Tensor:  # fmt: skip
    tensor = _checked(input, name)
    axes, sizes = _several(tensor, s, dim)
    scale = _scale(norm, sign, math.prod(sizes))
    node = complex_to_complex(tensor.node, axes, sizes, sign, scale)
    return _give_complex(node, "FftC2C", name, tensor, out)


@lru_cache(maxsize=256)
def _direct(
    kind: str, shape: Shape, dtype: DType, n: int | None, dim: int, norm: str | None, sign: int
) -> tuple[FourierParams, float] | None:
    """The parameters of the op, and the scale, of a transform that is one kernel of the rows of an
    operand as they are; None for others."""
    wanted = "f" if kind == "half" else "c"
    if not shape or 0 in shape or dtype.kind != wanted or dtype.is_half:
        return None
    extent = shape[-1]
    points = (2 * extent - 2 if kind == "real" else extent) if n is None else n
    fits = points >= 1 and extent == (points // 2 + 1 if kind == "real" else points)
    if dim not in (-1, len(shape) - 1) or not fits or not dft.has_kernel(kind, points):
        return None
    return FourierParams(kind, sign, points, False), _scale(norm, sign, points)


def _directly(
    kind: str, title: str, input: Any, n: int | None, dim: int, norm: str | None, sign: int
) -> Tensor | None:  # fmt: skip
    """The same as a tensor: a short transform takes less time than the checks of all others."""
    if type(input) is not Tensor or input._view is not None or type(dim) is not int:
        return None
    if n is not None and type(n) is not int:
        return None
    node = input.node
    try:
        known = _direct(kind, node.shape, node.dtype, n, dim, norm, sign)
    except TypeError:  # arguments that are no numbers
        return None
    if known is None:
        return None
    params, scale = known
    return wrap(dft.of_rows(params, node, scale), input, name=title)


def _c2c_along(
    name: str, input: Any, n: int | None, dim: int, norm: str | None, out: Tensor | None, sign: int
) -> Tensor:  # fmt: skip
    if out is None:
        found = _directly("complex", "FftC2C", input, n, dim, norm, sign)
        if found is not None:
            return found
    tensor = _checked(input, name)
    axis, points = _one(tensor, n, dim)
    node = complex_to_complex(tensor.node, (axis,), (points,), sign, _scale(norm, sign, points))
    title = "FftC2C" if tensor.dtype.kind == "c" or sign == _INVERSE else "FftR2C"
    return _give_complex(node, title, name, tensor, out)


# ------------------------------------------------------------------------ along one axis


@function()
def fft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The discrete Fourier transform along ``dim``: frequency j of the n points x is the sum of
    ``x[k] * exp(-2 pi i j k / n)``.

    Takes real and complex tensors of any rank but 0 and gives complex ones, with the size ``n``
    along ``dim``. Raises ShapeError where there are no points, BoundsError for a dimension that
    does not exist, DTypeError for 16-bit floats, and LazytError for an unknown ``norm``.

    Example::

        >>> lazyt.fft.fft(lazyt.tensor([1.0, 2.0, 3.0, 4.0]))
        tensor([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j])
    """
    return _c2c_along("fft", input, n, dim, norm, out, _FORWARD)


@function()
def ifft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The inverse of ``fft``. Raises as ``fft`` does."""
    return _c2c_along("ifft", input, n, dim, norm, out, _INVERSE)


@function()
def rfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The first ``n // 2 + 1`` frequencies of a real signal; the others are their conjugates.

    Raises as ``fft`` does, and DTypeError for complex tensors.

    Example::

        >>> lazyt.fft.rfft(lazyt.tensor([1.0, 2.0, 3.0, 4.0]))
        tensor([10.+0.j, -2.+2.j, -2.+0.j])
    """
    if out is None:
        found = _directly("half", "FftR2C", input, n, dim, norm, _FORWARD)
        if found is not None:
            return found
    tensor = _real(input, "rfft", "rfft expects a real input tensor, but got {}")
    axis, points = _one(tensor, n, dim)
    scale = _scale(norm, _FORWARD, points)
    node = real_to_complex(tensor.node, (axis,), (points,), _FORWARD, scale)
    return _give_complex(node, "FftR2C", "rfft", tensor, out)


def _irfft(
    name: str, input: Any, n: int | None, dim: int, norm: str | None, out: Tensor | None, sign: int
) -> Tensor:  # fmt: skip
    if out is None:
        found = _directly("real", "FftC2R", input, n, dim, norm, sign)
        if found is not None:
            return found
    tensor = _checked(input, name)
    axis = existing_dim(dim, tensor.ndim)
    points = _check_points(2 * (tensor.shape[axis] - 1) if n is None else n)
    node = complex_to_real(tensor.node, (axis,), (points,), sign, _scale(norm, sign, points))
    return _give_real(node, name, tensor, out)


@function()
def irfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The inverse of ``rfft``: ``n`` real points, by default an even number of them.

    Imaginary parts of the frequencies 0 and n/2 do not count. Raises as ``fft`` does.

    Example::

        >>> lazyt.fft.irfft(lazyt.tensor([10.0, -2.0 + 2.0j, -2.0]))
        tensor([1., 2., 3., 4.])
    """
    return _irfft("irfft", input, n, dim, norm, out, _INVERSE)


@function()
def hfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The real ``fft`` of a signal of ``n`` points whose second half mirrors the first, which is
    given, in conjugates. Raises as ``fft`` does."""
    return _irfft("hfft", input, n, dim, norm, out, _FORWARD)


@function()
def ihfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The inverse of ``hfft``: the first ``n // 2 + 1`` points of the ``ifft`` of a real tensor.

    Raises as ``fft`` does, and DTypeError for complex tensors.
    """
    tensor = _real(input, "ihfft", "ihfft expects a real input tensor, but got {}")
    axis, points = _one(tensor, n, dim)
    scale = _scale(norm, _INVERSE, points)
    node = real_to_complex(tensor.node, (axis,), (points,), _INVERSE, scale)
    return _give_complex(node, "FftR2C", "ihfft", tensor, out)


# ---------------------------------------------------------------------- along several axes


@function()
def fftn(
    input: Tensor, s: int | Sequence[int] | None = None, dim: int | Sequence[int] | None = None,
    norm: str | None = None, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``fft`` along several dimensions: ``dim``, or the last ones for which ``s`` gives sizes, or
    all. Raises as ``fft`` does, and ShapeError for repeated dimensions."""
    return _c2c_of("fftn", input, s, dim, norm, out, _FORWARD)


@function()
def ifftn(
    input: Tensor, s: int | Sequence[int] | None = None, dim: int | Sequence[int] | None = None,
    norm: str | None = None, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The inverse of ``fftn``. Raises as ``fftn`` does."""
    return _c2c_of("ifftn", input, s, dim, norm, out, _INVERSE)


@function()
def rfftn(
    input: Tensor, s: int | Sequence[int] | None = None, dim: int | Sequence[int] | None = None,
    norm: str | None = None, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``rfft`` along the last of several dimensions, then ``fft`` along the others.

    Raises as ``fftn`` does, DTypeError for complex tensors, and ShapeError for no dimensions.
    """
    tensor = _real(input, "rfftn", "rfftn expects a real-valued input tensor, but got {}")
    axes, sizes = _several(tensor, s, dim)
    _need_axes(axes, "rfftn")
    scale = _scale(norm, _FORWARD, math.prod(sizes))
    node = real_to_complex(tensor.node, axes, sizes, _FORWARD, scale)
    return _give_complex(node, "FftR2C", "rfftn", tensor, out)


def _irfftn(
    name: str, input: Any, s: Any, dim: Any, norm: str | None, out: Tensor | None, sign: int
) -> Tensor:  # fmt: skip
    tensor = _checked(input, name)
    axes, sizes = _several(tensor, s, dim, halved=True)
    _need_axes(axes, name)
    scale = _scale(norm, sign, math.prod(sizes))
    return _give_real(complex_to_real(tensor.node, axes, sizes, sign, scale), name, tensor, out)


@function()
def irfftn(
    input: Tensor, s: int | Sequence[int] | None = None, dim: int | Sequence[int] | None = None,
    norm: str | None = None, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The inverse of ``rfftn``; ``s`` is the shape of the real result. Raises as ``fftn`` does, and
    ShapeError for no dimensions."""
    return _irfftn("irfftn", input, s, dim, norm, out, _INVERSE)


@function()
def hfftn(
    input: Tensor, s: int | Sequence[int] | None = None, dim: int | Sequence[int] | None = None,
    norm: str | None = None, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``fft`` along all but the last of several dimensions, then ``hfft`` along that one. Raises as
    ``irfftn`` does."""
    return _irfftn("hfftn", input, s, dim, norm, out, _FORWARD)


@function()
def ihfftn(
    input: Tensor, s: int | Sequence[int] | None = None, dim: int | Sequence[int] | None = None,
    norm: str | None = None, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The inverse of ``hfftn``, of a real tensor. Raises as ``rfftn`` does."""
    tensor = _real(input, "ihfftn", "Only supports floating-point dtypes, but found: {}")
    axes, sizes = _several(tensor, s, dim)
    _need_axes(axes, "ihfftn")
    scale = _scale(norm, _INVERSE, math.prod(sizes))
    node = real_to_complex(tensor.node, axes, sizes, _INVERSE, scale)
    return _give_complex(node, "FftR2C", "ihfftn", tensor, out)


# ------------------------------------------------------------------------ along two axes


@function()
def fft2(
    input: Tensor, s: int | Sequence[int] | None = None, dim: int | Sequence[int] = (-2, -1),
    norm: str | None = None, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``fftn`` along the last two dimensions. Raises as ``fftn`` does.

    Example::

        >>> lazyt.fft.fft2(lazyt.eye(2))
        tensor([[2.+0.j, 0.+0.j],
                [0.+0.j, 2.+0.j]])
    """
    return fftn(input, s, dim, norm, out=out)


@function()
def ifft2(
    input: Tensor, s: int | Sequence[int] | None = None, dim: int | Sequence[int] = (-2, -1),
    norm: str | None = None, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``ifftn`` along the last two dimensions. Raises as ``fftn`` does."""
    return ifftn(input, s, dim, norm, out=out)


@function()
def rfft2(
    input: Tensor, s: int | Sequence[int] | None = None, dim: int | Sequence[int] = (-2, -1),
    norm: str | None = None, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``rfftn`` along the last two dimensions. Raises as ``rfftn`` does."""
    return rfftn(input, s, dim, norm, out=out)


@function()
def irfft2(
    input: Tensor, s: int | Sequence[int] | None = None, dim: int | Sequence[int] = (-2, -1),
    norm: str | None = None, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``irfftn`` along the last two dimensions. Raises as ``irfftn`` does."""
    return irfftn(input, s, dim, norm, out=out)


@function()
def hfft2(
    input: Tensor, s: int | Sequence[int] | None = None, dim: int | Sequence[int] = (-2, -1),
    norm: str | None = None, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``hfftn`` along the last two dimensions. Raises as ``irfftn`` does."""
    return hfftn(input, s, dim, norm, out=out)


@function()
def ihfft2(
    input: Tensor, s: int | Sequence[int] | None = None, dim: int | Sequence[int] = (-2, -1),
    norm: str | None = None, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``ihfftn`` along the last two dimensions. Raises as ``rfftn`` does."""
    return ihfftn(input, s, dim, norm, out=out)


# ----------------------------------------------------------------- frequencies, order


def _frequencies(
    name: str, n: int, negative: bool, d: float, out: Tensor | None, options: dict[str, Any]
) -> Tensor:  # fmt: skip
    """``k / (n * d)``, the second half of all k less ``n`` where there are negative ones."""
    dtype, requires_grad = options.pop("dtype"), options.pop("requires_grad")
    wanted = as_dtype(dtype) if dtype is not None else None
    if wanted is None:
        wanted = out.dtype if isinstance(out, Tensor) else get_default_dtype()
    if wanted.kind not in "fc":
        raise DTypeError(f"{name} requires a floating point or complex dtype")
    if n < 0 and negative:
        raise ShapeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    span = n * d
    step = 1.0 / span if span else math.copysign(math.inf, span)
    if negative and n > 0:
        first = arange(0, (n + 1) // 2, dtype=wanted, **options)
        places = ops.concat([first.node, arange(-(n // 2), 0, dtype=wanted, **options).node], 0)
    else:
        places = arange(n if negative else max(n // 2 + 1, 0), dtype=wanted, **options).node
    wide = wanted.compute
    node = ops.apply("mul", ops.cast(places, wide), ops.constant(step, wide))
    node = ops.cast(node, wanted)
    result = give(node, "Mul", (), out)
    return result.requires_grad_() if requires_grad else result


@function()
def fftfreq(
    n: int, d: float = 1.0, *, out: Tensor | None = None, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The frequencies of ``fft`` over ``n`` points ``d`` apart, in cycles per unit of ``d``:
    ``[0, 1, ..., (n - 1) // 2, -(n // 2), ..., -1] / (n * d)``.

    Raises DTypeError for a dtype of whole numbers, ShapeError for a negative ``n``.

    Example::

        >>> lazyt.fft.fftfreq(4)
        tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    options = {
        "dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad,
    }  # fmt: skip
    return _frequencies("fftfreq", n, True, d, out, options)


@function()
def rfftfreq(
    n: int, d: float = 1.0, *, out: Tensor | None = None, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The frequencies of ``rfft``: ``[0, 1, ..., n // 2] / (n * d)``.

    Raises as ``fftfreq`` does.
    """
    options = {
        "dtype": dtype, "layout": layout, "device": device, "requires_grad": requires_grad,
    }  # fmt: skip
    return _frequencies("rfftfreq", n, False, d, out, options)


def _moved(input: Any, dim: Any, name: str, back: bool) -> Tensor:
    tensor = require_tensor(input, name)
    axes = [*range(tensor.ndim)] if dim is None else _ints(dim)
    extents = [tensor.shape[existing_dim(axis, tensor.ndim)] for axis in axes]
    result: Tensor = roll(tensor, [(n + 1) // 2 if back else n // 2 for n in extents], axes)
    return result


@function()
def fftshift(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Frequencies in ascending order, zero in the middle, along ``dim`` or all dimensions.

    Raises BoundsError for a dimension that does not exist.

    Example::

        >>> lazyt.fft.fftshift(lazyt.fft.fftfreq(4))
        tensor([-0.5000, -0.2500,  0.0000,  0.2500])
    """
    return _moved(input, dim, "fftshift", False)


@function()
def ifftshift(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of ``fftshift``. Raises as it does."""
    return _moved(input, dim, "ifftshift", True)
