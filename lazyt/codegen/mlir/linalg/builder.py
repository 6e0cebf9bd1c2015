"""Operations of linalg, tensor, arith and math as text: on numbers, and on whole tensors.

The dialects: https://mlir.llvm.org/docs/Dialects/Linalg/
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from lazyt.codegen.mlir.text import SIGNLESS, Lines, identity, literal, numbers, tensor
from lazyt.ir.dtypes import DType, int64
from lazyt.ir.graph import Node, Shape
from lazyt.ir.scalar import Number

#: Operations by scalar function and kind of type. Those without a kind's letter are written out.
_NATIVE: dict[str, dict[str, str]] = {
    "add": {"b": "arith.ori", "ui": "arith.addi", "f": "arith.addf"},
    "sub": {"ui": "arith.subi", "f": "arith.subf"},
    "mul": {"b": "arith.andi", "ui": "arith.muli", "f": "arith.mulf"},
    "div": {"f": "arith.divf"}, "fmod": {"f": "arith.remf"},
    "quot": {"u": "arith.divui", "i": "arith.divsi"},
    "rem": {"u": "arith.remui", "i": "arith.remsi"},
    "maximum": {"b": "arith.ori", "u": "arith.maxui", "i": "arith.maxsi", "f": "arith.maximumf"},
    "minimum": {"b": "arith.andi", "u": "arith.minui", "i": "arith.minsi", "f": "arith.minimumf"},
    "bitwise_and": {"bui": "arith.andi"}, "bitwise_or": {"bui": "arith.ori"},
    "bitwise_xor": {"bui": "arith.xori"}, "shl": {"ui": "arith.shli"},
    "shr": {"ui": "arith.shrui"}, "sar": {"i": "arith.shrsi"},
    "neg": {"f": "arith.negf"}, "abs": {"i": "math.absi", "f": "math.absf"},
    "round": {"f": "math.roundeven"}, "pow": {"f": "math.powf"},
    **{
        name: {"f": f"math.{name}"}
        for name in (
            "floor", "ceil", "trunc", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p",
            "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
            "asinh", "acosh", "atanh", "atan2", "erf", "erfc", "copysign", "fma",
        )
    },
}  # fmt: skip
#: Written as any operation can be, as xDSL has no other text for them.
_PLAIN = {"arith.remf", "math.erfc"}
#: Functions of one argument that take an operation and a constant.
_WITH_ONES = ("neg", "bitwise_not")
#: Folds by the kind of a reduction, a scan or a scatter.
FOLDS = {
    "sum": "add", "add": "add", "prod": "mul", "mul": "mul", "max": "maximum", "min": "minimum",
    "any": "bitwise_or", "all": "bitwise_and",
}  # fmt: skip
_ORDERED = {"eq": "oeq", "ne": "une"}


def type_of(node: Node) -> str:
    """The type of a node's value."""
    return tensor(node.shape, SIGNLESS[node.dtype.name])


def _operation(name: str, dtype: DType) -> str | None:
    kinds = _NATIVE.get(name, {})
    return next((found for letters, found in kinds.items() if dtype.kind in letters), None)


