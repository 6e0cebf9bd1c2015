"""The common operators on plain tensors, each as one function.

Of a chain of element-wise operations on small tensors, Python is all that costs. What an operator
decides about its operands (forms, promotion, broadcasting) depends on their types alone: the head
of the node that it makes is remembered by the numbers of those types, and what is left is written
out here: find or make the node, and the tensor around it. All that is not plain goes the long way.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from lazyt.config import config
from lazyt.functional.operands import constant_of
from lazyt.functional.overriding import answered
from lazyt.handle import pending
from lazyt.handle.autocast import mode as cast_mode
from lazyt.handle.device import pending_storages
from lazyt.handle.dispatch import over_budget
from lazyt.handle.grad_mode import blocks
from lazyt.handle.hooks import hook
from lazyt.handle.pending import PATIENCE
from lazyt.handle.storage import Storage
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType
from lazyt.ir.forms import PLACED
from lazyt.ir.graph import Head, Known, Node, clock, make_like, make_pair
from lazyt.ir.source_lines import position_of, recording
from lazyt.ops.pointwise import MAP

Operator = Callable[[Any, Any], Any]
#: How an operation with a number is carried out; which are known, of numbers and of their kinds.
WithNumber = tuple[Head, Known, Node]
Numbers = dict[tuple[int, Any, type], WithNumber]
Kinds = dict[Any, tuple[Head, Known, DType]]

#: Pairs of types, and numbers, that are remembered for each operator.
_MOST = 4096
_new_tensor = object.__new__
_new_storage = Storage.__new__
_budget = pending.budget
_frame = sys._getframe


def quick(slow: Operator, reflected: bool = False) -> Operator:
    """The operator ``slow`` with a short way for two plain tensors, or one and a number, which it
    takes first if it is ``reflected``, where no gradient is recorded."""
    heads: dict[Any, tuple[Head, Known]] = {}
    numbers: Numbers = {}
    kinds: Kinds = {}

    def operate(self: Any, other: Any) -> Any:
        if type(self) is not Tensor or hook.watcher is not None or blocks.open or config.eager:
            return slow(self, other)
        storage, view = self._storage, self._view
        x: Any = storage.node
        if view is not None or storage.share is not None or (x.data is not None and x.inputs):
            x = _value_of(self)
        if x is None or x.needs_grad:
            return slow(self, other)
        kind = type(other)
        if kind is Tensor:
            storage, outer = other._storage, other._view
            y = storage.node
            if outer is not None or storage.share is not None or (y.data is not None and y.inputs):
                y = _value_of(other)
            if y is None or y.needs_grad:
                return slow(self, other)
            key: Any = (x.form, y.form)
            if view is not None or outer is not None:
                key = (*key, view and view.strides, outer and outer.strides)
            if (made := heads.get(key)) is None:
                return _learn(slow(self, other), x, y, heads, key)
            head, known = made
        elif kind is float or kind is int:
            with_number = numbers.get((x.form, other, kind)) if view is None else None
            if with_number is None:
                key = (x.form, kind, view and view.strides)
                with_number = _of_kind(kinds, numbers, key, other)
                if with_number is None:
                    made_so = slow(self, other)
                    return _learn_number(made_so, x, other, numbers, kinds, key, reflected)
            head, known, y = with_number
            if reflected:
                x, y = y, x
        else:
            return slow(self, other)
        storage = _new_storage(Storage)
        if known[2] < PLACED:
            if cast_mode.dtype is not None:
                return slow(self, other)
            pending_storages.add(storage)
        storage.node = node = make_pair(head, known, x, y, _frame(1))
        storage.share = storage.fn = None
        storage.version = 0
        tensor = _new_tensor(Tensor)
        tensor._storage, tensor._view = storage, None
        _budget.nodes -= 1
        if _budget.nodes < 0 or node.oldest < clock.now - PATIENCE:
            over_budget(storage)
        return tensor

    operate.__name__ = slow.__name__
    return operate


def quick_unary(slow: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The same for a function of one tensor, ``(input, *, out=None)``."""
    heads: dict[Any, Head] = {}

    def operate(input: Tensor, *, out: Tensor | None = None) -> Tensor:
        if type(input) is not Tensor or out is not None or hook.watcher is not None:
            try:
                return slow(input, out=out)
            except (TypeError, AttributeError):
                return answered(operate)
        storage = input._storage
        x = storage.node
        view = input._view
        if view is not None or storage.share is not None or (x.data is not None and x.inputs):
            if storage.fn is not None or x.form < PLACED:
                return slow(input)
            x = input.node
        if x.needs_grad or blocks.open or config.eager:
            return slow(input)
        key = x.form if view is None else (x.form, view.strides)
        head = heads.get(key)
        if head is None or (x.form < PLACED and cast_mode.dtype is not None):
            result = slow(input)
            node = result._storage.node
            if result._view is None and _is_plain(node, x) and node.inputs == (x,):
                _remember(heads, key, node.head)
            return result
        source = position_of(_frame(1)) if recording.enabled else None
        storage = _new_storage(Storage)
        storage.node = node = make_like(head, (x,), source)
        storage.share = storage.fn = None
        storage.version = 0
        if node.form < PLACED:
            pending_storages.add(storage)
        tensor = _new_tensor(Tensor)
        tensor._storage = storage
        tensor._view = None
        _budget.nodes -= 1
        if _budget.nodes < 0 or node.oldest < clock.now - PATIENCE:
            over_budget(storage)
        return tensor

    return operate


