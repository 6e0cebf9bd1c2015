"""Maps as steps of primitives over operands."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from lazyt.codegen.generic.primitives import Primitive
from lazyt.ir.dtypes import DType, float32, uint32
from lazyt.ir.graph import Node
from lazyt.ir.scalar import Arg, Call, Const, Expr, post_order

#: Registers of the library.
_REGISTERS = 32


class Unsupported(Exception):
    """The library has nothing for an op, or for a scalar function, of a graph."""


class Recipe(NamedTuple):
    """A scalar expression as steps of a function and operands, each the number of an argument,
    ``-1 - n`` for step n, or a constant; and where the result is."""

    steps: tuple[tuple[Primitive, tuple[int | Const, ...]], ...]
    result: int | Const


@lru_cache(maxsize=8192)
def recipe_of(expr: Expr) -> Recipe:
    """The steps of a scalar expression, arguments before what reads them."""
    places: dict[Expr, int | Const] = {}
    steps: list[tuple[Primitive, tuple[int | Const, ...]]] = []

    def add(primitive: Primitive, *operands: int | Const) -> int:
        steps.append((primitive, operands))
        return -len(steps)

    for item in post_order(expr):
        if isinstance(item, Arg):
            places[item] = item.index
            if item.dtype.is_half:
                places[item] = add(Primitive("load16", item.dtype, float32), item.index)
        elif isinstance(item, Const):
            places[item] = item
        elif isinstance(item, Call):
            places[item] = _call(item, tuple([places[a] for a in item.args]), add)
    return Recipe(tuple(steps), places[expr])


def _call(item: Call, operands: tuple[int | Const, ...], add: Callable[..., int]) -> int | Const:
    name, source, target = item.fn.name, item.args[0].dtype, item.dtype
    if name == "cast":
        value: int | Const = operands[0]
        if source.compute is not target.compute:
            value = add(Primitive("cast", source.compute, target.compute), value)
        if target.is_half and source is not target:
            value = add(Primitive("round16", target, float32), value)
        return value
    if name == "bitcast":
        return operands[0] if source is target else add(Primitive(name, source, target), *operands)
    if name == "threefry":
        return add(Primitive(name, uint32, uint32), *operands)
    kind = item.args[-1].dtype.compute
    return add(Primitive(name, kind, kind), *operands)


class Map:
    """A map under construction, of one or several nodes: its operands, and steps as pairs of a
    function and operands, ``-1 - n`` for the result of step n."""

    def __init__(self) -> None:
        self.operands: list[View | Const] = []
        self.steps: list[tuple[int, list[int]]] = []
        self._known: dict[Any, int] = {}

    def operand(self, value: View | Const) -> int:
        """The number of an operand."""
        key: Any = value
        if isinstance(value, Const):
            key = bits_of(value)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.operands)
            self.operands.append(value)
        return found

    def step(self, function: int, operands: list[int]) -> int:
        """The number of a new step's result."""
        self.steps.append((function, operands))
        return -len(self.steps)


class Pattern(NamedTuple):
    """The steps of a map over values that are numbered.

    Attributes:
        operands: what it reads: a value's number, or a constant and the type that it has in memory.
        steps: how many steps there are; where there are none, the only operand is the result.
        words: the steps.
        functions: the numbers of the functions that they call.
    """

    operands: tuple[int | tuple[Const, DType], ...]
    steps: int
    words: list[int]
    functions: frozenset[int]


def pattern_of(made: Map, views: Mapping[View, int]) -> Pattern:
    """The pattern of a map with steps, over values of these numbers."""
    operands = tuple([
        (item, item.dtype.compute) if isinstance(item, Const) else views[item]
        for item in made.operands
    ])  # fmt: skip
    words = _words_of(made.steps, len(operands))
    functions = frozenset([function for function, _ in made.steps])
    return Pattern(operands, len(made.steps), words, functions)


def _words_of(steps: list[tuple[int, list[int]]], operands: int) -> list[int]:
    """The steps of a map with registers: one is free again after the last step that reads it."""
    last = {-1 - n: n for n in range(len(steps))}
    for n, (_, read) in enumerate(steps):
        for item in read:
            if item < 0:
                last[item] = n
    free = list(range(_REGISTERS - 1, operands - 1, -1))
    held: dict[int, int] = {}
    words: list[int] = []
    for n, (function, read) in enumerate(steps):
        places = [item if item >= 0 else held[item] for item in read]
        if n == len(steps) - 1:
            target = -1
        else:
            if not free:
                raise Unsupported("a scalar expression needs more registers than there are")
            target = held[-1 - n] = free.pop()
        for item in {i for i in read if i < 0}:
            if last[item] == n:
                free.append(held[item])
        places += [0] * (3 - len(places))
        words += (function, target, *places)
    return words


