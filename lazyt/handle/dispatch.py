"""How functions read tensors, make new ones, write into old ones, and become methods."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from lazyt import ops
from lazyt.config import config
from lazyt.errors import DTypeError, GradientError, LazytError, ShapeError
from lazyt.handle import pending, tape
from lazyt.handle.device import has_no_values, pending_storages, settled
from lazyt.handle.function_table import declare_grad_fn
from lazyt.handle.grad_mode import blocks, first_version, mode
from lazyt.handle.hooks import hook
from lazyt.handle.layout import is_dense, strides_in
from lazyt.handle.pending import PATIENCE
from lazyt.handle.storage import Storage
from lazyt.handle.tape import AccumulateGrad, GradFn, Moves, Written, hand_over, output_number
from lazyt.handle.tensor import Tensor
from lazyt.handle.views import OVERLAP, Permute, Step, View, contiguous_strides, is_contiguous
from lazyt.ir.dtypes import DType, dtype_by_numpy
from lazyt.ir.forms import PLACED, use
from lazyt.ir.graph import Node, Shape, clock, record_source
from lazyt.runtime.memory import Buffer

# Writes whose operands lie in the memory that is written to, refused where PyTorch refuses them.
#
# Here such a write would be well defined, because operands keep their values. But a program that
# relies on it fails in PyTorch, and silently differs where PyTorch does not notice.


_MESSAGE = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to "
    "a single memory location. Please clone() the tensor before performing the operation."
)


def one_memory(a: Storage, b: Storage) -> bool:
    """Whether two storages share their memory."""
    if a is b:
        return True
    return a.share is not None and b.share is not None and a.share.memory is b.share.memory


def refuse_overlap(target: Tensor, operands: Iterable[Any], same: bool = False) -> None:
    """Raise LazytError, in PyTorch's words, when an operand partly shares the target's elements.

    Args:
        operands: of which only tensors count. Tensors with gaps are not looked into, as in
            PyTorch.
        same: whether an operand that is the very target is refused too.
    """
    for operand in operands:
        if not isinstance(operand, Tensor) or not one_memory(target._storage, operand._storage):
            continue
        if operand is target and not same:
            continue
        if operand is target or _meet(target, operand, same):
            raise LazytError(_MESSAGE)


def refuse_repeats(target: Tensor) -> None:
    """Raise LazytError, in PyTorch's words, when the target shows an element several times."""
    if any(n > 1 and not stride for n, stride in zip(target.shape, target.strides)):
        raise LazytError(OVERLAP)


def _meet(a: Tensor, b: Tensor, same: bool) -> bool:
    shapes = tuple(a.shape), tuple(b.shape)
    if 0 in shapes[0] or 0 in shapes[1]:
        return False
    if not (is_dense(shapes[0], a.strides) and is_dense(shapes[1], b.strides)):
        return False
    first, last = a._offset * a.itemsize, (a._offset + a.shape.numel()) * a.itemsize
    begin, end = b._offset * b.itemsize, (b._offset + b.shape.numel()) * b.itemsize
    if (first, last) == (begin, end) and a.strides == b.strides:
        return same
    return first < end and begin < last


F = TypeVar("F", bound=Callable[..., Any])

_new_tensor = object.__new__
_new_storage = Storage.__new__
_budget = pending.budget
record_source(config.provenance)


def wrap(node: Node, *parents: Any, name: str | None = None) -> Tensor:
    """A tensor of the value ``node``, with storage of its own.

    Args:
        node: the value. Under ``no_grad`` it loses its gradient history.
        parents: the operands it was made from; other values than tensors are passed over.
        name: the function's name for ``grad_fn``, in full (``SumBackward1``) or not (``sum``);
            the calling function's name by default.
    """
    storage = _new_storage(Storage)
    if use.any:
        node = settled(node, parents, name)
        if node.form < PLACED:
            pending_storages.add(storage)
    storage.share = None
    storage.version = first_version() if blocks.open else 0
    storage.fn = None
    if node.needs_grad:
        if mode.enabled:
            storage.node = node
            called = name or sys._getframe(1).f_code.co_name
            storage.fn = tape.record(called, parents, storage)
        else:
            node = ops.detach(node)
    storage.node = node
    tensor = _new_tensor(Tensor)
    tensor._storage = storage
    tensor._view = None
    _budget.nodes -= 1
    if _budget.nodes < 0 or config.eager or node.oldest < clock.now - PATIENCE:
        over_budget(storage)
    return tensor


