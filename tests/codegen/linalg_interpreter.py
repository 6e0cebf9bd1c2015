"""What a text of linalg on tensors computes, in NumPy: for the operations that lazyt writes.

Bodies run once for all elements of the loops that are parallel, and in order over the others.
Integers have signs; bfloat16 is float32 that was rounded.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_NAME = r"%(?:arg)?\d+"
_TENSOR = re.compile(r"tensor<((?:\d+x)*)(\w+)>")
_DTYPES: dict[str, Any] = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "index": np.int64, "f16": np.float16, "bf16": np.float32, "f32": np.float32, "f64": np.float64,
}  # fmt: skip


def _unsigned(x: Array) -> Array:
    return x.view(f"u{x.dtype.name}") if x.dtype.kind == "i" else x


def _of_unsigned(how: Callable[..., Any]) -> Callable[..., Any]:
    def rule(*args: Array) -> Array:
        found = np.asarray(how(*map(_unsigned, args)))
        return found.view(args[0].dtype) if found.dtype.kind == "u" else found

    return rule


def _quotient(x: Array, y: Array) -> Array:
    """Rounded towards 0."""
    whole = x // y
    return np.where((whole * y != x) & ((x < 0) != (y < 0)), whole + 1, whole)


def _each(how: Callable[..., float]) -> Callable[..., Any]:
    return np.vectorize(how, otypes=[np.float64])


_ERF = _each(math.erf)
_OPERATIONS: dict[str, Callable[..., Any]] = {
    "arith.addi": np.add, "arith.addf": np.add, "arith.subi": np.subtract,
    "arith.subf": np.subtract, "arith.muli": np.multiply, "arith.mulf": np.multiply,
    "arith.divf": np.divide, "arith.negf": np.negative, "arith.remf": np.fmod,
    "arith.divsi": _quotient, "arith.divui": _of_unsigned(np.floor_divide),
    "arith.remsi": np.fmod, "arith.remui": _of_unsigned(np.remainder),
    "arith.andi": np.bitwise_and, "arith.ori": np.bitwise_or, "arith.xori": np.bitwise_xor,
    "arith.shli": np.left_shift, "arith.shrsi": np.right_shift,
    "arith.shrui": _of_unsigned(np.right_shift), "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum, "arith.maxui": _of_unsigned(np.maximum),
    "arith.minui": _of_unsigned(np.minimum), "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum, "arith.select": np.where, "math.absi": np.abs,
    "math.absf": np.abs, "math.roundeven": np.rint, "math.powf": np.power,
    "math.erf": lambda x: _ERF(x).astype(x.dtype), "math.rsqrt": lambda x: 1 / np.sqrt(x),
    "math.erfc": lambda x: _each(math.erfc)(x).astype(x.dtype),
    "math.fma": lambda x, y, z: x * y + z, "math.copysign": np.copysign,
    **{f"math.{name}": getattr(np, name) for name in (
        "floor", "ceil", "trunc", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p",
        "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh",
    )},
    **{f"math.{name}": getattr(np, name.replace("a", "arc", 1)) for name in (
        "asin", "acos", "atan", "asinh", "acosh", "atanh", "atan2",
    )},
}  # fmt: skip
_COMPARES = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal,
}  # fmt: skip


def dtype_of(element: str) -> Any:
    """NumPy's type."""
    return _DTYPES[element]


def of_bfloat16(bits: Array) -> Array:
    """The numbers of 16 bits each."""
    return np.asarray(bits.astype(np.uint32) << 16).view(np.float32)


def _bfloat16(value: Array) -> Array:
    """The bits of numbers, rounded to the nearest even."""
    bits = np.asarray(value, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(value), 0x7FC0, rounded).astype(np.uint16)


def _types(text: str) -> list[tuple[tuple[int, ...], Any]]:
    return [
        (tuple(map(int, shape.split("x")[:-1])), dtype_of(element))
        for shape, element in _TENSOR.findall(text)
    ]


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"-?\d+", text)]


