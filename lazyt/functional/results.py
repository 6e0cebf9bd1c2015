"""How functions hand out what they computed: new tensors, ``out=``, writes, and views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lazyt import ops, pending
from lazyt.dispatch import (
    assign,
    assign_value,
    check_writable,
    replaced_whole,
    view_of,
    wrap,
    write_result,
)
from lazyt.errors import DTypeError, GradientError
from lazyt.functional.outputs import check_output, warn_resized
from lazyt.grad_mode import mode
from lazyt.ir.forms import use
from lazyt.ir.graph import Node, Shape
from lazyt.memory_formats import arrange_like, lay_out
from lazyt.overlap import refuse_overlap, refuse_repeats
from lazyt.tensor import Tensor
from lazyt.views import Reshape, Slice, Step
from lazyt.watching import hook

if TYPE_CHECKING:
    from lazyt.functional.index_plan import IndexPlan


# What reads its operands in any order, so that PyTorch refuses to write into their memory.
_APART = ("Cat", "Gather", "IndexSelect", "Kthvalue", "MaskedSelect", "Stack", "Take", "Topk")


def give(node: Node, name: str, parents: Sequence[Any], out: Tensor | None = None) -> Tensor:
    """The result of the function called ``name``, made from ``parents``.

    With ``out``, the value is written there; a tensor of another size takes the result's size.
    """
    result = wrap(node, *parents, name=name)
    if out is None:
        for parent in parents:
            if isinstance(parent, Tensor) and parent._view is not None:
                return arrange_like(result, name, parents)
        return result
    if not isinstance(out, Tensor):
        raise DTypeError(
            f"{_snake(name)}(): argument 'out' must be Tensor, not {type(out).__name__}"
        )
    if mode.enabled and any(isinstance(t, Tensor) and t.requires_grad for t in (out, *parents)):
        raise GradientError(
            f"{_snake(name)}(): functions with out=... arguments don't support automatic "
            "differentiation, but one of the arguments requires grad."
        )
    if out.dtype is not node.dtype:
        check_output(name, node.dtype, out.dtype)
    if node.op.name in ("map", "scan"):
        refuse_overlap(out, parents)
    elif name in _APART:
        refuse_overlap(out, parents, same=True)
    if out.shape != result.shape:
        check_writable(out)
        refuse_repeats(out)
        if 0 not in out.shape:
            warn_resized(name, tuple(out.shape), tuple(result.shape))
        resized = wrap(_zeros_like_result(node, out))
        if any(isinstance(p, Tensor) and p._view is not None for p in parents):
            lay_out(resized, arrange_like(result, name, parents).strides)
        out._storage, out._view = resized._storage, resized._view
    return write_result(out, result)


def _snake(name: str) -> str:
    """The name of a function, given that of its grad_fn: ``LogSoftmax`` becomes log_softmax."""
    title = name.partition("Backward")[0]
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in title).removeprefix("_")


def _zeros_like_result(node: Node, out: Tensor) -> Node:
    zero = ops.reshape(ops.constant(0, out.dtype), (1,) * len(node.shape))
    return ops.expand(zero, node.shape) if node.shape else zero


def known_values(
    node: Node, reason: str = "the values of an index are checked"
) -> np.ndarray[Any, Any]:
    """The values of an index or divisor, to check them; computes it when it is pending."""
    pending.realize_now([node], reason)
    values: np.ndarray[Any, Any] = node.data.as_numpy(node.dtype, node.shape)
    return values


def overwrite(target: Tensor, node: Node, name: str, parents: Sequence[Any]) -> Tensor:
    """Write ``node``, of the same shape and dtype, into ``target``; returns ``target``."""
    storage = target._storage
    is_known = storage.fn is not None or node.needs_grad  # to autograd
    if not mode.enabled or not (is_known or use.any or hook.watcher is not None):
        return assign_value(target, node)
    if node.needs_grad:
        old = target.node
        if old.needs_grad:  # the old value's gradient is zero, not absent
            node = replaced_whole(old, node)
    return assign(target, wrap(node, *parents, name=name))


def view_of_plan(input: Tensor, plan: IndexPlan) -> Tensor:
    """The view that the numbers, slices and new axes of an index make."""
    shape = tuple(input.shape)
    sizes, strides, offset = tuple(plan.sizes), input.strides, input._offset
    moves: tuple[Step, ...] = ()
    name = "Alias"
    if sizes != shape or any(s != 1 for s in plan.steps):
        name = "Slice"
        starts, steps = tuple(plan.starts), tuple(plan.steps)
        offset += sum(s * n for s, n in zip(starts, strides))
        strides = tuple(s * n for s, n in zip(steps, strides))
        if 0 in sizes:  # nothing is shown, so the slice may as well start at the beginning
            starts, steps = (0,) * len(shape), (1,) * len(shape)
        moves = (Slice(starts, sizes, steps),)
    if plan.layout != [*range(len(shape))]:
        name = "Unsqueeze" if len(plan.layout) > len(shape) else "Select"
        moves = (*moves, Reshape(plan.shape))
        strides = _laid_out(plan, strides, shape, input.strides)
    return view_of(input, moves, plan.shape, strides, offset, name)


def _laid_out(plan: IndexPlan, strides: Shape, shape: Shape, old: Shape) -> Shape:
    """The strides of the remaining dimensions; a new one spans what it was put in front of.

    PyTorch reads an index from left to right, so a new dimension sees the tensor's own extents
    and strides, ``shape`` and ``old``, not those that a later slice leaves.
    """
    rank = len(shape)
    spans = iter([shape[d] * old[d] if d < rank else 1 for d in plan.before])
    return tuple(strides[d] if d >= 0 else next(spans) for d in plan.layout)
