"""Random programs of integers at and around the ends of their types.

A program is an expression over ``x`` and ``y`` of one type, ``z`` of another and whole numbers, in
words that PyTorch and lazyt share (``torch``), made from a seed. The tensors hold all pairs of edge
values, so that one program is some hundred cases. Divisors are neither 0, which is refused, nor -1:
PyTorch's process dies of the smallest number divided by it (test_integer_edges.py has these).
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from typing import Any

import numpy as np

#: Types that PyTorch computes in, and those of which it only has some functions.
SIGNED = ("int8", "int16", "int32", "int64")
TYPES = (*SIGNED, "uint8", "bool")
LIMITED = ("uint16", "uint32", "uint64")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
DIVISORS = (2, 3, 7, 10, -2, -3, -7)


def edge_values(dtype: str) -> list[int]:
    """The ends of a type, 0, halves, and where squares and doubles leave the type."""
    if dtype == "bool":
        return [0, 1]
    info = np.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    root = int(high**0.5)
    places = [low, low // 2, -root, -1, 0, root, high // 2, high]
    found = {p + step for p in places for step in (-1, 0, 1)} | {2, 3, -7, 10}
    return sorted(v for v in found if low <= v <= high)


def operands(torch: Any, dtype: str, other: str) -> dict[str, Any]:
    """``x`` and ``y``, all pairs of edge values of a type, and ``z`` of another type."""
    values = np.array(edge_values(dtype), dtype)
    first, second = (part.ravel() for part in np.meshgrid(values, values))
    more = np.resize(np.array(edge_values(other), other), len(first))
    return {"x": torch.tensor(first), "y": torch.tensor(second), "z": torch.tensor(more)}


class Maker:
    """Expressions of a seed.

    Attributes:
        dtype, other: the types of ``x`` and ``y``, and of ``z``.
    """

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.dtype = self.draw.choice(TYPES[:5])
        self.other = self.draw.choice(TYPES) if self.draw.random() < 0.3 else self.dtype

    def number(self) -> int:
        """A number that both libraries take beside the type."""
        if self.draw.random() < 0.6:
            return self.draw.choice((0, 1, 2, 3, 5, -1, -2, 7, 31))
        return self.draw.choice(edge_values(self.dtype))

    def leaf(self) -> str:
        """A tensor."""
        return self.draw.choice("xxxyyz")

    def operand(self, depth: int) -> str:
        """An expression, or a number."""
        return f"({self.number()})" if self.draw.random() < 0.3 else self.whole(depth)

    def divisor(self) -> str:
        """What is neither 0 nor -1."""
        if self.draw.random() < 0.6:
            return f"({self.draw.choice(DIVISORS)})" if self.dtype != "uint8" else "(7)"
        name = self.draw.choice("xy")
        return f"torch.where(({name} == 0) | ({name} == -1), 3, {name})"

    def whole(self, depth: int) -> str:
        """An expression of whole numbers."""
        if depth <= 0:
            return self.leaf()
        made: Callable[[int], str] = self.draw.choice(
            [self.arithmetic] * 8 + [self.bits] * 3 + [self.function] * 4 + [self.division] * 3
            + [self.chosen] * 3 + [self.converted] * 3 + [self.folded]
        )  # fmt: skip
        return made(depth - 1)

    def arithmetic(self, depth: int) -> str:
        operator = self.draw.choice("++--**")
        left, right = self.whole(depth), self.operand(depth)
        if self.draw.random() < 0.2 and right.startswith("("):
            left, right = right, left
        return f"({left} {operator} {right})"

    def bits(self, depth: int) -> str:
        if self.draw.random() < 0.25:
            return f"(~{self.whole(depth)})"
        operator = self.draw.choice(("&", "|", "^", "<<", ">>"))
        if operator in ("<<", ">>"):
            count = self.draw.choice((0, 1, 3, 7, 8, 15, 31, 32, 63))
            right = f"({count})" if self.draw.random() < 0.6 else self.leaf()
            return f"(({self.whole(depth)} + 0) {operator} {right})"
        return f"({self.whole(depth)} {operator} {self.operand(depth)})"

    def function(self, depth: int) -> str:
        name = self.draw.choice(
            ("neg", "abs", "sign", "square", "maximum", "minimum", "clamp", "pow", "bitwise_not")
        )
        inner = f"({self.whole(depth)} + 0)"
        if name in ("maximum", "minimum"):
            return f"torch.{name}({inner}, {self.whole(depth)} + 0)"
        if name == "clamp":
            return f"torch.clamp({inner}, min={self.draw.choice((0, 1, 3))})"
        if name == "pow":
            return f"torch.pow({inner}, {self.draw.choice((0, 1, 2, 3, 5))})"
        return f"torch.{name}({inner})"

    def division(self, depth: int) -> str:
        inner, divisor = f"({self.whole(depth)} + 0)", self.divisor()
        form = self.draw.choice(("//", "%", "trunc", "floor", "fmod"))
        if form in ("//", "%"):
            return f"({inner} {form} {divisor})"
        if form == "fmod":
            return f"torch.fmod({inner}, {divisor})"
        return f"torch.div({inner}, {divisor}, rounding_mode='{form}')"

    def chosen(self, depth: int) -> str:
        return f"torch.where({self.truth(depth)}, {self.whole(depth)}, {self.whole(depth)})"

    def converted(self, depth: int) -> str:
        """Another type on the way; through floats only what they hold."""
        target = self.draw.choice((*SIGNED, "uint8", self.dtype))
        if self.draw.random() < 0.15:
            return f"{self.whole(depth)}.to(torch.int16).to(torch.float32).to(torch.{target})"
        return f"{self.whole(depth)}.to(torch.{target})"

    def folded(self, depth: int) -> str:
        inner = f"({self.whole(depth)} + 0)"
        form = self.draw.choice(("sum", "cumsum", "amax", "amin", "prod"))
        if form in ("amax", "amin"):
            return f"({inner} - {inner}.{form}())"
        kind = self.draw.choice(SIGNED)
        if form == "cumsum":
            return f"{inner}.cumsum(0, dtype=torch.{kind})"
        return f"({inner} + {inner}[:9].{form}(dtype=torch.{kind}))"

    def truth(self, depth: int) -> str:
        """A comparison."""
        operator = self.draw.choice(COMPARISONS)
        return f"({self.whole(depth)} {operator} {self.operand(depth)})"


def program(seed: int) -> tuple[str, str, str]:
    """The types and the text of a seed's program."""
    maker = Maker(seed)
    depth = maker.draw.choice((1, 2, 2, 3, 3, 4))
    kind = maker.draw.random()
    if kind < 0.35:
        text = maker.truth(depth)
    elif kind < 0.5:
        text = f"{maker.whole(depth)}.to(torch.float64)"
    else:
        text = maker.whole(depth)
    return maker.dtype, maker.other, text


def evaluate(torch: Any, seed: int, tensors: dict[tuple[str, str], dict[str, Any]]) -> Any:
    """A program's tensor on a module; ``tensors`` are the operands made so far, by their types."""
    dtype, other, text = program(seed)
    key = (dtype, other)
    if key not in tensors:
        tensors[key] = operands(torch, dtype, other)
    return eval(text, {"torch": torch, **tensors[key]})


def digest(tensor: Any) -> str:
    """A tensor's type, shape and bytes in 12 digits."""
    array = np.ascontiguousarray(tensor.numpy())
    head = f"{array.dtype}{array.shape}".encode()
    return hashlib.sha256(head + array.tobytes()).hexdigest()[:12]
