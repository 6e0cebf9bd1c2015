"""Expressions over operands of several types, as conditions and positions beside values are."""

from __future__ import annotations

from typing import Any

from lazyt import ops
from lazyt.functional.operands import Build
from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Node
from lazyt.ir.scalar import Expr, arg, call

_expressions: dict[Any, Expr] = {}


def mixed(build: Build, nodes: tuple[Node, ...], result: DType | None = None) -> Node:
    """One ``map`` node of what ``build`` makes of its arguments, each in the type it computes in.

    The value is cast to ``result`` (None leaves it). ``build`` must be a lasting function, as for
    ``operands.mapped``.
    """
    key = (build, result, *[n.dtype for n in nodes])
    expr = _expressions.get(key)
    if expr is None:
        args = (call("cast", arg(i, n.dtype), dtype=n.dtype.compute) for i, n in enumerate(nodes))
        expr = build(*args)
        if result is not None:
            expr = call("cast", expr, dtype=result)
        _expressions[key] = expr
    return ops.elementwise(expr, nodes)
