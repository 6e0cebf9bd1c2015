"""Scalar functions against the errors that their C states (``codegen.prelude.ULP``).

Interpreters have functions of their own, which are a few units in the last place off as well, so
that results of theirs and of kernels are compared with room for both. Here a result that is one
function of exact values is compared with that function in a wider type, and may be off by what the
function's C states, and no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyt.codegen import prelude
from lazyt.ir.dtypes import float32, float64
from lazyt.ir.graph import Node, topological
from lazyt.ir.scalar import Arg, Call, ScalarFunction
from lazyt.runtime.interpreter import interpret
from lazyt.runtime.kernel_bits import ordered
from lazyt.runtime.value_checks import Array, Given, is_inexact

#: Units in the last place by which the wider function may be off.
SLACK = 0.02
_WIDER: dict[str, tuple[str, Any]] = {
    float32.name: ("f32", np.float64), float64.name: ("f64", np.longdouble)
}  # fmt: skip


def stated_error(root: Node) -> tuple[ScalarFunction, float] | None:
    """The function that a node is of exact values, and by how many units in the last place its C
    may be off; None for other nodes, and where no wider type has the function."""
    if root.op.name != "map" or root.dtype.name not in _WIDER or not is_inexact(root):
        return None
    call = root.params
    if not isinstance(call, Call) or not isinstance(call.fn.evaluate, np.ufunc):
        return None
    suffix, wide = _WIDER[root.dtype.name]
    bound = prelude.ULP.get(f"lz_{call.fn.name}_{suffix}")
    plain = all(isinstance(a, Arg) and a.dtype is root.dtype for a in call.args)
    if bound is None or not plain or np.finfo(wide).nmant < root.dtype.numpy.itemsize * 8 - 1:
        return None
    return None if any(map(is_inexact, topological(root.inputs))) else (call.fn, bound)


def beyond_stated_error(roots: Sequence[Node], given: Given, got: Sequence[Array]) -> str:
    """In words, which of ``roots`` is farther from the function that it is than that states, by the
    stored arrays ``got``; empty where none is."""
    for number, (root, value) in enumerate(zip(roots, got, strict=True)):
        stated = stated_error(root)
        if stated is None or not root.size:
            continue
        function, bound = stated
        wide = _WIDER[root.dtype.name][1]
        values = interpret(root.inputs, given, ordered)
        places = [argument.index for argument in root.params.args]
        with np.errstate(all="ignore"):
            exact = function.evaluate(*(values[place].astype(wide) for place in places))
            exact = np.broadcast_to(exact, root.shape)
            info = np.finfo(root.dtype.numpy)
            usual = np.isfinite(exact) & (np.abs(exact) < wide(info.max) * wide(0.999))
            size = np.maximum(np.abs(np.where(usual, exact, 1)), wide(info.tiny))
            unit = np.exp2(np.floor(np.log2(size)) - info.nmant)
            off = np.where(usual, np.abs(value.astype(wide) - exact) / unit, 0)
        if not (off <= bound + SLACK).all():
            at = np.unravel_index(int(np.argmax(np.where(np.isnan(off), np.inf, off))), off.shape)
            return (
                f"root {number}: {function.name} is {value[at]!s} instead of {exact[at]!s}, off by "
                f"{float(off[at]):.1f} units in the last place, and states {bound:g}"
            )
    return ""
