"""Scalar expressions, indices and guards read back from text."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from lazyt.ir.dtypes import DType
from lazyt.ir.index import Atom, Axis, Datum, Linear, Quotient, Remainder
from lazyt.ir.point import Guard, Guarded
from lazyt.ir.scalar import FUNCTIONS, Expr, Number, ScalarFunction, call, const
from lazyt.ir.text_tokens import Reader, read_dtype, read_integer

#: Reads a leaf of one language. It gets the name just taken ("" when the current token is no
#: name) and where that name began.
LeafReader = Callable[[Reader, str, int], Expr]
_SPECIAL: dict[str, Number] = {
    "nan": float("nan"), "inf": float("inf"), "true": True, "false": False,
}  # fmt: skip


def _literal(reader: Reader, text: str, start: int) -> Expr:
    """The constant whose number ``text`` was just taken; its type follows."""
    reader.expect(":")
    dtype = read_dtype(reader)
    if text.startswith("nan#"):
        return const(struct.unpack("<d", int(text[4:], 16).to_bytes(8, "little"))[0], dtype)
    value = _SPECIAL.get(text)
    try:
        if value is None:
            value = float(text) if dtype.kind == "f" else int(text)
        return const(value, dtype)
    except (ValueError, OverflowError):
        raise reader.error(f"'{text}' is no {dtype.name} literal", start) from None


class _Frame:
    """A call, or a guarded value, whose operands are being read."""

    __slots__ = ("args", "dtype", "fn", "guards", "start")

    def __init__(
        self, start: int, fn: ScalarFunction | None, dtype: DType | None, guards: tuple[Guard, ...]
    ) -> None:
        self.start, self.fn, self.dtype, self.guards = start, fn, dtype, guards
        self.args: list[Expr] = []

    def close(self, reader: Reader) -> Expr:
        """The finished expression; raises ParseError for a wrong number of operands."""
        name, arity = (self.fn.name, self.fn.arity) if self.fn else ("guarded", 2)
        if len(self.args) != arity:
            raise reader.error(f"{name} takes {arity} operands, found {len(self.args)}", self.start)
        if self.fn is None:
            return Guarded(self.guards, self.args[0], self.args[1])
        return call(self.fn, *self.args, dtype=self.dtype)


def _open_call(reader: Reader, name: str, start: int) -> _Frame:
    """The frame of a function whose name was just taken."""
    fn = FUNCTIONS[name]
    dtype = None
    if reader.accept("<"):
        dtype = read_dtype(reader)
        reader.expect(">")
    if dtype is None and fn.result == "free":
        raise reader.error(f"{name} needs its result type: {name}<float32>(...)", start)
    reader.expect("(")
    return _Frame(start, fn, dtype, ())


def _open_guarded(reader: Reader, start: int, axes: Mapping[str, Axis]) -> _Frame:
    reader.expect("(")
    guards = read_guards(reader, axes)
    reader.expect(",")
    return _Frame(start, None, None, guards)


def _read_tree(
    reader: Reader, leaf: LeafReader, named: Mapping[str, Expr], axes: Mapping[str, Axis] | None
) -> Expr:
    """One expression without ``let``; iterative, so that nesting has no limit."""
    stack: list[_Frame] = []
    while True:
        start = reader.start
        if reader.kind == "number":
            value = _literal(reader, reader.take(), start)
        elif reader.kind != "name":
            value = leaf(reader, "", start)
        else:
            name = reader.take()
            if name in FUNCTIONS and reader.text in ("(", "<"):
                stack.append(_open_call(reader, name, start))
                continue
            if name == "guarded" and axes is not None and reader.text == "(":
                stack.append(_open_guarded(reader, start, axes))
                continue
            if name in named and reader.text != "[":
                value = named[name]
            elif name in _SPECIAL and reader.text == ":":
                value = _literal(reader, name, start)
            else:
                value = leaf(reader, name, start)
        while stack:
            stack[-1].args.append(value)
            if reader.accept(","):
                break
            if not reader.accept(")"):
                raise reader.expected("',' or ')'")
            value = stack.pop().close(reader)
        else:
            return value


def read_expr(reader: Reader, leaf: LeafReader, axes: Mapping[str, Axis] | None = None) -> Expr:
    """An expression, with or without named parts; ``axes`` None where guards cannot stand."""
    if not reader.accept("{"):
        return _read_tree(reader, leaf, {}, axes)
    named: dict[str, Expr] = {}
    while reader.accept("let"):
        name = reader.expect_kind("name", "a name")
        reader.expect("=")
        named[name] = _read_tree(reader, leaf, named, axes)
        reader.expect(";")
    value = _read_tree(reader, leaf, named, axes)
    reader.expect("}")
    return value


def read_guards(reader: Reader, axes: Mapping[str, Axis]) -> tuple[Guard, ...]:
    """Conditions joined by ``and``, or ``always``."""
    if reader.accept("always"):
        return ()
    guards: list[Guard] = []
    while not guards or reader.accept("and"):
        low = read_integer(reader)
        reader.expect("<=")
        index = read_index(reader, axes)
        reader.expect("<")
        guards.append(Guard(index, low, read_integer(reader)))
    return tuple(guards)


def _read_atom(reader: Reader, axes: Mapping[str, Axis]) -> Atom:
    """A loop axis, or a value read from data."""
    if reader.accept("@"):
        name = reader.expect_kind("name", "the name of a value")
        reader.expect("[")
        extent = read_integer(reader)
        reader.expect("]")
        return Datum(name, extent)
    start = reader.start
    name = reader.expect_kind("name", "a loop axis")
    axis = axes.get(name)
    if axis is None:
        raise reader.error(f"unknown axis '{name}'; known: {', '.join(axes) or 'none'}", start)
    return axis


def _close_division(reader: Reader, value: Linear) -> Atom:
    """The quotient or remainder of ``value``, after its closing parenthesis."""
    quotient = reader.accept("//")
    if not quotient and not reader.accept("%"):
        raise reader.expected("'//' or '% '")
    divisor = read_integer(reader)
    if divisor < 1:
        raise reader.error("a divisor must be positive")
    reader.expect(")")
    return Quotient(value, divisor) if quotient else Remainder(value, divisor)


def read_index(reader: Reader, axes: Mapping[str, Axis]) -> Linear:
    """A linear index exactly as written, nothing simplified; iterative."""
    outer: list[tuple[list[tuple[Atom, int]], int, int]] = []
    terms: list[tuple[Atom, int]] = []
    const = 0
    while True:
        number = reader.kind == "number"
        factor = read_integer(reader) if number else 1
        if number and not reader.accept("*"):
            const += factor
        elif reader.accept("("):
            reader.expect("(")
            outer.append((terms, const, factor))
            terms, const = [], 0
            continue
        else:
            terms.append((_read_atom(reader, axes), factor))
        while not reader.accept("+"):
            value = Linear(tuple(terms), const)
            if not outer:
                return value
            reader.expect(")")
            terms, const, factor = outer.pop()
            terms.append((_close_division(reader, value), factor))
