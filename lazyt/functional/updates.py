"""Numbers that Python counts with and users see as tensors: steps in the state of optimizers.

PyTorch has a tensor without dimensions there. It is one here, too, but its memory holds a Python
float until somebody looks at the tensor: counting a step makes no graph, no memory and no kernel.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from lazyt import ops
from lazyt.functional.operands import Build, mapped, operand_node
from lazyt.functional.results import overwrite
from lazyt.functional.type_promotion import get_default_dtype
from lazyt.handle import hooks
from lazyt.handle.dispatch import wrap
from lazyt.handle.grad_mode import no_grad
from lazyt.handle.hooks import looks
from lazyt.handle.pending import realize_nodes
from lazyt.handle.storage import CountStorage, Storage, count_leaf
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType, float32, float64
from lazyt.ir.forms import PLACED
from lazyt.ir.scalar import Expr, call
from lazyt.tracing.symbolic_numbers import PythonNumber

#: Whole numbers below are exact in float32.
_EXACT = float(2**24)


def in_float32(value: float) -> float:
    """The nearest float32 number."""
    return ctypes.c_float(value).value


def is_count(value: Any) -> bool:
    """Whether ``value`` is a tensor that Python counts with."""
    if not isinstance(value, Tensor):
        return False
    return getattr(value, "_storage", None).__class__ is CountStorage  # a sparse one has none


def new_count(value: float, dtype: DType | None = None) -> Tensor:
    """A tensor without dimensions on the CPU to count with.

    Args:
        dtype: float32 or float64; float64 by default where that is the default dtype.
    """
    if dtype is None:
        dtype = float64 if get_default_dtype() is float64 else float32
    tensor: Tensor = object.__new__(Tensor)
    tensor._view = None
    tensor._storage = CountStorage(
        count_leaf(value if dtype is float64 else in_float32(value), dtype)
    )
    return tensor


def _references(tensor: Tensor) -> int:
    """How many references there are to a tensor's storage."""
    return sys.getrefcount(tensor._storage)


_example = object.__new__(Tensor)
_example._storage = Storage(ops.input_((), float32))
#: What that is where only the tensor refers to it.
_ALONE = _references(_example)


def become_count(tensor: Tensor) -> bool:
    """Let Python count with a tensor. False where it is of another kind than ``new_count`` gives,
    or others refer to its memory."""
    storage = tensor._storage
    if storage.__class__ is CountStorage:
        return True
    if tensor._view is not None or storage.fn is not None or storage.share is not None:
        return False
    node = storage.node
    if node.shape or node.dtype not in (float32, float64) or node.form < PLACED:
        return False
    version = storage.version
    del storage
    if _references(tensor) != _ALONE:
        return False
    tensor._storage = CountStorage(node)
    tensor._storage.version = version
    return True


def count_of(value: Any) -> float:
    """The number in a tensor of one element, or a number, as a float. A pending one is computed."""
    if not isinstance(value, Tensor):
        return float(value)
    storage = value._storage
    if storage.__class__ is CountStorage:
        count: float | None = storage.count
        if count is not None:
            return count
    # Captured functions do not hear of it where nobody else has to do with the memory.
    known = storage.share is None and storage.__class__ is CountStorage
    node = storage.node if known else value.node
    realize_nodes([node])
    return float(node.data.as_numpy(node.dtype, node.shape).item())


def equal_counts(tables: Sequence[Mapping[str, Any]], names: Iterable[str]) -> bool:
    """Whether all tables have equal numbers by each of these names."""
    for name in names:
        first = count_of(tables[0].get(name, math.nan))
        try:
            for table in tables:
                if table[name]._storage.count != first:
                    break
            else:
                continue
        except (AttributeError, LookupError):
            pass
        if any(count_of(table.get(name, math.nan)) != first for table in tables):
            return False
    return True


