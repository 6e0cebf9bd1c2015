"""Values of C expressions over unknowns, for the proof in ``codegen/proof/c_bounds.py``.

Integers are linear forms where the text allows it; what is read from memory, and everything that
is no 64-bit integer, is unknown. Each access met on the way is checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

from pycparser import c_ast, c_generator

from lazyt.codegen.proof.facts import (
    WHOLE,
    Array,
    Atom,
    Facts,
    Form,
    Memory,
    Pointer,
    Range,
    Violation,
    number,
    size_of,
    unknown,
)
from lazyt.codegen.proof.intrinsics import tile_accesses
from lazyt.errors import VerifyError

#: C types whose arithmetic is followed, and the ranges of their values.
INTEGERS: dict[str, Range] = {"lz_i64": WHOLE, "int": (-(1 << 31), (1 << 31) - 1)}
_NEGATED = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}
_LAST_U32 = number((1 << 32) - 1)
_ROUTINE = re.compile(r"lz_rows_\w+$")

Value = Form | Pointer | Array | None


class Values:
    """Names in scope, what they stand for, and the value of expressions.

    Attributes:
        facts: what is known at the current place.
        worker: the number of the current OpenMP thread.
    """

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.facts = Facts()
        self.scopes: list[dict[str, Value]] = [{}]
        self.pieces: list[Memory] = []
        self.touched: set[str] = set()
        self.worker: Form = number(0)
        self.quiet = False

    def complain(
        self, node: Any, reason: str, found: Form | None = None, extent: int | None = None
    ) -> None:
        """Notes an access that was not proved, once."""
        if self.quiet or self.facts.impossible:
            return
        text = str(c_generator.CGenerator().visit(node))
        interval = None if found is None else self.facts.range_of(found)
        line, column = (node.coord.line, node.coord.column or 0) if node.coord else (0, 0)
        item = Violation(line, text, reason, interval, extent, column)
        if item not in self.violations:
            self.violations.append(item)

    # ----------------------------------------------------------------- names

    def look_up(self, name: str) -> Value:
        """What a name stands for, innermost scope first."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def put(self, name: str, value: Value) -> None:
        """Changes what a declared name stands for."""
        for scope in reversed(self.scopes):
            if name in scope:
                scope[name] = value
                return

    def anything(self, name: str, kind: str = "lz_i64") -> Form | None:
        """A value of a type, of which nothing else is known."""
        bounds = INTEGERS.get(kind)
        return unknown(Atom(name, bounds)) if bounds else None

    # ------------------------------------------------------------ conditions

    @contextmanager
    def assuming(self, condition: Any, holds: bool) -> Iterator[None]:
        """What follows from a condition, or from its opposite, holds inside."""
        with self.facts.scope():
            self.assume(condition, holds)
            yield

    def assume(self, node: Any, holds: bool) -> None:
        """Adds what follows from a condition or from its opposite."""
        if isinstance(node, c_ast.UnaryOp) and node.op == "!":
            self.assume(node.expr, not holds)
        elif isinstance(node, c_ast.BinaryOp) and node.op == ("&&" if holds else "||"):
            self.assume(node.left, holds)
            self.assume(node.right, holds)
        elif isinstance(node, c_ast.BinaryOp) and node.op in _NEGATED:
            left, right = self.peek(node.left), self.peek(node.right)
            if isinstance(left, Form) and isinstance(right, Form):
                self._compare(left, node.op if holds else _NEGATED[node.op], right)

    def _compare(self, left: Form, op: str, right: Form) -> None:
        if op in ("<", "<=", "=="):
            self.facts.add((right - left).shifted(-1 if op == "<" else 0))
        if op in (">", ">=", "=="):
            self.facts.add((left - right).shifted(-1 if op == ">" else 0))

    def peek(self, node: Any) -> Value:
        """A value whose accesses are checked elsewhere."""
        before, self.quiet = self.quiet, True
        value = self.value(node)
        self.quiet = before
        return value

    # ----------------------------------------------------------- expressions

    def value(self, node: Any) -> Value:
        """An expression's value as far as it is known; checks the accesses inside."""
        if isinstance(node, c_ast.Constant):
            return _literal(node)
        if isinstance(node, c_ast.ID):
            return self.look_up(node.name)
        if isinstance(node, c_ast.BinaryOp):
            return self._binary(node)
        if isinstance(node, c_ast.UnaryOp):
            return self._unary(node)
        if isinstance(node, c_ast.TernaryOp):
            return self._choose(node)
        if isinstance(node, c_ast.Cast):
            return self._cast(node)
        if isinstance(node, c_ast.ArrayRef):
            self._element(node)
            return None
        if isinstance(node, c_ast.FuncCall):
            return self._call(node)
        raise VerifyError(f"the check of C does not know {type(node).__name__} at {node.coord}")

    def _binary(self, node: c_ast.BinaryOp) -> Value:
        left = self.value(node.left)
        if node.op in ("&&", "||"):
            with self.assuming(node.left, node.op == "&&"):
                self.value(node.right)
            return None
        right = self.value(node.right)
        if node.op in ("/", "%") and isinstance(node.left, c_ast.Cast):
            left = self._narrowed(node.left, left)
        if isinstance(left, Pointer | Array) or isinstance(right, Pointer | Array):
            return self._advance(node, left, right)
        return self.arithmetic(node.op, left, right)

    def _narrowed(self, node: c_ast.Cast, value: Value) -> Value:
        """What is divided in 32 bits is the number that was cast, when it has no more of them."""
        if kind_name(node.to_type.type) != "lz_u32":
            return value
        whole = self.peek(node.expr)
        return whole if isinstance(whole, Form) and self._between(whole, _LAST_U32) else None

    def _advance(self, node: c_ast.BinaryOp, left: Value, right: Value) -> Value:
        if node.op == "+" and isinstance(left, Pointer) and isinstance(right, Form):
            return Pointer(left.memory, left.offset + right.times(left.item), left.item)
        self.complain(node, "arithmetic with pointers that is not understood")
        return None

    def arithmetic(self, op: str, left: Value, right: Value) -> Form | None:
        """``left op right`` of 64-bit integers; unknown when it may wrap around."""
        if not isinstance(left, Form) or not isinstance(right, Form):
            return None
        made: Form | None = None
        if op in ("+", "-"):
            made = left + right if op == "+" else left - right
        elif op == "*" and not (left.terms and right.terms):
            made = right.times(left.const) if not left.terms else left.times(right.const)
        elif op in ("/", "%") and not right.terms and right.const > 0:
            if not self.facts.proves(left):  # C rounds towards zero
                return None
            return self.divide(op, left, right.const)
        if made is None:
            return None
        low, high = self.facts.range_of(made)
        return made if WHOLE[0] <= low and high <= WHOLE[1] else None

    def divide(self, op: str, value: Form, divisor: int) -> Form:
        """The quotient ``/`` or the remainder ``%`` of division with rounding down."""
        quotient = self.facts.quotient(value, divisor)
        return quotient if op == "/" else value - quotient.times(divisor)

    def _unary(self, node: c_ast.UnaryOp) -> Value:
        inner = self.value(node.expr)
        if isinstance(inner, Pointer | Array) or node.op in ("*", "&"):
            self.complain(node, "a way to memory that is not understood")
        if node.op == "-" and isinstance(inner, Form):
            return self.arithmetic("-", number(0), inner)
        return inner if node.op == "+" else None

    def _choose(self, node: c_ast.TernaryOp) -> Value:
        self.value(node.cond)
        with self.assuming(node.cond, True):
            yes = self.value(node.iftrue)
        with self.assuming(node.cond, False):
            no = self.value(node.iffalse)
        if not isinstance(yes, Form) or not isinstance(no, Form):
            return None
        test, least = node.cond, None
        compared = isinstance(test, c_ast.BinaryOp) and test.op in ("<", "<=", ">", ">=")
        if compared and (self.peek(test.left), self.peek(test.right)) == (yes, no):
            least = test.op in ("<", "<=")
        return self.facts.choice((yes, no), least)

    def _cast(self, node: c_ast.Cast) -> Value:
        inner = self.value(node.expr)
        kind = node.to_type.type
        if isinstance(kind, c_ast.PtrDecl):
            size = size_of(kind_name(kind.type))
            if isinstance(inner, Pointer):
                if inner.memory.node and "const" in kind.type.quals:  # narrow numbers as a group
                    return Pointer(inner.memory, inner.offset, size)
                if inner.item == 1:
                    return self._cut(node, inner, size)
            self.complain(node, "a cast of something that is no argument")
            return None
        bounds = INTEGERS.get(kind_name(kind))
        if bounds is None or not isinstance(inner, Form):
            return None
        low, high = self.facts.range_of(inner)
        return inner if bounds[0] <= low and high <= bounds[1] else None

    def _call(self, node: c_ast.FuncCall) -> Value:
        name = node.name.name
        arguments = [self.value(a) for a in (node.args.exprs if node.args else ())]
        if name == "lz_worker":
            return self.worker
        touched = tile_accesses(name, [_as_pointer(a) for a in arguments])
        if touched is not None:
            if not touched:
                self.complain(node, "a micro-kernel's arguments are not understood")
            for access in touched:
                self._inside(node, access.memory, access.offset, access.size)
            return None
        across = name.startswith("lz_across_")
        if across or _ROUTINE.match(name):
            (self._across if across else self._routine)(node, arguments)
            return None
        if name.startswith(("lz_widen_", "lz_narrow_", "lz_stream_")) and arguments:
            self._as_many(node, arguments)
            return None
        if name.startswith("lz_short_"):
            self._rows(node, arguments)
            return None
        if name in ("lz_ahead", "lz_ahead_second"):
            return None  # reads nothing
        if any(isinstance(a, Pointer | Array) for a in arguments):
            self.complain(node, "memory handed to a function that is not known")
            return None
        if name in ("lz_minimum_i64", "lz_maximum_i64"):
            options = [a if isinstance(a, Form) else self.anything(name) for a in arguments]
            forms = tuple(o for o in options if o is not None)
            return self.facts.choice(forms, name == "lz_minimum_i64")
        if name == "lz_clamp_index_i64":
            options = [a if isinstance(a, Form) else self.anything(name) for a in arguments]
            below = self.facts.choice(tuple(o for o in options if o is not None), True)
            return self.facts.choice((below, number(0)), False) if below is not None else None
        if name in ("lz_floordiv_i64", "lz_mod_i64"):
            value, by = arguments
            if isinstance(value, Form) and isinstance(by, Form) and not by.terms and by.const > 0:
                return self.divide("/" if name == "lz_floordiv_i64" else "%", value, by.const)
        return None

    # -------------------------------------------------------------- accesses

    def _element(self, node: c_ast.ArrayRef) -> None:
        """Checks ``name[i]...[j]``."""
        base: Any = node
        indices: list[Form | None] = []
        while isinstance(base, c_ast.ArrayRef):
            index = self.value(base.subscript)
            indices.insert(0, index if isinstance(index, Form) else None)
            base = base.name
        memory = self.value(base)
        if isinstance(memory, Pointer) and len(indices) == 1:
            first = indices[0]
            if first is None:
                self.complain(node, "nothing is known about the index")
            else:
                offset = memory.offset + first.times(memory.item)
                self._inside(node, memory.memory, offset, memory.item)
        elif isinstance(memory, Array) and len(indices) == len(memory.extents):
            for index, extent in zip(indices, memory.extents, strict=True):
                if index is None:
                    self.complain(node, "nothing is known about the index", None, extent)
                elif not self._between(index, number(extent - 1)):
                    self.complain(node, "the index may be outside", index, extent)
        else:
            self.complain(node, "an access to something that is no array of this rank")

    def _between(self, index: Form, last: Form) -> bool:
        return self.facts.proves(index) and self.facts.proves(last - index)

    def _inside(self, node: Any, memory: Memory, offset: Form, count: int) -> None:
        """Checks that ``count`` bytes from ``offset`` on are inside of ``memory``."""
        self.touched.add(memory.whole)
        room = self.room(memory)
        if not self._between(offset, number(room - count)):
            self.complain(node, "bytes of the access may be outside", offset, room)

    def _routine(self, node: c_ast.FuncCall, arguments: Sequence[Value]) -> None:
        """``name(rows, n, ...)``: all of ``rows * n`` elements behind each pointer."""
        sizes = [a.const for a in arguments[:2] if isinstance(a, Form) and not a.terms]
        if len(sizes) < 2 or min(sizes) < 0 or any(isinstance(a, Array) for a in arguments):
            self.complain(node, "a routine's arguments are not understood")
            return
        for argument in arguments:
            if isinstance(argument, Pointer):
                count = sizes[0] * sizes[1] * argument.item
                self._inside(node, argument.memory, argument.offset, count)

    def _across(self, node: c_ast.FuncCall, arguments: Sequence[Value]) -> None:
        """``(rows, columns, from, pitch, to, width)``: all of one matrix, and of its transpose."""
        rows, columns, source, pitch, target, width = arguments
        self._matrix(node, source, (rows, columns, pitch))
        self._matrix(node, target, (columns, rows, width))

    def _as_many(self, node: c_ast.FuncCall, arguments: Sequence[Value]) -> None:
        """``(count, from, to)``: as many elements of both."""
        count, source, target = arguments
        for place in (source, target):
            self._matrix(node, place, (number(1), count, number(0)))

    def _rows(self, node: c_ast.FuncCall, arguments: Sequence[Value]) -> None:
        """``(rows, steps, from, pitch, to[, with])``: all of a matrix, one element for each row,
        and a vector of factors."""
        rows, steps, source, pitch, target, *factors = arguments
        self._matrix(node, source, (rows, steps, pitch))
        self._matrix(node, target, (number(1), rows, number(0)))
        for vector in factors:
            self._matrix(node, vector, (number(1), steps, number(0)))

    def _matrix(self, node: c_ast.FuncCall, place: Value, sizes: Sequence[Value]) -> None:
        """Checks a matrix of so many rows and columns, with rows so far apart."""
        forms = [f for f in sizes if isinstance(f, Form)]
        if len(forms) < 3 or forms[2].terms:
            self.complain(node, "the sizes of a matrix are not understood")
            return
        last = (forms[0].shifted(-1).times(forms[2].const) + forms[1]).shifted(-1)
        if isinstance(place, Pointer):
            self._inside(node, place.memory, place.offset, place.item)
            end = place.offset + last.times(place.item)
            self._inside(node, place.memory, end, place.item)
        elif not isinstance(place, Array) or len(place.extents) != 1:
            self.complain(node, "a matrix in no memory of one axis")
        elif not self.facts.proves(number(place.extents[0] - 1) - last):
            self.complain(node, "the matrix may reach outside", last, place.extents[0])

    # ------------------------------------------------------- pieces of memory

    def _cut(self, node: c_ast.Cast, pointer: Pointer, item: int) -> Pointer:
        """A typed pointer into an argument: from there on it owns the memory."""
        whole = pointer.memory
        if whole.whole in self.touched:
            self.complain(node, "memory is cut up after its use")
        piece = Memory(whole.whole, pointer.offset, whole.size, node)
        if not self.quiet:
            self.pieces.append(piece)
        return Pointer(piece, number(0), item)

    def room(self, memory: Memory) -> int:
        """Bytes of a piece: up to where the next one starts.

        Pieces whose start depends on the thread repeat for every thread, at a fixed distance.
        """
        start = memory.start
        others = [p.start for p in self.pieces if p.whole == memory.whole]
        later = [o.const - start.const for o in others if o.const > start.const]
        if start.terms:
            team = [o.const for o in others if o.terms == start.terms]
            later = [o - start.const for o in team if o > start.const]
            if not later:
                return min([*team, start.const]) + start.terms[0][1] - start.const
        return min(later, default=memory.size - start.const)

    def check_pieces(self) -> None:
        """Checks that every piece of every thread is inside of its argument."""
        for piece in self.pieces:
            low, high = self.facts.range_of(piece.start)
            if low < 0 or high + self.room(piece) > piece.size:
                self.complain(piece.node, "the piece may be outside", piece.start, piece.size)


def _as_pointer(value: Value) -> Value:
    """A local array handed to a micro-kernel; its elements count as bytes, for want of its type."""
    if isinstance(value, Array):
        return Pointer(Memory("a local array", number(0), prod(value.extents)), number(0), 1)
    return value


def _literal(node: c_ast.Constant) -> Form | None:
    text = node.value.rstrip("uUlL")
    return number(int(text, 0)) if re.fullmatch(r"\d+|0x[0-9a-fA-F]+", text) else None


def kind_name(declared: Any) -> str:
    """The name of a plain type."""
    while not isinstance(declared, c_ast.IdentifierType):
        declared = declared.type
    return " ".join(declared.names)
