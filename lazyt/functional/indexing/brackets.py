"""``x[...]`` and ``x[...] = value``: views, picked elements, masks, and index_put."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from math import prod
from threading import get_ident
from typing import Any, NamedTuple

import numpy as np

from lazyt import ops
from lazyt.errors import BoundsError, DTypeError, ShapeError
from lazyt.functional.creation.nesting import refuse_assigned, refuse_value
from lazyt.functional.elementwise.arithmetic import scalar_build
from lazyt.functional.indexing.masks import true_positions
from lazyt.functional.indexing.picking import checked_index, scatter_of
from lazyt.functional.operands import as_number, choose, constant_of, expand_to, mapped
from lazyt.functional.overriding import answered
from lazyt.functional.result_layout import preserving
from lazyt.functional.results import give, overwrite, view_of_plan
from lazyt.functional.shapes.view_parts import element_view, find_part, note_part, select_view
from lazyt.handle.dispatch import check_writable, lay_out, one_memory, refuse_overlap, type_title
from lazyt.handle.function_table import declare_grad_fn, function
from lazyt.handle.hooks import capturing
from lazyt.handle.interop.elements import write_number
from lazyt.handle.layout import common_order, dense_strides
from lazyt.handle.tensor import Tensor
from lazyt.handle.views import contiguous_strides
from lazyt.ir.dtypes import DType, bool_, int32, int64, package_name, uint8
from lazyt.ir.graph import Node, Shape
from lazyt.ir.op import broadcast_shapes
from lazyt.ir.source_lines import position_of, recording

__all__ = [
    "index_put",
]


# What is between the brackets of ``x[...]``, read once: views first, then index tensors.
#
# An index of numbers, slices, ``None`` and ``...`` makes a view. Tensors, lists and masks among
# them pick elements of that view and make a copy, as in PyTorch (where, unlike in NumPy, a plain
# number always belongs to the view).


class IndexPlan:
    """How an index acts on a tensor.

    Attributes:
        starts, sizes, steps: the slice of every dimension of the tensor; a number is a slice of
            one element.
        layout: the dimensions that remain, in order; -1 stands for a new one of size 1.
        before: for every new one, the dimension of the tensor that it was put in front of.
        picks: (dimension of the view, index tensor) of every tensor index, in order. A bool
            tensor covers as many dimensions as it has.
    """

    __slots__ = ("before", "layout", "picks", "sizes", "starts", "steps")

    def __init__(self, shape: Shape) -> None:
        self.starts = [0] * len(shape)
        self.sizes = list(shape)
        self.steps = [1] * len(shape)
        self.layout: list[int] = []
        self.before: list[int] = []
        self.picks: list[tuple[int, Tensor]] = []

    @property
    def shape(self) -> Shape:
        """Shape of the view."""
        return tuple(1 if d < 0 else self.sizes[d] for d in self.layout)

    def is_whole(self, shape: Shape) -> bool:
        """Whether the view is the tensor itself."""
        return (
            self.layout == [*range(len(shape))]
            and tuple(self.sizes) == tuple(shape)
            and all(s == 1 for s in self.steps)
        )


def _is_number(item: Any) -> bool:
    return isinstance(item, (int, np.integer)) and not isinstance(item, (bool, np.bool_))


def _is_index_number(item: Any) -> bool:
    """A zero-dimensional integer tensor counts as the number that it holds."""
    return isinstance(item, Tensor) and not item.shape and item.dtype not in (bool_, uint8)


def _pick(item: Any) -> Tensor:
    """A list, array or tensor as an index tensor; raises BoundsError for other things."""
    from lazyt.functional.creation.creation import tensor

    if isinstance(item, bool):
        return tensor(bool(item))
    if isinstance(item, np.ndarray):
        item = tensor(item.astype(np.int64) if not item.size else item)
    elif isinstance(item, (list, tuple, range)):
        found = tensor(item) if len(item) else tensor([], dtype=int64)
        return found if found.dtype in (bool_, uint8) else found.to(int64)
    elif isinstance(item, str):
        raise DTypeError("new(): invalid data type 'str'")
    if not isinstance(item, Tensor):
        kind = type(item)
        if hasattr(item, "__index__") and not isinstance(item, np.bool_):
            return tensor(operator.index(item))
        module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        raise BoundsError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are "
            f"valid indices (got {module}{kind.__name__})"
        )
    if item.dtype not in (bool_, uint8, int32, int64):
        raise BoundsError("tensors used as indices must be long, int, byte or bool tensors")
    return item


def _covered(item: Any) -> int:
    """How many dimensions of the tensor an item uses up."""
    if item is None or item is Ellipsis:
        return 0
    if isinstance(item, Tensor) and item.dtype in (bool_, uint8):
        return len(item.shape)
    return 1


def _stands_for_tuple(index: Any) -> bool:
    """A short list of indices that are no numbers counts as a tuple, as NumPy once took it."""
    return (
        isinstance(index, list)
        and len(index) < 32
        and any(
            item is None
            or item is Ellipsis
            or isinstance(item, (Tensor, list, tuple, slice, range, str, np.ndarray))
            for item in index
        )
    )


def _normalize(index: Any) -> list[Any]:
    items = list(index) if isinstance(index, tuple) or _stands_for_tuple(index) else [index]
    for i, item in enumerate(items):
        if item is None or item is Ellipsis or isinstance(item, slice) or _is_number(item):
            continue
        if not _is_index_number(item):
            item = _pick(item)
        if _is_index_number(item) and not _is_of_many(item):  # also anything with __index__
            item = int(item.item())
        items[i] = item
    return items


def _is_of_many(item: Any) -> bool:
    """Whether an index is one of many examples, under ``vmap``, so that it is no number."""
    watcher = capturing()
    return (
        watcher is not None and isinstance(item, Tensor) and watcher.whole(item.node) != item.node
    )


def plan_index(shape: Shape, index: Any) -> IndexPlan:
    """The plan of ``index`` on a tensor of ``shape``.

    Raises BoundsError (an IndexError) for too many indices and numbers out of range, and for
    things that cannot index, in PyTorch's words.
    """
    items = _normalize(index)
    rank = len(shape)
    used = sum(_covered(item) for item in items)
    if rank == 0 and isinstance(index, slice):
        raise BoundsError("slice() cannot be applied to a 0-dim tensor.")
    if rank == 0 and _is_number(index):
        if index:
            raise BoundsError(f"index {index} is out of bounds for dimension 0 with size 0")
        raise BoundsError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or "
            "`tensor.item<T>()` in C++ to convert a 0-dim tensor to a number"
        )
    if used > rank:
        raise BoundsError(f"too many indices for tensor of dimension {rank}")
    plan = IndexPlan(shape)
    axis, open_ellipsis = 0, False
    for position, item in enumerate(items):
        if item is None:
            plan.layout.append(-1)
            plan.before.append(axis)
        elif item is Ellipsis:
            count = 0 if open_ellipsis else rank - used
            open_ellipsis = True
            plan.layout.extend(range(axis, axis + count))
            axis += count
        elif isinstance(item, Tensor):
            axis = _add_pick(plan, item, axis)
        elif isinstance(item, slice):
            _slice(plan, axis, item)
            plan.layout.append(axis)
            axis += 1
        else:
            _plan_select(plan, axis, int(item), position)
            axis += 1
    plan.layout.extend(range(axis, rank))
    return plan


def _add_pick(plan: IndexPlan, item: Tensor, axis: int) -> int:
    count = _covered(item)
    if count == 0:  # a single truth value indexes a new dimension of one element
        plan.picks.append((len(plan.layout), item.reshape(1)))
        plan.layout.append(-1)
        plan.before.append(axis)
        return axis
    plan.picks.append((len(plan.layout), item))
    plan.layout.extend(range(axis, axis + count))
    return axis + count


def _plan_select(plan: IndexPlan, axis: int, index: int, position: int) -> None:
    extent = plan.sizes[axis]
    if not -extent <= index < extent:
        raise BoundsError(
            f"index {index} is out of bounds for dimension {position} with size {extent}"
        )
    plan.starts[axis] = index + extent if index < 0 else index
    plan.sizes[axis] = 1


def _slice(plan: IndexPlan, axis: int, item: slice) -> None:
    try:
        places = range(*item.indices(plan.sizes[axis]))
    except TypeError:
        raise DTypeError(
            "slice indices must be integers or None or have an __index__ method"
        ) from None
    # An empty slice starts inside the dimension, so that the view's offset stays in range.
    plan.starts[axis] = places.start if len(places) else min(places.start, plan.sizes[axis])
    plan.sizes[axis] = len(places)
    plan.steps[axis] = places.step


_ADD, _MUL = scalar_build("add"), scalar_build("mul")


class Selection(NamedTuple):
    """Index tensors folded into one.

    Attributes:
        order: the permutation that brings the indexed dimensions together.
        axis: where they are then.
        span: how many they are.
        places: int64 positions in the indexed dimensions, flattened.
    """

    order: tuple[int, ...]
    axis: int
    span: int
    places: Node


declare_grad_fn("Index", saves="k", indices=-1)


def getitem(input: Tensor, index: Any) -> Tensor:
    """``input[index]``: a view for numbers, slices, None and ``...``; else a copy.

    Raises BoundsError (an IndexError) in PyTorch's words. Masks and number tensors are looked at.
    """
    said = _said(index)
    if said is not None:
        part, key = find_part(input, said)
        if part is not None:
            return part.of(input)
        return note_part(key, input, _viewed(input, index))
    try:
        plan = plan_index(tuple(input.shape), index)
        view = view_of_plan(input, plan)
        if not plan.picks:
            return view
        node = view.node
        parents = (input, *(item for _, item in plan.picks))
        rows = _picked_in_rows(node, plan.picks)
        if rows is not None:
            return give(rows, "Index", parents)
        chosen = _select(node.shape, plan.picks)
        found = give(
            ops.gather(_merged(node, chosen), chosen.places, chosen.axis), "Index", parents
        )
        plain = tuple(view.strides) == contiguous_strides(tuple(view.shape))
        return found if plain else _in_order_of(view, chosen, found)
    except (TypeError, AttributeError, IndexError):
        return answered()


def _said(index: Any) -> Any:
    """An index of numbers, slices, ``None`` and ``...`` as a key, None for others."""
    kind = type(index)
    if kind is int:
        return index
    if kind is not tuple:
        index = (index,)
    parts: list[Any] = []
    for item in index:
        kind = type(item)
        if kind is int or item is None or item is Ellipsis:
            parts.append(item)
        elif kind is slice:
            start, stop, step = ends = item.start, item.stop, item.step
            if not (
                (start is None or type(start) is int)
                and (stop is None or type(stop) is int)
                and (step is None or type(step) is int)
            ):
                return None
            parts.append(ends)
        else:
            return None
    return tuple(parts)


def _viewed(input: Tensor, index: Any) -> Tensor:
    """The view at an index without tensors. Raises BoundsError."""
    if type(index) is int and input.ndim:
        extent = input.shape[0]
        if -extent <= index < extent:
            return select_view(input, 0, index + extent if index < 0 else index)
    elif type(index) is tuple:
        element = element_view(input, index)
        if element is not None:
            return element
    return view_of_plan(input, plan_index(tuple(input.shape), index))


def _in_order_of(view: Tensor, chosen: Selection, found: Tensor) -> Tensor:
    """``found`` laid out as PyTorch does: the dimensions not indexed keep their order."""
    shape, places = tuple(found.shape), chosen.places.shape
    end = chosen.axis + chosen.span
    old = [view.strides[d] for d in chosen.order]
    strides = (*old[: chosen.axis], *(0,) * len(places), *old[end:])
    spread = ((1,) * chosen.axis + places + (1,) * (len(old) - end),)
    operands = [(shape, strides), *((own, contiguous_strides(own)) for own in spread)]
    return lay_out(found, dense_strides(shape, common_order(shape, operands)))


def _picked_in_rows(node: Node, picks: list[tuple[int, Tensor]]) -> Node | None:
    """``x[arange(n), index]`` as a gather within rows, which joins what computes the rows."""
    if len(picks) != 2 or picks[0][0] != 0 or picks[1][0] != 1:
        return None
    rows, columns = picks[0][1].node, picks[1][1]
    if rows.op.name != "iota" or rows.shape != node.shape[:1] or rows.shape != columns.shape:
        return None
    if columns.dtype in (bool_, uint8):
        return None
    extent = node.shape[1]
    return ops.gather(node, checked_index(columns, extent, _out_of_bounds(1, extent)), 1, 1)


def setitem(input: Tensor, index: Any, value: Any) -> None:
    """``input[index] = value``: writes in place, converting to the tensor's dtype.

    A truth value for ``index`` writes everything or nothing. Raises BoundsError for bad indices,
    ShapeError for a value that does not fit, DTypeError for what is neither number nor tensor.
    """
    if write_number(input, index, value):
        return
    is_outer = recording.enabled and recording.here is None
    try:
        if is_outer:
            recording.here = get_ident(), position_of(sys._getframe(1))
        _assign_at(input, index, value)
    except (TypeError, AttributeError, IndexError):
        answered()
    finally:
        if is_outer:
            recording.here = None


def _assign_at(input: Tensor, index: Any, value: Any) -> None:
    source = value if isinstance(value, Tensor) else None
    number = None if source is not None else as_number(value)
    if source is None and number is None:
        raise DTypeError(
            f"can't assign a {_c_type(value)} to a {package_name()}.{type_title(input.dtype)}Tensor"
        )
    if index is False:
        return
    plan, said = None, _said(index)
    if said is not None:
        view = _written_part(input, index, said)
    else:
        plan = plan_index(tuple(input.shape), None if index is True else index)
        view = input if plan.is_whole(tuple(input.shape)) else view_of_plan(input, plan)
        plan = plan if plan.picks else None
    if source is not None:
        new = source.node
        if plan is not None and _is_mask_of_one(plan, source):
            new = _filler(source, view.dtype)
    elif number is not None:
        if isinstance(number, int) and not -(1 << 63) <= number < 1 << 63:
            raise ShapeError("Overflow when unpacking long long")
        refuse_assigned(number, view.dtype)
        new = constant_of(number, view.dtype)
    if plan is None:
        result = fitted(ops.cast(new, view.dtype), tuple(view.shape))
        check_writable(view)
        if (
            source is not None
            and one_memory(view._storage, source._storage)
            and source.shape.numel() == view.shape.numel()
            and _long_axes(source) != _long_axes(view)
        ):
            refuse_overlap(view, (source,))  # what is repeated PyTorch does not look into
        if view._view is not None:
            view._view.refuse_repeats()
    else:
        check_writable(view)
        if view._view is not None:
            view._view.refuse_repeats()
        refuse_overlap(view, (source,), True)
        lone = source is None or _is_mask_of_one(plan, source)
        axis, item = plan.picks[0]
        if lone and item.dtype is uint8 and len(plan.picks) == 1:
            _check_mask(tuple(item.shape), tuple(view.shape), axis)
            raise DTypeError(
                "masked_fill_ only supports boolean masks, but got mask with dtype unsigned char"
            )
        refuse_overlap(view, [i for a, i in plan.picks if plan.layout[a] >= 0], not lone)
        result = _put(view.node, plan, new)
    name = "CopySlices"
    picked: tuple[Tensor, ...] = ()
    if plan is not None:
        name, picked = "IndexPut", tuple([item for _, item in plan.picks])
    elif view is input and source is not None:
        name = "Copy" if source.shape else "Fill"
    parents = (input, *(() if source is None else (source,)), *picked)
    overwrite(view, result, name, parents)


def _written_part(input: Tensor, index: Any, said: Any) -> Tensor:
    """The part of ``input`` at an index without tensors, itself where that is all of it."""
    part, key = find_part(input, said)
    if part is not None:
        return part.of(input) if part.moves else input
    made = note_part(key, input, _viewed(input, index))
    part, _ = find_part(input, said)
    return made if part is not None and part.moves else input


def _long_axes(tensor: Tensor) -> list[tuple[int, int]]:
    """Where a tensor's elements lie, whatever axes of extent one it has."""
    axes = [(n, stride) for n, stride in zip(tensor.shape, tensor.strides) if n != 1]
    return [(tensor._offset, tensor.itemsize), *axes]


