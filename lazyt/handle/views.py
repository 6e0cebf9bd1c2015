"""Views: how a tensor looks at its storage.

A view has two descriptions that always agree. Strides and offset are what the user sees, with
PyTorch's meaning. The steps are movement operations from the storage's value to the view's: read
forwards they give the view's value, backwards they turn a write through the view into a new value
of the whole storage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lazyt import ops
from lazyt.errors import GradientError, LazytError, ShapeError
from lazyt.handle import tape
from lazyt.handle.hooks import hook
from lazyt.ir.dtypes import DType, dtype_by_name, int64
from lazyt.ir.graph import Head, Node, Shape, make_of

if TYPE_CHECKING:
    from lazyt.handle.storage import Storage
    from lazyt.handle.tape import GradFn
    from lazyt.handle.tensor import Tensor


# The bits of a value as elements of another dtype, also of another size.
#
# Smaller elements come first in memory with the low bits of the larger one (all supported machines
# are little-endian).


def bits_as(flat: Node, dtype: DType) -> Node:
    """A vector's memory as a vector of ``dtype``; trailing bytes that fill no element are left out.

    Carries no gradient.
    """
    if flat.dtype is dtype:
        return flat
    if flat.dtype.kind == "c":
        return bits_as(ops.reshape(as_parts(flat), (2 * flat.size,)), dtype)
    if dtype.kind == "c":
        parts = bits_as(flat, dtype.part)
        count = parts.size // 2
        return as_pairs(ops.reshape(ops.slice_(parts, (0,), (2 * count,), (1,)), (count, 2)))
    old, new = flat.dtype.itemsize, dtype.itemsize
    if old == new:
        return ops.apply("bitcast", flat, dtype=dtype)
    whole = _pattern(flat)
    if old > new:
        count = old // new
        shifts = _shifts(count, 8 * new, whole.dtype)
        parts = ops.apply("shift_right", ops.reshape(whole, (flat.size, 1)), shifts)
        small = ops.cast(parts, _unsigned(new))
        return bits_as(ops.reshape(small, (flat.size * count,)), dtype)
    count = new // old
    size = flat.size // count
    if size * count != flat.size:
        whole = ops.slice_(whole, (0,), (size * count,), (1,))
    wide = ops.cast(ops.reshape(whole, (size, count)), _unsigned(new))
    placed = ops.apply("shift_left", wide, _shifts(count, 8 * old, wide.dtype))
    return bits_as(ops.reduce_("sum", placed, (1,)), dtype)


def _unsigned(itemsize: int) -> DType:
    return dtype_by_name(f"uint{8 * itemsize}")


def _pattern(node: Node) -> Node:
    unsigned = _unsigned(node.dtype.itemsize)
    return node if node.dtype is unsigned else ops.apply("bitcast", node, dtype=unsigned)


def _shifts(count: int, bits: int, dtype: DType) -> Node:
    """0, bits, 2 * bits ... as a row of ``dtype``."""
    row = ops.apply("mul", ops.iota(count), ops.constant(bits, int64))
    return ops.reshape(ops.cast(row, dtype), (1, count))


# Complex numbers, and their parts beside each other.


def as_parts(node: Node) -> Node:
    """Complex numbers as real ones: a last axis of two, real and imaginary part."""
    last = (*node.shape, 1)
    halves = [ops.reshape(ops.apply(part, node), last) for part in ("real", "imag")]
    return ops.concat(halves, len(node.shape))


def as_pairs(node: Node) -> Node:
    """Complex numbers, of which the last axis, of two, holds the parts."""
    lead = node.shape[:-1]
    rank = len(lead)

    def part(number: int) -> Node:
        starts, ones = (*(0,) * rank, number), (1,) * (rank + 1)
        return ops.reshape(ops.slice_(node, starts, (*lead, 1), ones), lead)

    return ops.apply("complex", part(0), part(1))


class Parted(NamedTuple):
    """Complex numbers as parts of ``dtype``, along a new last axis."""

    dtype: DType
    kind: str = "parted"

    def read(self, before: Node) -> Node:
        """The parts of ``before``."""
        return as_parts(before)

    def write(self, before: Node, value: Node) -> Node:
        """The numbers that have these parts."""
        return as_pairs(value)


class Paired(NamedTuple):
    """Parts along the last axis as complex numbers of ``dtype``."""

    dtype: DType
    kind: str = "paired"

    def read(self, before: Node) -> Node:
        """The numbers that have these parts."""
        return as_pairs(before)

    def write(self, before: Node, value: Node) -> Node:
        """The parts of ``value``."""
        return as_parts(value)


class Conjugate(NamedTuple):
    """Complex numbers with the other sign of the imaginary part."""

    kind: str = "conjugate"

    def read(self, before: Node) -> Node:
        """The conjugates of ``before``."""
        return ops.conj(before)

    def write(self, before: Node, value: Node) -> Node:
        """The conjugates of ``value``."""
        return ops.conj(value)


class Bits(NamedTuple):
    """A vector's memory as elements of another dtype."""

    dtype: DType

    def read(self, before: Node) -> Node:
        """The elements of the new dtype."""
        return bits_as(before, self.dtype)

    def write(self, before: Node, value: Node) -> Node:
        """``before`` with its memory replaced by that of ``value``."""
        written = bits_as(value, before.dtype)
        if written.size == before.size:
            return written
        return ops.update(before, written, (0,), (1,))


