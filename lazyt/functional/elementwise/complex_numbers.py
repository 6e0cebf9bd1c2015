"""Complex numbers: made of their parts, taken apart, conjugated."""

from __future__ import annotations

import math
from typing import Any

from lazyt.errors import DTypeError, LazytError, ShapeError
from lazyt.functional.elementwise.conversions import converted
from lazyt.functional.operands import mapped, pair, require_tensor, scalar_build
from lazyt.functional.results import give
from lazyt.functional.shapes.view_parts import select_view
from lazyt.functional.type_promotion import get_default_dtype, torch_name
from lazyt.handle.dispatch import add_property, view_of
from lazyt.handle.function_table import declare, function
from lazyt.handle.tensor import Tensor
from lazyt.handle.views import Paired, Parted, use_complex
from lazyt.ir import dtypes
from lazyt.ir.dtypes import float16, float32, float64
from lazyt.ir.scalar import Expr, call, const

__all__ = [
    "angle", "complex", "conj_physical", "imag", "is_conj", "is_neg", "isreal", "polar",
    "real", "resolve_conj", "resolve_neg", "view_as_complex", "view_as_real",
]  # fmt: skip

cfloat = declare("cfloat", converted("cfloat", dtypes.complex64), method=True)
cdouble = declare("cdouble", converted("cdouble", dtypes.complex128), method=True)


def _parts(real: Any, imag: Any, name: str, second: str) -> tuple[Tensor, Tensor]:
    """Two tensors of one floating point dtype; raises DTypeError for others."""
    first, other = require_tensor(real, name), require_tensor(imag, name, second, 2)
    if first.dtype not in (float16, float32, float64) or other.dtype not in (
        float16, float32, float64,
    ):  # fmt: skip
        raise DTypeError(
            "Expected both inputs to be Half, Float or Double tensors but got "
            f"{torch_name(first.dtype)} and {torch_name(other.dtype)}"
        )
    if first.dtype is not other.dtype:
        raise DTypeError(
            f"Expected object of scalar type {torch_name(first.dtype)} but got scalar type "
            f"{torch_name(other.dtype)} for second argument"
        )
    if first.dtype is float16:
        raise DTypeError(f"{name}(): no complex type has parts of float16; convert them to float32")
    return first, other


_PAIR = scalar_build("complex")


@function()
def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``real + i * imag``, of one shape after broadcasting: complex64 of float32 parts, complex128
    of float64 ones. Raises DTypeError for other parts."""
    first, other = _parts(real, imag, "complex", "imag")
    x, y, dtype = pair(first, other, "complex")
    return give(mapped(_PAIR, (x, y), dtype, None), "Complex", (real, imag), out)


def _polar(size: Expr, angle: Expr) -> Expr:
    parts = (call("mul", size, call(turn, angle)) for turn in ("cos", "sin"))
    return call("complex", *parts)


@function()
def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``abs * (cos(angle) + i * sin(angle))``, as ``complex`` gives it. Raises DTypeError for parts
    that are not of one floating point dtype."""
    first, other = _parts(abs, angle, "polar", "angle")
    x, y, dtype = pair(first, other, "polar")
    return give(mapped(_polar, (x, y), dtype, None), "Polar", (abs, angle), out)


# ------------------------------------------------------------------------------ views


def _require_complex(input: Any, name: str) -> Tensor:
    tensor = require_tensor(input, name)
    if tensor.dtype.kind != "c":
        raise LazytError(f"{name} is only supported for complex tensors")
    return tensor


@function()
def view_as_real(input: Tensor) -> Tensor:
    """A view of complex numbers as their parts: a new last dimension of two. Raises LazytError for
    real numbers, and for tensors whose conjugate bit is set."""
    tensor = _require_complex(input, "view_as_real")
    if is_conj(tensor):
        raise LazytError(
            "view_as_real doesn't work on unresolved conjugated tensors.  To resolve the conjugate "
            "tensor so you can view it as real, use self.resolve_conj(); however, be warned that "
            "the resulting tensor will NOT alias the original."
        )
    return _parted(tensor)


def _parted(tensor: Tensor) -> Tensor:
    use_complex.any = True
    strides = (*(2 * stride for stride in tensor.strides), 1)
    shape = (*tensor.shape, 2)
    moves = (Parted(tensor.dtype.part),)
    return view_of(tensor, moves, shape, strides, 2 * tensor._offset, "ViewAsReal")


