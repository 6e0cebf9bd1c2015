"""Statements that write: in place, by index, through ``out=``, and from NumPy's side."""

from __future__ import annotations

import math
from typing import Any

from lazyt.testing.programs.maker import FLOATS, Maker, repeats, stands_alone, step
from lazyt.testing.programs.making_views import basic_index, fancy_index, positions


def writable(m: Maker) -> str | None:
    """A tensor to write to, mostly one that shows each element once."""
    x = m.tensor()
    return None if x is not None and repeats(m[x]) else x


def expanded(m: Maker) -> str | None:
    """A write that is refused: to a tensor that shows one element several times."""
    x = m.tensor(lambda t: any(s == 0 and n > 1 for s, n in zip(t.stride(), t.shape)))
    return x and m.one(f"{x}.add_(1)", f"{x}.mul_({x}.clone())", f"{x} *= 2")


@step(5)
def arithmetic(m: Maker) -> str | None:
    """An arithmetic in-place function."""
    x = writable(m)
    if x is None:
        return expanded(m)
    value = m.fitting(x)
    return m.one(
        f"{x}.add_({value})",
        f"{x}.mul_({value})",
        f"{x}.sub_({value})",
        f"{x}.add_({value}, alpha={m.one(2, -1)})",
        f"{x}.copy_({value if value[0] == 't' else 'torch.tensor(' + value + ')'})",
        f"{x} {m.one('+=', '-=', '*=')} {value}",
        f"{x}.div_({m.one('2', '4', '0.5')})",
        f"{x}.clamp_({m.one('min=0', 'max=2', '-1, 2', '0.5, 1.5')})",
    )


@step(2)
def filling(m: Maker) -> str | None:
    """A whole tensor overwritten, or changed by a function without jumps."""
    x = writable(m)
    if x is None:
        return None
    floating = str(m[x].dtype).rpartition(".")[2] in FLOATS
    calls = [f"fill_({m.number(m[x])})", "zero_()", "neg_()", "abs_()", "square_()"]
    calls += ["relu_()", "clamp_min_(0)"] if m.plus(x) else []
    if floating and m.calm(x, 8):
        calls += ["exp_()", "tanh_()", "sigmoid_()"]
    if m.sharp(x):
        calls += ["floor_()", "sign_()", "gt_(0)", "eq_(1)"]
        calls += [] if m[x].requires_grad else ["logical_not_()"]
    return f"{x}.{m.random.choice(calls)}"


@step(1)
def metadata(m: Maker) -> str | None:
    """The tensor itself gets another shape."""
    x = m.tensor()
    if x is None:
        return None
    rank = m[x].ndim
    return f"{x}." + m.one(
        f"unsqueeze_({m.dim(rank + 1)})", "squeeze_()", f"transpose_({m.dim(rank)}, {m.dim(rank)})",
        "t_()" if rank < 3 else "squeeze_()", "detach_()" if stands_alone(m, x) else "squeeze_()",
    )  # fmt: skip


@step(5)
def assigned(m: Maker) -> str | None:
    """``x[index] = value`` and ``x[index] += value``."""
    x = writable(m)
    if x is None:
        return None
    operator = m.one("=", "=", "+=", "*=", "-=")
    fancy = m.chance(0.4)
    shape = tuple(m[x].shape)
    index = fancy_index(m, x, distinct=True) if fancy else basic_index(m, shape)
    value = m.number(m[x])
    source = m.tensor(lambda t: t.ndim == 0) if m.chance(0.3) else None
    if source is None and m.chance(0.25):
        source = m.tensor(lambda t: t.ndim == 1 and bool(shape) and t.shape[0] in (1, shape[-1]))
    whole = "float" not in str(m[x].dtype)
    if source is not None and m[source].requires_grad and (whole or operator != "="):
        source = None
    if source is not None and m.calm(source):
        value = source + ".clone()"
    elif m.chance(0.15):
        value = m.one("[1, 2]", f"{x}[{index}]", f"{x}[{index}] + 1", "np.float64(1.5)")
    return f"{x}[{index}] {operator} {value}"


@step(2)
def masked(m: Maker) -> str | None:
    """Writes where a mask says so."""
    x = writable(m)
    if x is None:
        return None
    shape = tuple(m[x].shape)
    mask = m.tensor(lambda t: str(t.dtype).endswith("bool") and tuple(t.shape) == shape)
    if mask is None:
        if not m.sharp(x):
            return None
        mask = f"{x} {m.one('>', '<', '==')} {m.one(0, 1)}"
    elif mask == x:
        mask = x + ".clone()"
    return f"{x}." + m.one(
        f"masked_fill_({mask}, {m.number(m[x])})",
        f"masked_fill_({mask}, torch.tensor({abs(float(eval(m.number(m[x]))))}))",
        f"copy_(torch.where({mask}, {x}, {m.number(m[x])}))",
    )


