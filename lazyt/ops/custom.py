"""``custom``: a call of a kernel that a user wrote, in C or CUDA C.

A kernel has one launch and one or several results; a node stands for one of them. The graph knows
the kernel by its text alone, so that equal texts are equal kernels, and other texts other plans.
What its indices reach is proved before a node is made (``lazyt/kernels/memory_kernels.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lazyt.errors import DTypeError, InternalError, ShapeError
from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Node, NoGradient, Shape, Type, make
from lazyt.ops import builders as build
from lazyt.ops.registry import define_op


class CustomParams(NamedTuple):
    """One call of a kernel, and which of its results.

    Attributes:
        name: what the user calls it.
        target: ``c`` or ``cuda``.
        function: the name of the kernel's function in the text.
        text: C of the function and its helpers.
        used: functions of the prelude that the text calls.
        slots: what the function is given, in order: ``in`` (the next operand), ``value`` (its one
            element), ``out`` (the next result), ``threads``, or a whole number.
        read_shapes, read_dtypes: of the operands, for one example.
        shapes, dtypes: of the results, for one example.
        result: the number of this one.
        batched: for each operand, whether it has one value for each example.
        examples: how many examples there are along a new first axis; 0 without such an axis.
        grid: in CUDA, blocks, threads and bytes that a block shares, and whether threads wait for
            each other (1 or 0); else empty.
    """

    name: str
    target: str
    function: str
    text: str
    used: tuple[str, ...]
    slots: tuple[str, ...]
    read_shapes: tuple[Shape, ...]
    read_dtypes: tuple[DType, ...]
    shapes: tuple[Shape, ...]
    dtypes: tuple[DType, ...]
    result: int
    batched: tuple[int, ...]
    examples: int
    grid: tuple[int, ...]


#: What runs a kernel alone, for the interpreter: ``(node, *arrays) -> array``. The module that
#: makes nodes of this op registers one.
runners: list[Callable[..., Any]] = []


def _infer(params: CustomParams, *inputs: Node) -> Type:
    name, count = params.name, params.examples
    if len(inputs) != len(params.read_shapes):
        raise ShapeError(f"{name}: {len(params.read_shapes)} operands, not {len(inputs)}")
    if not 0 <= params.result < len(params.shapes):
        raise ShapeError(f"{name}: there is no result number {params.result}")
    every = zip(inputs, params.read_shapes, params.read_dtypes, params.batched, strict=True)
    for number, (node, shape, dtype, many) in enumerate(every):
        wanted = (count, *shape) if many else shape
        if node.shape != wanted:
            raise ShapeError(
                f"{name}: operand {number} is {list(node.shape)}, and was checked for "
                f"{list(wanted)}"
            )
        if node.dtype is not dtype:
            raise DTypeError(f"{name}: operand {number} is {node.dtype.name}, not {dtype.name}")
    shape = params.shapes[params.result]
    return Type((count, *shape) if count else shape, params.dtypes[params.result])


def _evaluate(node: Node, *arrays: Any) -> Any:
    if not runners:
        raise InternalError("ops.custom", "nothing is there that runs kernels of users' own")
    return runners[0](node, *arrays)


def _batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    """More examples in one launch. Where there are examples already, the new ones count first."""
    params = node.params
    size = next(item.shape[0] for item, flag in zip(inputs, batched) if flag)
    if not params.examples:
        flags = tuple(int(flag) for flag in batched)
        return make(node.op, tuple(inputs), params._replace(batched=flags, examples=size))
    count = params.examples
    flat: list[Node] = []
    for item, shape, old, new in zip(inputs, params.read_shapes, params.batched, batched):
        if old or new:
            whole = build.reshape(item, (size if new else 1, count if old else 1, *shape))
            item = build.reshape(build.expand(whole, (size, count, *shape)), (size * count, *shape))
        flat.append(item)
    flags = tuple(int(old or new) for old, new in zip(params.batched, batched))
    made = make(node.op, tuple(flat), params._replace(batched=flags, examples=size * count))
    return build.reshape(made, (size, *node.shape))


_REASON = "a kernel of your own has no gradient but the one you give: pass vjp= (jvp= forward)"

CUSTOM = define_op(
    "custom",
    params=CustomParams,
    infer=_infer,
    evaluate=_evaluate,
    vjp=NoGradient(_REASON),
    jvp=NoGradient(_REASON),
    batch=_batch,
    lower="custom",
)


def custom(params: CustomParams, operands: Sequence[Node]) -> list[Node]:
    """The results of a kernel, one node for each; ``params.result`` does not count.

    Raises ShapeError and DTypeError for operands other than those of ``params``.
    """
    return [
        make(CUSTOM, tuple(operands), params._replace(result=number))
        for number in range(len(params.shapes))
    ]