@function()
def view_as_complex(input: Tensor) -> Tensor:
    """A view of a last dimension of two as complex numbers. Raises LazytError, in PyTorch's words,
    where the parts of numbers are not neighbours in memory."""
    tensor = require_tensor(input, "view_as_complex")
    if tensor.dtype not in (float32, float64):
        raise LazytError(
            "view_as_complex is only supported for half, float and double tensors, but got a "
            f"tensor of scalar type: {torch_name(tensor.dtype)}"
        )
    shape, strides, offset = tuple(tensor.shape), tensor.strides, tensor._offset
    if not shape:
        raise ShapeError("Input tensor must have one or more dimensions")
    if shape[-1] != 2:
        raise ShapeError("Tensor must have a last dimension of size 2")
    if strides[-1] != 1:
        raise ShapeError("Tensor must have a last dimension with stride 1")
    if any(stride % 2 for stride, extent in zip(strides[:-1], shape) if extent != 1):
        raise ShapeError("Tensor must have a stride divisible by 2 for all but last dimension")
    if offset % 2:
        raise ShapeError("Tensor must have a storage_offset divisible by 2")
    use_complex.any = True
    halved = tuple(stride // 2 for stride in strides[:-1])
    moves = (Paired(tensor.dtype.to_complex()),)
    return view_of(tensor, moves, shape[:-1], halved, offset // 2, "ViewAsComplex")


@function()
def real(input: Tensor) -> Tensor:
    """A view of the real parts; of real numbers the tensor itself."""
    tensor = require_tensor(input, "real")
    if tensor.dtype.kind != "c":
        return tensor
    return select_view(_parted(tensor), tensor.ndim, 0)


@function()
def imag(input: Tensor) -> Tensor:
    """A view of the imaginary parts. Raises LazytError for real numbers."""
    tensor = require_tensor(input, "imag")
    if tensor.dtype.kind != "c":
        raise LazytError("imag is not implemented for tensors with non-complex dtypes.")
    return select_view(_parted(tensor), tensor.ndim, 1)


_CONJ = scalar_build("conj")


@function(method=True, inplace="function")
def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The conjugate in memory of its own; of real numbers the tensor itself."""
    tensor = require_tensor(input, "conj_physical")
    node = tensor.node
    if node.dtype.kind != "c":
        return tensor if out is None else give(node, "ConjPhysical", (input,), out)
    return give(mapped(_CONJ, (node,), node.dtype, None), "ConjPhysical", (input,), out)


@function(method=True)
def resolve_conj(input: Tensor) -> Tensor:
    """A copy whose conjugate bit is not set; the tensor itself where it is not."""
    tensor = require_tensor(input, "resolve_conj")
    return tensor.clone() if is_conj(tensor) else tensor


@function(method=True)
def resolve_neg(input: Tensor) -> Tensor:
    """The tensor itself: no tensor has a negation pending that PyTorch's API would show."""
    return require_tensor(input, "resolve_neg")


@function(method=True)
def is_conj(input: Tensor) -> bool:
    """Whether the conjugate bit is set: the memory holds the conjugates."""
    view = require_tensor(input, "is_conj")._view
    return view is not None and view.conjugated and input.dtype.kind == "c"


@function(method=True)
def is_neg(input: Tensor) -> bool:
    """Whether the negative bit is set; never."""
    require_tensor(input, "is_neg")
    return False


# --------------------------------------------------------------------------- questions


def _true(x: Expr) -> Expr:
    return call("eq", const(0, x.dtype), const(0, x.dtype))


def _without_imaginary(z: Expr) -> Expr:
    part = call("imag", z)
    return call("eq", part, const(0, part.dtype))


@function(method=True)
def isreal(input: Tensor) -> Tensor:
    """Where the imaginary part is zero, in bool: everywhere for real numbers."""
    node = require_tensor(input, "isreal").node
    build = _without_imaginary if node.dtype.kind == "c" else _true
    return give(mapped(build, (node,), node.dtype, None), "isreal", ())


def _angle(x: Expr) -> Expr:
    zero = const(0, x.dtype)
    turned = call("where", call("lt", x, zero), const(math.pi, x.dtype), zero)
    return call("where", call("isnan", x), x, turned)


def _angle_of_pair(z: Expr) -> Expr:
    return call("atan2", call("imag", z), call("real", z))


@function(method=True)
def angle(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The angle from the positive real axis, in radians: pi for negative numbers, 0 for others of
    real types, of which whole numbers count as the default dtype."""
    node = require_tensor(input, "angle").node
    if node.dtype.kind == "c":
        return give(mapped(_angle_of_pair, (node,), node.dtype, None), "Angle", (input,), out)
    dtype = node.dtype if node.dtype.kind == "f" else get_default_dtype()
    return give(mapped(_angle, (node,), dtype, dtype), "Angle", (input,), out)


def _set_real(self: Tensor, value: Any) -> None:
    self.real.copy_(value)


def _set_imag(self: Tensor, value: Any) -> None:
    self.imag.copy_(value)


add_property("real", property(real, _set_real, doc="A view of the real parts."))
add_property("imag", property(imag, _set_imag, doc="A view of the imaginary parts."))
