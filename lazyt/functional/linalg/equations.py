"""``einsum``: an equation over labelled dimensions, as pairwise contractions."""

from __future__ import annotations

from typing import Any

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, ShapeError
from lazyt.functional.elementwise.arithmetic import scalar_build
from lazyt.functional.operands import expand_to, mapped
from lazyt.functional.results import give
from lazyt.functional.type_promotion import promote_types, refuse, torch_name
from lazyt.handle.autocast import in_given_precision, lowered
from lazyt.handle.function_table import function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import bool_, int64
from lazyt.ir.graph import Node

__all__ = [
    "bilinear",
    "einsum",
]

_MUL = scalar_build("mul")
_ELLIPSIS = 1000  # labels above stand for the dimensions of "...", counted from the last


@function(saves="p")
def einsum(*args: Any) -> Tensor:
    """The sum of products that an equation says: ``einsum("bij,bjk->bik", x, y)``.

    The equation may have spaces, repeated labels (diagonals), ``...`` for any dimensions, and no
    output (labels that occur once, in the order A-Z, a-z). Or each operand is followed by a list of
    labels from 0 to 51 and ``...``, and the output's list comes last. Operands are combined from
    left to right. Raises LazytError for an equation that cannot be read, SubscriptError (a
    ValueError) for missing arguments or labels out of range, ShapeError and DTypeError.
    """
    if len(args) < 2:
        raise SubscriptError(
            "einsum(): must specify the equation string and at least one operand, or at least one "
            "operand and its subscripts list"
        )
    equation, operands = _equation_of(args) if isinstance(args[0], Tensor) else (args[0], args[1:])
    if not isinstance(equation, str):
        raise DTypeError(
            f"einsum(): argument 'equation' (position 1) must be str, not {type(equation).__name__}"
        )
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    for number, item in enumerate(operands):
        if not isinstance(item, Tensor):
            raise DTypeError(
                f"expected Tensor as element {number} in argument 1, but got {type(item).__name__}"
            )
    return _einsum(equation, *operands)


class SubscriptError(LazytError, ValueError):
    """Arguments of ``einsum`` that are no equation; PyTorch raises ValueError."""


