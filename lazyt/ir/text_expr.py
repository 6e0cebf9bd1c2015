"""Scalar expressions as text, shared by graph text and kernel text.

An expression that occurs more than once is named: ``{let t0 = exp($0); add(t0, t0)}``. Very deep
ones are cut into named parts as well, so that the text stays short and linear in the graph's size.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from lazyt.ir.dtypes import bool_
from lazyt.ir.point import Guard, Guarded, operands, sub_expressions
from lazyt.ir.scalar import Call, Const, Expr, const_bits, format_number

#: Nesting past which a part of an expression gets a name of its own.
DEEPEST = 24
_NAN_BITS = 0x7FF8000000000000


def format_const(expr: Const) -> str:
    """A literal with its type, such as ``2.0:float32``; unusual NaN keep their bits."""
    value, dtype = expr.value, expr.dtype
    text = format_number(value, dtype)
    if dtype.kind == "f" and math.isnan(value) and const_bits(value, dtype) != _NAN_BITS:
        text = f"nan#{const_bits(value, dtype):016x}"
    return f"{text}:{dtype.name}"


def format_guards(guards: tuple[Guard, ...]) -> str:
    """Conditions as text, such as ``0 <= i < 3 and 1 <= j < 4``; ``always`` when there are none."""
    return " and ".join(f"{g.low} <= {g.index} < {g.high}" for g in guards) or "always"


def _head(expr: Expr, leaf: Callable[[Expr], str]) -> str:
    """What is printed before an expression's operands."""
    if isinstance(expr, Const):
        return format_const(expr)
    if isinstance(expr, Guarded):
        return f"guarded({format_guards(expr.guards)}, "
    if not isinstance(expr, Call):
        return leaf(expr)
    usual = bool_ if expr.fn.result == "bool" else expr.args[-1].dtype
    if expr.fn.result == "free" or expr.dtype is not usual:
        return f"{expr.fn.name}<{expr.dtype.name}>("
    return f"{expr.fn.name}("


class _Numbering:
    """Equal sub-expressions numbered once, operands first."""

    def __init__(self, root: Expr, leaf: Callable[[Expr], str]) -> None:
        self.heads: list[str] = []
        self.parts: list[tuple[int, ...]] = []
        self.uses: list[int] = []
        known: dict[tuple[str, tuple[int, ...]], int] = {}
        numbers: dict[int, int] = {}
        for expr in sub_expressions(root):
            parts = tuple(numbers[id(o)] for o in operands(expr))
            key = (_head(expr, leaf), parts)
            number = known.setdefault(key, len(self.heads))
            numbers[id(expr)] = number
            if number == len(self.heads):
                self.heads.append(key[0])
                self.parts.append(parts)
                self.uses.append(0)
                for part in parts:
                    self.uses[part] += 1


def format_expr(root: Expr, leaf: Callable[[Expr], str]) -> str:
    """An expression as text; ``leaf`` prints what is neither constant, call nor guarded.

    Equal expressions give equal text, whether or not they share their parts. Iterative.
    """
    table = _Numbering(root, leaf)
    texts: list[str] = []
    depths: list[int] = []
    lets: list[str] = []
    for number, (head, parts) in enumerate(zip(table.heads, table.parts)):
        if not parts:
            texts.append(head)
            depths.append(0)
            continue
        text = f"{head}{', '.join(texts[p] for p in parts)})"
        depth = 1 + max(depths[p] for p in parts)
        last = number == len(table.heads) - 1
        if not last and (table.uses[number] > 1 or depth >= DEEPEST):
            lets.append(f"let t{len(lets)} = {text}; ")
            text, depth = f"t{len(lets) - 1}", 0
        for part in parts:
            texts[part] = texts[part] if depths[part] == 0 else ""  # used up: free the memory
        texts.append(text)
        depths.append(depth)
    return f"{{{''.join(lets)}{texts[-1]}}}" if lets else texts[-1]