# In which order the elements of a result lie in memory, as PyTorch's users can see in strides.
#
# A result of functions that work element by element keeps the order of its operands: the sum of
# two transposed matrices is a transposed matrix. Values of the graph are row-major, so such a
# result is a permutation of a row-major storage; nothing is moved until somebody looks at the
# memory itself.


def lay_out(tensor: Tensor, strides: Shape) -> Tensor:
    """A new ``tensor``, of which nobody knows yet, with dense ``strides``; returns it."""
    shape = tuple(tensor.shape)
    if is_contiguous(shape, strides):
        if strides == contiguous_strides(shape):
            return tensor
        order = list(range(len(shape)))
    else:
        order = sorted(range(len(shape)), key=lambda axis: (-strides[axis], shape[axis] != 1, axis))
    storage = tensor._storage
    node = storage.node
    back = tuple(sorted(range(len(order)), key=order.__getitem__))
    view = View(shape, strides, 0, (Permute(back),), "Permute")
    view.root = True
    storage.node = ops.permute(node, order)
    view.show(storage.node, node)
    tensor._view = view
    return tensor


declare_grad_fn("Copy", replaces=True)
declare_grad_fn("CopySlices", saves="q")


def copied(input: Tensor, node: Node, name: str, wanted: Any) -> Tensor:
    """A copy of ``input`` with the value ``node``, in the format ``wanted`` (None preserves)."""
    result = wrap(node, input, name=name)
    shape = tuple(input.shape)
    if wanted is None and input._view is None:
        return result
    return lay_out(result, strides_in(shape, input.strides, wanted, name.lower()))


def over_budget(storage: Storage) -> None:
    """What is due at some new storages: a capture hears of it, or pending work is computed."""
    if hook.watcher is not None:  # it sets the budget so that it hears of every new storage
        hook.watcher.created(storage)
    elif has_no_values(storage.node):
        return  # there is nothing to compute
    elif any(found(storage.node) for found in pending.of_ranks):
        return  # the parts are computed instead
    elif config.eager:
        pending.realize_result(storage.node)
    else:
        due = pending.check_budget if _budget.nodes < 0 else pending.settle_old
        due(storage.node)


def view_of(
    base: Tensor,
    moves: tuple[Step, ...],
    shape: Shape,
    strides: Shape,
    offset: int,
    name: str,
) -> Tensor:
    """A tensor that shares ``base``'s storage.

    Args:
        moves: the movements from ``base``'s value to the view's.
        shape, strides, offset: the arrangement in memory, in elements.
        name: the function's name, for ``grad_fn``.
    """
    outer = base._view
    steps = () if outer is None else outer.steps
    view = View(shape, strides, offset, steps + moves, name)
    fn = base._fn if mode.enabled else base._storage.fn
    if fn is not None:
        if mode.enabled:
            before = base._storage.node if outer is None else outer
            index = output_number(fn, base.node) if fn.several else 0
            made = Moves(moves, before.shape, base.dtype, index)
            view.fn = tape.record_view(name, fn, made)
            view.made_for = base._storage.fn
            view.made_at = base._storage.version_now()
        else:
            view.detached = True
    else:
        view.detached = not mode.enabled or (outer is not None and outer.detached)
    if outer is not None and outer.multiple is not None:
        view.multiple = (name, 0)
        view.version = base._storage.version_now()
    if outer is not None and outer.custom is not None:
        view.custom = (name, 0)
    view.source = base if outer is None or outer.source is None else outer.source
    tensor = _new_tensor(Tensor)
    tensor._storage = base._storage
    tensor._view = view
    return tensor


def unwrap(value: Tensor) -> Node:
    """The node of a tensor's value now."""
    return value.node


def array_node(array: np.ndarray[Any, Any]) -> Node:
    """A leaf with a copy of ``array``; raises DTypeError for types that tensors do not have."""
    dtype = dtype_by_numpy(array.dtype)
    if dtype is None:
        raise DTypeError(
            f"can't convert np.ndarray of type numpy.{array.dtype.type.__name__}. The only "
            "supported types are: float64, float32, float16, int64, int32, int16, int8, uint64, "
            "uint32, uint16, uint8, and bool."
        )
    buffer = Buffer(array.nbytes)
    buffer.as_numpy(dtype, array.shape)[...] = array
    pending.spend_bytes(array.nbytes)
    return ops.input_(tuple(array.shape), dtype, buffer)


