"""``python``: a call of the program's Python that stands between compiled kernels.

The body of a custom operator reads its operands' memory, with NumPy or otherwise, so that no graph
says what it does. In a captured function such a call is a node for each result: plans end before it
and begin after it (``lazyt/plan/control/schedules.py``). It has no gradient but the one that was
registered for the operator, which lies around it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lazyt.errors import InternalError, LazytError, ShapeError
from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Node, NoGradient, Shape, Type, make
from lazyt.ops import builders as build
from lazyt.ops.registry import define_op

_numbers = itertools.count()


class PythonCall(str):
    """One call. Two calls are two, whatever they are given: each runs once. As a text, which is
    all that the text of a graph has of it, it is the name of what is called.

    Attributes:
        name: what was called, for messages.
        function: from the buffers of the operands to those of the results.
        types: those of the results.
        number: calls are made in the order of their numbers.
        ready: the buffers of the results, once it has run.
    """

    name: str
    function: Callable[[Sequence[Any]], list[Any]]
    types: tuple[Type, ...]
    number: int
    ready: list[Any] | None

    def __new__(
        cls, name: str, function: Callable[[Sequence[Any]], list[Any]], types: Sequence[Type]
    ) -> PythonCall:
        """A call that did not run yet."""
        made = super().__new__(cls, name)
        made.name, made.function, made.types = name, function, tuple(types)
        made.number, made.ready = next(_numbers), None
        return made

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return object.__hash__(self)

    def again(self) -> PythonCall:
        """Another call that does the same."""
        return PythonCall(self.name, self.function, self.types)

    def run(self, buffers: Sequence[Any]) -> list[Any]:
        """The buffers of the results, computed the first time."""
        if self.ready is None:
            self.ready = self.function(buffers)
        return self.ready


class PythonParams(NamedTuple):
    """A call, and which of its results.

    Attributes:
        call: the call; in a graph that was read from text the name of what it called.
        result: the number of the result.
        shape, dtype: of the result.
    """

    call: PythonCall | str
    result: int
    shape: Shape
    dtype: DType


#: What runs a call alone, for the interpreter: ``(node, *arrays) -> array``. The module that runs
#: them in plans registers it.
runners: list[Callable[..., Any]] = []


def _infer(params: PythonParams, *inputs: Node) -> Type:
    call, found = params.call, Type(params.shape, params.dtype)
    if isinstance(call, PythonCall):
        if not 0 <= params.result < len(call.types):
            raise ShapeError(f"{call.name} has no result {params.result}")
        if found != call.types[params.result]:
            raise ShapeError(f"{call.name}: result {params.result} is another type than {found}")
    return found


def _evaluate(node: Node, *arrays: Any) -> Any:
    if not isinstance(node.params.call, PythonCall):
        raise LazytError(f"{node.params.call}: the text of a graph does not say what Python does")
    if not runners:
        raise InternalError("ops.control", "nothing is there that runs Python")
    return runners[0](node, *arrays)


def _batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    """A call for each example."""
    size = next(item.shape[0] for item, flag in zip(inputs, batched) if flag)
    found = []
    for number in range(size):
        given = [_row(i, number) if flag else i for i, flag in zip(inputs, batched)]
        made = make(node.op, tuple(given), node.params._replace(call=node.params.call.again()))
        found.append(build.reshape(made, (1, *node.shape)))
    return build.concat(found, 0)


def _row(node: Node, number: int) -> Node:
    rank = len(node.shape)
    starts, sizes = (number, *(0,) * (rank - 1)), (1, *node.shape[1:])
    return build.reshape(build.slice_(node, starts, sizes, (1,) * rank), node.shape[1:])


_REASON = (
    "what Python computes has no gradient but the one that is registered for its operator: "
    "register_autograd"
)

PYTHON = define_op(
    "python",
    params=PythonParams,
    infer=_infer,
    evaluate=_evaluate,
    vjp=NoGradient(_REASON),
    jvp=NoGradient(_REASON),
    batch=_batch,
    lower="python",
)


def results_of(call: PythonCall, operands: Sequence[Node]) -> list[Node]:
    """The results of a call, one node for each."""
    inputs = tuple(operands)
    return [
        make(PYTHON, inputs, PythonParams(call, number, *type_))
        for number, type_ in enumerate(call.types)
    ]


__all__ = ["PYTHON", "PythonCall", "PythonParams", "results_of", "runners"]
