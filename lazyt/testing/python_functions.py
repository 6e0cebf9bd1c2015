"""Python's own functions, as a third voice where kernels and interpreters contradict each other."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from lazyt.ir.graph import Node, topological
from lazyt.ir.scalar import FUNCTIONS, applied

_POINTS = (-2.5, -1.0, -0.75, -0.5, -0.0, 0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
_REFERENCES: dict[str, Callable[..., float]] = {
    "abs": abs, "acos": math.acos, "acosh": math.acosh, "add": operator.add, "asin": math.asin,
    "asinh": math.asinh, "atan": math.atan, "atan2": math.atan2, "atanh": math.atanh,
    "ceil": math.ceil, "copysign": math.copysign, "cos": math.cos, "cosh": math.cosh,
    "div": operator.truediv, "eq": operator.eq, "erf": math.erf, "erfc": math.erfc, "exp": math.exp,
    "exp2": lambda x: 2.0**x, "expm1": math.expm1, "floor": math.floor,
    "floordiv": operator.floordiv,
    "fmax": max, "fmin": min, "fmod": math.fmod, "ge": operator.ge, "gt": operator.gt,
    "hypot": math.hypot, "isfinite": math.isfinite, "isinf": math.isinf, "isnan": math.isnan,
    "le": operator.le, "lgamma": math.lgamma, "log": math.log, "log10": math.log10,
    "log1p": math.log1p, "log2": math.log2, "lt": operator.lt, "maximum": max, "minimum": min,
    "mod": operator.mod, "mul": operator.mul, "ne": operator.ne, "neg": operator.neg,
    "pow": math.pow, "reciprocal": lambda x: 1 / x, "round": round,
    "rsqrt": lambda x: 1 / math.sqrt(x), "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "sin": math.sin, "sinh": math.sinh, "sqrt": math.sqrt, "sub": operator.sub, "tan": math.tan,
    "tanh": math.tanh, "trunc": math.trunc,
    "logical_and": lambda a, b: bool(a) and bool(b), "logical_or": lambda a, b: bool(a) or bool(b),
    "logical_not": lambda a: not a, "sign": lambda x: (x > 0) - (x < 0),
    "signbit": lambda x: math.copysign(1, x) < 0,
}  # fmt: skip


def wrong_functions(roots: Iterable[Node]) -> list[str]:
    """The scalar functions of a graph whose meaning in NumPy is not that of Python's function of
    the same name, on a few points."""
    names = {
        fn.name
        for node in topological(roots)
        if node.op.name == "map"
        for fn in applied(node.params)
    }
    return sorted(name for name in names if not _agrees(name))


def _agrees(name: str) -> bool:
    reference = _REFERENCES.get(name)
    if reference is None:
        return True
    function = FUNCTIONS[name]
    for arguments in _tuples(function.arity):
        try:
            want = float(reference(*arguments))
        except (ValueError, ZeroDivisionError, OverflowError):  # outside of Python's domain
            continue
        with np.errstate(all="ignore"):
            got = float(function.evaluate(*(np.float64(a) for a in arguments)))
        if got != want and abs(got - want) > 1e-9 * max(abs(want), 1.0):
            return False
    return True


def _tuples(arity: int) -> Iterator[tuple[float, ...]]:
    if arity == 1:
        yield from ((a,) for a in _POINTS)
    elif arity == 2:
        yield from ((a, b) for a in _POINTS for b in _POINTS)
