"""Operations of StableHLO as text: on values of one shape, and those that change shapes.

The specification: https://openxla.org/stablehlo/spec
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from lazyt.codegen.mlir.text import SIGNED, Lines, identity, literal, numbers, tensor
from lazyt.ir.dtypes import DType, bool_
from lazyt.ir.graph import Node, Shape
from lazyt.ir.scalar import Number

#: Operations by scalar function, and the kinds of types for which they mean the same.
_NATIVE = {
    "add": ("buif", "add"), "sub": ("uif", "subtract"), "mul": ("buif", "multiply"),
    "div": ("f", "divide"), "quot": ("ui", "divide"), "rem": ("ui", "remainder"),
    "fmod": ("f", "remainder"), "neg": ("uif", "negate"), "abs": ("if", "abs"),
    "floor": ("f", "floor"), "ceil": ("f", "ceil"), "round": ("f", "round_nearest_even"),
    "exp": ("f", "exponential"), "expm1": ("f", "exponential_minus_one"), "log": ("f", "log"),
    "log1p": ("f", "log_plus_one"), "sqrt": ("f", "sqrt"), "rsqrt": ("f", "rsqrt"),
    "sin": ("f", "sine"), "cos": ("f", "cosine"), "tan": ("f", "tan"), "tanh": ("f", "tanh"),
    "sigmoid": ("f", "logistic"), "atan2": ("f", "atan2"), "pow": ("f", "power"),
    "raise": ("ui", "power"), "maximum": ("buif", "maximum"), "minimum": ("buif", "minimum"),
    "bitwise_and": ("bui", "and"), "bitwise_or": ("bui", "or"), "bitwise_xor": ("bui", "xor"),
    "bitwise_not": ("bui", "not"), "shl": ("ui", "shift_left"),
    "shr": ("ui", "shift_right_logical"), "sar": ("i", "shift_right_arithmetic"),
}  # fmt: skip
#: Those of the dialect beside it that the same project keeps; all of floats.
_CHLO = {
    "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh",
    "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "erf": "erf", "erfc": "erfc",
    "erfinv": "erf_inv", "lgamma": "lgamma", "digamma": "digamma", "nextafter": "next_after",
    "zeta": "zeta", "i1e": "bessel_i1e",
}  # fmt: skip
#: Folds by the kind of a reduction, a scan or a scatter.
FOLDS = {
    "sum": "add", "add": "add", "prod": "mul", "mul": "mul", "max": "maximum", "min": "minimum",
    "any": "bitwise_or", "all": "bitwise_and",
}  # fmt: skip
_COMPARES = {"f": "FLOAT", "i": "SIGNED"}


def type_of(node: Node) -> str:
    """The type of a node's value."""
    return tensor(node.shape, SIGNED[node.dtype.name])


class Elementwise:
    """Operations on values of one shape."""

    def __init__(self, lines: Lines, shape: Shape = ()) -> None:
        self.lines = lines
        self.shape = shape

    def _type(self, dtype: DType) -> str:
        return tensor(self.shape, SIGNED[dtype.name])

    def constant(self, value: Number, dtype: DType) -> str:
        """A value of equal elements."""
        return self.lines.add(
            f"stablehlo.constant dense<{literal(value, dtype)}> : {self._type(dtype)}"
        )

    def has(self, name: str, dtype: DType) -> bool:
        """Whether there is an operation of the same meaning."""
        return dtype.kind in _NATIVE.get(name, ("",))[0] or (name in _CHLO and dtype.kind == "f")

    def apply(self, name: str, args: Sequence[str], dtype: DType) -> str:
        """One of those, on operands of the result's type."""
        kind, operands = self._type(dtype), ", ".join(args)
        if name in _NATIVE:
            return self.lines.add(f"stablehlo.{_NATIVE[name][1]} {operands} : {kind}")
        types = ", ".join([kind] * len(args))
        return self.lines.add(f"chlo.{_CHLO[name]} {operands} : {types} -> {kind}")

    def compare(self, how: str, a: str, b: str, dtype: DType) -> str:
        """A comparison."""
        kind, old = _COMPARES.get(dtype.kind, "UNSIGNED"), self._type(dtype)
        types = f"({old}, {old}) -> {self._type(bool_)}"
        return self.lines.add(f"stablehlo.compare {how.upper()}, {a}, {b}, {kind} : {types}")

    def select(self, test: str, a: str, b: str, dtype: DType) -> str:
        """The first where the test holds."""
        types = f"{self._type(bool_)}, {self._type(dtype)}"
        return self.lines.add(f"stablehlo.select {test}, {a}, {b} : {types}")

    def convert(self, value: str, old: DType, new: DType) -> str:
        """A conversion as the dialect has it."""
        if old is new:
            return value
        types = f"({self._type(old)}) -> {self._type(new)}"
        return self.lines.add(f"stablehlo.convert {value} : {types}")

    def bitcast(self, value: str, old: DType, new: DType) -> str:
        """The same bits."""
        types = f"({self._type(old)}) -> {self._type(new)}"
        return self.lines.add(f"stablehlo.bitcast_convert {value} : {types}")

    def iota(self, axis: int, dtype: DType) -> str:
        """The position along an axis."""
        return self.lines.add(f"stablehlo.iota dim = {axis} : {self._type(dtype)}")


