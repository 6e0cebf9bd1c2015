"""Checks of values: what PyTorch looks at before it computes, and raises for at the user's line.

A check is a graph of truths over its operands. Operands that are pending are computed, all at once,
as PyTorch has them by then; a captured function notes the check, which every replay does again
before it writes anything (see ``index_checks``). Checks of few elements are evaluated by the
interpreter, which takes no compiler; those of many are compiled like other graphs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from lazyt import ops
from lazyt.errors import LazytError
from lazyt.functional.indexing.picking import value_range, within
from lazyt.functional.nn.loss_reduction import ReductionError
from lazyt.handle import pending
from lazyt.handle.device import has_no_values
from lazyt.handle.grad_mode import no_grad
from lazyt.handle.hooks import capturing
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import bfloat16, decode_bfloat16, int64
from lazyt.ir.graph import Node, topological

Condition = Callable[[Node], Node]

#: Elements up to which the interpreter evaluates a check.
_FEW = 4096


def source_of(node: Node) -> Node:
    """The node with all values of ``node``, and no others: what it only places otherwise.

    In a captured function, the node: an argument that is a view stands for its own values.
    """
    if capturing() is not None:
        return node
    while node.data is None and (node.op.moves_all or node.op.is_identity) and node.size:
        node = node.inputs[0]
    return node


def all_hold(conditions: Sequence[Node], operands: Sequence[Node], reason: str) -> bool:
    """Whether all elements of the bool nodes ``conditions`` are true.

    Looks at values: computes those of ``operands`` (which the conditions are computed from) that
    are pending. In a captured function, what was found has to be found again at each replay.

    Args:
        reason: what ``why_realized()`` tells.
    """
    conditions = [n for n in dict.fromkeys(conditions) if n.size and not has_no_values(n)]
    if not conditions:
        return True
    flags = [ops.reduce_("all", node, range(len(node.shape))) for node in conditions]
    if capturing() is not None:
        flag = flags[0]
        for other in flags[1:]:
            flag = ops.apply("mul", flag, other)
        return value_range(ops.cast(flag, int64), within(1, 1), reason=reason)[0] == 1
    sources = dict.fromkeys(source_of(node) for node in operands if node.size)
    wanted = [node for node in sources if node.data is None and _is_computed(node)]
    pending.realize_now(wanted, reason)
    order = topological(flags, lambda node: node.data is not None)
    if sum([node.size for node in order]) <= _FEW:
        from lazyt.plan.fallback.interpreter import values_of

        return all(value.item() for value in values_of(flags))
    pending.realize_now(flags, reason)
    return all(node.data.as_numpy(node.dtype, ()).item() for node in flags)


def _is_computed(node: Node) -> bool:
    """Whether values come from others; constants and counters are what their graph says."""
    return any(item.op.name == "input" or item.inputs for item in (node, *node.inputs))


def values_hold(operand: Tensor, condition: Condition, reason: str) -> bool:
    """Whether a condition, elementwise, holds for all values of a tensor; see ``all_hold``."""
    return all_values_hold([operand], condition, reason)


def all_values_hold(operands: Sequence[Tensor], condition: Condition, reason: str) -> bool:
    """``values_hold`` of several tensors, of which those that are pending are computed at once."""
    nodes = [node for operand in operands if (node := source_of(operand.node)).size]
    nodes = [node for node in nodes if not has_no_values(node)]
    if isinstance(condition, Between) and capturing() is None:
        pending.realize_now([n for n in nodes if n.data is None and _is_computed(n)], reason)
        known = [node for node in nodes if node.data is not None]
        if not all(map(condition.has, known)):
            return False
        nodes = [node for node in nodes if node.data is None]
    return all_hold([condition(node) for node in nodes], nodes, reason)


def tensors_hold(check: Callable[[], Sequence[Tensor]], given: Sequence[Tensor]) -> bool:
    """Whether the bool tensors of ``check()``, computed from those ``given``, are all true."""
    with no_grad():
        conditions = [tensor.node for tensor in check()]
    operands = [tensor.node for tensor in given]
    return all_hold(conditions, operands, "the values of a distribution's arguments are checked")


def compared(name: str, node: Node, number: float) -> Node:
    """``node`` compared with a number by the scalar function ``name``."""
    return ops.apply(name, node, ops.constant(number, node.dtype))


class Between:
    """The condition to be from ``low`` to ``high``, which NaN is not."""

    def __init__(self, low: float, high: float) -> None:
        self._low = low
        self._high = high

    def __call__(self, node: Node) -> Node:
        """Which of a node's values are."""
        above = compared("ge", node, self._low)
        if self._high == math.inf:
            return above
        return ops.apply("mul", above, compared("le", node, self._high))

    def has(self, node: Node) -> bool:
        """Whether all values of a node that is computed are."""
        values = node.data.as_numpy(node.dtype, node.shape)
        if node.dtype is bfloat16:
            values = decode_bfloat16(values)
        return bool(values.min() >= self._low and values.max() <= self._high)