def _is_mask_of_one(plan: IndexPlan, value: Tensor) -> bool:
    """Whether a single value meets a single mask: it fills, and is converted."""
    if len(plan.picks) != 1 or value.shape.numel() != 1:
        return False
    axis, item = plan.picks[0]
    return item.dtype in (bool_, uint8) and plan.layout[axis] >= 0


def _filler(value: Tensor, dtype: DType) -> Node:
    """The only element of ``value`` for filling; raises LazytError where it does not fit."""
    refuse_value(value, dtype)
    return ops.cast(ops.reshape(value.node, ()), dtype)


def _check_put_dtype(wanted: DType, given: DType) -> None:
    if given is not wanted:
        raise DTypeError(
            "Index put requires the source and destination dtypes match, got "
            f"{type_title(wanted)} for the destination and {type_title(given)} for the source."
        )


def _c_type(value: Any) -> str:
    """What C calls a value's type: NumPy's with their module."""
    kind = type(value)
    return f"numpy.{kind.__name__}" if kind.__module__ == "numpy" else kind.__name__


def fitted(value: Node, shape: Shape) -> Node:
    """``value`` expanded to ``shape``; leading ones are dropped as PyTorch drops them."""
    lead = len(value.shape) - len(shape)
    if lead > 0 and all(n == 1 for n in value.shape[:lead]):
        value = ops.reshape(value, value.shape[lead:])
    lead = len(shape) - len(value.shape)
    for axis in range(len(shape) - 1, -1, -1):
        have = value.shape[axis - lead] if axis >= lead >= 0 else 1
        if have not in (1, shape[axis]):
            raise ShapeError(
                f"The expanded size of the tensor ({shape[axis]}) must match the existing size "
                f"({have}) at non-singleton dimension {axis}.  Target sizes: {list(shape)}.  "
                f"Tensor sizes: {list(value.shape)}"
            )
    if lead < 0:
        raise ShapeError(
            f"expand({package_name()}.{type_title(value.dtype)}Tensor{{{list(value.shape)}}}, "
            f"size={list(shape)}): the number of sizes provided ({len(shape)}) must be greater or "
            f"equal to the number of dimensions in the tensor ({len(value.shape)})"
        )
    return expand_to(value, shape)