def _value_of(tensor: Tensor) -> Node | None:
    """The value of a tensor that is a view, or shares its memory; None where it has a gradient."""
    return tensor.node if tensor._storage.fn is None else None


def _remember(table: dict[Any, Any], key: Any, value: Any) -> None:
    if len(table) >= _MOST:
        table.clear()
    table[key] = value


def _of_kind(kinds: Kinds, numbers: Numbers, key: Any, number: Any) -> WithNumber | None:
    """What is known of a tensor's operation with a number, from others of its kind."""
    found = kinds.get(key)
    if found is None or found[1][2] < PLACED:
        return None
    head, known, dtype = found
    made = head, known, constant_of(number, dtype)
    if key[2] is None and number:  # of zeros two are equal
        _remember(numbers, (key[0], number, key[1]), made)
    return made


def _learn(result: Any, x: Node, y: Node, heads: dict[Any, tuple[Head, Known]], key: Any) -> Any:
    """Notes how ``result`` was made of two tensors, if another of these types would be made so."""
    if type(result) is Tensor and result._view is None:
        node = result._storage.node
        on_host = len(key) == 2 or node.form > PLACED
        if on_host and _is_plain(node, x) and y.dtype is x.dtype and node.inputs == (x, y):
            _remember(heads, key, (node.head, (node.shape, node.dtype, node.form)))
    return result


def _learn_number(
    result: Any, x: Node, number: Any, numbers: Numbers, kinds: Kinds, key: Any, reflected: bool
) -> Any:
    """The same of a tensor and a number; not of zeros, of which two are equal, nor of one, by
    which nothing may be changed."""
    if type(result) is Tensor and result._view is None and (number or type(number) is int):
        node = result._storage.node
        inputs = node.inputs[::-1] if reflected else node.inputs
        is_pair = len(inputs) == 2 and inputs[0] is x
        if is_pair and _is_plain(node, x) and inputs[1].op.name == "const":
            known, constant = (node.shape, node.dtype, node.form), inputs[1]
            if key[2] is None:
                _remember(numbers, (x.form, number, type(number)), (node.head, known, constant))
            if number != 1 and constant_of(number, constant.dtype) is constant:
                _remember(kinds, key, (node.head, known, constant.dtype))
    return result


def _is_plain(node: Node, x: Node) -> bool:
    """Whether a result depends on nothing but types: not on what the default dtype is, say."""
    return node.op is MAP and x.dtype.kind in "fc" and not node.needs_grad
