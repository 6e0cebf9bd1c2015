"""``einsum``: an equation over labelled dimensions, as pairwise contractions."""

from __future__ import annotations

from typing import Any

from lazyt import ops
from lazyt.cast_mode import in_low_precision
from lazyt.errors import LazytError, ShapeError
from lazyt.functional.arithmetic import scalar_build
from lazyt.functional.operands import expand_to, mapped
from lazyt.functional.results import give
from lazyt.ir.graph import Node
from lazyt.tensor import Tensor

__all__ = [
    "einsum",
]  # fmt: skip

_MUL = scalar_build("mul")
_ELLIPSIS = 1000  # labels above stand for the dimensions of "...", counted from the last


@in_low_precision
def einsum(equation: str, *operands: Any) -> Tensor:
    """The sum of products that ``equation`` says, such as ``"bij,bjk->bik"``.

    Raises LazytError for an equation that cannot be read, ShapeError for sizes that do not fit.
    """
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        word = "fewer" if len(operands) < len(terms) else "more"
        raise LazytError(f"einsum(): {word} operands were provided than specified in the equation")
    labelled = [
        _operand(_labels(term, len(t.shape), i), t.node, i)
        for i, (term, t) in enumerate(zip(terms, operands))
    ]
    extents = _extents(labelled)
    out = _output(right, labelled) if arrow else _implicit_output(left, labelled)
    labels, node = _reduce_all(labelled, out, extents)
    return give(_arranged(labels, node, out, extents), "Einsum", operands)


Labelled = tuple[tuple[int, ...], Node]


def _labels(term: str, rank: int, operand: int) -> list[int]:
    """Numbers for the letters of one term; an ellipsis takes what the letters leave."""
    head, dots, tail = term.partition("...")
    for position, letter in enumerate(head + tail):
        if not (letter.isascii() and letter.isalpha()):
            raise LazytError(
                f"einsum(): invalid subscript given at index {position} in the equation string, "
                "subscripts must be in [a-zA-Z]"
            )
    count = len(head) + len(tail)
    if (not dots and count != rank) or count > rank:
        text = "and no ellipsis was given" if not dots else "even with the ellipsis"
        raise ShapeError(
            f"einsum(): the number of subscripts in the equation ({count}) does not match the "
            f"number of dimensions ({rank}) for operand {operand} {text}"
        )
    middle = [_ELLIPSIS + i for i in range(rank - count - 1, -1, -1)]
    return [*map(ord, head), *middle, *map(ord, tail)]


def _operand(labels: list[int], node: Node, number: int) -> Labelled:
    """One operand with distinct labels: a repeated one takes the diagonal."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            m, n = node.shape[i], node.shape[j]
            if m != n:
                raise ShapeError(
                    f"einsum(): subscript {chr(label)} is repeated for operand {number} but the "
                    f"sizes don't match, {n} != {m}"
                )
            node = _diagonal(node, i, j)
            del labels[j]
    return tuple(labels), node


def _diagonal(node: Node, i: int, j: int) -> Node:
    """``node`` with equal axes ``i < j`` replaced by one at ``i`` that runs along both."""
    strides = [1] * len(node.shape)
    for axis in range(len(node.shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * node.shape[axis + 1]
    strides[i] += strides[j]
    del strides[j]
    shape = node.shape[:j] + node.shape[j + 1 :]
    return ops.window(node, shape, tuple(strides), 0)


def _extents(labelled: list[Labelled]) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for number, (labels, node) in enumerate(labelled):
        for label, extent in zip(labels, node.shape):
            seen = sizes.get(label, 1)
            if extent not in (1, seen) and seen != 1:
                name = "..." if label >= _ELLIPSIS else chr(label)
                raise ShapeError(
                    f"einsum(): subscript {name} has size {extent} for operand {number} which "
                    f"does not broadcast with previously seen size {seen}"
                )
            sizes[label] = max(seen, extent) if extent and seen else 0
    return sizes


def _output(text: str, labelled: list[Labelled]) -> tuple[int, ...]:
    known = {label for labels, _ in labelled for label in labels}
    head, dots, tail = text.partition("...")
    dotted = sorted((label for label in known if label >= _ELLIPSIS), reverse=True)
    out = [*map(ord, head), *(dotted if dots else []), *map(ord, tail)]
    for letter in head + tail:
        if out.count(ord(letter)) > 1:
            raise LazytError(
                f"einsum(): output subscript {letter} appears more than once in the output"
            )
        if ord(letter) not in known:
            raise LazytError(
                f"einsum(): output subscript {letter} does not appear in the equation for any "
                "input operand"
            )
    return tuple(out)


def _implicit_output(left: str, labelled: list[Labelled]) -> tuple[int, ...]:
    """Ellipsis first, then the letters that occur once, in PyTorch's order (A-Z, a-z)."""
    known = {label for labels, _ in labelled for label in labels}
    dotted = sorted((label for label in known if label >= _ELLIPSIS), reverse=True)
    letters = left.replace("...", "").replace(",", "")
    return (*dotted, *sorted(ord(c) for c in letters if letters.count(c) == 1))


def _reduce_all(
    labelled: list[Labelled], out: tuple[int, ...], extents: dict[int, int]
) -> Labelled:
    """Combine operands from left to right, summing each label where it is last needed."""
    operands = [_drop_ones(labels, node, extents) for labels, node in labelled]
    current = operands[0]
    for number, other in enumerate(operands[1:], 2):
        later = {label for labels, _ in operands[number:] for label in labels}
        needed = later.union(out)
        current = _contract(_sum_out(current, needed.union(other[0])), other, needed)
    return _sum_out(current, set(out))


def _drop_ones(labels: tuple[int, ...], node: Node, extents: dict[int, int]) -> Labelled:
    """Without the axes of one element that broadcast against a larger operand."""
    kept = [i for i, label in enumerate(labels) if node.shape[i] == extents[label]]
    if len(kept) == len(labels):
        return labels, node
    shape = tuple(node.shape[i] for i in kept)
    return tuple(labels[i] for i in kept), ops.reshape(node, shape)


def _sum_out(operand: Labelled, needed: set[int]) -> Labelled:
    labels, node = operand
    axes = tuple(i for i, label in enumerate(labels) if label not in needed)
    if not axes:
        return operand
    return tuple(label for label in labels if label in needed), ops.reduce_("sum", node, axes)


def _contract(a: Labelled, b: Labelled, needed: set[int]) -> Labelled:
    b = _sum_out(b, needed.union(a[0]))
    out = tuple(x for x in dict.fromkeys((*a[0], *b[0])) if x in needed)
    contracted = set(a[0]) & set(b[0]) - set(out)
    if contracted:
        return out, ops.contract(a[1], b[1], a[0], b[0], out)
    left, right = (_spread(o, out) for o in (a, b))
    return out, mapped(_MUL, (left, right), left.dtype, left.dtype)


def _spread(operand: Labelled, out: tuple[int, ...]) -> Node:
    """The operand's axes in the order of ``out``, with ones for those it lacks."""
    labels, node = operand
    order = tuple(labels.index(label) for label in out if label in labels)
    if order != tuple(range(len(order))):
        node = ops.permute(node, order)
    extents = iter(node.shape)
    return ops.reshape(node, tuple(next(extents) if x in labels else 1 for x in out))


def _arranged(
    labels: tuple[int, ...], node: Node, out: tuple[int, ...], extents: dict[int, int]
) -> Node:
    spread = _spread((labels, node), out)
    return expand_to(spread, tuple(extents[label] for label in out))
