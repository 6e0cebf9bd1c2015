"""Scans and scatters by thousands of threads: the bits are those of one after the other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import lazyt
from lazyt import Tensor
from lazyt.codegen.lower.wide import LONG

#: Steps of which no block is full.
STEPS = 2 * LONG + 77

Case = Callable[..., "Tensor | list[Tensor]"]


def numbers(*shape: int, seed: int = 0, dtype: str = "float32") -> Tensor:
    """Values with zeros of both signs; integers with few values."""
    rng = np.random.default_rng(seed)
    if dtype in ("float32", "float64", "float16"):
        values = np.round(rng.standard_normal(shape) * 2) / 2
        return lazyt.tensor((values * rng.choice([-1.0, 1.0], shape)).astype(dtype))
    return lazyt.tensor(rng.integers(-50, 50, shape).astype(dtype))


def places(*shape: int, limit: int, seed: int = 1) -> Tensor:
    """Places within an axis."""
    return lazyt.tensor(np.random.default_rng(seed).integers(0, limit, shape))


def table_gradient(ids: Tensor, table: Tensor) -> Tensor:
    """What an embedding gives its table."""
    table = table.detach().requires_grad_()
    (lazyt.nn.functional.embedding(ids, table) * 0.3).sin().sum().backward()
    assert table.grad is not None
    return table.grad


def written(base: Tensor, at: Tensor, values: Tensor) -> Tensor:
    """Elements written at places that repeat themselves, over what was there."""
    base = base * 1
    base[at] = values
    return base


CASES: dict[str, tuple[Case, list[Tensor]]] = {
    "cumsum of integers": (lambda x: x.cumsum(0), [numbers(STEPS, dtype="int64")]),
    "cumsum of short integers": (
        lambda x: x.cumsum(0, dtype=lazyt.int8),
        [numbers(STEPS, dtype="int8")],
    ),
    "cumprod of integers": (lambda x: x.cumprod(0), [numbers(STEPS, dtype="int32")]),
    "cumsum along the middle": (lambda x: x.cumsum(1), [numbers(3, STEPS, 5, dtype="int32")]),
    "cumsum of a sum": (lambda x: (x + 1).cumsum(1) * 2, [numbers(2, LONG, dtype="int64")]),
    "cumsum of floats": (lambda x: x.cumsum(0), [numbers(STEPS)]),
    "nonzero": (lambda x: x.nonzero(), [numbers(STEPS)]),
    "nonzero of a table": (lambda x: x.nonzero(), [numbers(70, 80)]),
    "masked": (lambda x: x[x > 0], [numbers(STEPS)]),
    "unique neighbours": (
        lambda x: list(lazyt.unique_consecutive(x, True, True)),
        [numbers(STEPS)],
    ),
    "unique": (lambda x: list(lazyt.unique(x, True, True, True)), [numbers(STEPS)]),
    "bincount": (lazyt.bincount, [places(STEPS, limit=50)]),
    "bincount with weights": (lazyt.bincount, [places(STEPS, limit=50), numbers(STEPS)]),
    "written": (written, [numbers(90), places(STEPS, limit=80), numbers(STEPS)]),
    "written halves": (
        written,
        [numbers(90, dtype="float16"), places(STEPS, limit=80), numbers(STEPS, dtype="float16")],
    ),
    "written rows": (written, [numbers(60, 7), places(STEPS, limit=50), numbers(STEPS, 7)]),
    "scattered": (
        lambda x, i, y: x.scatter(1, i, y),
        [numbers(3, 90), places(3, STEPS, limit=80), numbers(3, STEPS)],
    ),
    "scattered, summed": (
        lambda x, i, y: x.scatter_add(0, i, y),
        [numbers(90, 3), places(STEPS, 3, limit=80), numbers(STEPS, 3)],
    ),
    "scattered integers, summed": (
        lambda x, i, y: x.scatter_add(0, i, y),
        [numbers(90, dtype="int32"), places(STEPS, limit=80), numbers(STEPS, dtype="int32")],
    ),
    "scattered short integers, summed": (
        lambda x, i, y: x.scatter_add(0, i, y),
        [numbers(90, dtype="int16"), places(STEPS, limit=80), numbers(STEPS, dtype="int16")],
    ),
    "scattered, largest": (
        lambda x, i, y: x.scatter_reduce(0, i, y, "amax"),
        [numbers(90, dtype="int64"), places(STEPS, limit=80), numbers(STEPS, dtype="int64")],
    ),
    "scattered, smallest of floats": (
        lambda x, i, y: x.scatter_reduce(0, i, y, "amin"),
        [numbers(90), places(STEPS, limit=80), numbers(STEPS)],
    ),
    "multiplied": (
        lambda x, i, y: x.scatter_reduce(0, i, y, "prod"),
        [numbers(90, dtype="int64"), places(STEPS, limit=80), numbers(STEPS, dtype="int64")],
    ),
    "rows added": (
        lambda x, i, y: x.index_add(0, i, y),
        [numbers(90, 20), places(STEPS, limit=80), numbers(STEPS, 20)],
    ),
    "a table's gradient": (table_gradient, [places(40, LONG // 30, limit=30), numbers(31, 8)]),
}


@pytest.mark.parametrize("name", CASES)
def test_bits_are_those_of_the_cpu(name: str) -> None:
    function, operands = CASES[name]
    results: list[list[bytes]] = []
    for device in ("cpu", "cuda:emu"):
        found = function(*(x.to(device) for x in operands))
        listed = found if isinstance(found, list) else [found]
        results.append([x.cpu().numpy().tobytes() for x in listed])
    assert results[0] == results[1]


def launched(tensor: Tensor) -> str:
    """The forms of its kernels, with blocks and threads."""
    return str(tensor.explain())


@pytest.mark.lazy
def test_many_threads_share_the_work() -> None:
    x = numbers(1 << 16, dtype="int64").to("cuda:emu").realize()
    assert "64 x 128, 1 x 32, 8 x 32" in launched(x.cumsum(0))  # of blocks, of these, of elements
    at = places(1 << 16, limit=999).to("cuda:emu").realize()
    assert "4 x 256, 256 x 256" in launched(lazyt.bincount(at, minlength=1000))
    rows = lazyt.zeros(999, 64, device="cuda:emu")
    ones = lazyt.ones(1 << 16, 64, device="cuda:emu")
    assert "250 x 256, 128 x 256" in launched(rows.index_add(0, at, ones))
    assert "250 x 256, 2 x 32" in launched(rows.index_add(0, at[:5], ones[:5]))


@pytest.mark.lazy
def test_few_updates_of_many_elements_look_at_these_alone() -> None:
    table = lazyt.zeros(64 * LONG, device="cuda:emu").realize()
    at = places(STEPS, limit=64 * LONG).to("cuda:emu")
    table[at] = numbers(STEPS).to("cuda:emu")
    kernels = launched(table)
    copied = table.realize().clone()
    assert f"{64 * LONG // 256} x 256" not in kernels, kernels
    expected = lazyt.zeros(64 * LONG)
    expected[at.cpu()] = numbers(STEPS)
    assert copied.cpu().numpy().tobytes() == expected.numpy().tobytes()
