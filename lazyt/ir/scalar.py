"""Scalar expressions: what one element of a ``map`` computes.

An expression is a tree of Arg (an input's element), Const and Call nodes. All three are interned,
so equal expressions are identical and hash by identity. Kernel IR adds its own leaves (loads,
loop variables) by subclassing Expr in ``ir/kernel.py``.
"""

from __future__ import annotations

import functools
import math
import struct
import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lazyt.errors import InternalError
from lazyt.ir.dtypes import DType, bool_

Number = bool | int | float | complex


@dataclass(frozen=True, eq=False)
class ScalarFunction:
    """One function of scalars, with every fact about it.

    Attributes:
        name: its name in IR text.
        arity: number of arguments.
        evaluate: its meaning on NumPy arrays of the compute type (half types arrive as float32).
        derivative: given the Call and the number of an argument, the partial derivative as an
            expression over the Call's own arguments; or None with ``reason`` set.
        result: ``same`` (type of the last argument), ``bool``, ``part`` (that of a complex
            argument's parts), ``pair`` (the complex type of two parts), or ``free`` (given at
            construction, only for casts).
        symbol: C operator when the function is one, else None: then C calls ``lz_<name>_<suffix>``.
        kinds: dtype kinds it takes, out of ``b u i f c``. Of functions that take real and complex
            numbers the derivative is written once for both.
        pull, push: for functions of complex numbers that are not analytic, such as ``real``. Given
            the Call, the number of an argument and the adjoint of the result, ``pull`` is that of
            the argument; given the Call and the tangents of its arguments (None is zero), ``push``
            is that of the result. Else they are None, and ``derivative`` says both.
        commutative, associative: algebraic facts for passes.
        unit: the unit element of an associative function, or None.
        cost: rough cost in multiply-adds, for the cost model.
        reason: why there is no derivative; what the user reads.
        c_text: of a function from outside of the package, the C of ``lz_<name>_<suffix>``, as
            sections of ``codegen/prelude`` are written.
    """

    name: str
    arity: int
    evaluate: Callable[..., Any]
    derivative: Callable[[Call, int], Expr | None] | None
    result: str = "same"
    symbol: str | None = None
    kinds: str = "buif"
    commutative: bool = False
    associative: bool = False
    unit: Number | None = None
    cost: float = 1.0
    reason: str = ""
    c_text: str = ""
    pull: Callable[[Call, int, Expr], Expr] | None = None
    push: Callable[[Call, Sequence[Expr | None]], Expr | None] | None = None


FUNCTIONS: dict[str, ScalarFunction] = {}
#: The module that registered each.
HOMES: dict[str, str] = {}
#: Called when an op or a scalar function from outside of the package is defined anew.
on_redefinition: list[Callable[[], None]] = []


def may_redefine(old: str, new: str) -> bool:
    """Whether module ``new`` may define once more what ``old`` has defined: a file of the user's
    that is loaded again, or a cell of a notebook."""
    return old == new and old.partition(".")[0] != __name__.partition(".")[0]


def register(function: ScalarFunction, home: str = "") -> ScalarFunction:
    """Add ``function`` to the vocabulary; its name must be new and its facts complete.

    ``home``: the module that defines it, by default the one that calls.
    """
    home = home or sys._getframe(1).f_globals.get("__name__", "")
    again = function.name in FUNCTIONS
    if again and not may_redefine(HOMES[function.name], home):
        raise InternalError("ir.scalar", f"scalar function {function.name} is registered twice")
    if function.derivative is None and not function.reason:
        raise InternalError("ir.scalar", f"{function.name} has neither derivative nor reason")
    FUNCTIONS[function.name] = function
    HOMES[function.name] = home
    if again:
        for told in on_redefinition:
            told()
    return function


class Expr:
    """A scalar expression of type ``dtype``."""

    __slots__ = ("__weakref__", "dtype")
    dtype: DType


class Arg(Expr):
    """The element of input number ``index``."""

    __slots__ = ("index",)

    def __init__(self, index: int, dtype: DType) -> None:
        self.index = index
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"${self.index}:{self.dtype.name}"


class Const(Expr):
    """A literal; equal means the same dtype and bit pattern."""

    __slots__ = ("value",)

    def __init__(self, value: Number, dtype: DType) -> None:
        self.value = value
        self.dtype = dtype

    def __repr__(self) -> str:
        return f"{self.value!r}:{self.dtype.name}"


