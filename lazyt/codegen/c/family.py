"""What C and CUDA C share: kernel expressions and statements as C trees.

Arithmetic that C spells as an operator becomes one; everything else becomes a call of a prelude
function ``lz_<name>_<suffix>``, so that a target is only another prelude and another way to write
loops. Half types live in float32 between a load and a store.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from functools import partial, reduce

from lazyt.codegen.c import tree as ct
from lazyt.codegen.c.band_scratch import BandPlace
from lazyt.codegen.loops.stages import calls_paths, reads
from lazyt.errors import InternalError
from lazyt.ir.decisions import PLAIN, slack
from lazyt.ir.dtypes import DType, bool_, float32, int64
from lazyt.ir.index import (
    Axis,
    Datum,
    Guard,
    Guarded,
    Linear,
    Load,
    Position,
    Quotient,
    Remainder,
    Var,
    axes_of,
    linearize,
)
from lazyt.ir.kernel import Buffer, Reduce, Stage, Store
from lazyt.ir.scalar import Call, Const, Expr, real_number

_BOOLEAN = {"logical_and": "&", "logical_or": "|", "logical_xor": "^"}


class Expressions:
    """Prints kernel expressions over a set of buffers as C trees.

    Attributes:
        buffers: the kernel's buffers by name.
        origins: elements that come before what a buffer's pointer points at, where there are any.
        values: what each IR name currently stands for in C.
        quotients: what parts of indices with a division currently stand for.
        lane: the axis of a loop over lanes: vectors have no division, but 32-bit numbers multiply.
        bands, row: how scratch of a band is reached, by its buffer; the number of the current row.
        ends: one past the last step that a loop over an axis takes, if that is known at run time.
        elements: what stands for elements of buffers, by their row-major positions, instead.
        widened: the same for halves that are floats already, or floats that become halves later.
        used: prelude functions that were called.
        names: the C names of constants that are arguments, by their number in the order in which
            they are first printed. None to write all of them out; empty to name all of them.
        constants: C type and text of every constant so far.
        streamed, traits: results that go past caches; what the processor does differently.
        ordered: whether gcc orders instructions before it gives out registers.
    """

    def __init__(self, buffers: Sequence[Buffer], origins: Mapping[str, int] | None = None) -> None:
        self.buffers = {b.name: b for b in buffers}
        self.origins = origins or {}
        self.values: dict[str, ct.Node] = {}
        self.quotients: dict[Quotient | Remainder, ct.Node] = {}
        self.bands: dict[str, BandPlace] = {}
        self.row = Linear((), 0)
        self.ends: dict[Axis, ct.Node] = {}
        self.lane: Axis | None = None
        self.elements: dict[tuple[str, Linear], ct.Node] = {}
        self.widened: dict[tuple[str, Linear], ct.Node] = {}
        self.used: set[str] = set()
        self.names: Mapping[int, str] | None = None
        self.constants: list[tuple[str, str]] = []
        self.streamed, self.traits, self.ordered = frozenset[str](), PLAIN, False
        self._numbered: dict[int, int] = {}
        self._tests: list[ct.Node] = []
        self._in_row = False
        self.steps_in_order = False

    def prelude(self, function: str, *arguments: ct.Node) -> ct.Node:
        """A call of a prelude function, remembered for the section list."""
        self.used.add(function)
        return ct.call(function, arguments)

    # ------------------------------------------------------------- indices

    def index(self, value: Linear) -> ct.Node:
        """An index as C integer arithmetic."""
        total: ct.Node | None = None
        for atom, factor in value.terms:
            term = self._atom(atom)
            if factor not in (1, -1):
                term = ct.binary("*", term, ct.integer(abs(factor)))
            if total is None:
                total = term if factor > 0 else ct.unary("-", term)
            else:
                total = ct.binary("+" if factor > 0 else "-", total, term)
        if total is None:
            return ct.integer(value.const)
        if value.const:
            sign = "+" if value.const > 0 else "-"
            total = ct.binary(sign, total, ct.integer(abs(value.const)))
        return total

    def _atom(self, atom: object) -> ct.Node:
        if isinstance(atom, Axis | Datum):
            return self.values.get(atom.name) or ct.name(atom.name)
        if isinstance(atom, Quotient | Remainder):
            known = self.quotients.get(atom)
            if known is not None:
                return known
            inner = self.index(atom.value)
            quotient = isinstance(atom, Quotient)
            low, high = atom.value.bounds
            uneven = atom.divisor & (atom.divisor - 1)
            if uneven and low >= 0 and high < 1 << 32 and self.lane in axes_of(atom):
                divided = ct.cast("lz_u32", inner)
                node = ct.binary("/" if quotient else "%", divided, ct.integer(atom.divisor))
                return ct.cast("lz_i64", node)
            if low >= 0:
                return ct.binary("/" if quotient else "%", inner, ct.integer(atom.divisor))
            function = "lz_floordiv_i64" if quotient else "lz_mod_i64"
            return self.prelude(function, inner, ct.integer(atom.divisor))
        raise InternalError("codegen.c_family", f"unknown index atom {atom!r}")

    def position(self, buffer: Buffer, index: Sequence[Linear]) -> ct.Node:
        """The C expression of a buffer element."""
        whole = linearize(index, buffer.shape)
        known = self.elements.get((buffer.name, whole)) if self.elements else None
        if known is not None:
            return known
        band = self.bands.get(buffer.name)
        return ct.element(band.name if band else buffer.name, self.place(buffer, whole))

    def _float(self, buffer: Buffer, index: Sequence[Linear]) -> ct.Node | None:
        """What stands for an element of a type of 16 bits as a float."""
        return self.widened.get((buffer.name, linearize(index, buffer.shape)))

    def place(self, buffer: Buffer, whole: Linear) -> ct.Node:
        """How far behind its pointer the element at a row-major position of a buffer lies."""
        band = self.bands.get(buffer.name)
        if band is None:
            return self.index(whole - self.origins.get(buffer.name, 0))
        at = self.index(whole + self.row * (band.pitch - band.width))
        return ct.binary("-", at, ct.name(band.base))

    def condition(self, guards: Sequence[Guard]) -> ct.Node | None:
        """The conjunction of guards, without what the axes' ranges imply; None for no tests."""
        tests: list[ct.Node] = []
        for guard in guards:
            low, high = guard.index.bounds
            if low < guard.low:
                tests.append(ct.binary(">=", self.index(guard.index), ct.integer(guard.low)))
            if high >= guard.high - slack(guard.index):
                tests.append(ct.binary("<", self.index(guard.index), ct.integer(guard.high)))
        return reduce(partial(ct.binary, "&&"), tests) if tests else None

    # -------------------------------------------------------------- values

    def value(self, expr: Expr) -> ct.Node:
        """A kernel expression as a C tree of its compute type."""
        if isinstance(expr, Var):
            return self.values.get(expr.name) or ct.name(expr.name)
        if isinstance(expr, Const):
            return self._constant(expr, self.number(real_number(expr.value), expr.dtype.compute))
        if isinstance(expr, Load):
            buffer = self.buffers[expr.buffer]
            half = buffer.dtype.is_half
            if half and (wide := self._float(buffer, expr.index)) is not None:
                return wide
            node = self.position(buffer, expr.index)
            for test in reversed(self._tests):
                node = ct.choose(test, node, ct.integer(0))
            return self.prelude(f"lz_load_{buffer.dtype.suffix}", node) if half else node
        if isinstance(expr, Position):
            if self.names is None:
                return ct.cast(f"lz_{expr.dtype.suffix}", self.index(expr.index))
            rest = ct.cast("lz_i64", self.index(expr.index - expr.index.const))
            first = self._constant(expr, self.number(expr.index.const, int64))
            return ct.cast(f"lz_{expr.dtype.suffix}", ct.binary("+", rest, first))
        if isinstance(expr, Guarded):
            test = self.condition(expr.guards)
            if test is None:
                return self.value(expr.value)
            if calls_paths(expr.value, expr.other):
                return self._evaluate_both(test, expr)
            return ct.choose(test, self.value(expr.value), self.value(expr.other))
        if isinstance(expr, Call):
            return self._call(expr)
        raise InternalError("codegen.c_family", f"cannot print {expr!r}")

    def _evaluate_both(self, test: ct.Node, expr: Guarded) -> ct.Node:
        """A guarded value of which only the loads are under the guard."""
        self._tests.append(test)
        value = self.value(expr.value)
        self._tests.pop()
        return self.prelude(
            f"lz_select_{expr.dtype.compute.suffix}", test, value, self.value(expr.other)
        )

    def _constant(self, expr: Const | Position, written: ct.Node) -> ct.Node:
        """A constant as it is written, or the name of an argument."""
        if self.names is None:
            return written
        place = self._numbered.setdefault(id(expr), len(self.constants))
        if place == len(self.constants):
            kind = "lz_i64" if isinstance(expr, Position) else compute_type(expr.dtype)
            self.constants.append((kind, ct.text(written)))
        name = self.names.get(place) if self.names else f"n{place}_"
        return written if name is None else ct.name(name)

    def number(self, value: float, dtype: DType) -> ct.Node:
        """A constant of a compute type, exact to the bit."""
        if dtype is bool_:
            return ct.integer(1 if value else 0)
        if dtype.kind != "f":
            number = int(value)
            if number == -(1 << 63):
                return ct.binary("-", ct.integer(-(1 << 63) + 1), ct.integer(1))
            node = ct.literal(f"{number}ULL") if dtype.suffix == "u64" else ct.integer(number)
            return ct.cast(f"lz_{dtype.suffix}", node)
        ending = "f" if dtype is float32 else ""
        suffix = dtype.suffix.upper()
        real = float(value)
        if math.isnan(real):
            return ct.name(f"LZ_NAN_{suffix}")
        if dtype is float32 and not math.isinf(real):
            real = (
                struct.unpack("f", struct.pack("f", real))[0]
                if abs(real) < 3.5e38
                else (math.copysign(math.inf, real))
            )
        if math.isinf(real):
            infinity = ct.name(f"LZ_INF_{suffix}")
            return infinity if real > 0 else ct.unary("-", infinity)
        body = repr(real) + ending
        return ct.literal(f"({body})" if body.startswith("-") else body)

    def _call(self, expr: Call) -> ct.Node:
        fn = expr.fn
        if fn.name == "cast":
            return self._cast(expr)
        if fn.name == "bitcast":
            return self._bitcast(expr)
        if fn.name == "where":
            return self._where(expr)
        kind = expr.args[0].dtype.compute
        # Bounds that keep indices inside of their axis stay where a proof can see them.
        bound = kind is int64 and fn.name in ("minimum", "maximum")
        if bound and self.steps_in_order and (clamped := _clamped(expr)) is not None:
            index, top = clamped
            return self.prelude("lz_clamp_index_i64", self.value(index), self.number(top, kind))
        arguments = [
            self.number(real_number(a.value), kind)
            if bound and isinstance(a, Const)
            else self.value(a)
            for a in expr.args
        ]
        if fn.name == "threefry":
            return self.prelude("lz_threefry_u32", *arguments)
        if fn.name in _BOOLEAN:
            return ct.binary(_BOOLEAN[fn.name], *(self._truth(a, kind) for a in arguments))
        if fn.name == "logical_not":
            return ct.unary("!", self._truth(arguments[0], kind))
        if fn.symbol is None:
            return self.prelude(f"lz_{fn.name}_{kind.suffix}", *arguments)
        if kind is bool_ and fn.name == "bitwise_not":
            return ct.unary("!", arguments[0])
        if fn.result != "bool" and expr.dtype.compute.kind in "uib":
            return integer_arithmetic(fn.symbol, arguments, expr.dtype.compute)
        if len(arguments) == 1:
            return ct.unary(fn.symbol, arguments[0])
        return ct.binary(fn.symbol, arguments[0], arguments[1])

    def _where(self, expr: Call) -> ct.Node:
        """A choice; gcc makes paths of choices in a row, which it vectorises badly."""
        before = self._in_row
        inner = [a for a in expr.args[1:] if isinstance(a, Call) and a.fn.name == "where"]
        self._in_row = before or (bool(inner) and expr.dtype.kind == "f")
        test, yes, no = (self.value(a) for a in expr.args)
        both, self._in_row = self._in_row or calls_paths(*expr.args[1:]), before
        if both or reads(*expr.args[1:]):
            function = f"lz_{'select' if both else 'choose'}_{expr.dtype.compute.suffix}"
            return self.prelude(function, test, yes, no)
        return ct.choose(test, yes, no)

    def _truth(self, node: ct.Node, kind: DType) -> ct.Node:
        return node if kind is bool_ else ct.binary("!=", node, ct.integer(0))

    def _cast(self, expr: Call, rounds: bool = True) -> ct.Node:
        source, target = expr.args[0].dtype, expr.dtype
        node = self.value(expr.args[0])
        if source.compute is not target.compute:
            pair = f"lz_cast_{source.compute.suffix}_{target.compute.suffix}"
            node = self.prelude(pair, node)
        if target.is_half and source is not target and rounds:
            node = self.prelude(f"lz_round_{target.suffix}", node)
        return node

    def _bitcast(self, expr: Call) -> ct.Node:
        """The bits as an unsigned integer, and that as the type wanted."""
        source, target = expr.args[0].dtype, expr.dtype
        node = self.value(expr.args[0])
        if source.kind == "f":
            node = self.prelude(f"lz_pattern_{source.suffix}", node)
        if target.kind == "f":
            node = ct.cast(f"lz_u{8 * target.itemsize}", node)
            return self.prelude(f"lz_from_pattern_{target.suffix}", node)
        if target is bool_:
            return ct.binary("!=", node, ct.integer(0))
        return ct.cast(f"lz_{target.suffix}", node)

    # ---------------------------------------------------------- statements

    def store(self, statement: Store) -> list[ct.Node]:
        """A store, with its guards and combination, as C statements."""
        buffer = self.buffers[statement.buffer]
        target = self.position(buffer, statement.index)
        given, dtype = statement.value, buffer.dtype
        if isinstance(given, Call) and given.fn.name == "cast" and given.dtype is dtype:
            value = self._cast(given, rounds=statement.combine is not None)
        else:
            value = self.value(given)
        if statement.combine is not None:
            kind = {"add": "sum", "mul": "prod", "maximum": "max", "minimum": "min"}
            old: ct.Node = target
            if buffer.dtype.is_half:
                old = self.prelude(f"lz_load_{buffer.dtype.suffix}", target)
            value = self.fold(kind[statement.combine], old, value, buffer.dtype)
        wide = self._float(buffer, statement.index) if buffer.dtype.is_half else None
        if buffer.dtype.is_half and wide is None:
            value = self.prelude(f"lz_store_{buffer.dtype.suffix}", value)
        node = ct.assign(target if wide is None else wide, value)
        test = self.condition(statement.guards)
        return [node] if test is None else [ct.branch(test, [node])]

    def fold(self, kind: str, left: ct.Node, right: ct.Node, dtype: DType) -> ct.Node:
        """``left`` folded with ``right`` by a reduction."""
        compute = dtype.compute
        if kind in ("max", "min"):
            function = "maximum" if kind == "max" else "minimum"
            if compute.kind == "f" and ct.is_element(right):
                function = f"fold_{function}"
            return self.prelude(f"lz_{function}_{compute.suffix}", left, right)
        if compute is bool_:
            return ct.binary({"sum": "|", "any": "|", "prod": "&", "all": "&"}[kind], left, right)
        operator = "+" if kind == "sum" else "*"
        if compute.kind == "f":
            return ct.binary(operator, left, right)
        return integer_arithmetic(operator, (left, right), compute)

    def limit(self, stage: Stage, axis: Axis) -> ct.Node:
        """One past the last step of a stage's loop."""
        if axis in self.ends or stage.guard is None:
            return self.ends.get(axis) or ct.integer(axis.extent)
        offset = stage.guard.index - Linear(((axis, 1),), 0)
        room = ct.binary("-", ct.integer(stage.guard.high), self.index(offset))
        return ct.minimum(ct.integer(axis.extent), room)

    def extreme(
        self, r: Reduce, acc: ct.Node, mine: ct.Node, value: ct.Node, theirs: ct.Node, ties: bool
    ) -> list[ct.Node]:
        """Takes (value, theirs) over (acc, mine) when it is more extreme, or equal and earlier."""
        better = ct.binary(">" if r.kind == "argmax" else "<", value, acc)
        equal = ct.binary("==", value, acc)
        if r.value.dtype.kind == "f":
            nan, old = ct.binary("!=", value, value), ct.binary("!=", acc, acc)
            better = ct.binary("||", better, ct.binary("&&", nan, ct.unary("!", old)))
            equal = ct.binary("||", equal, ct.binary("&&", nan, old))
        test = ct.binary("||", ct.binary("<", mine, ct.integer(0)), better)
        if ties:
            earlier = ct.binary("&&", equal, ct.binary("<", theirs, mine))
            test = ct.binary("||", test, earlier)
            test = ct.binary("&&", ct.binary(">=", theirs, ct.integer(0)), test)
        return [ct.branch(test, [ct.assign(acc, value), ct.assign(mine, theirs)])]

    def identity(self, kind: str, dtype: DType) -> ct.Node:
        """The neutral element of a reduction."""
        compute = dtype.compute
        if kind in ("sum", "any"):
            return self.number(0, compute)
        if kind in ("prod", "all"):
            return self.number(1, compute)
        if compute is bool_:
            return self.number(kind == "min", compute)
        if compute.kind == "f":
            return self.number(-math.inf if kind in ("max", "argmax") else math.inf, compute)
        bits = compute.itemsize * 8
        if compute.kind == "u":
            return self.number(0 if kind in ("max", "argmax") else (1 << bits) - 1, compute)
        limit = 1 << (bits - 1)
        return self.number(-limit if kind in ("max", "argmax") else limit - 1, compute)