def _out_of_bounds(axis: int, extent: int) -> Callable[[int], Exception]:
    def complain(bad: int) -> Exception:
        if not extent:
            return BoundsError("index is out of bounds for dimension with size 0")
        return BoundsError(f"index {bad} is out of bounds for dimension {axis} with size {extent}")

    return complain


def _check_mask(mask: Shape, shape: Shape, axis: int) -> None:
    for i, extent in enumerate(mask):
        if shape[axis + i] != extent:
            raise BoundsError(
                f"The shape of the mask {list(mask)} at index {i} does not match the shape of "
                f"the indexed tensor {list(shape)} at index {axis + i}"
            )


def _select(shape: Shape, picks: list[tuple[int, Tensor]]) -> Selection:
    """All picks as one index over the dimensions that they cover."""
    dims: list[int] = []
    parts: list[tuple[Node, int]] = []
    idle = _picks_nothing(shape, picks)
    for axis, item in picks:
        if item.dtype in (bool_, uint8):
            mask = tuple(item.shape)
            _check_mask(mask, shape, axis)
            dims.extend(range(axis, axis + len(mask)))
            parts.append((true_positions(ops.cast(item.node, bool_)), prod(mask)))
        else:
            extent = shape[axis]
            dims.append(axis)
            if idle:  # PyTorch does not look at such an index
                item = item.new_zeros(item.shape, dtype=int64)
            parts.append((checked_index(item, extent, _out_of_bounds(axis, extent)), extent))
    places = _combine(parts)
    together = dims == [*range(dims[0], dims[0] + len(dims))]
    rest = [d for d in range(len(shape)) if d not in dims]
    order = tuple(range(len(shape))) if together else (*dims, *rest)
    return Selection(order, dims[0] if together else 0, len(dims), places)