OVERLAP = (
    "unsupported operation: more than one element of the written-to tensor refers to a single "
    "memory location. Please clone() the tensor before performing the operation."
)


class Slice(NamedTuple):
    """Every ``steps``-th element from ``starts``."""

    starts: Shape
    sizes: Shape
    steps: Shape

    def read(self, before: Node) -> Node:
        """The slice of ``before``."""
        return ops.slice_(before, self.starts, self.sizes, self.steps)

    def write(self, before: Node, value: Node) -> Node:
        """``before`` with the slice replaced."""
        return ops.update(before, value, self.starts, self.steps)


class Permute(NamedTuple):
    """Axes in another order."""

    axes: Shape
    kind: str = "permute"  # no step equals one of another class

    def read(self, before: Node) -> Node:
        """``before`` with its axes in the new order."""
        return ops.permute(before, self.axes)

    def write(self, before: Node, value: Node) -> Node:
        """``value`` with its axes back in the old order."""
        inverse = sorted(range(len(self.axes)), key=self.axes.__getitem__)
        return ops.permute(value, tuple(inverse))


class Reshape(NamedTuple):
    """The same elements, in the same order, under another shape."""

    shape: Shape
    kind: str = "reshape"

    def read(self, before: Node) -> Node:
        """``before`` under the new shape."""
        return ops.reshape(before, self.shape)

    def write(self, before: Node, value: Node) -> Node:
        """``value`` under the old shape."""
        return ops.reshape(value, before.shape)


class Expand(NamedTuple):
    """Axes of extent one repeated."""

    shape: Shape
    kind: str = "expand"

    def read(self, before: Node) -> Node:
        """``before`` repeated."""
        return ops.expand(before, self.shape)


class Window(NamedTuple):
    """Elements ``offset + sum(i * stride)`` of the flattened value."""

    shape: Shape
    strides: Shape
    offset: int
    kind: str = "window"

    def read(self, before: Node) -> Node:
        """The elements at the window's positions."""
        return ops.window(before, self.shape, self.strides, self.offset)


class _Use:
    """Whether any view of this process has steps after which elements are not those of memory."""

    any = False


use_complex = _Use()

Step = Slice | Permute | Reshape | Expand | Window | Bits | Parted | Paired | Conjugate
#: Steps after which elements are not those of the memory.
CHANGING = (Parted, Paired, Conjugate)