class Numbers:
    """Operations on numbers: the body of one operation over tensors."""

    def __init__(self, lines: Lines) -> None:
        self.lines = lines
        self._constants: dict[str, str] = {}

    def constant(self, value: Number, dtype: DType) -> str:
        """A number, written once in a body."""
        return self._once(f"arith.constant {_number(value, dtype)}")

    def _once(self, text: str) -> str:
        if text not in self._constants:
            self._constants[text] = self.lines.add(text)
        return self._constants[text]

    def has(self, name: str, dtype: DType) -> bool:
        """Whether there is an operation of the same meaning, or few that have it."""
        if name in _WITH_ONES or name == "raise":
            return dtype.kind in ("buif" if name == "bitwise_not" else "uif")
        return _operation(name, dtype) is not None

    def apply(self, name: str, args: Sequence[str], dtype: DType) -> str:
        """One of those, on operands of the result's type."""
        found, element = _operation(name, dtype), SIGNLESS[dtype.name]
        if found in _PLAIN:
            types = ", ".join([element] * len(args))
            return self.lines.add(f'"{found}"({", ".join(args)}) : ({types}) -> {element}')
        if found is not None:
            return self.lines.add(f"{found} {', '.join(args)} : {element}")
        if name == "neg":
            return self.apply("sub", [self.constant(0, dtype), *args], dtype)
        if name == "bitwise_not":
            ones = self.constant(True if dtype.kind == "b" else -1, dtype)
            return self.apply("bitwise_xor", [*args, ones], dtype)
        return self._raised(args[0], args[1], dtype)

    def _raised(self, x: str, n: str, dtype: DType) -> str:
        """``x`` to the power ``n``, which is not negative: by squares, one for each bit of ``n``.

        What ``math.ipowi`` means. Few compilers take that.
        """
        zero, power = self.constant(0, dtype), self.constant(1, dtype)
        for bit in range(8 * dtype.itemsize):
            set_ = self.apply("bitwise_and", [n, self.constant(1 << bit, dtype)], dtype)
            more = self.apply("mul", [power, x], dtype)
            power = self.select(self.compare("ne", set_, zero, dtype), more, power, dtype)
            x = self.apply("mul", [x, x], dtype)
        return power

    def compare(self, how: str, a: str, b: str, dtype: DType) -> str:
        """A comparison; of NaN only ``ne`` holds."""
        element = SIGNLESS[dtype.name]
        if dtype.kind == "f":
            return self.lines.add(
                f"arith.cmpf {_ORDERED.get(how, 'o' + how)}, {a}, {b} : {element}"
            )
        sign = "" if how in _ORDERED else "s" if dtype.kind == "i" else "u"
        return self.lines.add(f"arith.cmpi {sign}{how}, {a}, {b} : {element}")

    def select(self, test: str, a: str, b: str, dtype: DType) -> str:
        """The first where the test holds."""
        return self.lines.add(f"arith.select {test}, {a}, {b} : {SIGNLESS[dtype.name]}")

    def convert(self, value: str, old: DType, new: DType) -> str:
        """A number that the new type holds, or the nearest floating point number to it."""
        operation = _conversion(old, new)
        if not operation:
            return value
        return self._changed(operation, value, SIGNLESS[old.name], SIGNLESS[new.name])

    def _changed(self, operation: str, value: str, old: str, new: str) -> str:
        return self.lines.add(f"arith.{operation} {value} : {old} to {new}")

    def bitcast(self, value: str, old: DType, new: DType) -> str:
        """The same bits."""
        before, after = SIGNLESS[old.name], SIGNLESS[new.name]
        return value if before == after else self._changed("bitcast", value, before, after)

    def at(self, axis: int) -> str:
        """The position along a loop, of type index."""
        return self._once(f"linalg.index {axis} : index")

    def position(self, axis: int) -> str:
        """The position along a loop in int64."""
        return self._once(f"arith.index_cast {self.at(axis)} : index to i64")

    def index(self, value: str) -> str:
        """An int64 as index."""
        return self._changed("index_cast", value, "i64", "index")

    def extract(self, value: str, at: Sequence[str], shape: Shape, dtype: DType) -> str:
        """An element, at positions of type index."""
        kind = tensor(shape, SIGNLESS[dtype.name])
        return self.lines.add(f"tensor.extract {value}[{', '.join(at)}] : {kind}")


def _conversion(old: DType, new: DType) -> str:
    """The operation from one type to another, empty where the bits stay."""
    if SIGNLESS[old.name] == SIGNLESS[new.name]:
        return ""
    wider = new.itemsize > old.itemsize or old.kind == "b"
    if old.kind == new.kind == "f":
        return "extf" if wider else "truncf"
    if new.kind == "f":
        return "sitofp" if old.kind == "i" else "uitofp"
    if old.kind == "f":
        return "fptosi" if new.kind == "i" else "fptoui"
    return ("extsi" if old.kind == "i" else "extui") if wider else "trunci"


def _number(value: Number, dtype: DType) -> str:
    """A number with its type: integers as if they had a sign, as other printers write them."""
    if dtype.kind == "b":
        return literal(value, dtype)
    return f"{_signed(value, dtype)} : {SIGNLESS[dtype.name]}"


def _signed(value: Number, dtype: DType) -> str:
    text = literal(value, dtype)
    if dtype.kind not in "ui":
        return text
    bits = 8 * dtype.itemsize
    whole = int(text) & ((1 << bits) - 1)
    return str(whole - (1 << bits) if whole >> (bits - 1) else whole)


class Operand(NamedTuple):
    """A tensor that a loop nest reads, at ``where`` for each of its axes: expressions of the loops
    ``d0``, ``d1`` and so on."""

    value: str
    shape: Shape
    dtype: DType
    where: Sequence[str]


Body = Callable[[Numbers, Sequence[str]], str]


def loops(axes: Sequence[int]) -> list[str]:
    """The names of loops."""
    return [f"d{axis}" for axis in axes]


