"""Statements that compute new tensors."""

from __future__ import annotations

import math

from lazyt.testing.programs.maker import FLOATS, Maker, step


def is_float(m: Maker, name: str) -> bool:
    """Whether a tensor has fractions."""
    return str(m[name].dtype).rpartition(".")[2] in FLOATS


@step(5)
def binary(m: Maker) -> str | None:
    """Operators on tensors and numbers of any types."""
    x = m.tensor()
    if x is None:
        return None
    y = m.fitting(x) if m.chance(0.8) else m.one("2", "1.5", "True", "np.float64(0.5)", x)
    operator = m.one("+", "-", "*", "+", "*", "/")
    if operator == "/" and y[0] == "t":
        operator = "-"
    pair = (y, x) if m.chance(0.3) and operator != "/" else (x, y)
    if m.chance(0.15):
        function = m.one("torch.add", "torch.maximum", "torch.minimum", "torch.mul", "torch.sub")
        return f"{m.new()} = {function}({pair[0]}, {pair[1]})"
    return f"{m.new()} = {pair[0]} {operator} {pair[1]}"


@step(1.5)
def whole_arithmetic(m: Maker) -> str | None:
    """Operators with jumps."""
    x = m.tensor()
    if x is None or not m.sharp(x) or not m.calm(x):
        return None
    name = m.new()
    if is_float(m, x) or m.chance(0.4):
        return f"{name} = {x} {m.one('//', '%')} {m.one('2', '1.5', '-2', '3')}"
    return f"{name} = " + m.one(
        f"{x} // {m.one(2, 3, -2)}", f"{x} % {m.one(2, 3, -2)}", f"{x} & {m.one(1, 3)}",
        f"{x} | {m.one(1, 4)}", f"{x} ^ {m.one(1, 5)}", f"~{x}", f"{x} << 1", f"{x} >> 1",
    )  # fmt: skip


@step(2)
def compared(m: Maker) -> str | None:
    """Comparisons, and logic on their results."""
    x = m.tensor()
    if x is None or not m.sharp(x):
        return None
    y = m.fitting(x)
    if y in m.machine.names and not m.sharp(y):
        return None
    name = m.new()
    if str(m[x].dtype).endswith("bool"):
        return f"{name} = {m.one(f'~{x}', f'{x} & {y}', f'{x} | {y}', f'{x}.logical_not()')}"
    return f"{name} = {x} {m.one('>', '<', '>=', '<=', '==', '!=')} {y}"


@step(3)
def unary(m: Maker) -> str | None:
    """Functions of one tensor."""
    x = m.tensor()
    if x is None:
        return None
    calls = ["neg()", "abs()", "-", "square()", "clamp(-1, 2)", "clamp(min=0.5)"]
    calls += ["relu()"] if m.plus(x) else []
    if m.calm(x, 8):
        calls += ["exp()", "tanh()", "sigmoid()", "sin()", "cos()"]
    if m.sharp(x):
        calls += ["floor()", "sign()", "ceil()", "trunc()", "round()", "isnan()"]
    call = m.random.choice(calls)
    return f"{m.new()} = -{x}" if call == "-" else f"{m.new()} = {x}.{call}"


@step(3)
def converted(m: Maker) -> str | None:
    """Another dtype."""
    x = m.tensor()
    if x is None or not m.calm(x):
        return None
    way = m.random.randrange(4)
    kind = m.dtype()
    if kind not in FLOATS and not m.sharp(x):
        kind = "float32"
    if way == 0:
        short = m.one("float()", "double()", "half()", "type_as(" + x + ")")
        if m.sharp(x):
            short = m.one(short, "long()", "int()", "bool()")
        return f"{m.new()} = {x}.{short}"
    return (
        f"{m.new()} = {x}.to({m.one('', '', 'dtype=')}torch.{kind}{m.one('', '', ', copy=True')})"
    )


