"""Laziness cannot be observed: random programs, run fused, step by step, and with NumPy.

The programs write through views of views, share memory with NumPy, look at values in the middle
and drop tensors before they are computed. Fused and step-by-step results must agree to the bit;
NumPy's must be near.

``LAZYT_RANDOM_PROGRAMS`` is how many programs run (default 40), ``LAZYT_RANDOM_FIRST`` the first
seed. A failure names its seed.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt import Tensor

pytestmark = pytest.mark.usefixtures("module_cache")
COUNT = int(os.environ.get("LAZYT_RANDOM_PROGRAMS", "40"))
FIRST = int(os.environ.get("LAZYT_RANDOM_FIRST", "0"))
Array = np.ndarray[Any, Any]


@dataclass
class Machine:
    """One way of running a program: what it knows, and what it has seen so far."""

    lazy: bool
    values: list[Tensor | Array] = field(default_factory=list)
    seen: list[Array] = field(default_factory=list)

    def see(self, value: Tensor | Array) -> None:
        self.seen.append(np.array(value.tolist() if isinstance(value, Tensor) else value, "f4"))

    def both(
        self, tensors: Callable[..., Tensor], arrays: Callable[..., Array], *of: Tensor | Array
    ) -> Tensor | Array:
        return tensors(*of) if self.lazy else np.asarray(arrays(*of), np.float32)


def run(seed: int, machine: Machine, steps: int = 14) -> list[Array]:
    """A random program; the same seed does the same on every machine."""
    random = np.random.default_rng(seed)
    for _ in range(2):
        values = random.standard_normal((4, 6)).astype(np.float32)
        machine.values.append(lt.tensor(values) if machine.lazy else values)
    for _ in range(steps):
        STEPS[int(random.integers(len(STEPS)))](machine, random)
    for value in machine.values:
        machine.see(value)
    return machine.seen


def pick(machine: Machine, random: np.random.Generator) -> Tensor | Array:
    return machine.values[int(random.integers(len(machine.values)))]


def alike(machine: Machine, random: np.random.Generator) -> tuple[Tensor | Array, Tensor | Array]:
    """Two values of one shape; the second is cut to the first's when it can be."""
    a, b = pick(machine, random), pick(machine, random)
    return (a, b) if tuple(a.shape) == tuple(b.shape) else (a, a)


def unary(machine: Machine, random: np.random.Generator) -> None:
    name = str(random.choice(["exp", "tanh", "abs", "floor"]))
    x = pick(machine, random)
    new = machine.both(lambda t: getattr(t.clamp(-4, 4), name)(),
                       lambda a: getattr(np, name)(np.clip(a, -4, 4)), x)  # fmt: skip
    machine.values.append(new)


def binary(machine: Machine, random: np.random.Generator) -> None:
    a, b = alike(machine, random)
    kind = int(random.integers(4))
    functions: list[Callable[..., Tensor | Array]] = [
        lambda x, y: x + y,
        lambda x, y: x * y,
        lambda x, y: x - y * 0.5,
        lambda x, y: x / (y * y + 1),
    ]
    machine.values.append(machine.both(functions[kind], functions[kind], a, b))  # type: ignore[arg-type]


def reduce(machine: Machine, random: np.random.Generator) -> None:
    x = pick(machine, random)
    axis = int(random.integers(x.ndim))
    if random.random() < 0.5:
        new = machine.both(lambda t: t - t.mean(axis, keepdim=True),
                           lambda a: a - a.mean(axis, keepdims=True), x)  # fmt: skip
    else:
        new = machine.both(lambda t: t + t.amax(axis, keepdim=True),
                           lambda a: a + a.max(axis, keepdims=True), x)  # fmt: skip
    machine.values.append(new)


def view(machine: Machine, random: np.random.Generator) -> None:
    """A view, which shares memory with what it was made from."""
    x = pick(machine, random)
    kind = int(random.integers(4))
    rows = x.shape[0]
    if kind == 0 and rows > 1:
        start = int(random.integers(rows - 1))
        machine.values.append(x[start:])
    elif kind == 1 and rows > 2:
        machine.values.append(x[::2])
    elif kind == 2:
        machine.values.append(x.T if isinstance(x, np.ndarray) else x.t())
    elif x.shape[1] > 1:
        machine.values.append(x[:, 1:])


def write(machine: Machine, random: np.random.Generator) -> None:
    """An in-place write: other views of the memory change too."""
    a, b = alike(machine, random)
    kind = int(random.integers(4))
    if kind == 0:
        a += 1.5
    elif kind == 1:
        a *= 0.5
    elif kind == 2:
        copy = b.copy() if isinstance(b, np.ndarray) else b.clone()
        a[...] = copy + 1
    else:
        row = int(random.integers(a.shape[0]))
        a[row] = -0.25


def look(machine: Machine, random: np.random.Generator) -> None:
    machine.see(pick(machine, random))


def drop(machine: Machine, random: np.random.Generator) -> None:
    if len(machine.values) > 2:
        del machine.values[int(random.integers(len(machine.values)))]


def share(machine: Machine, random: np.random.Generator) -> None:
    """Change the value through an array on the same memory."""
    x = pick(machine, random)
    array = x if isinstance(x, np.ndarray) else x.numpy()
    array[0, 0] = 0.75
    array[-1] += 1