def _is_uniform(value: Node) -> bool:
    """Whether all elements are one repeated, so that the order of writing does not matter."""
    while value.size != 1:
        if value.op.movement != "ordered":
            return False
        value = value.inputs[0]
    return True


def overlaps(shape: Shape, strides: Shape) -> bool:
    """Whether two elements of a view share a place in memory."""
    reach = 0
    if 0 in shape:
        return False
    for stride, extent in sorted((abs(s), n) for n, s in zip(shape, strides) if n > 1):
        if stride <= reach:
            break
        reach += stride * (extent - 1)
    else:
        return False
    places = np.zeros((), np.int64)
    for extent, stride in zip(shape, strides):
        places = np.add.outer(places, np.arange(extent) * stride)
    return len(np.unique(places)) < places.size


def contiguous_strides(shape: Shape) -> Shape:
    """Row-major strides in elements, as PyTorch gives them (an empty axis counts as one)."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    return tuple(strides)


def is_contiguous(shape: Shape, strides: Shape) -> bool:
    """Whether the elements lie in row-major order without gaps; strides of ones do not matter."""
    if 0 in shape:
        return True
    expected = 1
    for extent, stride in zip(reversed(shape), reversed(strides)):
        if extent != 1:
            if stride != expected:
                return False
            expected *= extent
    return True


def strides_of_view(shape: Shape, strides: Shape, new: Shape) -> Shape | None:
    """Strides that show memory of ``shape`` and ``strides`` as ``new``, None when none do.

    Both shapes have the same number of elements. The rule of PyTorch's ``view``: runs of axes
    that are contiguous among themselves may be cut and merged freely.
    """
    if 0 in shape or not shape:
        return contiguous_strides(new)
    out = [0] * len(new)
    axis = len(new) - 1
    chunk, wanted, base = 1, 1, strides[-1]
    for i in range(len(shape) - 1, -1, -1):
        chunk *= shape[i]
        if i == 0 or (shape[i - 1] != 1 and strides[i - 1] != chunk * base):
            while axis >= 0 and (wanted < chunk or new[axis] == 1):
                out[axis] = wanted * base
                wanted *= new[axis]
                axis -= 1
            if wanted != chunk:
                return None
            if i > 0:
                base, chunk, wanted = strides[i - 1], 1, 1
    return tuple(out) if axis == -1 else None


#: The heads of the nodes between a storage's value, of some form, and a view's.
_routes: dict[tuple[int, tuple[Step, ...]], tuple[Head, ...]] = {}
_MOST_ROUTES = 8192


def _note_route(key: tuple[int, tuple[Step, ...]], base: Node, node: Node) -> None:
    """Remembers which nodes of one operand each lead from ``base`` to ``node``, if such do."""
    heads: list[Head] = []
    while node is not base:
        if len(node.inputs) != 1:
            return
        heads.append(node.head)
        node = node.inputs[0]
    if len(_routes) >= _MOST_ROUTES:
        _routes.clear()
    _routes[key] = tuple(reversed(heads))


#: Of memory that NumPy sees: up to this size a view keeps what it read last.
_MOST_SNAPSHOT = 1 << 12


class View:
    """What part of a storage a tensor shows, and in which arrangement.

    Attributes:
        shape, strides, offset: the arrangement in memory, in elements.
        steps: from the storage's value to the view's.
        name: of the function that made it, for grad_fns.
        detached: whether it was made under ``no_grad`` from what requires a gradient.
        root: whether the tensor is no view for its users: it owns the storage, which covers just
            this part, or lies in it in another order than row-major.
        source: the tensor that it is a view of, None for a root.
        dtype: of its elements where that is not the storage's, else None.
        conjugated: whether its elements are the conjugates of those in memory.
        multiple: the function of several views that made it and its number among them; autograd
            forbids writes to such. Else None.
        version: the storage's when one of several was made.
        custom: the user's function that it is an output of, and which, where that is a view;
            autograd forbids writes to such, too. Else None.
        fn: its grad_fn as of the storage's grad_fn ``made_for`` and its version ``made_at``.
    """

    __slots__ = (
        "_base", "_node", "conjugated", "custom", "detached", "dtype", "fn", "made_at", "made_for",
        "multiple", "name", "offset", "root", "shape", "source", "steps", "strides", "version",
    )  # fmt: skip

    def __init__(
        self, shape: Shape, strides: Shape, offset: int, steps: tuple[Step, ...], name: str
    ) -> None:
        self.shape = shape
        self.strides = strides
        self.offset = offset
        self.steps = steps
        self.name = name
        self.dtype: DType | None = None
        self.conjugated = False
        if use_complex.any:
            self._note_changes()
        self.detached = False
        self.root = False
        self.multiple: tuple[str, int] | None = None
        self.version = 0
        self.custom: tuple[str, int] | None = None
        self.source: Tensor | None = None
        self.fn: GradFn | None = None
        self.made_for: GradFn | None = None
        self.made_at = 0
        self._base: Node | None = None
        self._node: Node | None = None

    def _note_changes(self) -> None:
        for step in self.steps:
            if type(step) is Conjugate:
                self.conjugated = not self.conjugated
            elif isinstance(step, (Parted, Paired)):
                self.dtype = step.dtype

    def read(self, storage: Storage) -> Node:
        """The view's value now."""
        if storage.share is not None:
            last = self._node if self._base is None else None
            copied = storage.snapshot(self, last)
            if copied is not None:
                if copied is not last:
                    is_small = copied.nbytes <= _MOST_SNAPSHOT
                    self._base, self._node = None, copied if is_small else None
                return copied
        base = storage.current()
        node = self._node
        if self._base is not base or node is None:
            node = self.of(base)
            if self.detached and node.needs_grad:
                node = ops.detach(node)
            self._base = base
            self._node = node
        elif node.data is not None and node.inputs and hook.watcher is None:
            # A capture, which the hook tells of, has to see how values were made.
            return self._settle(storage, base, node)
        return node

    def _settle(self, storage: Storage, base: Node, node: Node) -> Node:
        """Forget how a computed value was made, unless a gradient may still need to know."""
        orders = self.root and base.data is None and len(self.steps) == 1
        settled = ops.input_(node.shape, node.dtype, node.data)
        if node.needs_grad:
            if not orders or storage.fn is None or not storage.fn.dead:
                return node
            settled = tape.boundary(settled, tape.Bridge(None))
        self._node = settled
        if orders:  # the storage, an order of the same values, need not know either
            self._base = storage.node = self.write_back(base, settled)
        return settled

    def of(self, base: Node) -> Node:
        """The view's value where the storage's is ``base``."""
        key = (base.form, self.steps)
        heads = _routes.get(key)
        if heads is not None:
            for head in heads:
                base = make_of(head, (base,))
            return base
        node = base
        for step in self.steps:
            node = step.read(node)
        _note_route(key, base, node)
        return node

    def show(self, base: Node, node: Node) -> None:
        """Know ``node`` as the view's value where the storage's is ``base``."""
        self._base, self._node = base, node

    def shown(self, storage: Storage) -> Node | None:
        """The view's value, if it was read since the storage was last written to."""
        return self._node if self._base is storage.node else None

    @property
    def arranged(self) -> tuple[Step, ...]:
        """The steps from the storage's value to that of the tensor that it is a view of."""
        outer = None if self.source is None else self.source._view
        return () if outer is None else outer.steps

    def forget(self) -> None:
        """Read the storage anew: a node that was computed no longer knows what it is a view of."""
        self._base = self._node = None

    def refuse_repeats(self) -> None:
        """Raise LazytError, in PyTorch's words, when the view repeats elements (stride 0)."""
        if any(n > 1 and s == 0 for n, s in zip(self.shape, self.strides)) and 0 not in self.shape:
            raise LazytError(OVERLAP)

    def write_back(self, base: Node, value: Node) -> Node:
        """The storage's value after ``value`` was written through the view.

        Raises LazytError, in PyTorch's words, when elements of the view share memory.
        """
        if not _is_uniform(value):
            self.refuse_repeats()
        steps = self.steps
        if len(steps) == 2:
            first, second = steps
            if type(first) is Slice and type(second) is Reshape:  # a row, or an element
                return first.write(base, ops.reshape(value, first.sizes))
        return self._written(base, value, steps)

    def _written(self, base: Node, value: Node, steps: tuple[Step, ...]) -> Node:
        """``base`` after ``value`` was written to where the steps lead."""
        values = [base]
        for step in steps[:-1]:
            values.append(step.read(values[-1]))
        last = 0  # the first of the steps that only move elements
        for place, step in enumerate(steps):
            if isinstance(step, CHANGING):
                last = place + 1
        if any(isinstance(step, (Expand, Window)) for step in steps[last:]):
            value = self._scatter(values[last], value, steps[last:])
            steps = steps[:last]
        for place in reversed(range(len(steps))):
            step = steps[place]
            if isinstance(step, (Expand, Window)):
                return self._written(base, value, steps[: place + 1])
            value = step.write(values[place], value)
        return value

    def _scatter(self, base: Node, value: Node, steps: tuple[Step, ...]) -> Node:
        """``base`` with ``value`` at the view's places, found by sending positions through it.

        A part of a view with repeated elements may be writable though the whole is not.
        """
        if not _is_uniform(value) and overlaps(self.shape, self.strides):
            raise LazytError(OVERLAP)
        places = ops.reshape(ops.iota(base.size), base.shape)
        for step in steps:
            places = step.read(places)
        size = (value.size,)
        flat = ops.reshape(base, (base.size,))
        flat = ops.scatter(flat, ops.reshape(places, size), ops.reshape(value, size), 0, "set")
        return ops.reshape(flat, base.shape)

    def fn_now(self, storage: Storage) -> GradFn | None:
        """The grad_fn, made anew after the storage was written to, by autograd or not."""
        owner = storage.fn
        if self.root:
            return owner
        if self.multiple is not None and owner is not None and not self.detached:
            self._refuse_if_stale(storage)
        if owner is self.made_for and (owner is None or self.made_at == storage.version_now()):
            return self.fn
        self.made_for, self.made_at = owner, storage.version_now()
        before, self.fn = self.fn, None
        if owner is not None and not self.detached:
            whole = storage.node
            index = tape.output_number(owner, whole) if owner.several else 0
            moves = tape.Moves(self.steps, whole.shape, whole.dtype, index, 0, self.arranged)
            self.fn = tape.record_view("AsStrided", owner, moves)
            tape.hand_over(before, self.fn)
        return self.fn

    def _refuse_if_stale(self, storage: Storage) -> None:
        if storage.version_now() != self.version and self.multiple is not None:
            name, number = self.multiple
            raise GradientError(
                f"Output {number} of {name} is a view and its base or another view of its base has "
                "been modified inplace. This view is the output of a function that returns "
                "multiple views. Such functions do not allow the output views to be modified "
                "inplace. You should replace the inplace operation by an out-of-place one."
            )


def check_bounds(shape: Shape, strides: Shape, offset: int, extent: int, itemsize: int) -> None:
    """Raise ShapeError, in PyTorch's words, unless the view lies inside ``extent`` elements."""
    if 0 in shape:
        return
    needed = 1 + offset + sum((n - 1) * s for n, s in zip(shape, strides))
    if needed > extent:
        raise ShapeError(
            f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {offset}, "
            f"and itemsize {itemsize} requiring a storage size of {needed * itemsize} are out of "
            f"bounds for storage of size {extent * itemsize}"
        )