def _picks_nothing(shape: Shape, picks: list[tuple[int, Tensor]]) -> bool:
    """Whether a dimension without elements remains beside the indexed ones, which have some."""
    masks = (bool_, uint8)
    spans = [(a, max(len(i.shape), 1) if i.dtype in masks else 1) for a, i in picks]
    covered = {d for axis, span in spans for d in range(axis, axis + span)}
    return any(not n for d, n in enumerate(shape) if d not in covered) and all(
        shape[d] for d in covered if d < len(shape)
    )


def _combine(parts: list[tuple[Node, int]]) -> Node:
    """Positions in several dimensions as positions in their product."""
    if len({n.shape for n, _ in parts}) > 1:
        _check_broadcast([n.shape for n, _ in parts])
    places = parts[0][0]
    for node, extent in parts[1:]:
        scaled = mapped(_MUL, (places, ops.constant(extent, int64)), int64, None)
        places = mapped(_ADD, (scaled, node), int64, None)
    return places


def _check_broadcast(shapes: list[Shape]) -> None:
    from lazyt.errors import InternalError

    try:
        broadcast_shapes(*shapes)
    except InternalError:
        text = ", ".join(str(list(s)) for s in shapes)
        raise BoundsError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes {text}"
        ) from None


def _merged(node: Node, chosen: Selection) -> Node:
    """``node`` with the indexed dimensions brought together and flattened."""
    if chosen.order != tuple(range(len(node.shape))):
        node = ops.permute(node, chosen.order)
    if chosen.span == 1:
        return node
    shape, end = node.shape, chosen.axis + chosen.span
    return ops.reshape(node, (*shape[: chosen.axis], prod(shape[chosen.axis : end]), *shape[end:]))