@step(3)
def scattered(m: Maker) -> str | None:
    """Writes to positions along a dimension."""
    x = writable(m)
    if x is None:
        return None
    target: Any = m[x]
    rank = target.ndim
    dim = m.dim(rank)
    extent = target.shape[dim] if rank and -rank <= dim < rank else 1
    chosen = [p % extent for p in positions(m, extent, distinct=True)] if extent else []
    outside = math.prod(target.shape) > 0 and rank > 0 and m.chance(0.05 * m.errors)
    if outside:
        chosen = [*chosen, extent]
        x += ".clone()"  # what was written before the error shows in PyTorch
    index = f"torch.tensor({chosen}, dtype=torch.int64)"
    rows = [len(chosen) if d == (dim % rank if rank else 0) else n
            for d, n in enumerate(target.shape)]  # fmt: skip
    kind = str(target.dtype).rpartition(".")[2]
    source = f"torch.ones({rows}, dtype=torch.{kind})"
    full = [1] * rank
    if rank and -rank <= dim < rank:
        full[dim] = len(chosen)
    spread = f"{index}.reshape({full}).expand({rows})" if math.prod(rows) else index
    if not rank:
        spread = "torch.tensor(0)"
    first = x if outside or dim in (0, -rank) else x + ".clone()"
    if m.chance(0.25):
        value = m.one(f"torch.tensor({m.number(target)}, dtype=torch.{kind})",
                      f"torch.tensor(1, dtype=torch.{kind}), accumulate=True")  # fmt: skip
        return f"{first}.index_put_(({index},), {value})"
    return f"{x}." + m.one(
        f"index_fill_({dim}, {index}, {m.number(target)})",
        f"index_add_({dim}, {index}, {source})",
        f"index_copy_({dim}, {index}, {source})",
        f"scatter_({dim}, {spread}, {m.number(target)})",
        f"scatter_({dim}, {spread}, {source})",
        f"scatter_add_({dim}, {spread}, {source})",
    )


@step(1.5)
def given_out(m: Maker) -> str | None:
    """A result written into an existing tensor."""
    x, y = m.tensor(), m.tensor()
    if x is None or y is None:
        return None
    shape = tuple(m[x].shape)
    out = m.tensor(lambda t: tuple(t.shape) == shape and not t.requires_grad)
    if out is None or out == x or 0 in m[out].stride():
        return None
    kind = str(m[x].dtype).rpartition(".")[2]
    fresh = f"torch.empty(0, dtype=torch.{m.one(kind, kind, 'float64', 'int64')})"
    calls = [
        f"torch.add({x}.clone(), {m.number(m[x])}, out={{}})",
        f"torch.mul({x}.clone(), {m.number(m[x])}, out={{}})",
        f"torch.add({x}.clone(), {y}.clone(), out={{}})",
    ]
    if tuple(m[y].shape) != shape:
        calls.pop()
    if m.chance(0.5):
        calls += [f"torch.cat([{x}, {x}], out={{}})", f"torch.sum({x}, 0, out={{}})"]
        return f"{m.new()} = " + m.random.choice(calls).format(fresh)
    # A tensor that `out` makes larger leaves its views, see the README.
    return str(m.random.choice(calls).format(out))


@step(2.5)
def from_numpy_side(m: Maker) -> str | None:
    """A write to an array on a tensor's memory, or a new array."""
    arrays = [k for k in m.machine.live() if k[0] == "a"]
    if arrays and m.chance(0.6):
        a = m.random.choice(arrays)
        rank = m[a].ndim
        row = "..." if not rank else m.one("0", "-1", "...", "1:", "..., 0", "::2")
        change = f"{m.one('=', '+=', '=')} {m.one(2, 3, 1)}"
        if m[a].dtype == bool:
            change = "= True"
        if m.tensors(lambda t: not t.is_leaf):  # autograd does not see what NumPy writes
            return f"{m.new('a')} = {a}[{row}]"
        return m.one(f"{a}[{row}] {change}", f"{a}[{row}] {change}", f"{m.new('a')} = {a}[{row}]")
    x = m.tensor(lambda t: not str(t.dtype).endswith("bfloat16"))
    if x is None:
        return None
    way = m.one(f"{x}.numpy()", f"{x}.numpy()", f"{x}.detach().numpy()", f"np.asarray({x})",
                f"{x}.numpy(force=True)", f"np.array({x})")  # fmt: skip
    return f"{m.new('a')} = {way}"
