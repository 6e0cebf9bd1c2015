"""Folds of four rows that lie far apart: where, and that nothing changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lazyt as lt
from lazyt import Tensor, ops
from lazyt.codegen.c import prefetch, steps
from lazyt.codegen.c.family import Expressions
from lazyt.codegen.c.target import print_kernel_c
from lazyt.compiler import compile_graph
from lazyt.config import config
from lazyt.handle.dispatch import wrap
from lazyt.ir.decisions import PLAIN, Traits
from lazyt.ir.dtypes import float32
from lazyt.ir.kernel import Phase
from lazyt.plan import planning
from lazyt.runtime import devices

STREAMS = Traits(fetches=frozenset({"streams"}))


def kernel_text(
    function: Callable[[Tensor], Tensor],
    *shape: int,
    any_size: bool = False,
    traits: Traits = STREAMS,
) -> str:
    x = ops.input_(shape, float32)
    kernels = compile_graph([function(wrap(x)).node], [x])[1]
    caches = (32 << 10, 512 << 10, 32 << 20)
    printed = [print_kernel_c(k, 32, caches, any_size=any_size, traits=traits) for k in kernels]
    return "".join(p.source.text for p in printed)


def test_rows_of_a_tile_lie_a_quarter_of_the_array_apart() -> None:
    text = kernel_text(lambda x: x.sum(-1), 8192, 1024)
    assert "t0 < 2048" in text and "low + (u * 2048)" in text and "u < 4" in text
    ragged = kernel_text(lambda x: x.sum(-1), 8190, 1024)
    # The last rows of the first two tiles' quarters exist, those of the others do not.
    assert "t0 < 2048" in ragged and "(10237 - low) / 2048" in ragged and "u < run" in ragged


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.mean(-1),
        lambda x: x.abs().amax(-1),
        lambda x: (x * x).sum(),
        lambda x: (x - 1).square().mean(-1).sqrt(),
        lambda x: (x > 0).any(-1),
        lambda x: x @ lt.ones(1024),
    ],
)
def test_folds_of_rows_alone_are_scattered(function: Callable[[Tensor], Tensor]) -> None:
    assert "(u * 2048)" in kernel_text(function, 8192, 1024)


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda x: x.sum(-1), (1024, 1024)),  # stays in cache
        (lambda x: x.sum(-1), (65536, 128)),  # short rows follow each other
        (lambda x: x.sum(-1), (32, 1 << 20)),  # as many streams as rows for two threads
        (lambda x: x.sum(0), (8192, 1024)),  # no rows
        (lambda x: x.exp().sin().sum(-1), (8192, 1024)),  # waits for arithmetic
        (lambda x: x.argmax(-1), (8192, 1024)),
        (lambda x: lt.softmax(x, -1), (8192, 1024)),
        (lambda x: x.tril().sum(-1), (8192, 1024)),  # ends of rows differ
    ],
)
def test_nothing_is_scattered_where_it_costs_time(
    function: Callable[[Tensor], Tensor], shape: tuple[int, ...]
) -> None:
    assert "low + (u *" not in kernel_text(function, *shape)


def test_other_processors_and_texts_of_any_size_take_rows_in_turn() -> None:
    assert "u *" not in kernel_text(lambda x: x.sum(-1), 8192, 1024, traits=PLAIN)
    assert "u *" not in kernel_text(lambda x: x.sum(-1), 8192, 1024, any_size=True)


@pytest.mark.parametrize("shape", [(64, 1024), (67, 1025), (2, 3, 71, 300), (5, 66, 2049)])
def test_results_are_the_same(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    lt.manual_seed(0)
    x = lt.randn(*shape).realize()
    whole = lt.randint(-9, 9, shape, dtype=lt.int32).realize()
    functions: list[Callable[[], Tensor]] = [
        lambda: x.sum(-1),
        lambda: x.mean(-1) * 2 + 1,
        lambda: (x * x).sum(),
        lambda: x.amax(-1),
        lambda: x.double().sum(-1),
        lambda: x.prod(-1),
        lambda: whole.sum(-1),
        lambda: (whole > 8).all(-1),
        lambda: x @ lt.arange(shape[-1], dtype=lt.float32),
        lambda: (x[..., 3:] - x[..., :-3]).abs().sum(-1),
    ]
    monkeypatch.setattr(config, "verify", True)
    monkeypatch.setattr(config, "disk_cache", False)
    monkeypatch.setattr(devices, "traits", lambda: STREAMS)
    monkeypatch.setattr(prefetch, "FAR", 0)
    met: list[bool] = []

    def watched(phase: Phase, expressions: Expressions) -> bool:
        met.append(prefetch.scatters(phase, expressions))
        return met[-1]

    monkeypatch.setattr(steps, "scatters", watched)
    planning.clear()
    scattered = [f().numpy().tobytes() for f in functions]
    assert sum(met) >= 6
    monkeypatch.setattr(steps, "scatters", lambda *_: False)
    planning.clear()
    assert [f().numpy().tobytes() for f in functions] == scattered