def _put(base: Node, plan: IndexPlan, value: Node, kind: str = "set") -> Node:
    """``base`` with ``value`` written (or added) where the picks say."""
    axis, item = plan.picks[0]
    if kind == "set" and len(plan.picks) == 1 and item.dtype in (bool_, uint8):
        _check_mask(tuple(item.shape), base.shape, axis)
        spread = _masked_value(base.shape, axis, len(item.shape), value)
        if spread is not None:
            _check_put_dtype(base.dtype, value.dtype)
            tail = (1,) * (len(base.shape) - axis - len(item.shape))
            mask = ops.reshape(ops.cast(item.node, bool_), (*item.shape, *tail))
            return choose(mask, spread, base, base.dtype)
    chosen = _select(base.shape, plan.picks)
    merged = _merged(base, chosen)
    lead, tail = merged.shape[: chosen.axis], merged.shape[chosen.axis + 1 :]
    result = (*lead, *chosen.places.shape, *tail)
    updates = _broadcast_value(value, result)
    _check_put_dtype(base.dtype, value.dtype)
    if not updates.size and not value.needs_grad:
        return base
    written = scatter_of(merged, chosen.places, updates, chosen.axis, kind)
    moved = ops.reshape(written, tuple(base.shape[d] for d in chosen.order))
    back = tuple(sorted(range(len(chosen.order)), key=chosen.order.__getitem__))
    return moved if back == tuple(range(len(back))) else ops.permute(moved, back)


