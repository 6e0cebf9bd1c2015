"""Hand-built kernels for the CUDA target, each with data and what NumPy says about it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from lazyt.codegen.cuda.target import MOST_BLOCKS
from lazyt.ir.dtypes import (
    DType,
    bfloat16,
    bool_,
    decode_bfloat16,
    encode_bfloat16,
    float32,
    int64,
)
from lazyt.ir.index import Axis, Guard, Guarded, Linear, Load, Position, Var, constant, variable
from lazyt.ir.kernel import Buffer, Keep, Kernel, Let, Phase, Reduce, Stage, Store
from lazyt.ir.scalar import call, const

Array = np.ndarray
Arrays = Sequence[Array]


@dataclass
class Case:
    """A kernel, what its buffers hold before (None: nothing), and what they must hold after.

    Attributes:
        wanted: values by buffer name, computed in wide types.
        tolerance: allowed error relative to 1 + |value|; 0 asks for equal bits.
        most_blocks: as of ``print_kernel_cuda``.
    """

    kernel: Kernel
    before: dict[str, Array]
    wanted: dict[str, Array]
    tolerance: float = 0.0
    most_blocks: int = MOST_BLOCKS
    seeds: tuple[int, ...] = field(default=(0, 5))


CASES: dict[str, Case] = {}


def add(case: Case) -> Case:
    """Registers a case under its kernel's name."""
    assert case.kernel.name not in CASES, case.kernel.name
    CASES[case.kernel.name] = case
    return case


def numbers(shape: tuple[int, ...], dtype: DType, seed: int = 0) -> Array:
    """Stored elements with signs and without extreme sizes."""
    generator = np.random.default_rng(seed + sum(shape))
    if dtype is bool_:
        return generator.random(shape) < 0.5
    if dtype.kind == "f":
        return store(generator.standard_normal(shape), dtype)
    low = 0 if dtype.kind == "u" else -50
    return generator.integers(low, 50, shape).astype(dtype.numpy)


def store(values: Array, dtype: DType) -> Array:
    """Values as stored elements."""
    if dtype is bfloat16:
        return encode_bfloat16(values.astype(np.float32))
    return values.astype(dtype.numpy)


def wide(stored: Array, dtype: DType) -> Array:
    """Stored elements as values, half types in float32."""
    if dtype is bfloat16:
        return decode_bfloat16(stored)
    return stored.astype(np.float32) if dtype.is_half else stored


def tolerance(dtype: DType, base: float = 2e-6) -> float:
    """A bound for results that go through functions or sums in another order."""
    return {"bfloat16": 8e-3, "float16": 1e-3}.get(dtype.name, base if dtype.kind == "f" else 0.0)


