"""Checks of the parameters of distributions that are tensors.

PyTorch looks at every element. Here only values that are known are looked at: those that are still
to be computed stay pending, and the result of wrong ones is NaN or meaningless.
"""

from __future__ import annotations

import math
from typing import Any

from lazyt.errors import LazytError
from lazyt.functional.loss_reduction import ReductionError
from lazyt.ir.dtypes import bfloat16, decode_bfloat16
from lazyt.ir.graph import Node
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