# ---------------------------------------------------------------------- writing

_LEAF = "a leaf Variable that requires grad is being used in an in-place operation."
_FROZEN_VIEW = (
    "A view was created in no_grad mode and is being modified inplace with grad mode enabled. "
    "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your "
    "code by moving both the view and the inplace either both inside the no_grad block (if you "
    "don't want the inplace to be tracked) or both outside (if you want the inplace to be tracked)."
)
_SEVERAL = (
    "is being modified inplace{mode}. This view is the output of a function that returns multiple "
    "views. Such functions do not allow the output views to be modified inplace. You should "
    "replace the inplace operation by an out-of-place one."
)


_CUSTOM = (
    "Output {} of {} is a view and is being modified inplace. This view was created inside a "
    "custom Function (or because an input was returned as-is) and the autograd logic to handle "
    "view+inplace would override the custom backward associated with the custom Function, leading "
    "to incorrect gradients. This behavior is forbidden. You can fix this by cloning the output of "
    "the custom Function."
)


def _refuse_multiple(view: View, differentiable: bool) -> None:
    name, number = view.multiple or ("", 0)
    if differentiable:
        raise GradientError(f"Output {number} of {name} is a view and " + _SEVERAL.format(mode=""))
    raise GradientError(
        "A view was created in no_grad mode and " + _SEVERAL.format(mode=" with grad mode enabled")
    )


def check_writable(target: Tensor) -> None:
    """Raise GradientError, in PyTorch's words, where autograd forbids an in-place write."""
    if not mode.enabled:
        return
    storage, view = target._storage, target._view
    if storage.fn is not None and view is not None and not view.detached:
        if view.multiple:
            _refuse_multiple(view, True)
        if view.custom is not None:
            name, number = view.custom
            raise GradientError(_CUSTOM.format(number, name))
    if isinstance(storage.fn, AccumulateGrad):
        if view is None or view.root:
            raise GradientError(_LEAF)
        if not view.detached:
            raise GradientError("a view of " + _LEAF)
    if view is not None and view.detached and storage.fn is not None:
        raise GradientError(_FROZEN_VIEW)


def assign(target: Tensor, result: Tensor) -> Tensor:
    """Write the value of ``result``, of the same shape and dtype, into ``target``; returns it.

    The gradient of the write is ``result``'s. Raises GradientError where autograd forbids it and
    LazytError where elements of ``target`` overlap.
    """
    check_writable(target)
    storage, view = target._storage, target._view
    value, fn = result.node, result._fn
    before = storage.fn
    if fn is not None:
        if not mode.enabled:
            fn = None
        elif view is not None and before is None:
            if view.multiple is not None:
                _refuse_multiple(view, False)
            if view.detached:
                raise GradientError(_FROZEN_VIEW)
    if view is None or view.root:
        given = result._view
        if isinstance(fn, AccumulateGrad) or not (given is None or given.root):
            fn = None if fn is None else _copied(target, result)
        storage.write(value if view is None else view.write_back(storage.current(), value), fn)
        if fn is not None and fn.saved:
            _move_saved(fn, result._storage, storage)
    else:
        base = storage.current()
        whole = view.write_back(base, value)
        if whole.needs_grad and mode.enabled:
            if not view.steps and base.needs_grad:
                whole = replaced_whole(base, value)
            fn = _written_through(target, view, result, base)
        storage.write(whole, fn)
    if before is not None and mode.enabled:
        hand_over(before, storage.fn)
        if view is not None:
            view.fn_now(storage)
    return _written(target, storage)


def replaced_whole(old: Node, value: Node) -> Node:
    """``value`` as what replaced all of ``old``, whose gradient is zero then, not absent."""
    rank = len(value.shape)
    return ops.update(old, value, (0,) * rank, (1,) * rank)


def _copied(target: Tensor, result: Tensor) -> GradFn:
    """The grad_fn of ``target`` after the value of ``result`` replaced its own."""
    fn = tape.record("Copy", (target, result), None)
    source = result._fn
    index = 0 if source is None or not source.several else output_number(source, result.node)
    fn.operands = Moves((), tuple(result.shape), result.dtype, index, 1)
    return fn