def integer_arithmetic(operator: str, operands: Sequence[ct.Node], dtype: DType) -> ct.Node:
    """``left operator right``, or ``operator operand``, of integers, which wraps around.

    Sums, differences and products of signed integers are computed in the unsigned type: in C and
    CUDA C their overflow is undefined, and compilers derive from it that ``x + 1 > x``. What has
    less than 32 bits is computed in int, where only products of uint16 do not fit.
    """
    signed = operator in ("+", "-", "*") and dtype.kind == "i" and dtype.itemsize >= 4
    if signed or (operator == "*" and dtype.suffix == "u16"):
        operands = [_modular(node, dtype) for node in operands]
    one = len(operands) == 1
    node = ct.unary(operator, *operands) if one else ct.binary(operator, *operands)
    if dtype is bool_:
        return ct.binary("!=", node, ct.integer(0))
    return ct.cast(f"lz_{dtype.suffix}", node) if signed or dtype.itemsize < 4 else node


def _modular(node: ct.Node, dtype: DType) -> ct.Node:
    """An integer's bits in the unsigned type in which it is computed."""
    unsigned = f"lz_u{max(8 * dtype.itemsize, 32)}"
    return ct.cast(unsigned, ct.without_cast(node, f"lz_{dtype.suffix}"))


def c_type(dtype: DType) -> str:
    """The C type of a stored element."""
    return f"lz_{dtype.suffix}"


def compute_type(dtype: DType) -> str:
    """The C type in which elements are computed."""
    return f"lz_{dtype.compute.suffix}"


def is_positional(r: Reduce) -> bool:
    """Whether a reduction gives a position instead of a value."""
    return r.kind in ("argmax", "argmin")


def _clamped(expr: Call) -> tuple[Expr, float] | None:
    """An index that is kept from 0 to a number, and that number, if an expression is that."""
    inner, low = expr.args
    if expr.fn.name != "maximum" or not isinstance(inner, Call) or inner.fn.name != "minimum":
        return None
    index, top = inner.args
    if not (isinstance(low, Const) and isinstance(top, Const)) or low.value != 0:
        return None
    return index, real_number(top.value)
