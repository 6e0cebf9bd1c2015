"""The formulas of optimizers, each as one expression written into its tensor.

An optimizer has many parameters and calls these for each at every step, so that fewer nodes are
less time in Python. Half types compute in float32 and round once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from lazyt import watching
from lazyt.dispatch import wrap
from lazyt.functional.operands import Build, mapped, operand_node
from lazyt.functional.results import overwrite
from lazyt.ir.dtypes import DType
from lazyt.ir.scalar import Expr, call
from lazyt.lifted import PythonNumber
from lazyt.tensor import Tensor


def _update(build: Build, target: Tensor, *operands: Any) -> Tensor:
    dtype = target.dtype
    nodes = [o.node if isinstance(o, Tensor) else operand_node(o, dtype) for o in operands]
    node = mapped(build, (target.node, *nodes), dtype, dtype)
    return overwrite(target, node, "Update", (target, *operands))


def python_number(compute: Callable[[], float], dtype: DType, key: Hashable) -> Tensor:
    """What ``compute()`` gives, as a tensor on the CPU, whatever the default device: numbers go
    with tensors of any. A captured function computes it anew at every replay, once for each
    ``key``."""
    return wrap(watching.filled(PythonNumber(compute, dtype), key))


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
