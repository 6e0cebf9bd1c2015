"""Random sums and products by index in 16-bit floats: scatters, writes by index, gradients.

A program is made from a seed and runs on any module with PyTorch's API, in a dtype that is given:
what is right in 16 bits is what float32 gives, rounded once. All values are small whole numbers or
powers of two, so that every order of adding or multiplying gives the same float32.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

HALVES = ("float16", "bfloat16")
Program = Callable[[Any, str], Any]


class Maker:
    """Tensors of a seed, the same for every module and dtype."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.chance = np.random.default_rng(seed)
        self.half = self.draw.choice(HALVES)
        self.count = self.draw.choice((3, 17, 40, 300, 700, 2500))
        self.places = self.draw.choice((1, 2, 3, 5))
        self.width = self.draw.choice((1, 1, 2, 3, 8))

    def index(self, *shape: int) -> Any:
        """Places, many of them named often."""
        return self.chance.integers(0, self.places, shape)

    def whole(self, *shape: int) -> Any:
        """Small whole numbers, mostly of one sign, so that sums grow."""
        top = self.draw.choice((1, 2, 7))
        low = self.draw.choice((1, 1, -top))
        return self.chance.integers(low, top, shape, endpoint=True).astype("float32")

    def factors(self, *shape: int) -> Any:
        """Powers of two close to 1, few of them other than 1 and -1."""
        return self.chance.choice(np.array([1, 1, 1, -1, 2, 0.5], "float32"), shape)


def program(seed: int) -> tuple[str, str, Program]:
    """The name of a seed's program, its 16-bit type, and what it computes in a type."""
    maker = Maker(seed)
    made: Callable[[Maker], tuple[str, Program]] = maker.draw.choice(
        [_elements] * 4 + [_slices] * 3 + [_written] * 3 + [_gradient] * 5
    )
    name, build = made(maker)
    return f"{name} of {maker.count} at {maker.places}, {maker.width} wide", maker.half, build


def _tensors(torch: Any, dtype: str, *arrays: Any) -> list[Any]:
    kind = getattr(torch, dtype)
    return [torch.tensor(a) if a.dtype.kind == "i" else torch.tensor(a).to(kind) for a in arrays]


def _turned(maker: Maker, *arrays: Any) -> tuple[int, list[Any]]:
    """The axis of the places, and arrays [count or places, width] with that axis."""
    axis = maker.draw.choice((0, 1))
    return axis, [np.ascontiguousarray(a.T) if axis else a for a in arrays]


def _elements(maker: Maker) -> tuple[str, Program]:
    """scatter_add, scatter with a reduction, scatter_reduce."""
    shape = (maker.count, maker.width)
    name = maker.draw.choice(("scatter_add", "scatter_", "sum", "mean", "prod"))
    source = maker.factors(*shape) if name == "prod" else maker.whole(*shape)
    base = maker.whole(maker.places, maker.width)
    with_self = maker.draw.random() < 0.6
    axis, arrays = _turned(maker, base, maker.index(*shape), source)

    def run(torch: Any, dtype: str) -> Any:
        x, index, src = _tensors(torch, dtype, *arrays)
        if name == "scatter_add":
            return x.scatter_add(axis, index, src)
        if name == "scatter_":
            return x.scatter_(axis, index, src, reduce="add")
        return x.scatter_reduce(axis, index, src, name, include_self=with_self)

    return f"{name} along {axis}", run


def _slices(maker: Maker) -> tuple[str, Program]:
    """index_add with a factor, index_reduce."""
    shape = (maker.count, maker.width)
    name = maker.draw.choice(("index_add", "index_add_", "mean", "prod"))
    source = maker.factors(*shape) if name == "prod" else maker.whole(*shape)
    base, index = maker.whole(maker.places, maker.width), maker.index(maker.count)
    alpha, with_self = maker.draw.choice((1, 1, 2)), maker.draw.random() < 0.6
    axis, arrays = _turned(maker, base, source)

    def run(torch: Any, dtype: str) -> Any:
        x, src = _tensors(torch, dtype, *arrays)
        at = torch.tensor(index)
        if name.startswith("index_add"):
            return getattr(x, name)(axis, at, src, alpha=alpha)
        return x.index_reduce(axis, at, src, name, include_self=with_self)

    return f"{name} along {axis}", run


def _written(maker: Maker) -> tuple[str, Program]:
    """index_put and put that accumulate."""
    name = maker.draw.choice(("rows", "elements", "put", "put_"))
    base = maker.whole(maker.places, maker.width)
    rows, columns = maker.index(maker.count), maker.chance.integers(0, maker.width, maker.count)
    wide = (maker.count, maker.width) if name == "rows" else (maker.count,)
    values = maker.whole(*wide)

    def run(torch: Any, dtype: str) -> Any:
        x, src = _tensors(torch, dtype, base, values)
        at, column = torch.tensor(rows), torch.tensor(columns)
        if name == "rows":
            return x.index_put((at,), src, accumulate=True)
        if name == "elements":
            return x.index_put((at, column), src, accumulate=True)
        return getattr(x, name)(at * maker.width + column, src, accumulate=True)

    return name, run


def _gradient(maker: Maker) -> tuple[str, Program]:
    """The gradient of what reads by index, weighted with whole numbers."""
    name = maker.draw.choice(
        ("index", "gather", "index_select", "take", "embedding", "expand", "repeat", "pairs",
         "take_along_dim", "chained")
    )  # fmt: skip
    base, rows = maker.whole(maker.places, maker.width), maker.index(maker.count)
    elements = maker.index(maker.count, maker.width)
    weights = maker.whole(maker.count, maker.width)

    def read(torch: Any, x: Any) -> Any:
        at, each = torch.tensor(rows), torch.tensor(elements)
        if name == "gather":
            return x.gather(0, each)
        if name == "take_along_dim":
            return torch.take_along_dim(x, each, 0)
        if name == "take":
            return x.take(each)
        if name == "expand":
            return x[:1].expand(maker.count, maker.width)
        if name == "repeat":
            return x[:1].repeat_interleave(maker.count, 0)
        if name == "pairs":
            return x[at[:, None], torch.arange(maker.width)]
        if name == "index_select":
            return x.index_select(0, at)
        if name == "embedding":
            return torch.nn.functional.embedding(at, x)
        return (x + x)[at] if name == "chained" else x[at]

    def run(torch: Any, dtype: str) -> Any:
        x, weight = _tensors(torch, dtype, base, weights)
        x.requires_grad_()
        (found,) = torch.autograd.grad((read(torch, x) * weight).float().sum(), x)
        return found

    return f"gradient of {name}", run
