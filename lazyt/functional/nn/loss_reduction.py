"""How losses add up: ``reduction``, and the two arguments that it replaced."""

from __future__ import annotations

from typing import Any

from lazyt import ops
from lazyt.errors import LazytError, warn
from lazyt.functional.reductions.reductions import mean_node
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Node


class ReductionError(LazytError, ValueError):
    """A name that is no reduction, or operands of a loss that do not fit together."""


_REPLACED = "size_average and reduce args will be deprecated, please use reduction='{}' instead."


def chosen_reduction(reduction: str, size_average: Any, reduce: Any) -> str:
    """The reduction that the arguments mean; warns, as PyTorch does, where the old ones are used.

    Raises ReductionError (a ValueError) for other names than mean, sum and none.
    """
    if size_average is not None or reduce is not None:
        average = True if size_average is None else size_average
        adds = True if reduce is None else reduce
        reduction = "none" if not adds else "mean" if average else "sum"
        warn(_REPLACED.format(reduction))
    if reduction not in ("none", "mean", "sum"):
        raise ReductionError(f"{reduction} is not a valid value for reduction")
    return reduction


def reduced(node: Node, reduction: str, dtype: DType) -> Node:
    """The loss per element as its mean, its sum or itself, in ``dtype``."""
    if reduction == "none":
        return ops.cast(node, dtype)
    axes = tuple(range(len(node.shape)))
    if reduction == "sum":
        return ops.cast(ops.reduce_("sum", node, axes) if axes else node, dtype)
    return ops.cast(mean_node(node, axes, False), dtype)


def reduced_tensor(loss: Tensor, reduction: str) -> Tensor:
    """The loss per element as its mean, its sum or itself."""
    total: Tensor = loss
    if reduction == "mean":
        total = loss.mean()
    elif reduction == "sum":
        total = loss.sum()
    return total


def warn_of_sizes(input: Tensor, target: Tensor) -> None:
    """Warn, as PyTorch does, where operands of a loss broadcast."""
    if input.shape != target.shape:
        warn(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}). This will likely lead to incorrect results due to broadcasting. "
            "Please ensure they have the same size."
        )