def fail(machine: Machine, random: np.random.Generator) -> None:
    """An error in the middle of an expression changes nothing."""
    x = pick(machine, random)
    with pytest.raises((RuntimeError, ValueError)):
        (x * 2 + 1) @ (np.ones((7, 2), "f4") if isinstance(x, np.ndarray) else lt.ones(7, 2))


STEPS = [unary, binary, binary, reduce, view, view, write, write, look, drop, share, fail]


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, 10))
def test_random_programs(first: int) -> None:
    for seed in range(first, min(first + 10, FIRST + COUNT)):
        fused = run(seed, Machine(lazy=True))
        with lt.config.override(interpret=True):
            interpreted = run(seed, Machine(lazy=True))
        wanted = run(seed, Machine(lazy=False))
        for number, (got, near, want) in enumerate(zip(fused, interpreted, wanted, strict=True)):
            what = f"seed {seed}, value {number}"
            np.testing.assert_allclose(got, want, rtol=2e-3, atol=2e-3, err_msg=what)
            np.testing.assert_allclose(near, want, rtol=2e-3, atol=2e-3, err_msg=what)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + max(COUNT // 4, 1)))
def test_fusing_never_changes_a_bit(seed: int) -> None:
    fused = run(seed, Machine(lazy=True))
    with lt.config.override(eager=True):
        eager = run(seed, Machine(lazy=True))
    for number, (got, want) in enumerate(zip(fused, eager, strict=True)):
        assert got.tobytes() == want.tobytes(), (
            f"seed {seed}, value {number}: {np.abs(got - want).max()} apart"
        )


def composed(x: Tensor, w: Tensor) -> list[Tensor]:
    """Computations in which kernels of several kinds meet."""
    h = (x @ w).tanh()
    p = (h * 3).softmax(-1)
    n = (p - p.mean(0)) / (p.var(0, unbiased=False) + 1e-5).sqrt()
    return [h, p, n, n.sum(), (n * h).sum(1).cumsum(0), p.logsumexp(1), x.flip(0).amax(1) + p[:, 0]]


@pytest.mark.parametrize("shape", [(5, 7, 3), (64, 33, 17), (3, 2000, 5)], ids=str)
def test_fusing_never_changes_a_bit_of_composed_kernels(shape: tuple[int, int, int]) -> None:
    rows, inner, columns = shape
    draw = np.random.default_rng(0).standard_normal
    x = lt.tensor(draw((rows, inner)).astype(np.float32))
    w = lt.tensor(draw((inner, columns)).astype(np.float32))
    fused = composed(x, w)
    lt.realize(*fused)
    with lt.config.override(eager=True):
        eager = composed(x, w)
    alone = [composed(x, w)[number].tolist() for number in range(len(fused))]
    for number, (a, b, c) in enumerate(zip(fused, eager, alone, strict=True)):
        assert a.numpy().tobytes() == b.numpy().tobytes(), f"result {number}: fused and eager"
        assert a.tolist() == c, f"result {number}: together and alone"


def test_constants_are_told_apart_by_their_bits() -> None:
    x = lt.tensor([0.0, -0.0])
    for _ in range(3):  # a constant that changes from call to call becomes an input of the plan
        assert str((x * 1 + 0.0).tolist()) == "[0.0, 0.0]"
        assert str((x * 1 + -0.0).tolist()) == "[0.0, -0.0]"
        assert str((x + float("nan")).tolist()) == "[nan, nan]"
        assert str((x + 1).tolist()) == "[1.0, 1.0]"


def test_a_nan_constant_is_compiled_once() -> None:
    x = lt.ones(6).realize()  # a pending one would be computed with its fifth reader: another graph
    (x * float("nan")).realize()
    last = lt.why_compiled()[-1]
    for _ in range(9):
        (x * float("nan")).realize()
    assert lt.why_compiled()[-1] is last


def test_tensors_deleted_before_they_are_computed() -> None:
    x = lt.ones(3, 4)
    y = x * 2
    part = y[1]
    part += 5
    z = (y + 1).sum(0)
    del x, y, part
    gc.collect()
    assert z.tolist() == [14.0] * 4


def test_memory_shared_with_numpy_both_ways() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = lt.from_numpy(array)
    pending = x * 10  # the value of this moment
    array[0, 0] = 7
    assert pending[0, 0].item() == 0 and x[0, 0].item() == 7
    row = x[1]
    row *= 2
    assert array[1].tolist() == [6, 8, 10]
    back = x.t().numpy()
    back[2, 1] = -1
    assert row.tolist() == [6, 8, -1] and array[1, 2] == -1
    assert (x + 0).sum().item() == 7 + 1 + 2 + 6 + 8 - 1


def test_an_exception_inside_a_write_writes_nothing() -> None:
    x = lt.arange(4.0)
    view = x[1:3]
    with pytest.raises(RuntimeError):
        view.copy_(lt.ones(5))
    with pytest.raises(IndexError):
        x[lt.tensor([1, 9])] = 5.0
    assert x.tolist() == [0, 1, 2, 3] and view.tolist() == [1, 2]