def from_to(low: float, high: float) -> Condition:
    """The condition to be between two numbers, which NaN is not."""
    return Between(low, high)


at_least_zero: Condition = Between(0, math.inf)


def not_below_zero(node: Node) -> Node:
    """The condition not to be below 0, which NaN is not."""
    return ops.apply("logical_not", compared("lt", node, 0))


# ------------------------------------------------------------------ the functions' own checks


def check_weights(input: Tensor, replacement: bool) -> None:
    """Raise LazytError for weights of ``multinomial`` that are none, or all 0 in a row.

    Args:
        replacement: whether more than one is drawn with replacement, for which PyTorch has other
            words.
    """
    reason = "the weights of multinomial() are checked"
    node = input.node
    if not node.size:
        return
    fits = ops.apply("mul", at_least_zero(node), compared("lt", node, math.inf))
    total = ops.reduce_("sum", node, (len(node.shape) - 1,))
    if all_hold([fits, compared("gt", total, 0)], [node], reason):
        return
    text = "invalid multinomial distribution "
    if not all_hold([fits], [node], reason):
        if not replacement:
            raise LazytError("probability tensor contains either `inf`, `nan` or element < 0")
        if all_hold([compared("ge", node, 0)], [node], reason):
            raise LazytError(text + "(encountering probability entry = infinity or NaN)")
        raise LazytError(text + "(encountering probability entry < 0)")
    raise LazytError(text + "(sum of probabilities <= 0)")


def check_probabilities(input: Tensor) -> None:
    """Raise LazytError for probabilities outside of [0, 1]."""
    if not values_hold(input, from_to(0, 1), "the probabilities of bernoulli() are checked"):
        raise LazytError(
            "Expected p_in >= 0 && p_in <= 1 to be true, but got false. Probabilities lie in "
            "[0, 1]."
        )


def check_unit_interval(input: Tensor, target: Tensor) -> None:
    """Raise LazytError for inputs and targets of a cross entropy outside of [0, 1]."""
    reason = "the values of binary_cross_entropy() are checked"
    if all_values_hold([input, target], from_to(0, 1), reason):
        return
    name = "target" if values_hold(input, from_to(0, 1), reason) else "input"
    raise LazytError(f"all elements of {name} should be between 0 and 1")


def check_variances(input: Tensor) -> None:
    """Raise ReductionError (a ValueError) for variances below 0."""
    reason = "the variances of gaussian_nll_loss() are checked"
    if not values_hold(input, not_below_zero, reason):
        raise ReductionError("var has negative entry/entries")


def check_rates(input: Tensor) -> None:
    """Raise LazytError for rates of ``poisson`` below 0, and NaN."""
    if not values_hold(input, at_least_zero, "the rates of poisson() are checked"):
        raise LazytError("invalid Poisson rate, expected rate to be non-negative")


def check_deviations(input: Tensor) -> None:
    """Raise LazytError for standard deviations below 0, and NaN."""
    if not values_hold(input, at_least_zero, "the deviations of normal() are checked"):
        raise LazytError("normal expects all elements of std >= 0.0")
