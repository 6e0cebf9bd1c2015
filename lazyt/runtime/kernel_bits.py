"""Nodes of a graph with the bits that kernels give them.

An op's own rule (``Op.evaluate``) is its meaning, by which results are judged, and leaves last bits
to NumPy. Here sums and products of elements are folded by lanes and blocks, products of matrices
take fused steps, and functions such as the exponential are run as their C text says. All else is
exact, or in an order that NumPy has as well: those nodes have their ops' rules.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from lazyt.errors import SourceError
from lazyt.ir.arithmetic.folds import contract, reduce_axes
from lazyt.ir.graph import Node
from lazyt.ir.scalar import Call, Expr, ScalarFunction, applied, post_order

if TYPE_CHECKING:
    from lazyt.runtime.c_functions import Library, Sections

Array = np.ndarray[Any, Any]

#: Functions of floats that IEEE 754 rounds in one way, beside those that are an operator in C.
_EXACT = frozenset(
    {
        "abs", "bitcast", "cast", "ceil", "copysign", "fma", "floor", "fmax", "fmin", "isfinite",
        "isinf", "isnan", "maximum", "minimum", "neg", "nextafter", "round", "sign", "signbit",
        "sqrt", "trunc", "where",
    }
)  # fmt: skip
#: Reductions whose results depend on the order, if only in the sign of a zero.
_FOLDS = ("sum", "prod", "max", "min")
#: Expressions whose functions are exchanged already; more begin anew.
_MOST_EXPRESSIONS = 4096


def is_exact(function: ScalarFunction) -> bool:
    """Whether a function of floats has one right result, to the bit."""
    return function.symbol is not None or function.name in _EXACT or function.result == "bool"


def ordered(node: Node, *arrays: Array) -> Any:
    """The value of a node in the order of additions that kernels have, which is part of what lazyt
    promises: sums and products of elements by lanes and blocks, contractions by fused steps."""
    if node.dtype.kind == "f" and node.op.name == "reduce" and node.params.kind in _FOLDS:
        return reduce_axes(node.params.kind, arrays[0], node.params.axes, node.dtype.compute)
    if node.dtype.kind == "f" and node.op.name == "contract":
        left, right = arrays
        return contract(left, right, *node.params)
    return node.op.evaluate(node, *arrays)


class KernelBits:
    """Evaluates nodes with the bits of kernels: ``interpret(roots, evaluate=KernelBits(...))``.

    Complex numbers have to be parts already, as in plans.

    Args:
        sections: gives the C text of functions (``sections_for`` of the prelude).
    """

    def __init__(self, sections: Sections) -> None:
        self._sections = sections
        self._expressions: dict[Expr, Expr] = {}

    @cached_property
    def _library(self) -> Library:
        """The functions, for which C is read: most graphs need none."""
        from lazyt.runtime.c_functions import Library

        return Library(self._sections)

    def __call__(self, node: Node, *arrays: Array) -> Any:
        """The value of a node."""
        if node.op.name == "linalg":
            return self._factorized(node, *arrays)
        if node.op.name != "map" or all(map(is_exact, applied(node.params))):
            return ordered(node, *arrays)
        expr = self._expressions.get(node.params)
        if expr is None:
            if len(self._expressions) >= _MOST_EXPRESSIONS:
                self.forget()
            expr = self._expressions[node.params] = self._exchanged(node.params)
        return node.op.evaluate(SimpleNamespace(params=expr, shape=node.shape), *arrays)

    def _factorized(self, node: Node, *arrays: Array) -> Array:
        """Results of matrices beside each other; a determinant's logarithm is that of kernels."""
        from lazyt.ir.factorizations.evaluation import evaluate

        name = f"lz_log_{node.dtype.compute.suffix}"
        found = evaluate(*node.params, *arrays, log=lambda x: self._library.call(name, x))
        return np.concatenate([part.reshape(*node.shape[:-1], -1) for part in found], -1)

    def forget(self) -> None:
        """Reads all functions again, of which some may have been defined anew."""
        self._expressions.clear()
        self.__dict__.pop("_library", None)

    def _exchanged(self, root: Expr) -> Expr:
        """An expression whose functions are evaluated as kernels do."""
        made: dict[Expr, Expr] = {}
        for expr in post_order(root):
            if isinstance(expr, Call):
                arguments = tuple([made[item] for item in expr.args])
                made[expr] = Call(self._function(expr), arguments, expr.dtype)
            else:
                made[expr] = expr
        return made[root]

    def _function(self, expr: Call) -> ScalarFunction:
        fn, kind = expr.fn, expr.args[-1].dtype.compute
        if is_exact(fn) or not (kind.kind == "f" or fn.c_text):
            return fn
        name, library = f"lz_{fn.name}_{kind.suffix}", self._library

        def evaluate(*operands: Any) -> Any:
            try:
                return library.call(name, *operands)
            except SourceError:
                if not fn.c_text:
                    raise
                return fn.evaluate(*operands)  # C of the user's that is more than numbers

        return dataclasses.replace(fn, evaluate=evaluate)
