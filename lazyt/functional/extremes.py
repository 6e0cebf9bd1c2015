"""Largest and smallest elements, and where they are.

Every function takes ``dim`` (or ``axis``) and ``keepdim`` (or ``keepdims``). A bad dimension raises
BoundsError, a repeated one ShapeError, in PyTorch's words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyt import ops
from lazyt.errors import BoundsError, DTypeError, LazytError
from lazyt.functional import return_types
from lazyt.functional.arithmetic import maximum, minimum
from lazyt.functional.operands import (
    normalize_dim,
    normalize_dims,
    numpy_names,
    wrong_arguments,
)
from lazyt.functional.outputs import check_output
from lazyt.functional.picking import gather_node
from lazyt.functional.reductions import kept_shape, reduce_node, refuse_dims
from lazyt.functional.results import give
from lazyt.ir.dtypes import bool_, int64, uint8
from lazyt.ir.graph import Node, Shape
from lazyt.tape import remember, titled
from lazyt.tensor import Tensor

__all__ = ["amax", "amin", "aminmax", "argmax", "argmin", "max", "min"]

Reduction = Callable[..., Tensor]


def _require_elements(name: str, shape: Shape, dims: Any) -> None:
    """An extreme of nothing does not exist. ``dims`` are as they were given, None for all."""
    if dims is None:
        if 0 in shape:
            text = f"{name}(): Expected reduction dim to be specified for input.numel() == 0."
            if name.startswith("arg"):
                raise BoundsError(text)
            raise LazytError(text + " Specify the reduction dim with the 'dim' argument.")
        return
    for dim in dims if isinstance(dims, (tuple, list)) else (dims,):
        if shape and shape[normalize_dim(dim, len(shape))] == 0:
            raise BoundsError(f"{name}(): Expected reduction dim {dim} to have non-zero size.")


def _extreme(name: str, kind: str, title: str) -> Reduction:
    def function(
        input: Tensor, dim: Any = (), keepdim: bool = False, *, out: Tensor | None = None
    ) -> Tensor:
        node = input.node
        _require_elements(name, node.shape, None if dim in (None, (), []) else dim)
        axes = normalize_dims(dim, len(node.shape))
        return give(reduce_node(kind, node, axes, keepdim), title, (input,), out)

    function.__doc__ = f"The {kind} along one or more dimensions; NaN wins. Ties share gradients."
    function.__name__ = function.__qualname__ = name
    return numpy_names(function)


amax = _extreme("amax", "max", "Amax")
amin = _extreme("amin", "min", "Amin")


def _position(input: Tensor, kind: str, dim: Any, keepdim: bool) -> Node:
    node = input.node
    if node.dtype is bool_:
        node = ops.cast(node, uint8)
    if dim is None:
        _require_elements(kind, node.shape, None)
        flat = ops.reshape(node, (node.size,))
        found = ops.arg_reduce(kind, flat, 0)
        return ops.reshape(found, (1,) * len(node.shape)) if keepdim else found
    axis = normalize_dim(dim, len(node.shape))
    if not node.shape:
        return ops.constant(0, int64)
    _require_elements(kind, node.shape, axis)
    found = ops.arg_reduce(kind, node, axis)
    return ops.reshape(found, kept_shape(node.shape, (axis,))) if keepdim else found


def _finder(name: str, word: str) -> Reduction:
    def function(
        input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None
    ) -> Tensor:
        if input.dtype is bool_:
            raise DTypeError(f"{name}(): does not support bool input")
        refuse_dims(name, dim)
        return give(_position(input, name, dim, keepdim), name, (), out)

    function.__doc__ = (
        f"Where the {word} element is, the first of equals; of the flattened tensor without dim."
    )
    function.__name__ = function.__qualname__ = name
    return numpy_names(function)


argmax = _finder("argmax", "largest")
argmin = _finder("argmin", "smallest")


def _extreme_along(
    input: Tensor, dim: Any, keepdim: bool, name: str, out: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, Tensor]:
    """Values and positions along ``dim``; the gradient goes to the position alone."""
    node = input.node
    rank = len(node.shape)
    axis = normalize_dim(dim, rank)
    _require_elements(name, node.shape, axis)
    places = _position(input, "arg" + name, axis, True)
    if node.needs_grad and rank:
        values = gather_node(node, places, axis)
    else:
        values = reduce_node(name, node, (axis,) if rank else (), True)
    if not keepdim and rank:
        shape = node.shape[:axis] + node.shape[axis + 1 :]
        values, places = ops.reshape(values, shape), ops.reshape(places, shape)
    first, second = (None, None) if out is None else out
    results = give(values, name, (input,), first), give(places, name, (), second)
    remember(*results)
    return results


_FORMS = (
    "Tensor input, *, Tensor out = None",
    "Tensor input, Tensor other, *, Tensor out = None",
    "Tensor input, int dim, bool keepdim = False, *, tuple of Tensors out = None",
)


def _max_or_min(
    input: Tensor, dim: Any, keepdim: bool, name: str, pack: type[return_types.Named], out: Any
) -> Any:
    if not isinstance(input, Tensor):
        raise wrong_arguments(name, (input,) if dim is None else (input, dim), _FORMS)
    if dim is None:
        _require_elements(name, tuple(input.shape), None)
        node = reduce_node(name, input.node, tuple(range(len(input.shape))), False)
        return give(node, f"{name.capitalize()}Backward1", (input,), out)
    if isinstance(dim, Tensor):
        return (maximum if name == "max" else minimum)(input, dim, out=out)
    if not hasattr(dim, "__index__"):
        raise wrong_arguments(name, (input, dim, keepdim)[: 3 if keepdim else 2], _FORMS)
    return pack(_extreme_along(input, dim, keepdim, name, out))


def _other(dim: Any, other: Tensor | None) -> Any:
    return dim if other is None else other


@numpy_names
def max(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None,
    out: Any = None,
) -> Any:  # fmt: skip
    """The largest element; with ``dim``, ``(values, indices)``; with a tensor, ``maximum``."""
    return _max_or_min(input, _other(dim, other), keepdim, "max", return_types.max, out)


@numpy_names
def min(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, other: Tensor | None = None,
    out: Any = None,
) -> Any:  # fmt: skip
    """The smallest element; with ``dim``, ``(values, indices)``; with a tensor, ``minimum``."""
    return _max_or_min(input, _other(dim, other), keepdim, "min", return_types.min, out)


@numpy_names
def aminmax(
    input: Tensor, *, dim: int | None = None, keepdim: bool = False,
    out: tuple[Tensor, Tensor] | None = None,
) -> Any:  # fmt: skip
    """``(amin, amax)`` in one named result."""
    shape = tuple(input.shape)
    if dim is None and 0 in shape:
        raise LazytError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no "
            "identity."
        )
    if dim is not None and shape and shape[normalize_dim(dim, len(shape))] == 0:
        place = normalize_dim(dim, len(shape))
        raise BoundsError(f"aminmax: Expected reduction dim {place} to have non-zero size.")
    low, high = (None, None) if out is None else out
    for target in out or ():
        if target.dtype is not input.dtype:
            check_output("aminmax", input.dtype, target.dtype)
    dims = () if dim is None else dim
    both = (amin(input, dims, keepdim, out=low), amax(input, dims, keepdim, out=high))
    return return_types.aminmax(titled(found, "AminmaxBackward0") for found in both)