@step(4)
def reduced(m: Maker) -> str | None:
    """Reductions."""
    x = m.tensor()
    if x is None:
        return None
    rank = m[x].ndim
    dim = m.dim(rank)
    keep = m.one("", "", ", keepdim=True")
    some = m.one(f"{dim}", f"{dim}", f"dim={dim}")
    calls = ["sum()", f"sum({some}{keep})", "mean()", f"mean({some}{keep})", "amax()", "max()",
             f"amin({some}{keep})", f"amax({some}{keep})", f"sum({some}, dtype=torch.float64)",
             f"std({some})", f"cumsum({dim})", "min()", f"topk(1, {dim})[0]"]  # fmt: skip
    if math.prod(m[x].shape) <= 6:
        calls += ["prod()", f"prod({dim}{keep})"]
    if rank > 1:
        calls += ["sum((0, 1))", f"sum((0, -1){keep})", "mean((0, 1))", "amax((0, 1))"]
    if m.sharp(x):
        calls += ["all()", "any()", f"any({dim}{keep})", f"all({dim})", "count_nonzero()"]
        calls += ["argmax()", f"argmin({dim}{keep})", f"argmax({dim})"]
    if m.sharp(x) and m.chance(0.25):
        pairs = [f"max({dim}{keep})", f"min({dim}{keep})", f"sort({dim})", f"cummax({dim})"]
        call = m.one(*pairs, f"sort(dim={dim}, stable=True)")
        return f"{m.new()}, {m.new()} = {x}.{call}"
    return f"{m.new()} = {x}.{m.random.choice(calls)}"


@step(2)
def joined(m: Maker) -> str | None:
    """cat and stack."""
    x = m.tensor()
    if x is None:
        return None
    shape = tuple(m[x].shape)
    others = m.tensors(lambda t: t.ndim == len(shape))
    y = m.random.choice(others) if others and m.chance(0.6) else x
    pair = m.one(f"[{x}, {y}]", f"({x}, {y})", f"[{y}, {x}]")
    dim = m.dim(len(shape))
    return f"{m.new()} = " + m.one(
        f"torch.cat({pair}, {dim})", f"torch.cat({pair}, dim={dim})", f"torch.stack({pair}, {dim})",
        f"torch.cat({pair})", f"torch.stack({pair})",
    )  # fmt: skip


@step(2)
def multiplied(m: Maker) -> str | None:
    """Matrix products."""
    x = m.tensor(lambda t: t.ndim > 0)
    if x is None:
        return None
    width = m[x].shape[-1]
    kind = m[x].dtype

    def fits(t: object) -> bool:
        return bool(t.ndim and t.shape[-2 if t.ndim > 1 else 0] == width and t.dtype == kind)  # type: ignore[attr-defined]

    y = m.tensor(fits) if m.chance(0.9) else m.tensor()
    if y is None:
        y = f"{x}.{m.one('mT', 't()')}"
    return f"{m.new()} = " + m.one(f"{x} @ {y}", f"{x}.matmul({y})", f"torch.mm({x}, {y})")


@step(2)
def chosen(m: Maker) -> str | None:
    """where, gather, index_select, softmax, and other compositions."""
    x = m.tensor()
    if x is None:
        return None
    rank = m[x].ndim
    dim = m.dim(rank)
    extent = m[x].shape[dim] if rank and -rank <= dim < rank else 1
    index = [m.random.randrange(max(extent, 1)) for _ in range(2)]
    y = m.fitting(x)
    calls = [
        f"{x}.index_select({dim}, torch.tensor({index}))", f"{x}.flip({dim})",
        f"torch.roll({x}, 1, {dim})", f"{x}.repeat({[m.one(1, 2)] * max(rank, 1)})",
        f"{x}.tril()", f"torch.diff({x})", f"{x}.unique()", f"{x}.nonzero()",
        f"{x}.softmax({dim})", f"{x}.log_softmax({dim})", f"{x}.logsumexp({dim})",
    ]  # fmt: skip
    if m.sharp(x):
        calls += [f"torch.where({x} > 0, {x}, {y})", f"torch.where({x} != 1, {y}, {x})"]
        calls += [f"{x}.masked_select({x} > 1)", f"{x}.masked_fill({x} == 0, {m.number(m[x])})"]
    call = m.random.choice(calls)
    if ("unique" in call or "nonzero" in call) and not m.sharp(x):
        return None
    if "softmax" in call and not m.calm(x, 20):
        return None
    return f"{m.new()} = {call}"