def _equation_of(args: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """The equation that lists of labels stand for, and the operands."""
    text = ",".join("".join(map(_letter, labels)) for labels in args[1::2])
    if len(args) % 2:
        return f"{text}->{''.join(map(_letter, args[-1]))}", args[:-1:2]
    return text, args[::2]


def _letter(label: Any) -> str:
    if label is Ellipsis:
        return "..."
    if not 0 <= label < 52:
        raise SubscriptError(
            "einsum(): subscript in subscript list is not within the valid range [0, 52)"
        )
    return chr(ord("A") + label) if label < 26 else chr(ord("a") + label - 26)


def _einsum(equation: str, *operands: Tensor) -> Tensor:
    left, arrow, _ = equation.partition("->")
    terms = _inputs(left, len(operands))
    right = _output_term(equation, len(left) + 2) if arrow else None
    if _contracts(terms, right):
        operands = lowered(operands)
    labelled = [
        _operand(_labels(term, len(t.shape), i), t.node, i)
        for i, (term, t) in enumerate(zip(terms, operands))
    ]
    extents = _extents(labelled)
    out = _implicit_output(terms, labelled) if right is None else _output(right, labelled)
    if len(operands) == 1 and len(out) == len(extents):  # nothing is summed
        return _view(operands[0], _labels(terms[0], len(operands[0].shape), 0), out)
    labels, node = _reduce_all(labelled, out, extents)
    return give(_arranged(labels, node, out, extents), "Einsum", operands)


def _view(operand: Tensor, labels: list[int], out: tuple[int, ...]) -> Tensor:
    """Diagonals of one operand along repeated labels, its dimensions in the order of ``out``."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            i = labels.index(label)
            j = labels.index(label, i + 1)
            operand = operand.diagonal(0, i, j)
            del labels[j], labels[i]
            labels.append(label)
    return operand.permute([labels.index(label) for label in out])


def _contracts(terms: list[Term], out: Term | None) -> bool:
    """Whether a label of two operands is summed, so that the equation is a matrix product."""
    shared = {
        label
        for number, term in enumerate(terms)
        for label in term
        for other in terms[:number]
        if label in other
    }
    return bool(shared - {None} if out is None else shared - {None, *out})


Labelled = tuple[tuple[int, ...], Node]
Term = list[int | None]  # letters by number; None stands for an ellipsis


def _inputs(text: str, count: int) -> list[Term]:
    """The terms of all operands; raises LazytError in PyTorch's words."""
    terms: list[Term] = [[]]
    place = 0
    while place < len(text):
        letter, number = text[place], len(terms) - 1
        if letter == ".":
            if None in terms[-1]:
                raise LazytError(
                    f"einsum(): found '.' for operand {number} for which an ellipsis was already "
                    "found"
                )
            if text[place : place + 3] != "...":
                raise LazytError(
                    f"einsum(): found '.' for operand {number} that is not part of any ellipsis"
                )
            terms[-1].append(None)
            place += 2
        elif letter == ",":
            terms.append([])
            if len(terms) > count:
                raise LazytError(
                    "einsum(): fewer operands were provided than specified in the equation"
                )
        elif letter != " ":
            terms[-1].append(_checked(letter, place))
        place += 1
    if len(terms) < count:
        raise LazytError("einsum(): more operands were provided than specified in the equation")
    return terms


def _checked(letter: str, place: int) -> int:
    if not (letter.isascii() and letter.isalpha()):
        raise LazytError(
            f"einsum(): invalid subscript given at index {place} in the equation string, "
            "subscripts must be in [a-zA-Z]"
        )
    return ord(letter)


def _output_term(text: str, place: int) -> Term:
    """The term behind the arrow; raises LazytError in PyTorch's words."""
    term: Term = []
    while place < len(text):
        letter = text[place]
        if letter == ".":
            if None in term:
                raise LazytError(
                    "einsum(): found '.' for output but an ellipsis (...) was already found"
                )
            if text[place : place + 3] != "...":
                raise LazytError(
                    "einsum(): found '.' for output that is not part of any ellipsis (...)"
                )
            term.append(None)
            place += 2
        elif letter != " ":
            label = _checked(letter, place)
            if label in term:
                raise LazytError(
                    f"einsum(): output subscript {letter} appears more than once in the output"
                )
            term.append(label)
        place += 1
    return term


def _labels(term: Term, rank: int, operand: int) -> list[int]:
    """The labels of one operand's dimensions; an ellipsis takes what the letters leave."""
    count = len(term) - (None in term)
    if None not in term and count != rank:
        raise ShapeError(
            f"einsum(): the number of subscripts in the equation ({count}) does not match the "
            f"number of dimensions ({rank}) for operand {operand} and no ellipsis was given"
        )
    if count > rank:
        raise ShapeError(
            f"einsum(): the number of subscripts in the equation ({count}) is more than the "
            f"number of dimensions ({rank}) for operand {operand}"
        )
    middle = [_ELLIPSIS + i for i in range(rank - count - 1, -1, -1)]
    found: list[int] = []
    for label in term:
        found += middle if label is None else [label]
    return found


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
                if label >= _ELLIPSIS:
                    place = max(x for x in labels if x >= _ELLIPSIS) - label
                    raise ShapeError(
                        f"einsum(): dimension {place} covered by ellipsis in operand {number}"
                        f"has size {extent} which does not broadcast with previously seen "
                        f"ellipsis with size {seen} for the respective dimension"
                    )
                raise ShapeError(
                    f"einsum(): subscript {chr(label)} has size {extent} for operand {number} "
                    f"which does not broadcast with previously seen size {seen}"
                )
            sizes[label] = max(seen, extent) if extent and seen else 0
    return sizes


def _dotted(labelled: list[Labelled]) -> list[int]:
    """The labels that ellipses stand for, from the first dimension to the last."""
    known = {label for labels, _ in labelled for label in labels}
    return sorted((label for label in known if label >= _ELLIPSIS), reverse=True)


def _output(term: Term, labelled: list[Labelled]) -> tuple[int, ...]:
    known = {label for labels, _ in labelled for label in labels}
    out: list[int] = []
    for label in term:
        if label is not None and label not in known:
            raise LazytError(
                f"einsum(): output subscript {chr(label)} does not appear in the equation for any "
                "input operand"
            )
        out += _dotted(labelled) if label is None else [label]
    return tuple(out)


def _implicit_output(terms: list[Term], labelled: list[Labelled]) -> tuple[int, ...]:
    """Ellipsis first, then the letters that occur once, in PyTorch's order (A-Z, a-z)."""
    letters = [label for term in terms for label in term if label is not None]
    return (*_dotted(labelled), *sorted(x for x in letters if letters.count(x) == 1))


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
    if node.dtype.kind not in "fc":
        node = ops.cast(node, int64)
    return tuple(label for label in labels if label in needed), ops.reduce_("sum", node, axes)


def _contract(a: Labelled, b: Labelled, needed: set[int]) -> Labelled:
    b = _sum_out(b, needed.union(a[0]))
    out = tuple(x for x in dict.fromkeys((*a[0], *b[0])) if x in needed)
    contracted = set(a[0]) & set(b[0]) - set(out)
    if contracted:
        x, y = a[1].dtype, b[1].dtype
        if x is not y:
            raise DTypeError(f"expected scalar type {torch_name(x)} but found {torch_name(y)}")
        if x is bool_:
            refuse("bmm", bool_)
        return out, ops.product(a[1], b[1], a[0], b[0], out)
    left, right = (_spread(o, out) for o in (a, b))
    dtype = promote_types(left.dtype, right.dtype)
    return out, mapped(_MUL, (left, right), dtype, dtype)


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


# The bilinear map of two vectors.


@function(cast="widest")
@in_given_precision
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x1 @ weight[k] @ x2 + bias[k]``: [*, in1] and [*, in2] to [*, out]. Raises ShapeError."""
    if input1.ndim != input2.ndim:
        raise ShapeError(
            f"bilinear(): input dimensions do not match: got {input1.ndim} and {input2.ndim}"
        )
    for axis, (m, n) in enumerate(zip(input1.shape[:-1], input2.shape[:-1])):
        if m != n:
            raise ShapeError(
                f"bilinear(): input batch dimensions do not match at dim {axis}: got {m} and {n}"
            )
    for number, given in ((1, input1), (2, input2)):
        if given.shape[-1] != weight.shape[number]:
            raise ShapeError(
                f"bilinear(): input{number} size does not match weight size: got "
                f"{given.shape[-1]} but expected {weight.shape[number]}"
            )
    if bias is not None and bias.shape[0] != weight.shape[0]:
        raise ShapeError(
            f"bilinear(): bias size does not match weight size: got {bias.shape[0]} but expected "
            f"{weight.shape[0]}"
        )
    out: Tensor = einsum("...i,oij,...j->...o", input1, weight, input2)
    return out if bias is None else out + bias