def _literal(text: str, element: str) -> Array:
    if text in ("true", "false"):
        return np.array(text == "true")
    dtype = dtype_of(element)
    if text.startswith("0x"):
        if element == "bf16":
            return of_bfloat16(np.array(int(text, 16)))
        return np.array(int(text, 16), f"u{np.dtype(dtype).itemsize}").view(dtype)
    return np.array(float(text) if "." in text or "e" in text else int(text), dtype)


class _Function:
    """A run of ``main``."""

    def __init__(self, text: str, given: Sequence[Array]) -> None:
        lines = [line.strip() for line in text.splitlines()]
        names = re.findall(r"%arg\d+", lines[1].split(" -> ")[0])
        assert len(names) == len(given)
        self.values: dict[str, Array] = dict(zip(names, given))
        self.lines = iter(lines[2:])

    def run(self) -> list[Array]:
        for line in self.lines:
            if line.startswith("return"):
                return [self.values[name] for name in re.findall(_NAME, line)]
            name, _, text = line.partition(" = ")
            made = self.operation(text)
            ((shape, dtype),) = _types(text)[-1:] or [((), made.dtype)]
            if "{" not in text or text.startswith("linalg.generic"):
                assert made.dtype == dtype and made.shape == shape, (text, made.shape, made.dtype)
            self.values[name] = made
        raise ValueError("no return")

    def operation(self, text: str) -> Array:
        kind = text.split()[0].partition("(")[0]
        args = [self.values[name] for name in re.findall(_NAME, text)]
        types = _types(text)
        groups = [_numbers(part) for part in re.findall(r"\[([-\d, ]*)\]", text)]
        if kind == "arith.constant":
            found = re.search(r"constant (?:dense<(\S+)>|(\S+))(?: : (\w+))?", text)
            assert found is not None
            if found[1]:
                return np.full(types[0][0], _literal(found[1], _TENSOR.findall(text)[0][1]))
            return _literal(found[2], found[3] or "i1")
        if kind == "tensor.empty":
            # What nobody may read.
            shape, dtype = types[0]
            return np.full(shape, 77 if np.dtype(dtype).kind in "biu" else np.nan).astype(dtype)
        if kind == "linalg.fill":
            return np.full(types[-1][0], args[0])
        if kind == "linalg.matmul":
            return np.asarray(args[0] @ args[1] + args[2])
        if kind == "linalg.transpose":
            return args[0].transpose(groups[-1])
        if kind in ("tensor.collapse_shape", "tensor.expand_shape"):
            return args[0].reshape(types[-1][0])
        if kind == "tensor.concat":
            axis = re.search(r"dim\((\d+)\)", text)
            assert axis is not None
            return np.concatenate(args, int(axis[1]))
        if kind == "tensor.extract_slice":
            return args[0][_slices(groups)]
        if kind == "tensor.insert_slice":
            made = args[1].copy()
            made[_slices(groups)] = args[0]
            return made
        if kind == "tensor.pad":
            next(self.lines)
            fill = self.values[re.findall(_NAME, next(self.lines))[0]]
            next(self.lines)
            return np.pad(args[0], list(zip(*groups)), constant_values=fill)
        assert kind == "linalg.generic", text
        return self.generic(text, args)

    def generic(self, text: str, args: list[Array]) -> Array:
        maps = re.findall(r"affine_map<\(.*?\) -> \((.*?)\)>", text)
        wheres = [entry.split(", ") if entry else [] for entry in maps]
        kinds = re.findall(r'"(parallel|reduction)"', text)
        names = re.findall(_NAME, next(self.lines))
        body = list(iter(self.lines.__next__, f"}} -> {_TENSOR.findall(text) and text_type(text)}"))
        extents: dict[str, int] = {}
        for where, value in zip(wheres, args):
            assert len(where) == value.ndim, text
            for place, extent in zip(where, value.shape):
                if place != "0":
                    assert extents.setdefault(place, extent) == extent, text
                else:
                    assert extent == 1, text
        order = [extents[f"d{axis}"] for axis in range(len(kinds))]
        outer = kinds.count("parallel")
        grid = np.indices(order[:outer]) if outer else np.zeros((0,), np.int64)
        out = args[-1].copy()
        assert wheres[-1] == [f"d{axis}" for axis in range(outer)], text
        for inner in product(*map(range, order[outer:])):
            at: dict[str, Any] = {f"d{axis}": grid[axis] for axis in range(outer)}
            at |= {f"d{outer + n}": np.int64(value) for n, value in enumerate(inner)}
            scope = {
                name: np.asarray(value[tuple(0 if w == "0" else at[w] for w in where)])
                for name, where, value in zip(names[:-1], wheres, args)
            }
            scope[names[-1]] = out
            found = self.body(body, scope, at)
            out = np.broadcast_to(found, out.shape).astype(out.dtype)
        return out

    def body(self, body: Sequence[str], scope: dict[str, Array], at: dict[str, Any]) -> Array:
        for line in body:
            name, _, text = line.partition(" = ")
            if name.startswith("linalg.yield"):
                return scope[name.split()[1]]
            kind = text.split()[0].partition("(")[0].strip('"')
            head, _, types = text.rpartition(" : ")
            names = re.findall(_NAME, head)
            scope[name] = self.number(kind, text, types, names, scope, at)
        raise ValueError("no yield")

    def number(
        self, kind: str, text: str, types: str, names: list[str], scope: dict[str, Array],
        at: dict[str, Any],
    ) -> Array:  # fmt: skip
        if kind == "arith.constant":
            return self.operation(text)
        if kind == "linalg.index":
            return np.asarray(at[f"d{_numbers(text)[0]}"])
        if kind == "tensor.extract":
            source, *places = names
            return np.asarray(self.values[source][tuple(scope[place] for place in places)])
        args = [scope[name] for name in names]
        if kind.startswith("arith.cmp"):
            how = text.split()[1].rstrip(",")
            if kind == "arith.cmpi" and how[0] == "u":
                args = [_unsigned(arg) for arg in args]
            return np.asarray(_COMPARES[how[-2:]](*args))
        if " to " in types:
            return _converted(kind, args[0], *types.split(" to "))
        found = np.asarray(_OPERATIONS[kind](*args))
        assert found.dtype == args[-1].dtype, (text, found.dtype, args[-1].dtype)
        return found


def text_type(text: str) -> str:
    """The type of what a nest of loops returns: that of its last operand."""
    return [found[0] for found in _TENSOR.finditer(text)][-1]


def _slices(groups: Sequence[Sequence[int]]) -> tuple[slice, ...]:
    starts, sizes, steps = groups
    return tuple(slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, sizes, steps))


def _converted(kind: str, value: Array, old: str, new: str) -> Array:
    dtype = dtype_of(new)
    if kind == "arith.bitcast":
        bits = _bfloat16(value) if old == "bf16" else value
        return of_bfloat16(bits.view(np.uint16)) if new == "bf16" else bits.view(dtype)
    if kind in ("arith.extui", "arith.uitofp") and value.dtype.kind == "i":
        value = _unsigned(value)
    if kind in ("arith.fptosi", "arith.fptoui"):
        info = np.iinfo(dtype)
        assert ((value >= info.min) & (value <= info.max)).all(), "out of the type's range"
    return of_bfloat16(_bfloat16(value)) if new == "bf16" else value.astype(dtype)


def run(text: str, given: Sequence[Array]) -> Iterator[Array]:
    """The results of ``main``. Raises AssertionError where types or shapes do not fit."""
    with np.errstate(all="ignore"):
        yield from _Function(text, given).run()