def fold_tree(x: Array) -> Array:
    """Sums along the last axis in the order of ``reduction_levels``, in x's own type."""
    while True:
        *rows, extent = x.shape
        blocks = -(-extent // 1024)
        full = np.zeros((*rows, blocks * 1024), x.dtype)
        full[..., :extent] = x
        full = full.reshape(*rows, blocks, 32, 32)
        lanes = np.zeros((*rows, blocks, 32), x.dtype)
        for step in range(32):
            lanes = lanes + full[..., step, :]
        half = 16
        while half:
            lanes = lanes[..., :half] + lanes[..., half : 2 * half]
            half //= 2
        x = lanes[..., 0]
        if blocks == 1:
            return x[..., 0]


# ------------------------------------------------------------------- elements


def axes(*extents: int) -> tuple[Axis, ...]:
    """Grid axes ``i0``, ``i1`` ..."""
    return tuple(Axis(f"i{n}", extent) for n, extent in enumerate(extents))


def at(items: Sequence[Axis]) -> tuple[Linear, ...]:
    """The index that follows the axes."""
    return tuple(variable(a) for a in items)


def straight(
    name: str, shape: tuple[int, ...], buffers: list[Buffer], body: Sequence[Let | Store]
) -> Kernel:
    """A kernel without loops over a grid of ``shape``."""
    stage = Stage(None, tuple(body))
    return Kernel(name, tuple(buffers), (Phase(axes(*shape), (stage,), "grid"),))


def chain(n: int, dtype: DType, most_blocks: int = MOST_BLOCKS) -> None:
    """y = x * 3 - abs(x), z = maximum(y, x)."""
    i = axes(n)
    x = Load("x", at(i), dtype)
    compute = dtype.compute
    y = call("sub", call("mul", x, const(3, dtype)), call("abs", x))
    z = call("maximum", Var("t0", dtype), x)
    if dtype.is_half:
        z = call("cast", call("cast", z, dtype=float32), dtype=dtype)
    body: list[Let | Store] = [
        Let("t0", y),
        Store("y", at(i), Var("t0", dtype)),
        Store("z", at(i), z),
    ]
    buffers = [Buffer("x", dtype, (n,), "in")]
    buffers += [Buffer(b, dtype, (n,), "out") for b in "yz"]
    data = numbers((n,), dtype)
    v = wide(data, dtype).astype(compute.numpy)
    first = v * v.dtype.type(3) - np.abs(v)
    wanted = {"y": first, "z": np.maximum(first, v)}
    suffix = "" if most_blocks == MOST_BLOCKS else f"_capped{most_blocks}"
    kernel = straight(f"chain_{n}_{dtype.name}{suffix}", (n,), buffers, body)
    add(Case(kernel, {"x": data}, wanted, tolerance(dtype, 0.0), most_blocks))


def broadcast(m: int, n: int) -> None:
    """y[i, j] = x[i] + w[j], with w reversed and padded by a fill value."""
    i = axes(m, n)
    row = Load("x", (variable(i[0]),), float32)
    inside = Load("w", (constant(n - 3) - variable(i[1]),), float32)
    padded = Guarded((Guard(variable(i[1]), 0, n - 2),), inside, const(7.0, float32))
    place = call("cast", Position(variable(i[1]), int64), dtype=float32)
    value = call("add", call("add", row, padded), place)
    buffers = [Buffer("x", float32, (m,), "in"), Buffer("w", float32, (n - 2,), "in")]
    buffers.append(Buffer("y", float32, (m, n), "out"))
    kernel = straight(f"broadcast_{m}_{n}", (m, n), buffers, [Store("y", at(i), value)])
    x, w = numbers((m,), float32), numbers((n - 2,), float32, 1)
    line = np.concatenate([w[::-1], [7.0, 7.0]]).astype(np.float32)
    wanted = (x[:, None] + line) + np.arange(n, dtype=np.float32)
    add(Case(kernel, {"x": x, "w": w}, {"y": wanted}))


def add_row(m: int, n: int, dtype: DType) -> None:
    """y[i, j] = x[i, j] + w[j], large enough for threads that take adjacent elements."""
    i = axes(m, n)
    value = call("add", Load("x", at(i), dtype), Load("w", (variable(i[1]),), dtype))
    buffers = [Buffer("x", dtype, (m, n), "in"), Buffer("w", dtype, (n,), "in")]
    buffers.append(Buffer("y", dtype, (m, n), "out"))
    name = f"add_row_{m}_{n}_{dtype.name}"
    kernel = straight(name, (m, n), buffers, [Store("y", at(i), value)])
    x, w = numbers((m, n), dtype), numbers((n,), dtype, 1)
    wanted = wide(x, dtype) + wide(w, dtype)
    add(Case(kernel, {"x": x, "w": w}, {"y": wanted}, tolerance(dtype, 0.0), seeds=(0,)))


def random_bits(n: int) -> None:
    """Threefry: only that both targets agree with a model is worth a test here."""
    i = axes(n)
    key = [Load("key", (constant(k),), _u32()) for k in (0, 1)]
    bits = call("threefry", key[0], key[1], Position(variable(i[0]), int64), dtype=_u32())
    buffers = [Buffer("key", _u32(), (2,), "in"), Buffer("y", _u32(), (n,), "out")]
    kernel = straight(f"random_{n}", (n,), buffers, [Store("y", at(i), bits)])
    keys = np.array([11, 23], np.uint32)
    add(Case(kernel, {"key": keys}, {"y": threefry(keys, np.arange(n, dtype=np.uint64))}))


def _u32() -> DType:
    from lazyt.ir.dtypes import uint32

    return uint32


def threefry(key: Array, counter: Array) -> Array:
    """First word of Threefry-2x32 with 20 rounds (Salmon et al., SC'11)."""
    words = [key[0], key[1], np.uint32(0x1BD11BDA) ^ key[0] ^ key[1]]
    a: Array = counter.astype(np.uint32) + words[0]
    b = (counter >> np.uint64(32)).astype(np.uint32) + words[1]
    for group in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            a = a + b
            b = (b << np.uint32(turn)) | (b >> np.uint32(32 - turn))
            b = b ^ a
        a = a + words[(group + 1) % 3]
        b = b + words[(group + 2) % 3] + np.uint32(group + 1)
    return a


# ----------------------------------------------------------------- reductions


def reduction(
    kind: str, shape: tuple[int, int], dtype: DType, lanes: str, most_blocks: int = MOST_BLOCKS
) -> Case:
    """One fold along the rows (``inner``) or along the columns (``grid``) of a matrix."""
    outer, steps = (shape[1], shape[0]) if lanes == "grid" else shape
    i, k = Axis("i0", outer), Axis("k0", steps)
    index = (variable(k), variable(i)) if lanes == "grid" else (variable(i), variable(k))
    positional = kind.startswith("arg")
    result = int64 if positional else (bool_ if kind in ("any", "all") else dtype)
    stages = (
        Stage(k, (Reduce("r0", kind, Load("x", index, dtype), result),)),
        Stage(None, (Store("y", (variable(i),), Var("r0", result)),)),
    )
    buffers = (Buffer("x", dtype, shape, "in"), Buffer("y", result, (outer,), "out"))
    data = numbers(shape, dtype)
    if kind == "prod" and dtype.kind == "f":
        data = (np.sign(data) * 2.0 ** np.round(data)).astype(dtype.numpy)
    if positional and dtype.kind == "f":
        data[shape[0] // 2, shape[1] // 2] = np.nan
    values = np.moveaxis(wide(data, dtype), 0 if lanes == "grid" else 1, -1)
    wanted, error = _folded(kind, values, dtype)
    suffix = "" if most_blocks == MOST_BLOCKS else f"_capped{most_blocks}"
    name = f"{kind}_{shape[0]}_{shape[1]}_{dtype.name}_{lanes}{suffix}"
    kernel = Kernel(name, buffers, (Phase((i,), stages, lanes),))
    return add(Case(kernel, {"x": data}, {"y": wanted}, error, most_blocks))


def _folded(kind: str, values: Array, dtype: DType) -> tuple[Array, float]:
    if kind == "sum":
        half = 4e-3 if dtype.is_half else 0.0
        return fold_tree(values), half
    functions: dict[str, Callable[[Array], Array]] = {
        "prod": lambda x: np.prod(x, -1, dtype=x.dtype),
        "max": lambda x: np.max(x, -1),
        "min": lambda x: np.min(x, -1),
        "any": lambda x: (x != 0).any(-1),
        "all": lambda x: (x != 0).all(-1),
        "argmax": lambda x: np.argmax(x, -1),
        "argmin": lambda x: np.argmin(x, -1),
    }
    result: Array = functions[kind](values)
    return result, 0.0


def softmax(m: int, n: int, dtype: DType, lanes: str) -> Case:
    """Three stages with kept exponentials."""
    i, k = Axis("i0", m), Axis("k0", n)
    index = (variable(i), variable(k))
    x = Load("x", index, dtype)
    top, total = Var("r0", float32), Var("r1", float32)
    shifted = call("sub", call("cast", x, dtype=float32), top)
    result = call("div", Var("e0", float32), total)
    result = call("cast", result, dtype=dtype) if dtype is not float32 else result
    stages = (
        Stage(k, (Reduce("r0", "max", call("cast", x, dtype=float32), float32),)),
        Stage(
            k, (Keep("e0", call("exp", shifted)), Reduce("r1", "sum", Var("e0", float32), float32))
        ),
        Stage(k, (Store("y", index, result),)),
    )
    buffers = (Buffer("x", dtype, (m, n), "in"), Buffer("y", dtype, (m, n), "out"))
    name = f"softmax_{m}_{n}_{dtype.name}_{lanes}"
    data = numbers((m, n), dtype)
    v = wide(data, dtype).astype(np.float64)
    e = np.exp(v - v.max(-1, keepdims=True))
    kernel = Kernel(name, buffers, (Phase((i,), stages, lanes),))
    return add(Case(kernel, {"x": data}, {"y": e / e.sum(-1, keepdims=True)}, tolerance(dtype)))


def layer_norm(m: int, n: int) -> None:
    """Mean, variance of what is kept, then scale; the mean is stored once per row."""
    i, k = Axis("i0", m), Axis("k0", n)
    index = (variable(i), variable(k))
    x = Load("x", index, float32)
    size = const(1.0 / n, float32)
    mean, spread = Var("mean", float32), Var("scale", float32)
    square = call("mul", Var("d0", float32), Var("d0", float32))
    variance = call("add", call("mul", Var("r1", float32), size), const(1e-5, float32))
    scaled = call("mul", call("mul", Var("d0", float32), spread), Load("w", index[1:], float32))
    stages = (
        Stage(k, (Reduce("r0", "sum", x, float32),)),
        Stage(None, (Let("mean", call("mul", Var("r0", float32), size)),
                     Store("mu", (variable(i),), mean))),
        Stage(k, (Keep("d0", call("sub", x, mean)), Reduce("r1", "sum", square, float32))),
        Stage(None, (Let("scale", call("rsqrt", variance)),)),
        Stage(k, (Store("y", index, scaled),)),
    )  # fmt: skip
    buffers = (
        Buffer("x", float32, (m, n), "in"),
        Buffer("w", float32, (n,), "in"),
        Buffer("mu", float32, (m,), "out"),
        Buffer("y", float32, (m, n), "out"),
    )
    data, w = numbers((m, n), float32), numbers((n,), float32, 1)
    v = data.astype(np.float64)
    d = v - v.mean(-1, keepdims=True)
    y = d / np.sqrt((d * d).mean(-1, keepdims=True) + 1e-5) * w
    kernel = Kernel(f"layer_norm_{m}_{n}", buffers, (Phase((i,), stages, "inner"),))
    add(Case(kernel, {"x": data, "w": w}, {"mu": v.mean(-1), "y": y}, 4e-6))


def split_sum(n: int) -> None:
    """A full sum in two phases: blocks in parallel, then their results."""
    q, k = Axis("q", -(-n // 1024)), Axis("k0", 1024)
    position = variable(q) * 1024 + variable(k)
    guard = Guard(position, 0, n) if n % 1024 else None
    blocks = q.extent
    part = Load("x", (position,), float32)
    first = (
        Stage(k, (Reduce("r0", "sum", part, float32),), guard=guard),
        Stage(None, (Store("part", (variable(q),), Var("r0", float32)),)),
    )
    rest = Axis("k1", blocks)
    second = (
        Stage(rest, (Reduce("r1", "sum", Load("part", (variable(rest),), float32), float32),)),
        Stage(None, (Store("y", (), Var("r1", float32)),)),
    )
    buffers = (
        Buffer("x", float32, (n,), "in"),
        Buffer("y", float32, (), "out"),
        Buffer("part", float32, (blocks,), "work"),
    )
    phases = (Phase((q,), first, "inner"), Phase((), second, "inner"))
    data = numbers((n,), float32)
    kernel = Kernel(f"split_sum_{n}", buffers, phases)
    add(Case(kernel, {"x": data}, {"y": fold_tree(data)}))
