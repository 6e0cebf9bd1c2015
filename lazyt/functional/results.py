"""How functions hand out what they computed: new tensors, ``out=``, writes, and views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from lazyt import pending
from lazyt.dispatch import assign, check_writable, view_of, wrap, write_result
from lazyt.ir.graph import Node
from lazyt.tensor import Tensor
from lazyt.views import Reshape, Slice

if TYPE_CHECKING:
    from lazyt.functional.index_plan import IndexPlan


def give(node: Node, name: str, parents: Sequence[Any], out: Tensor | None = None) -> Tensor:
    """The result of the function called ``name``, made from ``parents``.

    With ``out``, the value is written there; a tensor of another size takes the result's size.
    """
    result = wrap(node, *parents, name=name)
    if out is None:
        return result
    if out.shape != result.shape:
        check_writable(out)
        resized = wrap(_zeros_like_result(node, out))
        out._storage, out._view = resized._storage, None
    return write_result(out, result)


def _zeros_like_result(node: Node, out: Tensor) -> Node:
    from lazyt import ops
    from lazyt.functional.operands import expand_to

    return expand_to(ops.constant(0, out.dtype), node.shape)


def known_values(node: Node) -> np.ndarray[Any, Any]:
    """The values of an index, to check them; computes it when it is pending."""
    pending.realize_now([node], "the values of an index are checked")
    values: np.ndarray[Any, Any] = node.data.as_numpy(node.dtype, node.shape)
    return values


def overwrite(target: Tensor, node: Node, name: str, parents: Sequence[Any]) -> Tensor:
    """Write ``node``, of the same shape and dtype, into ``target``; returns ``target``."""
    return assign(target, wrap(node, *parents, name=name))


def view_of_plan(input: Tensor, plan: IndexPlan) -> Tensor:
    """The view that the numbers, slices and new axes of an index make."""
    shape = input.shape
    strides, offset = input.strides, input._offset
    view = input
    if plan.sizes != [*shape] or any(s != 1 for s in plan.steps):
        # An empty view may start past the end; its offset must not.
        empty = 0 in plan.sizes
        moved = 0 if empty else sum(s * n for s, n in zip(plan.starts, strides))
        strides = tuple(s * n for s, n in zip(plan.steps, strides))
        starts = (0,) * len(shape) if empty else tuple(plan.starts)
        step = Slice(starts, tuple(plan.sizes), (1,) * len(shape) if empty else tuple(plan.steps))
        offset += moved
        name = "Slice" if len(plan.layout) == len(shape) else "Select"
        view = view_of(input, step, tuple(plan.sizes), strides, offset, name)
    if plan.layout != [*range(len(shape))]:
        new = plan.shape
        name = "Unsqueeze" if len(plan.layout) > len(shape) else "Select"
        kept = tuple(_new_stride(plan, strides, d, i) for i, d in enumerate(plan.layout))
        view = view_of(view, Reshape(new), new, kept, offset, name)
    return view


def _new_stride(plan: IndexPlan, strides: tuple[int, ...], dim: int, place: int) -> int:
    """The stride of a remaining dimension; a new one has that of the row it repeats."""
    if dim >= 0:
        return strides[dim]
    for later in plan.layout[place + 1 :]:
        if later >= 0:
            return strides[later] * plan.sizes[later]
    return 1


def whole_view(input: Tensor) -> Tensor:
    """Another tensor that shows the same memory in the same way."""
    return view_of(input, None, tuple(input.shape), input.strides, input._offset, "Alias")