class Builder:
    """Operations of all kinds, and the names of the nodes that have one."""

    dialect = "linalg"
    elements = SIGNLESS

    def __init__(self, leaves: Sequence[Node] = ()) -> None:
        self.lines = Lines()
        self.names = {leaf: f"%arg{n}" for n, leaf in enumerate(leaves)}

    def name(self, node: Node) -> str:
        """The name of a node's value."""
        return self.names[node]

    def number(self, value: Number, dtype: DType) -> str:
        """A number outside of loops."""
        return Numbers(self.lines).constant(value, dtype)

    def constant(self, value: Number, dtype: DType, shape: Shape) -> str:
        """A value of equal elements."""
        kind = tensor(shape, SIGNLESS[dtype.name])
        text = literal(value, dtype) if dtype.kind == "b" else _signed(value, dtype)
        return self.lines.add(f"arith.constant dense<{text}> : {kind}")

    def nothing(self, shape: Shape, dtype: DType) -> str:
        """A value whose elements are not known, or that has none."""
        return self.lines.add(f"tensor.empty() : {tensor(shape, SIGNLESS[dtype.name])}")

    def filled(self, value: Number, dtype: DType, shape: Shape) -> str:
        """What folds over equal elements begin with."""
        kind, number = tensor(shape, SIGNLESS[dtype.name]), self.number(value, dtype)
        empty = self.nothing(shape, dtype)
        return self.lines.add(
            f"linalg.fill ins({number} : {SIGNLESS[dtype.name]}) outs({empty} : {kind}) -> {kind}"
        )

    def generic(
        self, extents: int, folded: int, operands: Sequence[Operand], out: Operand, body: Body
    ) -> str:
        """A nest of ``extents`` loops, of which the last ``folded`` meet in one element.

        ``body`` is given the elements of the operands and, last, of ``out``.
        """
        everything = [*operands, out]
        given = f"({', '.join(loops(range(extents)))})"
        maps = [f"affine_map<{given} -> ({', '.join(item.where)})>" for item in everything]
        kinds = ['"parallel"'] * (extents - folded) + ['"reduction"'] * folded
        types = [tensor(item.shape, SIGNLESS[item.dtype.name]) for item in everything]
        ins = ""
        if operands:
            names = ", ".join(item.value for item in operands)
            ins = f"ins({names} : {', '.join(types[:-1])}) "
        made = self.lines.add(
            f"linalg.generic {{indexing_maps = [{', '.join(maps)}], iterator_types = "
            f"[{', '.join(kinds)}]}} {ins}outs({out.value} : {types[-1]}) {{"
        )
        elements = [SIGNLESS[item.dtype.name] for item in everything]
        args = [self.lines.name() for _ in everything]
        self.lines.write(f"^bb0({', '.join(f'{a}: {e}' for a, e in zip(args, elements))}):")
        with self.lines.inside():
            found = body(Numbers(self.lines), args)
            self.lines.write(f"linalg.yield {found} : {elements[-1]}")
        self.lines.write(f"}} -> {types[-1]}")
        return made

    def elementwise(
        self, shape: Shape, dtype: DType, operands: Sequence[Operand], body: Body
    ) -> str:
        """A tensor of what ``body`` makes of elements; it is given those of the operands."""
        out = Operand(self.nothing(shape, dtype), shape, dtype, loops(range(len(shape))))
        return self.generic(len(shape), 0, operands, out, lambda a, args: body(a, args[:-1]))

    def moved(self, value: Operand, shape: Shape) -> str:
        """The elements that an operand is read at."""
        return self.elementwise(shape, value.dtype, [value], lambda _, args: args[0])

    def converted(self, value: str, shape: Shape, old: DType, new: DType) -> str:
        """A tensor in another type, by ``Numbers.convert``."""
        if old is new:
            return value
        operand = Operand(value, shape, old, loops(range(len(shape))))
        return self.elementwise(shape, new, [operand], lambda a, args: a.convert(args[0], old, new))

    def changed(self, text: str, old: Shape, new: Shape, dtype: DType, word: str) -> str:
        """An operation of ``tensor`` from one shape to another."""
        element = SIGNLESS[dtype.name]
        types = f"{tensor(old, element)} {word} {tensor(new, element)}"
        return self.lines.add(f"tensor.{text} : {types}")

    def reshape(self, value: str, old: Shape, new: Shape, dtype: DType) -> str:
        """The same elements under another shape: axes joined, and parted again."""
        if old == new:
            return value
        if not old or not new:  # xDSL and MLIR have different texts for no axes
            return self.moved(Operand(value, old, dtype, ["0"] * len(old)), new)
        groups = _groups(old, new)
        middle = tuple(old[first:last] for (first, last), _ in groups)
        joined = tuple(_product(part) for part in middle)
        if joined != old:
            axes = _listed([part for part, _ in groups])
            value = self.changed(f"collapse_shape {value} {axes}", old, joined, dtype, "into")
        if joined != new:
            axes = _listed([part for _, part in groups])
            text = f"expand_shape {value} {axes} output_shape {numbers(new)}"
            value = self.changed(text, joined, new, dtype, "into")
        return value

    def stepped(
        self, value: str, old: Shape, new: Shape, dtype: DType,
        starts: Sequence[int], steps: Sequence[int],
    ) -> str:  # fmt: skip
        """Elements from starts on, forwards or backwards: loops that count down are not tiled by
        all compilers."""

        def body(a: Numbers, _: Sequence[str]) -> str:
            at = []
            for axis, (start, step) in enumerate(zip(starts, steps)):
                if start == 0 and step == 1:
                    at.append(a.at(axis))
                else:
                    only = [step if n == axis else 0 for n in range(len(new))]
                    at.append(a.index(self.all_positions(a, new, only, start)))
            return a.extract(value, at, old, dtype)

        return self.elementwise(new, dtype, [], body)

    def reverse(self, value: str, axes: Sequence[int], shape: Shape, dtype: DType) -> str:
        """Backwards along axes."""
        if not axes:
            return value
        starts = [extent - 1 if axis in axes else 0 for axis, extent in enumerate(shape)]
        steps = [-1 if axis in axes else 1 for axis in range(len(shape))]
        return self.stepped(value, shape, shape, dtype, starts, steps)

    def extract_slice(
        self, value: str, old: Shape, new: Shape, dtype: DType,
        starts: Sequence[int], steps: Sequence[int],
    ) -> str:  # fmt: skip
        """Elements of every so many, from starts on."""
        text = f"extract_slice {value}{numbers(starts)} {numbers(new)} {numbers(steps)}"
        return self.changed(text, old, new, dtype, "to")

    def insert_slice(
        self, value: str, into: str, old: Shape, new: Shape, dtype: DType,
        starts: Sequence[int], steps: Sequence[int],
    ) -> str:  # fmt: skip
        """Elements put over every so many of another tensor, from starts on."""
        where = f"{numbers(starts)} {numbers(old)} {numbers(steps)}"
        return self.changed(f"insert_slice {value} into {into}{where}", old, new, dtype, "into")

    def pad(
        self, value: str, fill: Number, old: Shape, new: Shape, dtype: DType,
        low: Sequence[int], high: Sequence[int],
    ) -> str:  # fmt: skip
        """More elements before and after."""
        number = self.number(fill, dtype)
        made = self.lines.add(f"tensor.pad {value} low{numbers(low)} high{numbers(high)} {{")
        given = ", ".join(f"{self.lines.name()}: index" for _ in old)
        element = SIGNLESS[dtype.name]
        self.lines.write(f"^bb0({given}):")
        with self.lines.inside():
            self.lines.write(f"tensor.yield {number} : {element}")
        self.lines.write(f"}} : {tensor(old, element)} to {tensor(new, element)}")
        return made

    def reduce(
        self, kind: str, value: Operand, left: Sequence[int], shape: Shape, dtype: DType, body: Body
    ) -> str:
        """A fold, in ``dtype``, of what ``body`` makes of elements. The loops are ``value``'s
        axes, of which those not in ``left`` are folded."""
        order = [*left, *(axis for axis in range(len(value.shape)) if axis not in left)]
        where = [f"d{order.index(axis)}" for axis in range(len(value.shape))]
        start = self.filled(identity(kind, dtype), dtype, shape)
        out = Operand(start, shape, dtype, loops(range(len(left))))

        def fold(a: Numbers, args: Sequence[str]) -> str:
            return a.apply(FOLDS[kind], [args[-1], body(a, args[:-1])], dtype)

        folded = len(order) - len(left)
        return self.generic(len(order), folded, [value._replace(where=where)], out, fold)

    def all_positions(self, a: Numbers, shape: Shape, strides: Sequence[int], offset: int) -> str:
        """``offset + i * strides[0] + j * strides[1] + ...`` of a nest's loops, in int64."""
        found = a.constant(offset, int64)
        for axis, stride in enumerate(strides):
            if stride and shape[axis] > 1:
                step = a.position(axis)
                if stride != 1:
                    step = a.apply("mul", [step, a.constant(stride, int64)], int64)
                found = a.apply("add", [found, step], int64)
        return found


def _product(extents: Sequence[int]) -> int:
    found = 1
    for extent in extents:
        found *= extent
    return found


def _listed(parts: Sequence[tuple[int, int]]) -> str:
    return f"[{', '.join(numbers(range(first, last)) for first, last in parts)}]"


def _groups(old: Shape, new: Shape) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """The shortest runs of axes of both shapes that have as many elements. Axes of size 1 behind
    the last run belong to it."""
    found: list[tuple[tuple[int, int], tuple[int, int]]] = []
    i = j = 0
    while i < len(old) and j < len(new):
        first, second = i, j
        left, right = old[i], new[j]
        i, j = i + 1, j + 1
        while left != right:
            if left < right:
                left, i = left * old[i], i + 1
            else:
                right, j = right * new[j], j + 1
        found.append(((first, i), (second, j)))
    (first, _), (second, _) = found[-1]
    return [*found[:-1], ((first, len(old)), (second, len(new)))]
