"""Checks of the parameters of distributions that are tensors.

PyTorch looks at every element. Here only values that are known are looked at: those that are still
to be computed stay pending, and the result of wrong ones is NaN or meaningless.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from lazyt.errors import LazytError
from lazyt.functional.loss_reduction import ReductionError
from lazyt.grad_mode import no_grad
from lazyt.ir.dtypes import bfloat16, decode_bfloat16
from lazyt.ir.graph import Node
from lazyt.runtime.interpreter import interpret
from lazyt.tensor import Tensor
from lazyt.watching import capturing


def _known(node: Node) -> Any | None:
    """The values of ``node`` in float64 where they are known; None in a captured function."""
    if node.data is None or capturing() is not None:
        return None
    values = node.data.as_numpy(node.dtype, node.shape)
    if node.dtype is bfloat16:
        values = decode_bfloat16(values)
    return values.astype("float64")


def check_weights(node: Node, replacement: bool) -> None:
    """Raise LazytError for known weights of ``multinomial`` that are none, or all 0 in a row."""
    values = _known(node)
    if values is None or not values.size:
        return
    negative, odd = not (values >= 0).all(), bool((values == math.inf).any())
    text = "invalid multinomial distribution "
    if replacement and negative:
        raise LazytError(text + "(encountering probability entry < 0)")
    if replacement and odd:
        raise LazytError(text + "(encountering probability entry = infinity or NaN)")
    if negative or odd:
        raise LazytError("probability tensor contains either `inf`, `nan` or element < 0")
    if not (values.sum(-1) > 0).all():
        raise LazytError(text + "(sum of probabilities <= 0)")


def check_probabilities(node: Node) -> None:
    """Raise LazytError for known probabilities outside of [0, 1]."""
    values = _known(node)
    if values is not None and not ((values >= 0) & (values <= 1)).all():
        raise LazytError(
            "Expected p_in >= 0 && p_in <= 1 to be true, but got false. Probabilities lie in "
            "[0, 1]."
        )


def check_unit_interval(node: Node) -> None:
    """Raise LazytError for known inputs of a cross entropy outside of [0, 1]."""
    values = _known(node)
    if values is not None and not ((values >= 0) & (values <= 1)).all():
        raise LazytError("all elements of input should be between 0 and 1")


def check_variances(node: Node) -> None:
    """Raise ReductionError (a ValueError) for known variances below 0."""
    values = _known(node)
    if values is not None and (values < 0).any():
        raise ReductionError("var has negative entry/entries")


def check_rates(node: Node) -> None:
    """Raise LazytError for known rates of ``poisson`` below 0."""
    values = _known(node)
    if values is not None and not (values >= 0).all():
        raise LazytError("invalid Poisson rate, expected rate to be non-negative")


def check_deviations(node: Node) -> None:
    """Raise LazytError for known standard deviations below 0."""
    values = _known(node)
    if values is not None and not (values >= 0).all():
        raise LazytError("normal expects all elements of std >= 0.0")


#: Ops that only place values: what they show is known where their input is.
_PLACING = frozenset(
    {"reshape", "expand", "permute", "slice", "flip", "cast", "variable", "detach"}
)


def _is_known(node: Node) -> bool:
    while node.data is None and node.op.name in _PLACING and len(node.inputs) == 1:
        node = node.inputs[0]
    return node.data is not None or node.op.name == "const"


def known_violation(check: Callable[[], Tensor], values: Iterable[Tensor]) -> bool:
    """Whether known values break a rule: ``check`` gives a bool tensor that should be all true.

    False where some are still to be computed, and in a captured function.
    """
    if capturing() is not None or not all(_is_known(value.node) for value in values):
        return False
    with no_grad():
        return not interpret([check().node])[0].all()
