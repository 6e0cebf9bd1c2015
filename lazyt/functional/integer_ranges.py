"""Bounds of integer values that follow from how they are computed, without computing them.

Random integers, sorted orders, counters and remainders of those have bounds that their graphs show,
so an index made of them needs no look at its values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Node, topological
from lazyt.ir.scalar import Arg, Call, Const, Expr, post_order

Bounds = tuple[int, int]
Known = Bounds | None

_SAME = frozenset({"reshape", "permute", "expand", "slice", "flip", "detach"})
#: Graphs of more nodes are not worth the walk.
_MOST = 64


def known_range(node: Node) -> Known:
    """Numbers between which all elements of a pending node are, None where none are known.

    Nothing is computed, and values that are known already are not looked at.
    """
    if node.dtype.kind == "f":
        return None
    order = topological([node], lambda n: n.data is not None or n.dtype.kind == "f")
    if len(order) > _MOST:
        return None
    found: dict[Node, Known] = {}
    for item in order:
        bounds = _of_type(item.dtype)
        if item.data is None and 0 not in item.shape and item.dtype.kind != "f":
            given = [found.get(i) for i in item.inputs]
            bounds = _narrower(_of_node(item, given), bounds)
        found[item] = bounds
    return found[node]


def _of_type(dtype: DType) -> Known:
    if dtype.kind == "f":
        return None
    if dtype.kind == "b":
        return (0, 1)
    bits = 8 * dtype.itemsize
    return (0, (1 << bits) - 1) if dtype.kind == "u" else (-1 << (bits - 1), (1 << (bits - 1)) - 1)


def _narrower(bounds: Known, whole: Known) -> Known:
    """``bounds``, unless values beyond the type's would wrap around."""
    if bounds is None or whole is None or bounds[0] < whole[0] or bounds[1] > whole[1]:
        return whole
    return bounds


def _union(parts: Sequence[Known]) -> Known:
    known = [p for p in parts if p is not None]
    if len(known) < len(parts):
        return None
    return min(p[0] for p in known), max(p[1] for p in known)


def _of_node(node: Node, given: Sequence[Known]) -> Known:
    name, params = node.op.name, node.params
    if name in _SAME:
        return given[0]
    if name == "map":
        return _of_expression(params, given)
    if name == "iota":
        return (0, params.extent - 1)
    if name == "const":
        return (int(params.value), int(params.value))
    if name == "sort":
        return given[0] if params.kind == "values" else (0, node.shape[-1] - 1)
    if name == "reduce" and params.kind in ("argmax", "argmin"):
        return (0, node.inputs[0].shape[params.axes[0]] - 1)
    if name == "reduce" and params.kind in ("max", "min"):
        return given[0]
    if name == "gather":
        return given[0]
    return _union(given) if name == "concat" else None


def _of_expression(root: Expr, given: Sequence[Known]) -> Known:
    found: dict[Expr, Known] = {}
    for item in post_order(root):
        whole = _of_type(item.dtype)
        if isinstance(item, Arg):
            bounds = given[item.index]
        elif isinstance(item, Const):
            bounds = None if item.dtype.kind == "f" else (int(item.value), int(item.value))
        elif isinstance(item, Call):
            bounds = _of_call(item, found)
        else:
            bounds = None
        found[item] = _narrower(bounds, whole)
    return found[root]


def _of_call(item: Call, found: dict[Expr, Known]) -> Known:
    if item.fn.name == "where":
        return _of_choice(item, found)
    rule = _RULES.get(item.fn.name)
    parts = [found[argument] for argument in item.args]
    if rule is None or any(part is None for part in parts):
        return None
    return rule(*parts)


def _of_choice(item: Call, found: dict[Expr, Known]) -> Known:
    """``where``: of both branches, or of the smaller or larger of two values."""
    condition, first, second = item.args
    a, b = found[first], found[second]
    if a is None or b is None:
        return None
    if isinstance(condition, Call) and set(condition.args) == {first, second}:
        smaller = condition.args == (first, second)
        if condition.fn.name in ("lt", "le", "gt", "ge"):
            smaller ^= condition.fn.name in ("gt", "ge")
            pick: Callable[[int, int], int] = min if smaller else max
            return pick(a[0], b[0]), pick(a[1], b[1])
    return _union([a, b])


def _mul(a: Bounds, b: Bounds) -> Bounds:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def _mod(a: Bounds, b: Bounds) -> Known:
    """A remainder of the divisor's sign, as Python's."""
    return (0, b[1] - 1) if b[0] > 0 else None


def _shift_right(a: Bounds, b: Bounds) -> Known:
    return (a[0] >> b[0], a[1] >> b[0]) if b[0] == b[1] and 0 <= b[0] < 64 else None


_RULES: dict[str, Callable[..., Known]] = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": _mul,
    "neg": lambda a: (-a[1], -a[0]),
    "minimum": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "maximum": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "mod": _mod,
    "shift_right": _shift_right,
    "cast": lambda a: a,
}
