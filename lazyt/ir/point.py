"""Kernel expressions: what is computed at one point of a kernel's grid.

They extend the scalar expressions by what only has a meaning inside of a kernel: loads, names, the
point itself, and guards. Apart from the rest of the kernel IR, since the ops' rules build them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lazyt.ir.dtypes import DType
from lazyt.ir.index import Linear
from lazyt.ir.scalar import Call, Expr


@dataclass(frozen=True)
class Guard:
    """The condition ``low <= index < high``."""

    index: Linear
    low: int
    high: int


class Var(Expr):
    """A value named by an earlier Let, Reduce, Scan or Keep (read at the current loop step)."""

    __slots__ = ("name",)

    def __init__(self, name: str, dtype: DType) -> None:
        self.name = name
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"%{self.name}"


class Load(Expr):
    """An element of a buffer, converted to its compute type; ``index`` has one entry per axis."""

    __slots__ = ("buffer", "index")

    def __init__(self, buffer: str, index: tuple[Linear, ...], dtype: DType) -> None:
        self.buffer = buffer
        self.index = index
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"{self.buffer}[{', '.join(map(str, self.index))}]"


class Position(Expr):
    """An index as an int64 value."""

    __slots__ = ("index",)

    def __init__(self, index: Linear, dtype: DType) -> None:
        self.index = index
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"int64({self.index})"


class Guarded(Expr):
    """``value`` where all guards hold, else ``other``; ``value`` is not evaluated elsewhere."""

    __slots__ = ("guards", "other", "value")

    def __init__(self, guards: tuple[Guard, ...], value: Expr, other: Expr) -> None:
        self.guards = guards
        self.value = value
        self.other = other
        self.dtype = value.dtype

    def __repr__(self) -> str:
        tests = " and ".join(f"{g.low} <= {g.index} < {g.high}" for g in self.guards)
        return f"({self.value!r} if {tests} else {self.other!r})"


def operands(expr: Expr) -> tuple[Expr, ...]:
    """The direct sub-expressions of a kernel expression."""
    if isinstance(expr, Call):
        return expr.args
    if isinstance(expr, Guarded):
        return (expr.value, expr.other)
    return ()


def sub_expressions(expr: Expr) -> Iterator[Expr]:
    """Every distinct sub-expression, operands first; iterative."""
    seen: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(expr, False)]
    while stack:
        item, ready = stack.pop()
        if ready:
            yield item
        elif id(item) not in seen:
            seen.add(id(item))
            stack.append((item, True))
            stack.extend((o, False) for o in reversed(operands(item)))
