"""Which axes of an op's operands and result run together: its *factors*.

A factor is a loop of the op. If ranks divide it, each computes a part of the loop: of operands that
have an axis for it they need that axis divided, of others the whole value. A factor with an axis in
the result divides the result; one without is a reduction, and the result is *partial*.

Factors of ops that kernels write into expressions are read off their index maps: the op's own
``lower`` rule is run on symbolic indices. Those of the other kinds of kernels (reductions,
contractions, reads and writes by index, sorting, ...) follow from the parameters, which are their
index maps.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

from lazyt.ir.graph import Node, Op, Shape, Type, make
from lazyt.ir.index import (
    Axis,
    Guarded,
    Linear,
    Position,
    axes_of,
    operands,
    sub_expressions,
    variable,
)
from lazyt.ir.scalar import Arg, Call, Const, Expr
from lazyt.ops.leaves import input_

__all__ = ["Factor", "Rule", "rule_of"]

#: In the place of an axis: the operand is to be partial, as the result is.
PARTIAL = -2


class Factor(NamedTuple):
    """One loop of an op.

    Attributes:
        inputs: its axis in each operand; None for those that have none, ``PARTIAL`` for those that
            partial results are added to.
        out: its axis in the result; -1 for a reduction.
        reduction: by what the partial results of a reduction become one.
        extents: how long it is in each operand that has it, and in the result: the same number
            except for the outermost axes of a reshape.
    """

    inputs: tuple[int | None, ...]
    out: int
    reduction: str
    extents: tuple[int, ...]


class Rule(NamedTuple):
    """How an op may be divided.

    Attributes:
        factors: its loops.
        linear: sets of operands; if those of one set are partial sums, and the others are whole, so
            is the result.
        moves: whether its elements are some of its operands', so that all of them may be partial by
            any reduction.
    """

    factors: tuple[Factor, ...] = ()
    linear: tuple[frozenset[int], ...] = ()
    moves: bool = False


def rule_of(node: Node) -> Rule:
    """The factors of an op on operands of these types."""
    return _rule(node.op, node.params, tuple(item.type for item in node.inputs))


@functools.lru_cache(maxsize=4096)
def _rule(op: Op, params: Any, types: tuple[Type, ...]) -> Rule:
    node = make(op, tuple(input_(type_.shape, type_.dtype) for type_ in types), params)
    if callable(op.lower):
        return _of_index_map(node, op.lower)
    found = _OF_KERNELS.get(op.lower)
    return Rule() if found is None else found(node)


# --------------------------------------------------------------------- index maps


def _of_index_map(node: Node, lower: Callable[..., Any]) -> Rule:
    """Reads off where each operand is read for an element of the result."""
    axes = [Axis(f"i{a}", n) for a, n in enumerate(node.shape)]
    reads: list[tuple[int, tuple[Linear, ...]]] = []

    def read(source: Node, index: Sequence[Linear]) -> Expr:
        number = node.inputs.index(source)
        reads.append((number, tuple(index)))
        return Arg(number, source.dtype)

    if 0 in node.shape or any(0 in item.shape for item in node.inputs):
        return Rule()
    value = lower(node, tuple(map(variable, axes)), read)
    fixed = _axes_by_number(value)
    if hasattr(node.params, "strides"):  # positions in the memory of the whole value
        fixed = set(axes)
    found = []
    for out, axis in enumerate(axes):
        if axis in fixed:
            continue
        inputs = _followers(node, axis, reads, _outer(node, out))
        if inputs is not None and axis.extent > 1:
            found.append(_factor(node, inputs, out))
    linear = []
    whole = frozenset(range(len(node.inputs)))
    for some in (*(frozenset({n}) for n in whole), *((whole,) if len(whole) > 1 else ())):
        if some and _degree(value, some) == 1:
            linear.append(some)
    moves = node.op.is_movement or (whole in linear and node.op.name == "concat")
    return Rule(tuple(found), tuple(linear), moves)


def _axes_by_number(value: Expr) -> set[Axis]:
    """The axes along which an element depends on its number, which is another one in a part."""
    found: set[Axis] = set()
    for expr in sub_expressions(value):
        if isinstance(expr, Position):
            found |= axes_of(expr.index)
        elif isinstance(expr, Guarded):
            for guard in expr.guards:
                found |= axes_of(guard.index)
    return found


def _followers(
    node: Node,
    axis: Axis,
    reads: Sequence[tuple[int, tuple[Linear, ...]]],
    outer: tuple[int, int] | None,
) -> tuple[int | None, ...] | None:
    """For each operand its axis that runs with an axis of the result; None where one is read
    otherwise."""
    found: dict[int, int | None] = {}
    for number, index in reads:
        used = [a for a, at in enumerate(index) if axis in axes_of(at)]
        mine: int | None = None
        if used:
            shape = node.inputs[number].shape
            (a, *rest) = used
            same = not rest and index[a] == variable(axis) and shape[a] == axis.extent
            if not same and (outer is None or number != outer[0]):
                return None
            mine = a if same else outer[1]  # type: ignore[index]
        if found.setdefault(number, mine) != mine:
            return None
    return tuple(found.get(n) for n in range(len(node.inputs)))


def _outer(node: Node, out: int) -> tuple[int, int] | None:
    """Of a reshape: the operand's axis with as many elements before it as an axis of the result.
    Equal parts of the one are equal parts of the other."""
    if node.op.name != "reshape":
        return None
    (source,) = node.inputs
    before = prod(node.shape[:out])
    for a in range(len(source.shape)):
        if prod(source.shape[:a]) == before and source.shape[a] > 1:
            return 0, a
    return None


def _factor(node: Node, inputs: Sequence[int | None], out: int, reduction: str = "") -> Factor:
    sized = [
        node.inputs[n].shape[a] for n, a in enumerate(inputs) if a is not None and a != PARTIAL
    ]
    if out >= 0:
        sized.append(node.shape[out])
    return Factor(tuple(inputs), out, reduction, tuple(sized))


#: Scalar functions whose value is a sum of multiples of their arguments.
_ADDITIVE = frozenset({"add", "sub", "neg", "real", "imag", "conj", "complex"})
_LINEAR, _NEITHER, _ZERO = 1, 2, -1


def _degree(value: Expr, some: frozenset[int]) -> int:
    """How an expression depends on the partial arguments: 0 not at all, 1 linearly (a sum of
    multiples), 2 otherwise; -1 for zero, which is both of the first two."""
    degrees: dict[int, int] = {}
    for expr in sub_expressions(value):
        degrees[id(expr)] = _degree_of(expr, [degrees[id(p)] for p in operands(expr)], some)
    return degrees[id(value)]


def _degree_of(expr: Expr, parts: Sequence[int], some: frozenset[int]) -> int:
    if isinstance(expr, Arg):
        return int(expr.index in some)
    if isinstance(expr, Const):
        return _ZERO if expr.value == 0 else 0
    if isinstance(expr, Guarded):
        return _joined(parts)
    most = max(parts, default=0)
    if most <= 0:
        return 0
    if most == _NEITHER or not isinstance(expr, Call):
        return _NEITHER
    name = expr.fn.name
    if name in _ADDITIVE:
        return _joined(parts)
    if name == "mul":
        return _LINEAR if min(parts) <= 0 else _NEITHER
    if name == "div":
        return _LINEAR if parts[1] <= 0 else _NEITHER
    if name == "where":
        return _joined(parts[1:]) if parts[0] <= 0 else _NEITHER
    if name == "cast":
        kinds = expr.dtype.kind + expr.args[0].dtype.kind
        return _LINEAR if kinds in ("ff", "cf", "cc") else _NEITHER
    return _NEITHER


def _joined(parts: Sequence[int]) -> int:
    """The degree of a sum of, or a choice between, such values."""
    known = {part for part in parts if part != _ZERO}
    if not known:
        return _ZERO
    return known.pop() if len(known) == 1 else _NEITHER


# ------------------------------------------------------------- kinds of kernels


_REDUCTIONS = {
    "sum": "sum", "prod": "product", "max": "max", "min": "min", "any": "bor", "all": "band",
}  # fmt: skip


def _reduce(node: Node) -> Rule:
    kind, axes = node.params
    source = node.inputs[0]
    found, out = [], 0
    for axis in range(len(source.shape)):
        if axis not in axes:
            found.append(_factor(node, (axis,), out))
            out += 1
        elif kind in _REDUCTIONS:
            found.append(_factor(node, (axis,), -1, _REDUCTIONS[kind]))
    return Rule(tuple(found), (frozenset({0}),) if kind == "sum" else ())


def _scan(node: Node) -> Rule:
    kind, axis = node.params
    found = [_factor(node, (a,), a) for a in range(len(node.shape)) if a != axis]
    return Rule(tuple(found), (frozenset({0}),) if kind == "sum" else ())


def _contract(node: Node) -> Rule:
    left, right, out = node.params
    found = []
    for label in dict.fromkeys((*left, *right)):
        inputs = [labels.index(label) if label in labels else None for labels in (left, right)]
        if label in out:
            found.append(_factor(node, inputs, out.index(label)))
        else:
            found.append(_factor(node, inputs, -1, "sum"))
    return Rule(tuple(found), (frozenset({0}), frozenset({1})))


def _gather(node: Node) -> Rule:
    source, index = node.inputs
    axis, batch = node.params
    many = len(index.shape) - batch
    found = [_factor(node, (b, b), b) for b in range(batch)]
    found += [_factor(node, (a, None), a) for a in range(batch, axis)]
    found += [_factor(node, (None, batch + i), axis + i) for i in range(many)]
    found += [_factor(node, (a, None), a - 1 + many) for a in range(axis + 1, len(source.shape))]
    return Rule(tuple(found), (frozenset({0}),))


def _scatter(node: Node) -> Rule:
    base, index, _ = node.inputs
    axis, kind, batch = node.params
    many = len(index.shape) - batch
    found = [_factor(node, (b, b, b), b) for b in range(batch)]
    found += [_factor(node, (a, None, a), a) for a in range(batch, axis)]
    found += [_factor(node, (a, None, a - 1 + many), a) for a in range(axis + 1, len(base.shape))]
    if kind == "add":
        found += [_factor(node, (PARTIAL, batch + i, axis + i), -1, "sum") for i in range(many)]
    return Rule(tuple(found), (frozenset({0, 2}),) if kind in ("add", "set") else ())


def _update(node: Node) -> Rule:
    base, value = node.inputs
    starts, steps = node.params
    found = [
        _factor(node, (a, a), a)
        for a in range(len(base.shape))
        if value.shape[a] == base.shape[a] and starts[a] == 0 and steps[a] == 1
    ]
    return Rule(tuple(found), (frozenset({0, 1}),))


def _rows(node: Node) -> Rule:
    """Of what works on last axes: the leading ones that all operands and the result have."""
    return Rule(tuple(_factor(node, (a,), a) for a in range(len(node.shape) - 1)))


def _matrices(node: Node) -> Rule:
    lead = len(node.inputs[0].shape) - 2
    return Rule(tuple(_factor(node, (a,) * len(node.inputs), a) for a in range(lead)))


def _fourier(node: Node) -> Rule:
    lead = len(node.inputs[0].shape) - (2 if node.params.pairs else 1)
    return Rule(tuple(_factor(node, (a, None), a) for a in range(lead)), (frozenset({0}),))


_OF_KERNELS: dict[str, Callable[[Node], Rule]] = {
    "reduce": _reduce, "scan": _scan, "contract": _contract, "gather": _gather,
    "scatter": _scatter, "update": _update, "sort": _rows, "library": _matrices,
    "fourier": _fourier,
}  # fmt: skip


def resized(params: Any, shape: Shape, local: Shape) -> Any:
    """The parameters of an op whose result has another shape, where they say which."""
    for name in ("shape", "sizes"):
        if getattr(params, name, None) == shape:
            return params._replace(**{name: local})
    return params