def bits_of(literal: Const, stored: DType | None = None) -> int:
    """A literal's bits as a word, in its compute type, or as ``stored`` holds it."""
    dtype = stored or literal.dtype.compute
    value: Any = literal.value
    if dtype.kind != "f":
        return _signed(int(value) & ((1 << 8 * dtype.itemsize) - 1))
    if dtype.itemsize == 8:
        return int.from_bytes(struct.pack("<d", value), "little", signed=True)
    try:
        single = struct.pack("<f", value)
    except OverflowError:
        single = struct.pack("<f", math.copysign(math.inf, value))
    if dtype.suffix == "bf16":
        return int.from_bytes(single[2:], "little")
    if dtype.suffix == "f16":
        return int.from_bytes(struct.pack("<e", value), "little")
    return int.from_bytes(single, "little")


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


# Values in memory as the encoder of instructions sees them: blocks, and strided views of them.


class Block:
    """Memory: a slot and bytes behind its beginning, and how many values are still in it."""

    __slots__ = ("base", "nbytes", "slot", "users")

    def __init__(self, slot: int, base: int, nbytes: int) -> None:
        self.slot = slot
        self.base = base
        self.nbytes = nbytes
        self.users = 0


class View:
    """A value: elements of a block by strides, in bytes. ``moves``: the (number, factor) pairs that
    its offset depends on, where slices begin."""

    __slots__ = ("block", "dtype", "moves", "offset", "shape", "strides")

    def __init__(
        self, block: Block, offset: int, shape: tuple[int, ...], strides: tuple[int, ...],
        dtype: DType, moves: tuple[tuple[tuple[Node, int], int], ...] = (),
    ) -> None:  # fmt: skip
        self.block = block
        self.offset = offset
        self.shape = shape
        self.strides = strides
        self.dtype = dtype
        self.moves = moves


@lru_cache(maxsize=4096)
def packed(shape: tuple[int, ...], size: int) -> tuple[int, ...]:
    """Strides of a value without gaps."""
    strides = [0] * len(shape)
    step = size
    for axis in range(len(shape) - 1, -1, -1):
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def broadcast_strides(view: View, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a view that is repeated to a shape."""
    added = len(shape) - len(view.shape)
    strides = [
        0 if extent == 1 and wanted != 1 else stride
        for extent, stride, wanted in zip(view.shape, view.strides, shape[added:], strict=True)
    ]
    return (*(0,) * added, *strides)


def strides_in(view: View, to: View) -> int | tuple[int, ...]:
    """How a map reads an operand: 0 without gaps, 1 the same everywhere, else by these strides."""
    if view.shape == to.shape and view.strides == packed(view.shape, view.dtype.itemsize):
        return 0
    strides = broadcast_strides(view, to.shape)
    moving = [s for s, extent in zip(strides, to.shape, strict=True) if extent != 1]
    return strides if any(moving) else 1


def merged(shape: tuple[int, ...], *strides: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The axes of a shape as (extent, strides...), those joined that all walk as one."""
    axes: list[tuple[int, ...]] = []
    for axis in zip(shape, *strides, strict=True):
        if axis[0] == 1:
            continue
        if axes:
            outer = axes[-1]
            if all(a == b * axis[0] for a, b in zip(outer[1:], axis[1:], strict=True)):
                axes[-1] = (outer[0] * axis[0], *axis[1:])
                continue
        axes.append(axis)
    return axes


def strides_under(
    shape: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...], size: int
) -> tuple[int, ...] | None:
    """Strides of the same elements under another shape, None where there are none."""
    if strides == packed(shape, size):
        return packed(wanted, size)
    axes = merged(shape, strides)
    found: list[int] = []
    for extent in reversed(wanted):
        if extent == 1:
            found.append(0)
            continue
        if not axes or axes[-1][0] % extent:
            return None
        whole, stride = axes.pop()
        found.append(stride)
        if whole != extent:
            axes.append((whole // extent, stride * extent))
    return tuple(reversed(found))