class Builder:
    """Operations of all kinds, and the names of the nodes that have one."""

    dialect = "StableHLO"
    elements = SIGNED

    def __init__(self, leaves: Sequence[Node] = ()) -> None:
        self.lines = Lines()
        self.names = {leaf: f"%arg{n}" for n, leaf in enumerate(leaves)}

    def name(self, node: Node) -> str:
        """The name of a node's value."""
        return self.names[node]

    def on(self, shape: Shape) -> Elementwise:
        """Operations on values of a shape."""
        return Elementwise(self.lines, shape)

    def constant(self, value: Number, dtype: DType, shape: Shape) -> str:
        """A value of equal elements."""
        return self.on(shape).constant(value, dtype)

    def nothing(self, shape: Shape, dtype: DType) -> str:
        """A value without elements."""
        return self.lines.add(f"stablehlo.constant dense<> : {tensor(shape, SIGNED[dtype.name])}")

    def changed(self, text: str, old: Shape, new: Shape, dtype: DType) -> str:
        """An operation from one shape to another."""
        element = SIGNED[dtype.name]
        return self.lines.add(
            f"stablehlo.{text} : ({tensor(old, element)}) -> {tensor(new, element)}"
        )

    def reshape(self, value: str, old: Shape, new: Shape, dtype: DType) -> str:
        """The same elements under another shape."""
        return value if old == new else self.changed(f"reshape {value}", old, new, dtype)

    def broadcast(self, value: str, old: Shape, new: Shape, dtype: DType) -> str:
        """Repeated to a shape by NumPy's rules."""
        if old == new:
            return value
        axes = list(range(len(new) - len(old), len(new)))
        text = f"broadcast_in_dim {value}, dims = {numbers(axes)}"
        return self.changed(text, old, new, dtype)

    def reverse(self, value: str, axes: Sequence[int], shape: Shape, dtype: DType) -> str:
        """Backwards along axes."""
        if not axes:
            return value
        kind = tensor(shape, SIGNED[dtype.name])
        return self.lines.add(f"stablehlo.reverse {value}, dims = {numbers(axes)} : {kind}")

    def pad(
        self, value: str, fill: str, old: Shape, new: Shape, dtype: DType,
        widths: tuple[Sequence[int], Sequence[int], Sequence[int]],
    ) -> str:  # fmt: skip
        """``widths``: how many more elements before, after and between."""
        low, high, interior = (numbers(part) for part in widths)
        element = SIGNED[dtype.name]
        return self.lines.add(
            f"stablehlo.pad {value}, {fill}, low = {low}, high = {high}, interior = {interior} : "
            f"({tensor(old, element)}, {tensor((), element)}) -> {tensor(new, element)}"
        )

    def reduce(self, kind: str, value: str, shape: Shape, axes: Sequence[int], dtype: DType) -> str:
        """A fold over axes, which are removed."""
        element = SIGNED[dtype.name]
        start = self.constant(identity(kind, dtype), dtype, ())
        left = tuple(n for a, n in enumerate(shape) if a not in axes)
        return self.lines.add(
            f"stablehlo.reduce({value} init: {start}) applies "
            f"stablehlo.{_NATIVE[FOLDS[kind]][1]} across dimensions = {numbers(axes)} : "
            f"({tensor(shape, element)}, {tensor((), element)}) -> {tensor(left, element)}"
        )

    @contextlib.contextmanager
    def region(self, arguments: Sequence[tuple[str, str]], types: str) -> Iterator[None]:
        """The region of the operation that the last line begins, which ends with its types.

        ``arguments``: names and types of the region's.
        """
        self.lines.text[-1] += " ({"
        given = ", ".join(f"{name}: {kind}" for name, kind in arguments)
        self.lines.write(f"^bb0({given}):")
        with self.lines.inside():
            yield
        self.lines.write(f"}}) : {types}")

    def fold_region(self, kind: str, dtype: DType, types: str) -> None:
        """The region of two numbers that meet in a fold; of ``set``, the second stays."""
        scalar = tensor((), SIGNED[dtype.name])
        old, new = self.lines.name(), self.lines.name()
        with self.region([(old, scalar), (new, scalar)], types):
            met = new if kind == "set" else self.on(()).apply(FOLDS[kind], [old, new], dtype)
            self.lines.write(f"stablehlo.return {met} : {scalar}")
