"""Derivatives of scalar expressions, by forward and reverse accumulation.

Masks multiply through ``where``: a branch that was not chosen contributes 0 even where its own
derivative is infinite or NaN times an unmasked adjoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from lazyt.errors import GradientError
from lazyt.ir.scalar import Arg, Call, Const, Expr, arg, call, const, post_order


def scale(adjoint: Expr, slope: Expr | None) -> Expr | None:
    """``adjoint * slope``, None for zero; masks and reciprocals keep their exact form."""
    if slope is None:
        return None
    if isinstance(slope, Const):
        if slope.value == 0:
            return None
        if slope.value == 1:
            return adjoint
        if slope.value == -1:
            return call("neg", adjoint)
    if isinstance(slope, Call):
        if slope.fn.name == "where":
            test, yes, no = slope.args
            zero = const(0, adjoint.dtype)
            return call("where", test, scale(adjoint, yes) or zero, scale(adjoint, no) or zero)
        if slope.fn.name == "reciprocal":
            return call("div", adjoint, slope.args[0])
        if slope.fn.name == "neg":
            inner = scale(adjoint, slope.args[0])
            return None if inner is None else call("neg", inner)
    return call("mul", adjoint, slope)


def _part(expr: Call, number: int, factor: Expr) -> Expr | None:
    """``factor`` times the partial derivative of a call by one argument.

    Raises GradientError when the function has none.
    """
    rule = expr.fn.derivative
    if rule is None:
        raise GradientError(f"{expr.fn.name} has no gradient: {expr.fn.reason}")
    slope = rule(expr, number)
    if slope in expr.args:
        # A product: the other factor is a value like any other, masks in it included.
        return call("mul", factor, slope)
    return scale(factor, slope)


def _sum(old: Expr | None, new: Expr | None) -> Expr | None:
    if old is None or new is None:
        return new if old is None else old
    return call("add", old, new)


@lru_cache(maxsize=8192)
def gradients(root: Expr, count: int) -> tuple[Expr | None, ...]:
    """For each of the ``count`` arguments: adjoint times partial derivative, None for zero.

    The adjoint of ``root`` is argument number ``count`` of the results.
    """
    adjoints: dict[Expr, Expr | None] = {root: arg(count, root.dtype)}
    results: list[Expr | None] = [None] * count
    for expr in reversed(post_order(root)):
        adjoint = adjoints.get(expr)
        if adjoint is None:
            continue
        if isinstance(expr, Arg):
            results[expr.index] = adjoint
        if not isinstance(expr, Call):
            continue
        for number, item in enumerate(expr.args):
            if item.dtype.kind == "f" and not isinstance(item, Const):
                part = _part(expr, number, call("cast", adjoint, dtype=item.dtype))
                adjoints[item] = _sum(adjoints.get(item), part)
    return tuple(results)


@lru_cache(maxsize=8192)
def tangent(root: Expr, numbers: Sequence[int | None]) -> Expr | None:
    """The directional derivative of ``root``, None for zero.

    ``numbers`` gives for each argument the argument number that holds its tangent, or None.
    """
    tangents: dict[Expr, Expr | None] = {}
    for expr in post_order(root):
        total: Expr | None = None
        if isinstance(expr, Arg):
            number = numbers[expr.index]
            total = None if number is None else arg(number, expr.dtype)
        elif isinstance(expr, Call) and expr.dtype.kind == "f":
            for number, item in enumerate(expr.args):
                change = tangents.get(item)
                if change is None:
                    continue
                if expr.fn.name == "cast":
                    total = call("cast", change, dtype=expr.dtype)
                else:
                    total = _sum(total, _part(expr, number, change))
        tangents[expr] = total
    return tangents[root]
