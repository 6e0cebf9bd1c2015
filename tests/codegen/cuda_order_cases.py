"""Hand-built kernels that run in order, follow positions in memory, or contract."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lazyt.codegen.cuda.target import MOST_BLOCKS
from lazyt.ir.dtypes import DType, float32, int64
from lazyt.ir.index import Axis, Load, Var, datum, variable
from lazyt.ir.kernel import Buffer, ContractPhase, Kernel, Let, Phase, Scan, Stage, Store
from lazyt.ir.scalar import Expr, call, const
from tests.codegen.cuda_cases import Array, Case, add, at, axes, numbers, straight, wide


def scan(kind: str, m: int, n: int, dtype: DType, lanes: str) -> None:
    """A running fold along the rows."""
    i, k = Axis("i0", m), Axis("k0", n)
    index = (variable(i), variable(k))
    body = (
        Scan("running", kind, Load("x", index, dtype), dtype),
        Store("y", index, Var("running", dtype)),
    )
    buffers = (Buffer("x", dtype, (m, n), "in"), Buffer("y", dtype, (m, n), "out"))
    data = numbers((m, n), dtype)
    functions: dict[str, Callable[[Array], Array]] = {
        "sum": lambda x: np.cumsum(x, -1, dtype=x.dtype),
        "max": lambda x: np.maximum.accumulate(x, -1),
    }
    phase = Phase((i,), (Stage(k, body, sequential=True),), lanes)
    kernel = Kernel(f"scan_{kind}_{m}_{n}_{dtype.name}_{lanes}", buffers, (phase,))
    add(Case(kernel, {"x": data}, {"y": functions[kind](data)}))


def clamped(source: Expr, extent: int) -> Expr:
    """A position read from memory, inside its axis."""
    high = call("minimum", call("cast", source, dtype=int64), const(extent - 1, int64))
    return call("maximum", high, const(0, int64))


def gather(rows: int, n: int, width: int) -> None:
    """y[i, j] = x[index[i], j]."""
    i = axes(n, width)
    where = clamped(Load("index", (variable(i[0]),), int64), rows)
    value = Load("x", (datum("d0", rows), variable(i[1])), float32)
    buffers = [
        Buffer("x", float32, (rows, width), "in"),
        Buffer("index", int64, (n,), "in"),
        Buffer("y", float32, (n, width), "out"),
    ]
    body: list[Let | Store] = [Let("d0", where), Store("y", at(i), value)]
    kernel = straight(f"gather_{rows}_{n}_{width}", (n, width), buffers, body)
    data = numbers((rows, width), float32)
    index = np.random.default_rng(n).integers(-2, rows + 2, n)
    wanted = data[np.clip(index, 0, rows - 1)]
    add(Case(kernel, {"x": data, "index": index}, {"y": wanted}))


def scatter(rows: int, n: int, width: int, combine: str | None) -> None:
    """y[index[s], j] = or += x[s, j], in order of s."""
    j, s = Axis("i0", width), Axis("s", n)
    where = clamped(Load("index", (variable(s),), int64), rows)
    target = (datum("d0", rows), variable(j))
    value = Load("x", (variable(s), variable(j)), float32)
    stage = Stage(s, (Let("d0", where), Store("y", target, value, (), combine)), sequential=True)
    buffers = (
        Buffer("x", float32, (n, width), "in"),
        Buffer("index", int64, (n,), "in"),
        Buffer("y", float32, (rows, width), "inout"),
    )
    name = f"scatter_{combine}_{rows}_{n}_{width}"
    kernel = Kernel(name, buffers, (Phase((j,), (stage,), "grid"),))
    data, base = numbers((n, width), float32), numbers((rows, width), float32, 1)
    index = np.random.default_rng(n).integers(0, rows, n)
    wanted = base.copy()
    for step in range(n):
        row = data[step] + wanted[index[step]] if combine else data[step]
        wanted[index[step]] = row
    add(Case(kernel, {"x": data, "index": index, "y": base}, {"y": wanted}))


def contract(
    batch: int, m: int, n: int, k: int, dtype: DType = float32, turned: bool = False, cap: int = 0
) -> None:
    """y = relu(a @ b + bias), with a stored transposed when ``turned``."""
    b, i, j, l = (Axis(*pair) for pair in zip(("i0", "i1", "i2", "k0"), (batch, m, n, k)))  # noqa: E741
    compute = dtype.compute
    left_shape = (batch, k, m) if turned else (batch, m, k)
    left_index = (variable(b), variable(l), variable(i))
    left_index = left_index if turned else (left_index[0], left_index[2], left_index[1])
    left = Load("a", left_index, dtype)
    right = Load("b", (variable(b), variable(l), variable(j)), dtype)
    bias = Load("w", (variable(j),), compute)
    total = call("add", Var("acc", compute), bias)
    result = call("maximum", Var("t0", compute), const(0, compute))
    epilogue = (Let("t0", total), Store("y", at((b, i, j)), result))
    buffers = (
        Buffer("a", dtype, left_shape, "in"),
        Buffer("b", dtype, (batch, k, n), "in"),
        Buffer("w", compute, (n,), "in"),
        Buffer("y", compute, (batch, m, n), "out"),
    )
    phase = ContractPhase((b,), (i,), (j,), (l,), left, right, "acc", compute, epilogue)
    name = f"contract_{batch}_{m}_{n}_{k}_{dtype.name}{'_turned' * turned}{'_capped' * bool(cap)}"
    data = {"a": numbers(left_shape, dtype), "b": numbers((batch, k, n), dtype, 1)}
    data["w"] = numbers((n,), compute, 2)
    a, c = wide(data["a"], dtype), wide(data["b"], dtype)
    exact = np.float64 if dtype.kind == "f" else dtype.numpy
    a = np.swapaxes(a, 1, 2) if turned else a
    wanted = np.maximum(a.astype(exact) @ c.astype(exact) + data["w"].astype(exact), 0)
    kernel = Kernel(name, buffers, (phase,))
    error = 2e-6 * max(k, 4) ** 0.5 if dtype.kind == "f" else 0.0
    add(Case(kernel, data, {"y": wanted}, error, cap or MOST_BLOCKS))
