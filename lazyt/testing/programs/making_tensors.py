"""Statements that make tensors of nothing, of lists and of arrays."""

from __future__ import annotations

import math

from lazyt.testing.programs.maker import FLOATS, SHAPES, WHOLE, Maker, step


def data(m: Maker, shape: tuple[int, ...], kind: str) -> str:
    """Nested lists of small numbers."""
    if not shape:
        if kind == "bool":
            return str(m.chance(0.5))
        if kind in WHOLE:
            return str(m.random.randint(0 if kind == "uint8" else -4, 5))
        return str(m.random.randint(-12, 16) / 4)
    return "[" + ", ".join(data(m, shape[1:], kind) for _ in range(shape[0])) + "]"


@step(2)
def creation(m: Maker) -> str:
    """A new tensor, mostly with different values."""
    shape = m.random.choice(SHAPES)
    kind = m.dtype() if m.chance(0.5) else m.one("float32", "float32", "int64", "float64")
    count = math.prod(shape)
    name, size, dtype = m.new(), str(list(shape)), f"dtype=torch.{kind}"
    grad = ", requires_grad=True" if kind in FLOATS and m.chance(0.3) else ""
    way = m.random.randrange(8)
    if way <= 1 and count <= 12:
        return f"{name} = torch.tensor({data(m, shape, kind)}, {dtype}{grad})"
    if way <= 4 and kind != "bool":
        scale = m.one("", "", " / 4" if kind in FLOATS else " - 3", " - 2", " * 2")
        end = f".{m.one('reshape', 'view')}({tuple(shape)})"
        grad = ".clone().requires_grad_()" if grad else ""
        return f"{name} = (torch.arange({count}, {dtype}){scale}){end}{grad}"
    if way == 5:
        return f"{name} = torch.full({size}, {data(m, (), kind)}, {dtype}{grad})"
    if way == 6:
        return f"{name} = torch.{m.one('zeros', 'ones')}({size}, {dtype}{grad})"
    if kind == "bool" or m.chance(0.5):
        n = m.random.randint(0, 4)
        return f"{name} = torch.eye({n}, {m.random.randint(1, 4)}, {dtype}{grad})"
    start, stop = m.random.randint(-3, 2), m.random.randint(0, 5)
    return f"{name} = torch.arange({start}, {stop}, {m.one(1, 2, 0.5)}{grad})"


@step(0.8)
def guessed(m: Maker) -> str:
    """A tensor whose dtype follows from its values."""
    shape = m.random.choice(((), (3,), (2, 2), (0,), (1, 3)))
    kind = m.one("float32", "int64", "bool")
    make = m.one("torch.tensor", "torch.as_tensor")
    return f"{m.new()} = {make}({data(m, shape, kind)})"


@step(1)
def like(m: Maker) -> str | None:
    """A tensor of the shape of another."""
    x = m.tensor()
    if x is None:
        return None
    extra = f", dtype=torch.{m.dtype()}" if m.chance(0.4) else ""
    way = m.random.randrange(6)
    if way < 2:
        return f"{m.new()} = torch.{m.one('zeros_like', 'ones_like')}({x}{extra})"
    if way == 2:
        return f"{m.new()} = torch.full_like({x}, {m.number(m[x])}{extra})"
    if way == 3:
        return f"{m.new()} = {x}.new_full({m.random.choice(SHAPES)}, {m.number(m[x])}{extra})"
    if way == 4:
        return f"{m.new()} = {x}.{m.one('new_zeros', 'new_ones')}({m.random.choice(SHAPES)}{extra})"
    return f"{m.new()} = {x}.new_tensor({data(m, (3,), 'int64')}{extra})"


@step(1)
def array(m: Maker) -> str:
    """An array, sometimes with gaps or in another order, and maybe a tensor on its memory."""
    shape = m.random.choice(((4,), (2, 3), (3, 4), (2, 2, 3), (), (0, 2)))
    kind = m.one("float32", "float64", "int64", "int32", "float16", "uint8", "bool")
    text = (
        f"np.arange({math.prod(shape)}).astype(np.{kind.replace('bool', 'bool_')}).reshape{shape}"
    )
    if shape == ():
        text = f"np.array(3).astype(np.{kind.replace('bool', 'bool_')})"
    elif m.chance(0.3):
        text += m.one(".T", "[::2]", "[..., 1:]", "[:, ::2]" if len(shape) > 1 else "[1:]")
    name = m.new("a")
    make = m.one("torch.from_numpy", "torch.from_numpy", "torch.as_tensor", "torch.tensor")
    return f"{name} = {text}\n{m.new()} = {make}({name})"