class Call(Expr):
    """A scalar function applied to arguments."""

    __slots__ = ("args", "fn")

    def __init__(self, fn: ScalarFunction, args: tuple[Expr, ...], dtype: DType) -> None:
        self.fn = fn
        self.args = args
        self.dtype = dtype

    def __repr__(self) -> str:
        inner = ", ".join(map(repr, self.args))
        if self.fn.result == "free":
            return f"{self.fn.name}<{self.dtype.name}>({inner})"
        return f"{self.fn.name}({inner})"


_table: weakref.WeakValueDictionary[tuple[Any, ...], Expr] = weakref.WeakValueDictionary()


def const_bits(value: Number, dtype: DType) -> int:
    """The bit pattern that tells constants apart (0.0 is not -0.0; NaN equals itself)."""
    if dtype.kind == "f":
        return int.from_bytes(struct.pack("<d", real_number(value)), "little")
    if dtype.kind == "c":
        pair = complex(value)
        return int.from_bytes(struct.pack("<dd", pair.real, pair.imag), "little")
    return int(real_number(value))


def real_number(value: Number) -> float | int:
    """A number of a real type; raises InternalError for one with an imaginary part."""
    if isinstance(value, complex):
        raise InternalError("ir.scalar", f"{value} is no real number")
    return value


def arg(index: int, dtype: DType) -> Expr:
    """The interned Arg."""
    key = ("arg", index, dtype)
    found = _table.get(key)
    if found is None:
        _table[key] = found = Arg(index, dtype)
    return found


def const(value: Number, dtype: DType) -> Expr:
    """The interned Const; ``value`` is converted to the dtype's Python type."""
    if dtype.kind == "f":
        value = float(real_number(value))
    elif dtype.kind == "c":
        value = complex(value)
    elif dtype is bool_:
        value = bool(value)
    else:
        value = int(real_number(value))
    key = ("const", const_bits(value, dtype), dtype)
    found = _table.get(key)
    if found is None:
        _table[key] = found = Const(value, dtype)
    return found


def call(name: str | ScalarFunction, *args: Expr, dtype: DType | None = None) -> Expr:
    """The interned Call; ``dtype`` only for functions whose result is free (casts)."""
    fn = FUNCTIONS[name] if isinstance(name, str) else name
    if dtype is None:
        dtype = bool_ if fn.result == "bool" else args[-1].dtype
        if fn.result == "part":
            dtype = dtype.part
        elif fn.result == "pair":
            dtype = dtype.to_complex()
    if fn.name == "cast" and args[0].dtype is dtype:
        return args[0]
    key = (fn, args, dtype)
    found = _table.get(key)
    if found is None:
        if len(args) != fn.arity:
            raise InternalError("ir.scalar", f"{fn.name} takes {fn.arity} arguments: {args}")
        _table[key] = found = Call(fn, args, dtype)
    return found


def post_order(root: Expr) -> list[Expr]:
    """All distinct sub-expressions, arguments before their users; iterative, any depth."""
    order: list[Expr] = []
    seen: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        expr, ready = stack.pop()
        if ready:
            order.append(expr)
            continue
        if id(expr) in seen:
            continue
        seen.add(id(expr))
        stack.append((expr, True))
        if isinstance(expr, Call):
            stack.extend((a, False) for a in reversed(expr.args))
    return order


@functools.lru_cache(maxsize=4096)
def applied(root: Expr) -> tuple[ScalarFunction, ...]:
    """The functions in an expression, once for each distinct sub-expression."""
    return tuple([e.fn for e in post_order(root) if isinstance(e, Call)])


def substitute(root: Expr, replacements: dict[Expr, Expr]) -> Expr:
    """``root`` with sub-expressions replaced, keys matched by identity; iterative."""
    done: dict[int, Expr] = {}
    for expr in post_order(root):
        new = replacements.get(expr)
        if new is None:
            new = expr
            if isinstance(expr, Call):
                args = tuple(done[id(a)] for a in expr.args)
                if args != expr.args:
                    new = call(expr.fn, *args, dtype=expr.dtype)
        done[id(expr)] = new
    return done[id(root)]


def format_number(value: Number, dtype: DType) -> str:
    """A literal that reads back to the same bits: decimal, or nan, inf, -inf; ``pair(1.0, 2.0)`` of
    a complex number."""
    if dtype.kind == "c":
        pair = complex(value)
        return f"pair({', '.join(format_number(n, dtype.part) for n in (pair.real, pair.imag))})"
    if dtype.kind == "f":
        number = float(real_number(value))
        if math.isnan(number):
            return "nan"
        if math.isinf(number):
            return "inf" if number > 0 else "-inf"
        return repr(number)
    if dtype is bool_:
        return "true" if value else "false"
    return str(int(real_number(value)))
