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

from lazyt import pending
from lazyt.cast_mode import mode as cast_mode
from lazyt.config import config
from lazyt.dispatch import over_budget
from lazyt.functional.operands import constant_of
from lazyt.grad_mode import blocks
from lazyt.ir.dtypes import DType
from lazyt.ir.forms import PLACED
from lazyt.ir.graph import Head, Known, Node, clock, make_like, make_pair
from lazyt.ir.positions import position_of, recording
from lazyt.ops.pointwise import MAP
from lazyt.pending import PATIENCE
from lazyt.placing import waiting
from lazyt.storage import Storage
from lazyt.tensor import Tensor
from lazyt.watching import hook

Operator = Callable[[Any, Any], Any]

#: Pairs of types, and numbers, that are remembered for each operator.
_MOST = 4096
_new_tensor = Tensor.__new__
_new_storage = Storage.__new__
_budget = pending.budget
_frame = sys._getframe


def quick(slow: Operator, reflected: bool = False) -> Operator:
    """The operator ``slow`` with a short way for two plain tensors, or one and a number, where no
    gradient is recorded.

    ``reflected``: it takes the number first.
    """
    heads: dict[Any, tuple[Head, Known]] = {}
    numbers: dict[tuple[int, Any, type], tuple[Head, Known, Node]] = {}
    kinds: dict[Any, tuple[Head, Known, DType]] = {}

    def operate(self: Any, other: Any) -> Any:
        if type(self) is not Tensor or hook.watcher is not None or blocks.open or config.eager:
            return slow(self, other)
        storage = self._storage
        x = storage.node
        view = self._view
        if view is not None or storage.share is not None or (x.data is not None and x.inputs):
            if storage.fn is not None:
                return slow(self, other)
            x = self.node
        if x.needs_grad:
            return slow(self, other)
        kind = type(other)
        if kind is Tensor:
            storage = other._storage
            y = storage.node
            outer = other._view
            if outer is not None or storage.share is not None or (y.data is not None and y.inputs):
                if storage.fn is not None:
                    return slow(self, other)
                y = other.node
            if y.needs_grad:
                return slow(self, other)
            key: Any = (x.form, y.form)
            if view is not None or outer is not None:
                key = (
                    *key,
                    None if view is None else view.strides,
                    None if outer is None else outer.strides,
                )
            made = heads.get(key)
            if made is None:
                return _learn(slow(self, other), x, y, heads, key)
            head, known = made
        elif kind is float or kind is int:
            with_number = numbers.get((x.form, other, kind)) if view is None else None
            if with_number is not None:
                head, known, y = with_number
            else:
                key = (x.form, kind, None if view is None else view.strides)
                of_kind = kinds.get(key)
                if of_kind is None or (known := of_kind[1])[2] < PLACED:
                    store = numbers if view is None else None
                    return _learn_number(slow(self, other), x, other, store, kinds, key, reflected)
                head = of_kind[0]
                y = constant_of(other, of_kind[2])
                if view is None and other:  # of zeros two are equal
                    _remember(numbers, (x.form, other, kind), (head, known, y))
            if reflected:
                x, y = y, x
        else:
            return slow(self, other)
        storage = _new_storage(Storage)
        if known[2] < PLACED:
            if cast_mode.dtype is not None:
                return slow(self, other)
            waiting.add(storage)
        storage.node = node = make_pair(head, known, x, y, _frame(1))
        storage.share = storage.fn = None
        storage.version = 0
        tensor = _new_tensor(Tensor)
        tensor._storage = storage
        tensor._view = None
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
            return slow(input, out=out)
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
            waiting.add(storage)
        tensor = _new_tensor(Tensor)
        tensor._storage = storage
        tensor._view = None
        _budget.nodes -= 1
        if _budget.nodes < 0 or node.oldest < clock.now - PATIENCE:
            over_budget(storage)
        return tensor

    return operate


def _remember(table: dict[Any, Any], key: Any, value: Any) -> None:
    if len(table) >= _MOST:
        table.clear()
    table[key] = value


def _learn(result: Any, x: Node, y: Node, heads: dict[Any, tuple[Head, Known]], key: Any) -> Any:
    """Notes how ``result`` was made of two tensors, if another of these types would be made so."""
    if type(result) is Tensor and result._view is None:
        node = result._storage.node
        on_host = len(key) == 2 or node.form > PLACED
        if on_host and _is_plain(node, x) and y.dtype is x.dtype and node.inputs == (x, y):
            _remember(heads, key, (node.head, (node.shape, node.dtype, node.form)))
    return result


def _learn_number(
    result: Any,
    x: Node,
    number: Any,
    numbers: dict[tuple[int, Any, type], tuple[Head, Known, Node]] | None,
    kinds: dict[Any, tuple[Head, Known, DType]],
    key: Any,
    reflected: bool,
) -> Any:
    """The same of a tensor and a number; not of zeros, of which two are equal."""
    if type(result) is Tensor and result._view is None and (number or type(number) is int):
        node = result._storage.node
        inputs = node.inputs[::-1] if reflected else node.inputs
        if _is_plain(node, x) and inputs[0] is x and inputs[-1].op.name == "const":
            known = (node.shape, node.dtype, node.form)
            if numbers is not None:
                _remember(numbers, (x.form, number, type(number)), (node.head, known, inputs[1]))
            if constant_of(number, inputs[1].dtype) is inputs[1] and number != 1:
                _remember(kinds, key, (node.head, known, inputs[1].dtype))
    return result


def _is_plain(node: Node, x: Node) -> bool:
    """Whether a result depends on nothing but types: not on what the default dtype is, say."""
    return node.op is MAP and x.dtype.kind == "f" and not node.needs_grad