def _masked_value(shape: Shape, axis: int, rank: int, value: Node) -> Node | None:
    """``value`` shaped to meet a mask of ``rank`` dimensions, None when it varies along them."""
    tail = len(shape) - axis - rank
    lead = len(value.shape) - tail - 1
    if lead < 0:
        fits = broadcasts_to(value.shape, shape[axis + rank :])
        return value if fits else None
    rest = (*value.shape[:lead], *value.shape[lead + 1 :])
    if value.shape[lead] != 1 or not broadcasts_to(rest, (*shape[:axis], *shape[axis + rank :])):
        return None
    return ops.reshape(value, (*value.shape[:lead], *(1,) * rank, *value.shape[lead + 1 :]))


def broadcasts_to(shape: Shape, target: Shape) -> bool:
    """Whether ``shape`` expands to ``target``."""
    if len(shape) > len(target):
        return False
    return all(a in (1, b) for a, b in zip(reversed(shape), reversed(target)))


def _broadcast_value(value: Node, result: Shape) -> Node:
    while len(value.shape) > len(result) and value.shape[0] == 1:
        value = ops.reshape(value, value.shape[1:])
    if not broadcasts_to(value.shape, result):
        raise ShapeError(
            f"shape mismatch: value tensor of shape {list(value.shape)} cannot be broadcast to "
            f"indexing result of shape {list(result)}"
        )
    return expand_to(value, result)


@function(method=True, cast="widest", saves="k", indices=-2, layout=preserving)
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of ``input`` with ``values`` at ``indices``, added up when ``accumulate``."""
    plan = plan_index(tuple(input.shape), tuple(indices))
    kind = "add" if accumulate else "set"
    fills = not accumulate and _is_mask_of_one(plan, values)
    return give(
        _put(input.node, plan, _filler(values, input.dtype) if fills else values.node, kind),
        "IndexPut",
        (input, values, *(item for _, item in plan.picks)),
    )


@function(method=True, inplace="function")
def index_put_(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """``index_put`` in place."""
    check_writable(input)
    items = [item for item in indices if isinstance(item, Tensor)]
    plan = plan_index(tuple(input.shape), tuple(indices))
    if accumulate or not _is_mask_of_one(plan, values):
        refuse_overlap(input, (values, *items), True)
    result = index_put(input, indices, values, accumulate)
    overwrite(input, result.node, "IndexPut", (input, values, *items))
    return input