def set_count(owner: dict[str, Any], name: str, value: float) -> float:
    """Write ``value`` to the tensor ``owner[name]``, in place as PyTorch does; make one where there
    is none. Returns the number that it then holds."""
    tensor = owner.get(name)
    if not isinstance(tensor, Tensor):
        tensor = owner[name] = new_count(value)
        return count_of(tensor)
    if become_count(tensor):
        storage: Any = tensor._storage
        if storage.dtype is float32:
            value = in_float32(value)
        if storage.share is None and storage.fn is None:
            storage.count = value
            if storage.version >= 0:
                storage.version += 1
            return value
    else:
        looks(f"{name!r} in an optimizer's state is a tensor that Python cannot count with")
    with no_grad():
        tensor.fill_(value)
    return count_of(tensor)


def advance_counts(tables: Iterable[dict[str, Any]], name: str) -> None:
    """Add 1 to the tensor ``table[name]`` of each table, as ``set_count``; the first gives 1."""
    for table in tables:
        try:
            storage = table[name]._storage
            count = storage.count
            if 0 <= count < _EXACT and count.is_integer():
                storage.count = count + 1.0
                if storage.version >= 0:
                    storage.version += 1
                continue
        except (AttributeError, LookupError, TypeError):
            pass
        storage = None  # which would be a second reference
        set_count(table, name, count_of(table.get(name, 0.0)) + 1)


# The formulas of optimizers, each as one expression written into its tensor.
#
# An optimizer has many parameters and calls these for each at every step, so that fewer nodes are
# less time in Python. Half types compute in float32 and round once.


def _update(build: Build, target: Tensor, *operands: Any) -> Tensor:
    dtype = target.dtype
    nodes = [o.node if isinstance(o, Tensor) else operand_node(o, dtype) for o in operands]
    node = mapped(build, (target.node, *nodes), dtype, dtype)
    return overwrite(target, node, "Update", (target, *operands))


def python_number(compute: Callable[[], float], dtype: DType, key: Hashable) -> Tensor:
    """What ``compute()`` gives, as a tensor on the CPU, whatever the default device: numbers go
    with tensors of any. A captured function computes it anew at every replay, once for each
    ``key``."""
    return wrap(hooks.filled(PythonNumber(compute, dtype), key))


def _descended(x: Expr, step: Expr, rate: Expr) -> Expr:
    return call("sub", x, call("mul", step, rate))


def descend_(parameter: Tensor, step: Tensor, rate: Tensor) -> Tensor:
    """``parameter -= step * rate``."""
    return _update(_descended, parameter, step, rate)


def _accumulated(total: Expr, value: Expr, keep: Expr, share: Expr) -> Expr:
    return call("add", call("mul", total, keep), call("mul", value, share))


def accumulate_(total: Tensor, value: Tensor, keep: float | Tensor, share: float) -> Tensor:
    """``total = keep * total + share * value``."""
    return _update(_accumulated, total, value, keep, share)


def _squares(total: Expr, value: Expr, keep: Expr, share: Expr) -> Expr:
    return call("add", call("mul", total, keep), call("mul", call("mul", share, value), value))


def accumulate_square_(total: Tensor, value: Tensor, keep: float, share: float) -> Tensor:
    """``total = keep * total + share * value * value``."""
    return _update(_squares, total, value, keep, share)


def _moved(x: Expr, mean: Expr, square: Expr, size: Expr, root: Expr, eps: Expr) -> Expr:
    scale = call("add", call("div", call("sqrt", square), root), eps)
    return call("sub", x, call("mul", call("div", mean, scale), size))


def _shrunk(x: Expr, keep: Expr, *rest: Expr) -> Expr:
    return _moved(call("mul", x, keep), *rest)


def adam_(
    parameter: Tensor, mean: Tensor, square: Tensor, size: Tensor, root: Tensor, eps: float,
    keep: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """``parameter = keep * parameter - size * mean / (sqrt(square) / root + eps)``."""
    if keep is None:
        return _update(_moved, parameter, mean, square, size, root, eps)
    return _update(_shrunk, parameter, keep, mean, square, size, root, eps)