def _written_through(target: Tensor, view: View, result: Tensor, base: Node) -> GradFn:
    """The grad_fn of a storage of value ``base`` after ``result`` was written through ``view``."""
    storage, made = target._storage, result._fn
    old, shown = storage.fn, view.fn
    index = 0 if old is None or not old.several else output_number(old, base)
    if tape.watched and made is not None and shown in made.parents and old and shown is not old:
        # The gradient of the view's old value goes to the storage's, past the hooks of views.
        moves = Moves(view.steps, base.shape, base.dtype, index, 0, view.arranged)
        plain = tape.record_view("AsStrided", old, moves)
        first = made.parents.index(shown)
        made.parents = (*made.parents[:first], plain, *made.parents[first + 1 :])
    fn = tape.record("CopySlices", (target, result), None)
    fn.parents = (storage.fn, made)
    part = View(view.shape, view.strides, view.offset, view.steps, view.name)
    fn.operands = Written(part, base.shape, base.dtype, index, view.arranged)
    return fn


def assign_value(target: Tensor, value: Node) -> Tensor:
    """``assign`` of a value under ``no_grad``, which autograd does not hear of."""
    storage, view = target._storage, target._view
    storage.write(value if view is None else view.write_back(storage.current(), value), None)
    return _written(target, storage)


def _written(target: Tensor, storage: Storage) -> Tensor:
    _budget.nodes -= 1
    over = _budget.nodes < 0 or config.eager or storage.node.oldest < clock.now - PATIENCE
    if over and hook.watcher is None:
        over_budget(storage)
    return target


def _move_saved(fn: GradFn, source: Storage, target: Storage) -> None:
    """What saved its own result saved it in the place it was written to."""
    version = target.version_now()
    fn.saved = tuple((target, version) if s is source else (s, v) for s, v in fn.saved)


def _keep_original(fn: GradFn, target: Storage) -> None:
    """In-place functions may need their own old value: the graph has it, whatever is written."""
    for index, (storage, _) in enumerate(fn.saved):
        if storage is target:
            fn.saved = fn.saved[:index] + fn.saved[index + 1 :]
            return


_ORDER = "buifc"


def write_result(target: Tensor, result: Tensor) -> Tensor:
    """Finish an in-place function: cast ``result`` to ``target``'s dtype and write it there.

    Raises DTypeError when the cast would lose a whole category (a fraction to integers), and
    ShapeError when ``result`` has another shape, both in PyTorch's words.
    """
    node = target._storage.node
    value = result.dtype
    given, wanted = result._view, target._view
    if (result._storage.node if given is None else given).shape != (
        node if wanted is None else wanted
    ).shape:
        raise ShapeError(
            f"output with shape {list(target.shape)} doesn't match the broadcast shape "
            f"{list(result.shape)}"
        )
    fn = result._fn
    if fn is not None and fn.saved:
        _keep_original(fn, target._storage)
    dtype = target.dtype
    if value is not dtype:
        wanted_kind = "i" if dtype.kind == "u" else dtype.kind
        came = "i" if value.kind == "u" else value.kind
        if _ORDER.index(came) > _ORDER.index(wanted_kind):
            raise DTypeError(
                f"result type {type_title(value)} can't be cast to the desired output type "
                f"{type_title(dtype)}"
            )
        result = wrap(ops.cast(result.node, dtype), result, name="ToCopy")
    return assign(target, result)


_TITLES = {
    "bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int",
    "int64": "Long", "float16": "Half", "bfloat16": "BFloat16", "float32": "Float",
    "float64": "Double", "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64",
    "complex64": "ComplexFloat", "complex128": "ComplexDouble",
}  # fmt: skip


def type_title(dtype: DType) -> str:
    """The name that PyTorch's messages give to a dtype, such as ``Long``."""
    return _TITLES[dtype.name]


# ---------------------------------------------------------------------- methods


def method(*names: str) -> Callable[[F], F]:
    """Decorator: make a function a method of Tensor, under its own name or those given."""

    def attach(function: F) -> F:
        for name in names or (function.__name__,):
            setattr(Tensor, name, function)
        return function

    return attach


def add_property(name: str, value: property) -> None:
    """Make ``value`` a property of Tensor. Checkers know it from the generated stub."""
    setattr(Tensor, name, value)
